//! Bitcoin Core's own engine (libbitcoinkernel), run in a process of its own.

use std::path::Path;

use bitcoinkernel::{ChainType, ChainstateManagerBuilder, ContextBuilder};
use serde_json::{Value, json};

use crate::{Result, machine};

/// Returns the number of script threads besides the main one, as Core chooses it (`-par=0`).
fn worker_threads() -> i32 {
    i32::try_from(machine::cores()).unwrap_or(i32::MAX).saturating_sub(1).min(15)
}

/// Rebuilds the chainstate of a regtest directory (Core's `-reindex-chainstate`) with every script
/// checked. When it returns, everything is on disk.
pub fn reindex(datadir: &Path) -> Result<Value> {
    bitcoinkernel::disable_logging();
    let context = ContextBuilder::new().chain_type(ChainType::Regtest).build()?;
    let dir = datadir.join("regtest");
    let blocks = dir.join("blocks");
    let path = |path: &Path| path.to_str().map(str::to_string).ok_or("the path is not UTF-8");
    let manager = ChainstateManagerBuilder::new(&context, &path(&dir)?, &path(&blocks)?)?
        .worker_threads(worker_threads())
        .wipe_db(false, true)?
        .build()?;
    manager.import_blocks()?;
    let chain = manager.active_chain();
    let height = chain.height();
    let tip = chain.tip().block_hash().to_string();
    Ok(json!({ "height": height, "bestblock": tip }))
}
