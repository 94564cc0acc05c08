//! SwiftSync's proof alone: whether hints fit a synced directory.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::disk::Disk;
use crate::swiftsync::{HintsError, MuHashAggregate, SumAggregate};
use crate::sync::checked::Checked;
use crate::sync::error::SyncError;
use crate::sync::hints_file::HintsFile;
use crate::sync::node::{Coins, Node};
use crate::sync::options::{AggregateKind, AssumeValid, Options};
use crate::sync::outcome::Summary;
use crate::sync::progress::Observer;
use crate::sync::remedy;
use crate::sync::run::summary;
use crate::sync::swift::attempt::verify;
use crate::sync::swift::plan::{Mode, Plan};

/// Runs SwiftSync's proof to see whether a hints file fits the active chain of a synced data
/// directory, and keeps nothing. With [`AssumeValid::Nothing`] every script is checked too;
/// otherwise the blocks are taken as valid, which they were when they were connected.
///
/// The summary is of the block at the hints' height, with the number of coins at that height.
///
/// # Errors
/// The hints do not fit or are for a height above the tip; the directory is in use or has no
/// blocks; or a block or undo data is damaged.
pub fn verify_hints(
    options: &Options,
    hints: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, SyncError> {
    remedy::naming_with_hints(options, || prove_hints(options, hints, observer, stop))
}

/// [`verify_hints`], with errors that name no remedy yet.
fn prove_hints(
    options: &Options,
    hints: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, SyncError> {
    let started = Instant::now();
    let hints = HintsFile::open(hints)?;
    let mut node = Node::open(options, &Disk::new(), Coins::ReadOnly)?;
    let height = hints.reader.height();
    let target = node.ledger.active.at(height).ok_or_else(|| {
        let tip = node.ledger.active.height().unwrap_or(0);
        let what = format!("the hints are for height {height}, and the tip is at height {tip}");
        hints.error(HintsError::new(what))
    })?;
    let mode = match options.assumevalid {
        AssumeValid::Nothing => Mode::Full,
        _ => Mode::AssumeValid,
    };
    let plan = Plan::new(&node, target, mode).map_err(|fault| fault.into_error(&node, &hints))?;
    let proved = match options.aggregate {
        AggregateKind::Sha256 => verify::<SumAggregate>(&mut node, &hints, &plan, observer, stop),
        AggregateKind::MuHash => {
            verify::<MuHashAggregate>(&mut node, &hints, &plan, observer, stop)
        }
    };
    let tally = proved.map_err(|fault| fault.into_error(&node, &hints))?;
    let checked = match plan.mode {
        Mode::AssumeValid => Checked::outpoints_alone(height, 0, 0..0),
        Mode::Full => Checked::default(),
    };
    Ok(Summary {
        height,
        best_block: node.tree.node(target).hash,
        coins: tally.as_ref().map(|tally| tally.coins),
        counts: tally.as_ref().map_or_else(Default::default, |tally| tally.counts),
        checked,
        ..summary(&mut node, started, tally.is_none())
    })
}
