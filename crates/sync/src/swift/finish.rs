//! The end of a SwiftSync: the proof, and then the commit of block and undo files, index, tables
//! and best block, in an order in which a crash at any point does no harm.

use apus_coins::{Bulk, SnapshotError};
use apus_consensus::subsidy;
use apus_hash::Hash;
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::shared::Shared;
use apus_progress::clock::Stage;
use apus_store::BlockStatus;
use apus_swiftsync::HintsError;

use super::opened_claim::Unspent;
use super::plan::{Mode, SwiftPlan};
use super::tally::Gathered;
use super::undo::UndoWritten;

/// Proves that every output created and not claimed as unspent was spent exactly once, and that the
/// unspent outputs are worth at most all subsidies together. Two blocks with the same coinbase are
/// left to a sync in order.
pub(super) fn prove(
    gathered: &Gathered,
    claimed: &Unspent,
    plan: &SwiftPlan,
    shared: &Shared,
) -> Result<(), Fault> {
    let height = plan.chain.height().unwrap_or(0);
    if !gathered.aggregate.is_balanced() {
        return Err(unbalanced(claimed, plan, height));
    }
    let subsidies = (1..=height).map(|height| subsidy(height, shared.network).unsigned_abs());
    let supply: u64 = subsidies.sum();
    if gathered.tally.amount > supply {
        return Err(Fault::Chain(format!(
            "{} satoshi are unspent at height {height}, but only {supply} were issued: the blocks \
             are not valid, although they were assumed to be",
            gathered.tally.amount
        )));
    }
    match repeated(&gathered.tally.coinbases) {
        None => Ok(()),
        Some((txid, first, second)) => Err(Fault::Chain(format!(
            "the blocks at heights {first} and {second} have the same coinbase transaction \
             {txid}: only a sync in order can tell whether BIP30 allows it"
        ))),
    }
}

/// Returns the fault for sums that do not balance: the claim is wrong about some outputs.
fn unbalanced(claimed: &Unspent, plan: &SwiftPlan, height: u32) -> Fault {
    let or_undo = match plan.mode {
        Mode::AssumeValid => "",
        Mode::Full if plan.asks_for_coins() => ", or coins that peers have sent are wrong",
        Mode::Full => ", or undo data is wrong or that of a stale block",
    };
    match claimed {
        Unspent::Hints(_) => Fault::Hints(HintsError::new(format!(
            "up to height {height}, the outputs without a hint are not those that the blocks \
             spend: the hints are wrong, or for another chain{or_undo}"
        ))),
        Unspent::Snapshot(_) => Fault::Snapshot(SnapshotError::new(format!(
            "its coins are not those that the blocks up to height {height} leave unspent: some \
             coins are missing, or spent{or_undo}"
        ))),
    }
}

/// Returns a coinbase transaction that two blocks have in common, and their heights.
fn repeated(coinbases: &[(Hash, u32)]) -> Option<(Hash, u32, u32)> {
    let mut sorted = coinbases.to_vec();
    sorted.sort_unstable();
    let pair = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0)?;
    Some((pair[0].0, pair[0].1, pair[1].1))
}

/// Makes the target the best block on disk: writes the block index, calls `tables` to write the
/// unspent coins, and commits these with the best block.
pub(super) fn commit<'t>(
    shared: &Shared,
    ledger: &mut Ledger,
    plan: &SwiftPlan,
    undo: &[UndoWritten],
    tables: impl FnOnce() -> Result<Bulk<'t>, Fault>,
) -> Result<(), Fault> {
    let _timer = shared.clock.start(Stage::Commit);
    for step in &plan.steps {
        if !ledger.record(step.id).status.is_valid(BlockStatus::BLOCK_VALID_SCRIPTS) {
            ledger.change(step.id).status.raise_validity(BlockStatus::BLOCK_VALID_SCRIPTS);
        }
    }
    for UndoWritten { id, at } in undo {
        ledger.records.note_undo(shared.files, shared.tree, *id, *at)?;
    }
    let left = ledger.leave_snapshot(shared.tree, plan.target);
    ledger.write_index(shared.files, shared.tree)?;
    let bulk = tables()?;
    if let Some(left) = left {
        left.give_up()?;
    }
    let best = shared.tree.node(plan.target).hash;
    bulk.commit(&best).map_err(Fault::Store)
}
