//! Proves a claim and checks all rules where undo data is missing, in two steps. SwiftSync's sums
//! show whether the claim is what these blocks leave unspent; a join in a temporary directory shows
//! whether the blocks are valid.
//!
//! The join and the sums share nothing but the blocks, so that comparing their numbers of coins
//! checks both. The join keeps nothing: it reads the blocks where they are.

#[cfg(test)]
mod tests;

use std::path::Path;

use apus_chain::BlockId;
use apus_disk::StoreError;
use apus_hash::Hash;
use apus_host::temporary::TemporaryDir;
use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_node::options::Options;
use apus_node::scan::scan_into_node;
use apus_node::space;
use apus_node::waiting::Waiting;
use apus_progress::Watch;
use apus_progress::words::size;
use apus_store::{BlockSource, DataDir};
use apus_sync::connect_all::{Course, join_towards};
use apus_sync::in_order::activate::{Goal, activate};
use apus_sync::run::{bound_cache, summary};
use apus_sync::stages::of_proof;
use apus_sync::summary::Summary;
use apus_sync::swift::fault::into_error;
use apus_sync::swift::plan::{Mode, SwiftPlan};
use apus_sync::swift::tally::Tally;

use super::files::{node_of_files, temporary_dir};
use super::sums::{Proof, Unproved};

/// Proves the claim by the blocks of `node` up to `target`, and checks all rules for these blocks.
/// The block at height `lacking` has no undo data.
///
/// # Errors
/// The claim is wrong, a block is invalid or damaged, or there is no room for temporary files.
pub(super) fn prove_by_join(
    proof: &Proof,
    mut node: Node,
    target: BlockId,
    lacking: u32,
) -> Result<Summary, SyncError> {
    // A node without a data directory is in a temporary directory already.
    let is_stored = !node.ledger().writes.any;
    let directory = is_stored.then(|| temporary_dir(node.options())).transpose()?;
    let place = directory.as_ref().map_or(node.dir().path(), TemporaryDir::path);
    begin(proof, Waiting::between(&node, 1, target).bytes, lacking, place)?;
    let plan = SwiftPlan::new(&node, target, Mode::AssumeValid);
    let plan = plan.map_err(|fault| into_error(fault, &node, proof.claim))?;
    proof.watch.observer.plan(&of_proof(&node, target, true));
    let sums = match proof.sums(&mut node, &plan) {
        Ok(tally) => Ok(tally),
        Err(Unproved { error: SyncError::Stopped, .. }) => {
            return Ok(proof.interrupted(&mut node));
        }
        // If a block is wrong, the join finds out which.
        Err(Unproved { error, may_be_blocks: true, .. }) => Err(error),
        Err(unproved) => return Err(unproved.error),
    };
    drop(plan);
    let hash = node.tree().node(target).hash;
    let (_locked, mut node, sources) = match &directory {
        None => (None, node, Vec::new()),
        Some(directory) => {
            let (locked, options) = released(node);
            let source = BlockSource::open(locked.blocks_path(), &options.network)?;
            (Some(locked), node_of_files(&options, directory)?, vec![source])
        }
    };
    let checked = scan_into_node(&mut node, &sources, proof.watch)
        .and_then(|()| check_blocks(&mut node, &hash, proof.watch));
    let Some(left) = SyncError::unless_stopped(checked)? else {
        return Ok(proof.interrupted(&mut node));
    };
    let tally = sums?;
    left.expect(&tally)?;
    let spilled_bytes = Some(left.spilled);
    Ok(Summary { spilled_bytes, ..summary(&mut node, proof.started, false) })
}

/// Shows the user what will be done, unless `place` has no room for it. The blocks have `bytes`
/// bytes.
fn begin(proof: &Proof, bytes: u64, lacking: u32, place: &Path) -> Result<(), StoreError> {
    if let Some(lack) = space::lack_for_proof(place, bytes)? {
        return Err(lack.into_error_of_proof());
    }
    proof.watch.observer.note(&format!(
        "There is no undo data for block {lacking}, so this takes two steps: the first checks \
         that {} fits these blocks; the second checks every rule and script in them, by a join \
         with temporary files of usually {} and at most {} in {}",
        proof.claim.path().display(),
        size(space::usual_spill_bytes(bytes)),
        size(space::spill_bytes(bytes)),
        place.display()
    ));
    Ok(())
}

/// Closes a node whose blocks will be read as a source. Returns its directory, which stays locked,
/// and its options.
fn released(node: Node) -> (DataDir, Options) {
    let options = node.options().clone();
    (node.close(), options)
}

/// The coins that the blocks leave unspent, as the join counted them.
struct Left {
    coins: Option<i64>,
    /// The sum of the coins in satoshi; `None` unless one join connected all blocks.
    amount: Option<u64>,
    /// Bytes that were written to temporary files.
    spilled: u64,
}

impl Left {
    /// Compares the coins with the coins that the sums have counted.
    fn expect(&self, tally: &Tally) -> Result<(), SyncError> {
        let Self { coins, amount, .. } = self;
        let is_same = *coins == Some(tally.coins as i64)
            && amount.is_none_or(|amount| amount == tally.amount);
        if is_same {
            Ok(())
        } else {
            Err(SyncError::Input(format!(
                "two passes over the same blocks differ: one leaves {} coins of {} satoshi, the \
             other {coins:?} of {amount:?}. If the block files have not changed meanwhile, \
             this is a bug in Apus; please report it",
                tally.coins, tally.amount
            )))
        }
    }
}

/// Checks every rule and script of all blocks up to the one with this hash.
///
/// # Errors
/// A block is missing, invalid or damaged; the disk fails; or `watch` asks to stop.
fn check_blocks(node: &mut Node, hash: &Hash, watch: Watch) -> Result<Left, SyncError> {
    let target = node.tree().find(hash).ok_or_else(|| {
        SyncError::Input(format!(
            "block {hash} is no longer in the block files: run the command again"
        ))
    })?;
    bound_cache(node);
    let mut course = Course::default();
    let goal = Goal::Exactly(target);
    join_towards(node, goal, target, &mut course, watch)?;
    activate(node, goal, watch)?;
    assert_eq!(node.chainstate().best_block()?, Some(*hash), "every block up to it is connected");
    let Course { left_amount: amount, spilled_bytes, .. } = course;
    Ok(Left { coins: node.ledger().coins, amount, spilled: spilled_bytes.unwrap_or(0) })
}
