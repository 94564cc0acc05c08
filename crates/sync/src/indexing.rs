//! Core's optional indexes at the end of a sync, and after each new tip that it follows.

use apus_indexes::{Upkeep, update};
use apus_node::context::Context;
use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node};
use apus_node::options::Prune;
use apus_node::run::Run;
use apus_progress::Watch;

use super::summary::Summary;
use super::unfinished::open_node;

/// Builds the indexes that the options name, or continues them, so that they end at the tip. Then
/// deletes the block files that they have held back. Does nothing while the UTXO set that is built
/// is not the one in use.
///
/// # Errors
/// Those of [`update()`], or somebody asks to stop.
pub fn index(node: &mut Node, upkeep: Upkeep, watch: Watch) -> Result<(), SyncError> {
    if node.options().indexes.is_empty() || node.ledger().writes.new_set {
        return Ok(());
    }
    if upkeep == Upkeep::Settle {
        // All coins are committed. Their memory serves the sorting of entries.
        node.drop_cache();
    }
    let height = node.tree().node(node.tip()).height;
    let updated = update(node, &node.options().indexes, None, upkeep, watch)
        .map_err(|error| error.with(&Context::BlocksConnected { height }))?;
    if updated.interrupted {
        return Err(SyncError::Stopped);
    }
    node.find_prune_locks()?;
    let (shared, ledger) = node.split();
    Ok(ledger.prune(&shared)?)
}

/// Builds the indexes that the options name after a rebuilt UTXO set has replaced the old one, and
/// deletes the blocks that were kept for that.
pub fn end_in_place(run: &Run, summary: Summary, watch: Watch) -> Result<Summary, SyncError> {
    let options = run.options;
    if options.indexes.is_empty() && !matches!(options.prune, Some(Prune::Target(_))) {
        return Ok(summary);
    }
    let mut node = open_node(run, Coins::InPlace)?;
    let indexed = index(&mut node, Upkeep::Settle, watch);
    let interrupted = SyncError::unless_stopped(indexed)?.is_none();
    let (shared, ledger) = node.split();
    ledger.prune(&shared)?;
    Ok(Summary { pruned: node.ledger().pruned(node.files()), interrupted, ..summary })
}
