//! Takes the UTXO set back to a lower height.

use std::time::Instant;

use apus_disk::{Disk, ShareWatch};
use apus_node::directory::check_synced;
use apus_node::error::SyncError;
use apus_node::opened::{Coins, observe, share_of};
use apus_node::options::{Options, Prune};
use apus_node::remedy;
use apus_node::run::Run;
use apus_progress::clock::Stage;
use apus_progress::{Phase, Watch};
use apus_sync::above_tip::above_tip;
use apus_sync::in_order::activate::return_to_fork;
use apus_sync::run::{bound_cache, summary};
use apus_sync::start_check::check_on_start;
use apus_sync::summary::Summary;
use apus_sync::unfinished::{open_node, refuse_unfinished};

/// Disconnects the blocks above `height`, so that the UTXO set is the one at that height. Blocks,
/// undo data and the block index stay, and the next sync connects the same blocks again.
///
/// If `stop` becomes true, saves the UTXO set at the height reached so far.
///
/// # Errors
/// There is no UTXO set; the tip is below `height`; a block above `height` or its undo data is
/// missing (nothing has changed then); unfinished work builds on the UTXO set; the disk fails.
pub fn rewind(options: &Options, height: u32, watch: Watch) -> Result<Summary, SyncError> {
    rewind_on(&Disk::new(), options, height, watch)
}

/// Does the same as [`rewind`], on the caller's disk, which may lose power in tests.
pub fn rewind_on(
    disk: &Disk,
    options: &Options,
    height: u32,
    watch: Watch,
) -> Result<Summary, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        check_synced(options)?;
        // Pruned directories are allowed: the missing blocks may be below `height`.
        let options = Options { prune: Some(Prune::Manual), ..options.clone() };
        let node = open_node(&Run::on(disk, &options), Coins::InPlace)?;
        refuse_unfinished(disk, &options)?;
        let mut node = check_on_start(node, false, watch)?;
        let tip = node.tree().node(node.tip()).height;
        let target = node.ledger().active.at(height).ok_or_else(|| {
            SyncError::Input(format!(
                "--height {height} is above the tip, which is at height {tip}"
            ))
        })?;
        bound_cache(&mut node);
        let returned = return_to_fork(&mut node, target, watch);
        let mut is_stopped = SyncError::unless_stopped(returned)?.is_none();
        if !is_stopped {
            observe(watch.observer, Phase::Merging, &node);
            let report = share_of(watch.observer, Phase::Merging, &node);
            let _timer = node.shared().clock.start(Stage::Merge);
            let watch = ShareWatch { report: &report, stop: watch.stop };
            is_stopped = !node.shared().pool.install(|| node.chainstate().settle(watch))?;
        }
        let summary = summary(&mut node, started, is_stopped);
        Ok(Summary { above_tip: Some(above_tip(&node)), ..summary })
    })
}
