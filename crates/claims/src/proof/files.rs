//! Reads the blocks of files for a proof, where they are and without a data directory.

use std::time::Duration;

use apus_disk::{Disk, StoreError};
use apus_host::temporary::TemporaryDir;
use apus_node::block::scripts::ScriptChecker;
use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node};
use apus_node::options::{JoinOptions, Options};
use apus_node::run::Run;
use apus_sync::unfinished::open_node;

/// Creates a directory for temporary files where the options want it.
pub(super) fn temporary_dir(options: &Options) -> Result<TemporaryDir, StoreError> {
    options.join.spill_dir.as_deref().map_or_else(TemporaryDir::new, TemporaryDir::below)
}

/// Opens a node in `directory`, for blocks that it reads from sources and does not store.
pub(super) fn node_of_files(
    options: &Options,
    directory: &TemporaryDir,
) -> Result<Node, SyncError> {
    let scripts = ScriptChecker::new(options, &Disk::new())?;
    let options = Options {
        datadir: directory.path().to_path_buf(),
        blocks_dir: None,
        prune: None,
        stop_at_height: None,
        // No later run continues this one, so nothing is saved.
        save_every: Duration::MAX,
        join: JoinOptions { spill_dir: None, ..options.join.clone() },
        ..options.clone()
    };
    let mut node = open_node(&Run::new(&options), Coins::InPlace)?;
    node.ledger_mut().writes.blocks = false;
    // The script checker works on the user's directory: it keeps a difference there, and knows of
    // one that was found before.
    node.check_scripts_by(scripts);
    Ok(node)
}
