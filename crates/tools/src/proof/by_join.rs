//! The proof of a claim and of all rules where undo data is missing. Two questions, two steps:
//! whether the claim is what these blocks leave, by SwiftSync's sums; and whether the blocks are
//! valid, by a join of them in a temporary directory.
//!
//! The join shares nothing with the sums but the blocks, so that the coins which it counts are a
//! check of both. It keeps nothing: blocks are read where they are.

#[cfg(test)]
mod tests;

use std::path::Path;

use apus_chain::BlockId;
use apus_disk::StoreError;
use apus_node::error::SyncError;
use apus_node::mend::take_another_copy;
use apus_node::opened::{Node, refusal};
use apus_node::options::Options;
use apus_node::outcome::{Activated, Refusal};
use apus_node::progress::Watch;
use apus_node::scan::ScanEnd;
use apus_node::space;
use apus_node::temporary::TemporaryDir;
use apus_node::waiting::Waiting;
use apus_node::words::size;
use apus_store::{BlockSource, DataDir};
use apus_sync::in_order::activate::{connect, steps};
use apus_sync::in_order::connect::Outcome;
use apus_sync::join;
use apus_sync::join::build::Joined;
use apus_sync::run::{bound_cache, summary};
use apus_sync::summary::Summary;
use apus_sync::swift::plan::{Mode, Plan};
use apus_sync::swift::tally::Tally;

use super::files::scanned;
use super::sums::{Proof, Unproved};

/// The number of joins that may end below a block, before the rest goes in order.
const JOINS_BELOW_MAX: u32 = 2;

/// Proves the claim by the blocks of `node` up to `target`, and all rules for these. The block at
/// height `lacking` is one without undo data.
///
/// # Errors
/// The claim is wrong, a block is invalid or damaged, or there is no room for temporary files.
pub(super) fn prove_by_join(
    proof: &Proof,
    mut node: Node,
    target: BlockId,
    lacking: u32,
) -> Result<Summary, SyncError> {
    // A node of files alone is in a temporary directory already.
    let is_stored = node.ledger.is_read_only;
    let directory = is_stored.then(|| TemporaryDir::chosen(&node.options)).transpose()?;
    let place = directory.as_ref().map_or(node.dir.path(), TemporaryDir::path);
    begin(proof, &node, target, lacking, place)?;
    let plan = Plan::new(&node, target, Mode::AssumeValid);
    let plan = plan.map_err(|fault| fault.into_error(&node, proof.claim))?;
    let sums = match proof.sums(&mut node, &plan) {
        Ok(None) => return Ok(proof.interrupted(&mut node)),
        Ok(Some(tally)) => Ok(tally),
        // If a block is to blame, the join finds out which.
        Err(Unproved { error, may_be_blocks: true, .. }) => Err(error),
        Err(unproved) => return Err(unproved.error),
    };
    drop(plan);
    let hash = node.tree.node(target).hash;
    let (_locked, mut node, end) = match &directory {
        None => (None, node, ScanEnd::Complete),
        Some(directory) => {
            let (locked, options) = released(node);
            let source = BlockSource::open(locked.blocks_path(), &options.network)?;
            let (node, end) = scanned(proof, &options, &[source], directory)?;
            (Some(locked), node, end)
        }
    };
    if end == ScanEnd::Stopped {
        return Ok(proof.interrupted(&mut node));
    }
    let target = node.tree.find(&hash).ok_or_else(|| {
        SyncError::Input(format!("block {hash} is not in the block files any more: run this again"))
    })?;
    let Some(left) = check_blocks(&mut node, target, proof.watch)? else {
        return Ok(proof.interrupted(&mut node));
    };
    let tally = sums?;
    left.expect(&tally)?;
    let spilled_bytes = Some(left.spilled);
    Ok(Summary { spilled_bytes, ..summary(&mut node, proof.started, false) })
}

/// Says what is about to be done, unless `place` has no room for it.
fn begin(
    proof: &Proof,
    node: &Node,
    target: BlockId,
    lacking: u32,
    place: &Path,
) -> Result<(), StoreError> {
    let bytes = Waiting::between(node, 1, target).bytes;
    if let Some(lack) = space::lack_for_proof(place, bytes)? {
        return Err(lack.into_error_of_proof());
    }
    proof.watch.observer.note(&format!(
        "There is no undo data for block {lacking}, so this takes two steps: whether {} fits these \
         blocks; and whether every rule and script in them holds, by a join with temporary files \
         of usually {} and at most {} in {}",
        proof.claim.path().display(),
        size(space::usual_spill_bytes(bytes)),
        size(space::spill_bytes(bytes)),
        place.display()
    ));
    Ok(())
}

