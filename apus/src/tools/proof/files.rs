//! Blocks of files, as a proof reads them: where they are, without a data directory.

use std::time::Duration;

use super::sums::Proof;
use crate::disk::Disk;
use crate::node::block::scripts::ScriptChecker;
use crate::node::error::SyncError;
use crate::node::opened::{Coins, Node};
use crate::node::options::Options;
use crate::node::scan::{ScanEnd, scan_into_node};
use crate::node::temporary::TemporaryDir;
use crate::store::BlockSource;
use crate::sync::unfinished::open_node;

/// A node in `directory` with the headers of all blocks of the sources, none of which it stores,
/// and whether somebody has asked to stop.
pub(super) fn scanned(
    proof: &Proof,
    options: &Options,
    opened: &[BlockSource],
    directory: &TemporaryDir,
) -> Result<(Node, ScanEnd), SyncError> {
    let scripts = ScriptChecker::new(options, &Disk::new())?;
    let options = Options {
        datadir: directory.path().to_path_buf(),
        blocks_dir: None,
        spill_dir: None,
        prune: None,
        stop_at_height: None,
        // Nobody carries on.
        save_every: Duration::MAX,
        ..options.clone()
    };
    let mut node = open_node(&options, &Disk::new(), Coins::InPlace)?;
    node.ledger.keeps_blocks = false;
    // A difference about scripts is kept, and counts, beyond the temporary directory.
    node.options.script_engine = scripts.engine();
    node.scripts = scripts;
    let end = scan_into_node(&mut node, opened, proof.observer, proof.stop)?;
    Ok((node, end))
}
