//! Taking the UTXO set back to a lower height.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::disk::{Disk, Watch};
use crate::node::clock::Stage;
use crate::node::error::SyncError;
use crate::node::opened::{Coins, observe, share_of};
use crate::node::options::{Options, Prune};
use crate::node::outcome::Activated;
use crate::node::progress::{Observer, Phase};
use crate::node::remedy;
use crate::sync::above_tip::above_tip;
use crate::sync::in_order::activate::return_to_fork;
use crate::sync::run::{bound_cache, summary};
use crate::sync::start_check::check_on_start;
use crate::sync::summary::Summary;
use crate::sync::unfinished::{open_node, refuse_unfinished};

/// Disconnects the blocks above `height`: the UTXO set is then the one at that height. Blocks,
/// undo data and the block index stay, so that the next sync connects the same blocks again.
///
/// When `stop` becomes true, the height reached so far is saved.
///
/// # Errors
/// There is no UTXO set, it is lower than `height`, or a block above `height` or its undo data is
/// missing, in which case nothing has changed; work is unfinished that builds on the UTXO set; the
/// disk fails.
pub fn rewind(
    options: &Options,
    height: u32,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, SyncError> {
    rewind_on(&Disk::new(), options, height, observer, stop)
}

/// [`rewind`] on the caller's disk, which may lose power in tests.
pub fn rewind_on(
    disk: &Disk,
    options: &Options,
    height: u32,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        let directory = options.network_dir();
        if !directory.join("chainstate").is_dir() {
            let what = format!("{} holds no UTXO set to rewind", directory.display());
            return Err(SyncError::Input(what));
        }
        // What is pruned may lie below.
        let options = Options { prune: Some(Prune::Manual), ..options.clone() };
        let node = open_node(&options, disk, Coins::InPlace)?;
        refuse_unfinished(disk, &options)?;
        let mut node = check_on_start(node, false, observer, stop)?;
        let tip = node.tree.node(node.tip()).height;
        let target = node.ledger.active.at(height).ok_or_else(|| {
            SyncError::Input(format!(
                "--height {height} is above the tip, which is at height {tip}"
            ))
        })?;
        bound_cache(&mut node);
        let mut is_stopped =
            return_to_fork(&mut node, target, observer, stop)? == Activated::Stopped;
        if !is_stopped {
            observe(observer, Phase::Merging, &node);
            let report = share_of(observer, Phase::Merging, &node);
            let _timer = node.clock.start(Stage::Merge);
            let watch = Watch { report: &report, stop };
            is_stopped = !node.pool.install(|| node.chainstate.settle(watch))?;
        }
        let summary = summary(&mut node, started, is_stopped);
        Ok(Summary { above_tip: Some(above_tip(&node)), ..summary })
    })
}
