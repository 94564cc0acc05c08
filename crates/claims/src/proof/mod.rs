//! Proves that hints or a snapshot fit the blocks, and keeps nothing.
//!
//! `sums` proves a claim by SwiftSync's sums, in one pass over the blocks. If every rule must be
//! checked and undo data with the coins for that is missing, `by_join` does both in two steps.
//! `files` reads blocks without a data directory.

mod by_join;
mod files;
mod sums;

use std::path::{Path, PathBuf};
use std::time::Instant;

use apus_chain::BlockId;
use apus_node::checked::Checked;
use apus_node::context::Context;
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::opened::{Coins, Node};
use apus_node::options::{AssumeValid, Options};
use apus_node::remedy;
use apus_node::run::Run;
use apus_node::scan::{open_sources, scan_into_node};
use apus_progress::Watch;
use apus_progress::estimate::estimating::Estimating;
use apus_sync::claim::Claim;
use apus_sync::run::summary;
use apus_sync::stages::of_proof;
use apus_sync::summary::Summary;
use apus_sync::swift::fault::into_error;
use apus_sync::swift::plan::{Mode, SwiftPlan};
use apus_sync::unfinished::open_node;

use by_join::prove_by_join;
use files::{node_of_files, temporary_dir};
use sums::{Proof, Unproved};

/// Proves that the claim of a hints file or of a UTXO snapshot is what the blocks up to its height
/// leave unspent: no output more and none less and, for a snapshot, every coin with its height,
/// coinbase flag, amount and script. Keeps nothing.
///
/// The blocks are those of `sources` or, if there are none, of the active chain of the synced data
/// directory that `options` name. With [`AssumeValid::Nothing`] checks every rule and script too,
/// with the coins from undo data or, if it is missing, from a join in a temporary directory.
/// Otherwise takes the blocks as valid, except for the rules that need no coins, which are checked.
///
/// The summary describes the block at the claim's height, with the number of coins there.
///
/// # Errors
/// The claim is wrong ([`SyncError::Differs`] names the coins), not well-formed, or of another
/// network; the block at its height or a block before it is missing; or a block or undo data is
/// damaged. If every rule is checked: a block breaks one, or a temporary directory is needed and
/// has no room.
pub fn prove(
    options: &Options,
    file: &Path,
    sources: &[PathBuf],
    watch: Watch,
) -> Result<Summary, SyncError> {
    let observer = Estimating::new(watch.observer);
    let summary = prove_watched(options, file, sources, Watch::new(&observer, watch.stop));
    Ok(Summary { ran: observer.ran(), ..summary.map_err(with_remedy)? })
}

/// Adds what to do to an error that blames hints.
fn with_remedy(error: SyncError) -> SyncError {
    let cause = match &error {
        SyncError::Differs { error, .. } => &**error,
        error => error,
    };
    if matches!(cause, SyncError::Hints { .. }) {
        return error.with(&Context::HintsNotProved);
    }
    error
}

fn prove_watched(
    options: &Options,
    file: &Path,
    sources: &[PathBuf],
    watch: Watch,
) -> Result<Summary, SyncError> {
    let started = Instant::now();
    let claim = &remedy::naming(options, || Claim::of_file(file, &options.network))?;
    let proof = Proof { claim, started, watch };
    if sources.is_empty() {
        let open = || open_node(&Run::new(options), Coins::ReadOnly);
        return remedy::naming(options, || prove_by(&proof, open()?));
    }
    let opened = open_sources(options, sources)?;
    let directory = temporary_dir(options)?;
    let mut node = node_of_files(options, &directory)?;
    match SyncError::unless_stopped(scan_into_node(&mut node, &opened, watch))? {
        Some(()) => prove_by(&proof, node),
        None => Ok(proof.interrupted(&mut node)),
    }
}

/// Proves the claim by the blocks of `node`: in one pass or, if every rule must be checked and undo
/// data is missing, by a join.
fn prove_by(proof: &Proof, mut node: Node) -> Result<Summary, SyncError> {
    let target = target(&node, proof.claim)?;
    let mode = match node.options().assumevalid {
        AssumeValid::Nothing => Mode::Full,
        _ => Mode::AssumeValid,
    };
    let plan = match SwiftPlan::new(&node, target, mode) {
        Err(Fault::NoUndo(height, _)) => return prove_by_join(proof, node, target, height),
        plan => plan.map_err(|fault| into_error(fault, &node, proof.claim))?,
    };
    proof.watch.observer.plan(&of_proof(&node, target, false));
    let tally = match proof.sums(&mut node, &plan) {
        Ok(tally) => tally,
        Err(Unproved { error: SyncError::Stopped, .. }) => {
            return Ok(proof.interrupted(&mut node));
        }
        // A rev file may lack some blocks, such as the newest ones after a SwiftSync.
        Err(Unproved { lacks_undo: Some(height), .. }) => {
            drop(plan);
            node.shared().scripts.begin_again();
            return prove_by_join(proof, node, target, height);
        }
        Err(unproved) => return Err(unproved.error),
    };
    let height = plan.chain.height().unwrap_or(0);
    let checked = match plan.mode {
        Mode::AssumeValid => Checked::outpoints_alone(height, 0, 0..0),
        Mode::Full => Checked::default(),
    };
    Ok(Summary {
        height,
        best_block: node.tree().node(target).hash,
        coins: Some(tally.coins),
        counts: tally.counts,
        checked,
        ..summary(&mut node, proof.started, false)
    })
}

/// Returns the block at the claim's height: on the active chain or, among the blocks of sources, on
/// the best chain of headers for hints, and on any chain for a snapshot.
fn target(node: &Node, claim: &Claim) -> Result<BlockId, SyncError> {
    let of_sources = !node.sources().files().is_empty();
    let best = node.tree().best_header();
    match claim {
        Claim::Hints(hints) => {
            let height = hints.reader.height();
            let found = if of_sources {
                node.tree().ancestor(best, height)
            } else {
                node.ledger().active.at(height)
            };
            found.ok_or_else(|| {
                let tip = if of_sources { best } else { node.tip() };
                claim.error(format!(
                    "the hints are for height {height}, but the tip is at height {}",
                    node.tree().node(tip).height
                ))
            })
        }
        Claim::Snapshot(file) => {
            let base = file.head().base;
            let is_here =
                |id: &BlockId| of_sources || node.ledger().active.contains(node.tree(), *id);
            node.tree().find(&base).filter(is_here).ok_or_else(|| {
                claim.error(format!(
                    "its base block {base} is not among these blocks, which end at height {}",
                    node.tree().node(best).height
                ))
            })
        }
    }
}