/// What is left of a node whose blocks are read as a source: the lock of its directory.
fn released(node: Node) -> (DataDir, Options) {
    let Node { dir, options, .. } = node;
    (dir, options)
}

/// What the blocks have left, by the join.
struct Left {
    coins: Option<i64>,
    /// Satoshi; `None` if some blocks went in order, which does not add them up.
    amount: Option<u64>,
    /// Bytes that were written to temporary files.
    spilled: u64,
}

impl Left {
    /// Compares the coins with those that the sums have counted.
    fn expect(&self, tally: &Tally) -> Result<(), SyncError> {
        let Self { coins, amount, .. } = self;
        let is_same = *coins == Some(tally.coins as i64)
            && amount.is_none_or(|amount| amount == tally.amount);
        match is_same {
            true => Ok(()),
            false => Err(SyncError::Input(format!(
                "two passes over the same blocks differ: one leaves {} coins of {} satoshi, the \
                 other {coins:?} of {amount:?}. If the block files have not changed meanwhile, \
                 this is a bug of Apus: please report it",
                tally.coins, tally.amount
            ))),
        }
    }
}

/// Checks every rule and script of all blocks up to `target`; `None` if somebody has asked to stop.
///
/// # Errors
/// A block is invalid or damaged, or the disk fails.
fn check_blocks(node: &mut Node, target: BlockId, watch: Watch) -> Result<Option<Left>, SyncError> {
    bound_cache(node);
    let (mut spilled, mut amount) = (0, None);
    for joins_left in (0..JOINS_BELOW_MAX).rev() {
        let is_first = node.tip() == node.tree.genesis();
        let below = match join::build::build(node, target, &mut spilled, watch)? {
            Joined::Stopped => return Ok(None),
            Joined::Done { left_amount } => {
                amount = is_first.then_some(left_amount);
                break;
            }
            Joined::Below(height) => node.tree.ancestor(target, height).unwrap_or(target),
        };
        let last = if joins_left > 0 { below } else { target };
        if connect_to(node, last, watch)? == Activated::Stopped {
            return Ok(None);
        }
    }
    let hash = node.tree.node(target).hash;
    assert_eq!(node.chainstate.best_block()?, Some(hash), "every block up to it is connected");
    Ok(Some(Left { coins: node.ledger.coins, amount, spilled }))
}

/// Connects blocks in order up to `last`, which descends from the tip, whether or not that is on
/// the best chain.
///
/// # Errors
/// A block is refused, for Bitcoin Core's reason, or no copy of it is good; or the disk fails.
fn connect_to(node: &mut Node, last: BlockId, watch: Watch) -> Result<Activated, SyncError> {
    while node.tip() != last {
        let steps = steps(node, node.tip(), last);
        if steps.is_empty() {
            return Err(no_good_copy(node, last));
        }
        match connect(node, &steps, watch)? {
            Outcome::Done => {}
            Outcome::Stopped => return Ok(Activated::Stopped),
            Outcome::Invalid(step, error) => {
                return Err(SyncError::Refused(refusal(node, &step, error.to_string())));
            }
            Outcome::Damaged(step, what) => take_another_copy(node, step, &what, watch.stop)?,
            Outcome::Gone(step) => node.tree.mark_missing(step.id),
            Outcome::Full(error) => return Err(error.into()),
        }
    }
    let (shared, ledger) = node.split();
    ledger.commit(&shared, watch.observer)?;
    Ok(Activated::Best)
}

/// The error for the block after the tip, on the way to `last`, of which no good copy is left.
fn no_good_copy(node: &Node, last: BlockId) -> SyncError {
    let next = node.tree.node(node.tip()).height + 1;
    let block = node.tree.ancestor(last, next).map(|id| node.tree.node(id).hash);
    let refused = node.refusals.iter().rev().find(|refusal| refusal.block == block);
    let reason = format!("no good copy of this block, at height {next}, is left");
    let gone = Refusal { path: None, offset: None, block, reason };
    SyncError::Refused(refused.cloned().unwrap_or(gone))
}
