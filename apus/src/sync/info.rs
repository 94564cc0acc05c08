use std::sync::atomic::AtomicBool;

use super::node::{Coins, Node};
use super::options::{Observer, Options, Phase, Progress, SyncError};
use crate::coins::{HashType, UtxoStats};
use crate::disk::Disk;

/// Statistics of the UTXO set in a data directory (Core's `gettxoutsetinfo`).
///
/// # Errors
/// The directory is in use, is not there, or holds what cannot be right.
pub fn txoutset_info(
    options: &Options,
    hash: HashType,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<UtxoStats, SyncError> {
    info(options, hash, observer, stop).map_err(|error| super::remedy::named(error, options))
}

fn info(
    options: &Options,
    hash: HashType,
    observer: &dyn Observer,
    _stop: &AtomicBool,
) -> Result<UtxoStats, SyncError> {
    let directory = options.datadir.join(options.network.subdirectory);
    if !directory.join("chainstate").is_dir() {
        return Err(SyncError::Usage(format!(
            "{} holds no chainstate; `apus sync --from` makes one",
            directory.display()
        )));
    }
    let node = Node::open(options, &Disk::new(), Coins::InPlace)?;
    compute(&node, hash, observer)
}

/// Counts the coins of the whole UTXO set, on all threads.
pub(super) fn count_coins(node: &Node, observer: &dyn Observer) -> Result<u64, SyncError> {
    Ok(compute(node, HashType::None, observer)?.txouts)
}

fn compute(node: &Node, hash: HashType, observer: &dyn Observer) -> Result<UtxoStats, SyncError> {
    observe(observer, Phase::ReadingCoins, node);
    let height = node.tree.node(node.tip()).height;
    let stats = || UtxoStats::compute(&node.chainstate, height, hash);
    Ok(node.pool.install(stats)?)
}

/// Says what is going on where no block is being connected.
pub(super) fn observe(observer: &dyn Observer, phase: Phase, node: &Node) {
    let tip = node.tree.node(node.tip());
    observer.observe(&Progress {
        phase,
        height: tip.height,
        time: tip.header.time,
        blocks: node.ledger.counts.blocks,
        bytes: node.ledger.counts.bytes,
        coins: node.cache.len() as u64,
        fraction: 0.0,
    });
}
