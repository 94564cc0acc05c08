//! Interrupted work, which other work must not disturb.

use apus_disk::Disk;
use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node};
use apus_node::options::Options;
use apus_node::rebuild;

use super::join::directory::pending_tables;
use super::{join, swift};

/// Opens a data directory ([`Node::open`]), and keeps the tables that an interrupted join has
/// written.
///
/// # Errors
/// As for [`Node::open`].
pub fn open_node(options: &Options, disk: &Disk, coins: Coins<'_>) -> Result<Node, SyncError> {
    Node::open(options, disk, coins, pending_tables)
}

/// Returns an error if a rebuild, a SwiftSync or a join was interrupted, which needs the blocks and
/// the UTXO set unchanged.
///
/// # Errors
/// Such work was interrupted, or its saved work cannot be read.
pub fn refuse_unfinished(disk: &Disk, options: &Options) -> Result<(), SyncError> {
    let directory = options.network_dir();
    let what = if rebuild::unfinished(disk, &directory)?.is_some() {
        "a rebuild of the UTXO set"
    } else if swift::directory::unfinished(disk, &directory)?.is_some() {
        "a SwiftSync"
    } else if join::directory::unfinished(disk, options)?.is_some() {
        "a join"
    } else {
        return Ok(());
    };
    Err(SyncError::Input(format!(
        "{} holds {what} that was interrupted and that needs the directory unchanged: finish it \
         first (`apus status` says how)",
        directory.display()
    )))
}
