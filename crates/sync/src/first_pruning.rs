//! The consent to delete blocks of a directory that holds all of them. An archive node that is
//! pruned by mistake has to download everything again.

use std::fmt;

use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node};
use apus_node::options::Options;
use apus_node::pruning::Pruning;
use apus_node::run::Run;

use super::swift;
use super::unfinished::open_node;

/// The blocks that pruning would delete from a directory that was never pruned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstPruning {
    /// The bytes of the block and undo files that would go.
    pub bytes: u64,
    /// The height of the highest block that would go.
    pub up_to: u32,
}

impl fmt::Display for FirstPruning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "--prune would delete the blocks up to height {}, {:.1} GB, of a directory that holds \
             all blocks: only a new download brings them back",
            self.up_to,
            self.bytes as f64 / 1e9
        )
    }
}

/// Returns what a sync with these options would delete, if the user has not allowed it.
pub fn first_pruning(options: &Options) -> Result<Option<FirstPruning>, SyncError> {
    if options.prune.is_none() || !options.network_dir().join("chainstate").is_dir() {
        return Ok(None);
    }
    let node = open_node(&Run::new(options), Coins::ReadOnly)?;
    unallowed(&node, options)
}

/// Returns an error if a sync of `node` would begin to prune without the user's consent.
pub fn refuse(node: &Node) -> Result<(), SyncError> {
    match unallowed(node, node.options())? {
        Some(first) => Err(SyncError::Input(format!(
            "{first}. Leave out --prune, or add --allow-delete-blocks"
        ))),
        None => Ok(()),
    }
}

/// Returns the blocks to delete once all stored blocks are connected. Those of an unfinished
/// SwiftSync do not count: it stores blocks that its end deletes.
fn unallowed(node: &Node, options: &Options) -> Result<Option<FirstPruning>, SyncError> {
    let directory = node.dir().path();
    if options.allow_delete_blocks
        || node.ledger().pruning.is_pruned
        || swift::directory::unfinished(node.dir().disk(), directory)?.is_some()
    {
        return Ok(None);
    }
    let height = node.tree().best_candidate().map_or(0, |id| node.tree().node(id).height);
    let infos = node.files().infos();
    let chosen = Pruning::new(options, false).choose(&infos, height, height);
    let chosen: Vec<_> = chosen.into_iter().map(|number| infos[number as usize]).collect();
    Ok(chosen
        .iter()
        .map(|info| info.height_last)
        .max()
        .map(|up_to| FirstPruning { bytes: apus_store::usage(&chosen), up_to }))
}
