//! The end of a join: checks the balance, then commits block files, undo files, block index, tables
//! and best block, in an order that is safe if a crash interrupts it anywhere.

use apus_coins::Bulk;
use apus_consensus::subsidy;
use apus_disk::StoreError;
use apus_node::coin_count::CoinsAt;
use apus_node::commit::Ledger;
use apus_node::shared::Shared;
use apus_progress::clock::Stage;
use apus_store::BlockStatus;
use apus_wire::Network;

use super::plan::JoinPlan;
use super::state::{JoinState, PairCounts};

/// Checks the balance: every output created is spent, replaced or left, every input spends one
/// coin, and no more satoshi are left than can exist.
///
/// # Errors
/// The balance does not hold, which is not the fault of a block.
pub fn balance(state: &JoinState, plan: &JoinPlan, network: &Network) -> Result<(), String> {
    let read = state.read();
    let pair = &state.paired.counts;
    let gone = read.inside + read.early + pair.taken + pair.overwritten;
    let created = read.created;
    let left = pair.left;
    if created != gone + left {
        return Err(format!("of {created} outputs {gone} are gone and {left} left"));
    }
    let spent = read.inside + read.early + pair.taken + pair.base_taken;
    if read.counts.inputs != spent {
        return Err(format!("{} inputs have spent {spent} coins", read.counts.inputs));
    }
    let heights = plan.first_height..plan.end_height();
    let subsidies = heights.map(|height| subsidy(height, network).unsigned_abs());
    let supply = subsidies.sum::<u64>().saturating_add(pair.base_amount);
    if pair.left_amount <= supply {
        Ok(())
    } else {
        Err(format!("{} satoshi are left of at most {supply} that could be", pair.left_amount))
    }
}

/// Makes the last block of the plan the best block on disk: writes the block index, and then
/// commits the tables with the best block.
pub fn commit(
    shared: &Shared,
    ledger: &mut Ledger,
    plan: &JoinPlan,
    state: &JoinState,
    bulk: Bulk,
) -> Result<(), StoreError> {
    let _timer = shared.clock.start(Stage::Commit);
    for step in &plan.steps {
        if !ledger.record(step.id).status.is_valid(BlockStatus::BLOCK_VALID_SCRIPTS) {
            ledger.change(step.id).status.raise_validity(BlockStatus::BLOCK_VALID_SCRIPTS);
        }
    }
    for undo in &state.undo {
        let id = plan.steps[undo.index as usize].id;
        ledger.records.note_undo(shared.files, shared.tree, id, undo.at)?;
    }
    let coins = ledger.coins.map(|before| coins_after(before, &state.paired.counts));
    let best = plan.chain.tip().expect("a plan has blocks");
    let left = ledger.leave_snapshot(shared.tree, best);
    let best = shared.tree.node(best).hash;
    if let Some(coins) = coins {
        ledger.write_coin_count(shared, CoinsAt { block: best, coins: coins as u64 })?;
    }
    ledger.write_index(shared.files, shared.tree)?;
    if let Some(left) = left {
        left.give_up()?;
    }
    bulk.commit(&best)?;
    for (index, step) in plan.steps.iter().enumerate() {
        let with_scripts = !plan.assumed.covers(shared.tree, step.id);
        ledger.done.checked.note_connected(plan.height(index), with_scripts);
    }
    let counts = ledger.done.counts.plus(state.read().counts);
    ledger.stand_at(shared, plan.chain.clone(), coins, counts);
    Ok(())
}

fn coins_after(before: i64, counts: &PairCounts) -> i64 {
    before + counts.left as i64 - counts.base_taken as i64 - counts.base_overwritten as i64
}
