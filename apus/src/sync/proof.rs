//! SwiftSync's proof alone: whether hints or a snapshot fit the blocks.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::checked::Checked;
use super::claim::Claim;
use super::error::SyncError;
use super::hints_file::HintsFile;
use super::node::{Coins, Node};
use super::options::{AggregateKind, AssumeValid, Options};
use super::outcome::Summary;
use super::progress::Observer;
use super::remedy;
use super::run::summary;
use super::scan::{ScanEnd, open_sources, scan_into_node};
use super::swift::attempt::verify;
use super::swift::differences::differences;
use super::swift::fault::Fault;
use super::swift::plan::{Mode, Plan};
use super::temporary::TemporaryDir;
use crate::chain::BlockId;
use crate::disk::Disk;
use crate::store::BlockSource;
use crate::swiftsync::{MuHashAggregate, SumAggregate};

/// Runs SwiftSync's proof to see whether a hints file fits the active chain of a synced data
/// directory, and keeps nothing. With [`AssumeValid::Nothing`] every script is checked too;
/// otherwise the blocks are taken as valid, which they were when they were connected.
///
/// # Errors
/// The hints do not fit ([`SyncError::Differs`] names the coins), are damaged or for a height above
/// the tip; the directory is in use or has no blocks; or a block or undo data is damaged.
///
/// The summary is of the block at the hints' height, with the number of coins there.
pub fn verify_hints(
    options: &Options,
    hints: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, SyncError> {
    remedy::naming_with_hints(options, || {
        let started = Instant::now();
        let claim = Claim::Hints(HintsFile::open(hints)?);
        let mut node = Node::open(options, &Disk::new(), Coins::ReadOnly)?;
        prove(&mut node, &claim, started, observer, stop)
    })
}

/// Proves that a UTXO snapshot is what the blocks up to its base block leave unspent: every coin,
/// with its height, whether a coinbase created it, its amount and its script, and no other. No
/// hints are needed, and nothing is kept.
///
/// The blocks are those of `sources` or, if there are none, of the active chain of the synced data
/// directory that `options` name. With [`AssumeValid::Nothing`] every rule and script is checked
/// too, with the coins that undo data has; otherwise the blocks are taken as valid, but for the
/// rules that need no coins.
///
/// # Errors
/// The snapshot is wrong ([`SyncError::Differs`] names the coins), not well-formed, or of another
/// network; its base block or a block before it is missing; or a block or undo data is damaged.
pub fn verify_snapshot(
    options: &Options,
    snapshot: &Path,
    sources: &[PathBuf],
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, SyncError> {
    let started = Instant::now();
    let claim = Claim::open_snapshot(snapshot, &options.network)?;
    if sources.is_empty() {
        return remedy::naming(options, || {
            let mut node = Node::open(options, &Disk::new(), Coins::ReadOnly)?;
            prove(&mut node, &claim, started, observer, stop)
        });
    }
    let opened = open_sources(options, sources)?;
    // Headers alone are kept in it, for the time of the proof.
    let dir = TemporaryDir::new()?;
    let options = Options {
        datadir: dir.path().to_path_buf(),
        blocks_dir: None,
        prune: None,
        ..options.clone()
    };
    let mut node = Node::open(&options, &Disk::new(), Coins::InPlace)?;
    prove_from(&mut node, &claim, &opened, started, observer, stop)
}

fn prove_from(
    node: &mut Node,
    claim: &Claim,
    opened: &[BlockSource],
    started: Instant,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, SyncError> {
    if scan_into_node(node, opened, observer, stop)? == ScanEnd::Stopped {
        return Ok(summary(node, started, true));
    }
    prove(node, claim, started, observer, stop)
}

/// The block at the claim's height: of the active chain or, where there are blocks of sources, of
/// any that they have.
fn target(node: &Node, claim: &Claim) -> Result<BlockId, SyncError> {
    let tip = node.ledger.active.height().unwrap_or(0);
    match claim {
        Claim::Hints(hints) => {
            let height = hints.reader.height();
            node.ledger.active.at(height).ok_or_else(|| {
                claim.error(format!(
                    "the hints are for height {height}, and the tip is at height {tip}"
                ))
            })
        }
        Claim::Snapshot(file) => {
            let base = file.head().base;
            let is_here = |id: &BlockId| {
                !node.sources.files().is_empty() || node.ledger.active.contains(&node.tree, *id)
            };
            node.tree.find(&base).filter(is_here).ok_or_else(|| {
                let best = node.tree.node(node.tree.best_header()).height;
                claim.error(format!(
                    "its base block {base} is not among these blocks, which end at height {best}"
                ))
            })
        }
    }
}

fn prove(
    node: &mut Node,
    claim: &Claim,
    started: Instant,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Summary, SyncError> {
    let target = target(node, claim)?;
    let mode = match node.options.assumevalid {
        AssumeValid::Nothing => Mode::Full,
        _ => Mode::AssumeValid,
    };
    let plan = Plan::new(node, target, mode).map_err(|fault| fault.into_error(node, claim))?;
    let proved = match node.options.aggregate {
        AggregateKind::Sha256 => verify::<SumAggregate>(node, claim, &plan, observer, stop),
        AggregateKind::MuHash => verify::<MuHashAggregate>(node, claim, &plan, observer, stop),
    };
    let tally = match proved {
        Ok(tally) => tally,
        Err(fault @ (Fault::Hints(_) | Fault::Snapshot(_))) => {
            let error = fault.into_error(node, claim);
            // What is so damaged that nothing can be told of its coins has been named already.
            let found = differences(node, claim, &plan, observer, stop);
            let differences = found.ok().flatten().unwrap_or_default();
            return Err(SyncError::Differs { error: Box::new(error), differences });
        }
        Err(fault) => return Err(fault.into_error(node, claim)),
    };
    let height = plan.chain.height().unwrap_or(0);
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
        ..summary(node, started, tally.is_none())
    })
}
