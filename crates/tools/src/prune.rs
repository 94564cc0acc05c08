//! Prunes block files on the user's request (Core's `pruneblockchain`).

use apus_disk::Disk;
use apus_node::directory::check_synced;
use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node};
use apus_node::options::{Options, Prune};
use apus_node::remedy;
use apus_node::run::Run;
use apus_progress::Watch;
use apus_progress::outcome::Pruned;
use apus_sync::start_check::check_on_start;
use apus_sync::unfinished::{open_node, refuse_unfinished};

/// A height above this number is a time instead, in seconds since 1970 (Core's rule).
const TIMES_ABOVE: u64 = 1_000_000_000;
/// Seconds by which the times of blocks may be out of order (Core's `TIMESTAMP_WINDOW`).
const TIMESTAMP_WINDOW: u64 = 2 * 60 * 60;

/// Deletes the block files whose blocks are all at `height` or below, but never one that holds one
/// of the last 288 blocks. A `height` above 1,000,000,000 is a time in seconds since 1970, and
/// stands for the height of the first block that is at most two hours older.
///
/// # Errors
/// The directory holds no blocks; the chain is too short to be pruned, or ends below `height`;
/// unfinished work needs the blocks; the disk fails.
pub fn prune(options: &Options, height: u64) -> Result<Pruned, SyncError> {
    remedy::naming(options, || {
        let disk = Disk::new();
        let options = Options { prune: Some(Prune::Manual), ..options.clone() };
        check_synced(&options)?;
        let node = open_node(&Run::on(&disk, &options), Coins::InPlace)?;
        refuse_unfinished(&disk, &options)?;
        // This comes before blocks are deleted, since a repair needs them.
        let mut node = check_on_start(node, false, Watch::default())?;
        let height = height_of(&node, height)?;
        let (shared, ledger) = node.split();
        ledger.prune_up_to(shared.files, shared.tree, height)?;
        Ok(node.ledger().pruned_so_far(node.files()))
    })
}

/// Returns the height that the user means by `given`, which may be a time.
fn height_of(node: &Node, given: u64) -> Result<u32, SyncError> {
    let tip = node.tree().node(node.tip()).height;
    let after = node.ledger().pruning.after();
    if tip < after {
        return Err(SyncError::Input(format!(
            "the chain is too short to be pruned: it ends at height {tip}, and nothing is pruned \
             before it reaches height {after}"
        )));
    }
    if given <= TIMES_ABOVE {
        return match u32::try_from(given) {
            Ok(height) if height <= tip => Ok(height),
            _ => Err(SyncError::Input(format!(
                "--height {given} is above the tip, which is at height {tip}"
            ))),
        };
    }
    let active = &node.ledger().active;
    let time = given - TIMESTAMP_WINDOW;
    let is_later = |height: &u32| {
        active.at(*height).is_some_and(|id| u64::from(node.tree().node(id).time) >= time)
    };
    (0..=tip).find(is_later).ok_or_else(|| {
        SyncError::Input(format!(
            "no block is as late as --height {given}, which is a time in seconds since 1970"
        ))
    })
}
