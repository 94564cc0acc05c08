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
use apus_disk::Disk;
use apus_node::checked::Checked;
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::opened::{Coins, Node};
use apus_node::options::{AssumeValid, Options};
use apus_node::progress::Watch;
use apus_node::remedy;
use apus_node::scan::{open_sources, scan_into_node};
use apus_node::temporary::TemporaryDir;
use apus_sync::claim::Claim;
use apus_sync::hints_file::HintsFile;
use apus_sync::run::summary;
use apus_sync::summary::Summary;
use apus_sync::swift::fault::into_error;
use apus_sync::swift::plan::{Mode, Plan};
use apus_sync::unfinished::open_node;

use by_join::prove_by_join;
use files::node_of_files;
use sums::{Proof, Unproved};

/// Checks by SwiftSync's proof that a hints file fits the active chain of a synced data directory,
/// and keeps nothing. With [`AssumeValid::Nothing`] checks every rule and script too, with the
/// coins from undo data or, if it is missing, from a join in a temporary directory. Otherwise takes
/// the blocks as valid, since they were checked when they were connected.
///
/// # Errors
/// The hints do not fit ([`SyncError::Differs`] names the coins), are damaged, or are for a height
/// above the tip; the directory is in use or has no blocks; or a block or undo data is damaged.
///
/// The summary describes the block at the hints' height, with the number of coins there.
pub fn verify_hints(options: &Options, hints: &Path, watch: Watch) -> Result<Summary, SyncError> {
    remedy::naming_wrong_hints(options, || {
        let started = Instant::now();
        let claim = &Claim::Hints(HintsFile::open(hints)?);
        let node = open_node(options, &Disk::new(), Coins::ReadOnly)?;
        prove(&Proof { claim, started, watch }, node)
    })
}

/// Proves that a UTXO snapshot is what the blocks up to its base block leave unspent: every coin,
/// with its height, coinbase flag, amount and script, and no other. Needs no hints, and keeps
/// nothing.
///
/// The blocks are those of `sources` or, if there are none, of the active chain of the synced data
/// directory that `options` name. With [`AssumeValid::Nothing`] checks every rule and script too,
/// with the coins from undo data or, if it is missing, from a join in a temporary directory.
/// Otherwise takes the blocks as valid, except for the rules that need no coins, which are checked.
///
/// # Errors
/// The snapshot is wrong ([`SyncError::Differs`] names the coins), not well-formed, or of another
/// network; its base block or a block before it is missing; or a block or undo data is damaged. If
/// every rule is checked: a block breaks one, or a temporary directory is needed and has no room.
pub fn verify_snapshot(
    options: &Options,
    snapshot: &Path,
    sources: &[PathBuf],
    watch: Watch,
) -> Result<Summary, SyncError> {
    let started = Instant::now();
    let claim = &Claim::open_snapshot(snapshot, &options.network)?;
    let proof = Proof { claim, started, watch };
    if sources.is_empty() {
        return remedy::naming(options, || {
            prove(&proof, open_node(options, &Disk::new(), Coins::ReadOnly)?)
        });
    }
    let opened = open_sources(options, sources)?;
    let directory = TemporaryDir::chosen(options)?;
    let mut node = node_of_files(options, &directory)?;
    match scan_into_node(&mut node, &opened, watch) {
        Err(SyncError::Stopped) => Ok(proof.interrupted(&mut node)),
        scanned => {
            scanned?;
            prove(&proof, node)
        }
    }
}

/// Proves the claim by the blocks of `node`: in one pass or, if every rule must be checked and undo
/// data is missing, by a join.
fn prove(proof: &Proof, mut node: Node) -> Result<Summary, SyncError> {
    let target = target(&node, proof.claim)?;
    let mode = match node.options.assumevalid {
        AssumeValid::Nothing => Mode::Full,
        _ => Mode::AssumeValid,
    };
    let plan = match Plan::new(&node, target, mode) {
        Err(Fault::NoUndo(height, _)) => return prove_by_join(proof, node, target, height),
        plan => plan.map_err(|fault| into_error(fault, &node, proof.claim))?,
    };
    let tally = match proof.sums(&mut node, &plan) {
        Ok(tally) => tally,
        Err(Unproved { error: SyncError::Stopped, .. }) => {
            return Ok(proof.interrupted(&mut node));
        }
        // A rev file may lack some blocks, such as the newest ones after a SwiftSync.
        Err(Unproved { lacks_undo: Some(height), .. }) => {
            drop(plan);
            node.scripts.begin_again();
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
        best_block: node.tree.node(target).hash,
        coins: Some(tally.coins),
        counts: tally.counts,
        checked,
        ..summary(&mut node, proof.started, false)
    })
}

/// Returns the block at the claim's height: on the active chain or, for a snapshot and the blocks
/// of sources, on any chain.
fn target(node: &Node, claim: &Claim) -> Result<BlockId, SyncError> {
    let tip = node.ledger.active.height().unwrap_or(0);
    match claim {
        Claim::Hints(hints) => {
            let height = hints.reader.height();
            node.ledger.active.at(height).ok_or_else(|| {
                claim.error(format!(
                    "the hints are for height {height}, but the tip is at height {tip}"
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
