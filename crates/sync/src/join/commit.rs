//! The end of a join: checks the balance, then commits block files, undo files, block index, tables
//! and best block, in an order that is safe if a crash interrupts it anywhere.

use apus_coins::Bulk;
use apus_disk::StoreError;
use apus_node::clock::Stage;
use apus_node::coin_count::CoinsAt;
use apus_node::commit::Ledger;
use apus_node::shared::Shared;
use apus_rules::subsidy;
use apus_store::BlockStatus;

use super::plan::Plan;
use super::state::{PairCounts, State};

/// Checks the balance: every output created is spent, replaced or left, every input spends one
/// coin, and no more satoshi are left than can exist.
///
/// # Panics
/// The balance does not hold, which is a bug in Apus and not the fault of a block; nothing is
/// committed.
pub(super) fn assert_balance(state: &State, plan: &Plan, shared: &Shared) {
    let (read, pair) = (state.read(), &state.paired.counts);
    let gone = read.inside + read.early + pair.taken + pair.overwritten;
    assert_eq!(read.created, gone + pair.left, "every output is spent, replaced or left");
    let spent = read.inside + read.early + pair.taken + pair.base_taken;
    assert_eq!(read.counts.inputs, spent, "every input has spent one coin");
    let heights = plan.first_height..plan.end_height();
    let subsidies = heights.map(|height| subsidy(height, shared.network).unsigned_abs());
    let supply = subsidies.sum::<u64>().saturating_add(pair.base_amount);
    assert!(
        pair.left_amount <= supply,
        "{} satoshi are left of at most {supply} that could be",
        pair.left_amount
    );
}

/// Makes the last block of the plan the best block on disk: writes the block index, and then
/// commits the tables with the best block.
pub(super) fn commit(
    shared: &Shared,
    ledger: &mut Ledger,
    plan: &Plan,
    state: &State,
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
    ledger.stand_at(plan.chain.clone(), coins, counts);
    Ok(())
}

fn coins_after(before: i64, counts: &PairCounts) -> i64 {
    before + counts.left as i64 - counts.base_taken as i64 - counts.base_overwritten as i64
}
