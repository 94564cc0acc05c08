//! Blocks of files, as a proof reads them: where they are, without a data directory.

use std::time::Duration;

use apus_disk::Disk;
use apus_node::block::scripts::ScriptChecker;
use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node};
use apus_node::options::Options;
use apus_node::scan::{ScanEnd, scan_into_node};
use apus_node::temporary::TemporaryDir;
use apus_store::BlockSource;
use apus_sync::unfinished::open_node;

use super::sums::Proof;

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
    let end = scan_into_node(&mut node, opened, proof.watch)?;
    Ok((node, end))
}
