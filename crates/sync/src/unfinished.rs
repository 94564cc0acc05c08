//! Interrupted work, which other work must not disturb.

use apus_disk::Disk;
use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node};
use apus_node::options::Options;
use apus_node::rebuild;
use apus_node::run::Run;
use apus_progress::Method;

use super::join::directory::pending_tables;
use super::saved_work::SavedJoin;
use super::{join, swift};

/// Opens a data directory ([`Node::open`]), and keeps the tables that an interrupted join has
/// written.
pub fn open_node(run: &Run, coins: Coins<'_>) -> Result<Node, SyncError> {
    Node::open(run, coins, pending_tables)
}

/// Returns an error if a rebuild, a SwiftSync or a join was interrupted, which needs the blocks and
/// the UTXO set unchanged.
///
/// # Errors
/// Such work was interrupted, or its saved work cannot be read.
pub fn refuse_unfinished(disk: &Disk, options: &Options) -> Result<(), SyncError> {
    let directory = options.network_dir();
    let refuse = |what: &str| {
        Err(SyncError::Input(format!(
            "{} holds {what} that was interrupted and that needs the directory unchanged: finish \
             it first (`apus status` says how)",
            directory.display()
        )))
    };
    if rebuild::unfinished(disk, &directory)?.is_some() {
        return refuse("a rebuild of the UTXO set");
    }
    for method in Method::ALL {
        match saved_by(method, disk, options)? {
            None => {}
            Some(SavedWork::Join(_)) => return refuse("a join"),
            Some(SavedWork::SwiftSync { .. }) => return refuse("a SwiftSync"),
        }
    }
    Ok(())
}

/// The work that an interrupted run has saved for the next one.
pub enum SavedWork {
    Join(SavedJoin),
    SwiftSync {
        /// Number of blocks that the saved work covers, of any height.
        blocks: u32,
    },
}

/// Returns what an interrupted run by a method has saved.
pub fn saved_by(
    method: Method,
    disk: &Disk,
    options: &Options,
) -> Result<Option<SavedWork>, SyncError> {
    match method {
        // The UTXO set itself has what a sync in order has done.
        Method::InOrder => Ok(None),
        Method::Join => Ok(join::directory::unfinished(disk, options)?.map(SavedWork::Join)),
        Method::SwiftSync => {
            let blocks = swift::directory::unfinished(disk, &options.network_dir())?;
            Ok(blocks.map(|blocks| SavedWork::SwiftSync { blocks }))
        }
    }
}
