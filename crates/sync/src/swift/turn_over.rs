//! The correction of hints that are wrong about some outputs. Which they are is looked up in the
//! blocks, and the sums and the coins gathered so far are changed as if the hints had been right:
//! the proof is then the same.

use apus_coins::{Coin, SurvivorWriter};
use apus_disk::StoreError;
use apus_hash::Elements;
use apus_node::coin_differences::{CoinDifference, DifferenceKind, Differences};
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::options::Options;
use apus_node::sources::BlockOrigin;
use apus_progress::Watch;

use super::context::Context;
use super::coordinator::Coordinator;
use super::find_differences::{WrongCoin, WrongCoins, wrong_coins};
use super::hinted::WrongHint;
use super::plan::{Mode, SwiftPlan};
use super::resume::{SwiftState, Workspace};
use super::tally::push_coin;
use crate::claim::Claim;

/// Corrects the sums and the gathered coins where the hints are wrong, and warns of the outputs
/// that they are wrong about. Does nothing if they are wrong about too many, if the blocks are no
/// longer there, or if the hints are not to blame: the sums then stay unbalanced.
///
/// # Errors
/// A block cannot be read, the disk fails, or `watch` asks to stop.
pub(super) fn correct_hints(
    coordinator: &mut Coordinator,
    context: &Context,
    (claim, options): (&Claim, &Options),
    work: &Workspace,
    watch: Watch,
) -> Result<(), Fault> {
    let noted = context.take_wrong_hints().into_iter().map(WrongHint::into_difference);
    let mut wrong: Vec<CoinDifference> = noted.collect();
    let is_balanced = coordinator.parts().0.gathered.aggregate.is_balanced();
    let (_, ledger) = coordinator.parts();
    if !is_balanced && let Some(plan) = of_stored(context.plan, ledger) {
        // The blocks are read again, which takes as long as before.
        coordinator.save()?;
        let found = wrong_coins(context.shared, options, claim, &plan, watch)?;
        let WrongCoins { coins, are_more } = found.ok_or(Fault::Stopped)?;
        if !are_more {
            let (state, _) = coordinator.parts();
            wrong.extend(turn_over(coins, plan.mode, work, state)?);
        }
    }
    if !wrong.is_empty() {
        warn(claim, wrong);
    }
    Ok(())
}

/// Returns the fault if the block of a hint alone shows that the hint is wrong.
pub(super) fn refuse_wrong_hints(context: &Context) -> Result<(), Fault> {
    match context.take_wrong_hints().into_iter().next() {
        Some(wrong) => Err(wrong.into_fault()),
        None => Ok(()),
    }
}

/// Changes the sums in `state` and the gathered coins as if the hints had been right about these
/// coins, and returns those that they were wrong about.
fn turn_over(
    coins: Vec<WrongCoin>,
    mode: Mode,
    work: &Workspace,
    state: &mut SwiftState,
) -> Result<Vec<CoinDifference>, StoreError> {
    let mut survivors = SurvivorWriter::new(&work.survivors);
    let mut left_out = Vec::new();
    let mut turned_over = Vec::new();
    for coin in coins {
        let WrongCoin { outpoint, created: Some(created), kind } = &coin else { continue };
        match kind {
            DifferenceKind::Missing => {
                survivors.push(&outpoint.txid, outpoint.vout, &created.parts())?;
                state.gathered.tally.add_coin(created.amount);
                sum(state, mode, &coin, created, true);
            }
            // A worker that checks all rules has left this one out already.
            DifferenceKind::Spent(height) if mode == Mode::Full && *height == created.height => {
                continue;
            }
            DifferenceKind::Spent(_) => {
                left_out.push((*outpoint, created.amount));
                state.gathered.tally.remove_coin(created.amount);
                sum(state, mode, &coin, created, false);
            }
            _ => continue,
        }
        turned_over.push(coin.difference());
    }
    survivors.flush()?;
    drop(survivors);
    work.survivors.leave_out(&left_out);
    Ok(turned_over)
}

/// Takes an output that no block spends out of the sum of outputs created, by adding it to the
/// other sum; or adds one that a block spends.
fn sum(
    state: &mut SwiftState,
    mode: Mode,
    WrongCoin { outpoint, .. }: &WrongCoin,
    created: &Coin,
    is_unspent: bool,
) {
    let aggregate = &mut state.gathered.aggregate;
    match mode {
        Mode::AssumeValid if is_unspent => aggregate.spend_outpoints(&[outpoint.to_bytes()]),
        Mode::AssumeValid => aggregate.create_outpoints(&[outpoint.to_bytes()]),
        Mode::Full => {
            let mut elements = Elements::default();
            push_coin(&mut elements, outpoint, created);
            if is_unspent {
                aggregate.spend_many(&elements);
            } else {
                aggregate.create_many(&elements);
            }
        }
    }
}

/// Returns the plan with the blocks where they are stored now; `None` if one is not.
fn of_stored(plan: &SwiftPlan, ledger: &Ledger) -> Option<SwiftPlan> {
    let mut stored = plan.clone();
    for step in &mut stored.steps {
        if step.place == BlockOrigin::Peers {
            step.place = BlockOrigin::Stored(ledger.record(step.id).block_pos()?);
        }
    }
    Some(stored)
}

/// Warns that the hints are wrong about these outputs.
pub(super) fn warn(claim: &Claim, wrong: Vec<CoinDifference>) {
    let number = wrong.len();
    let named = Differences { coins: wrong, are_more: false };
    tracing::warn!(
        "{} is wrong about {number} output{}, which the blocks decide; the UTXO set is right, and \
         `apus hints create` makes hints that are:{named}",
        claim.path().display(),
        if number == 1 { "" } else { "s" },
    );
}
