//! The correction of hints and undo data that are wrong about some coins. Which they are is looked
//! up in the blocks. Blocks that spend coins about which undo data is wrong are checked once more,
//! with the coins that the blocks create. The sums and the coins gathered so far are changed as if
//! hints and undo data had been right: the proof is then the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use apus_chain::Tree;
use apus_coins::{Coin, SurvivorWriter};
use apus_disk::StoreError;
use apus_hash::Elements;
use apus_host::threads;
use apus_host::threads::Crew;
use apus_node::block::step::Step;
use apus_node::block::validate::{Validation, check_spends};
use apus_node::coin_differences::{CoinDifference, DifferenceKind, Differences};
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::options::Options;
use apus_node::shared::NEVER;
use apus_node::sources::BlockOrigin;
use apus_progress::{Phase, Progress, Watch};
use apus_store::FlatFilePos;
use apus_wire::OutPoint;

use super::context::Context;
use super::coordinator::Coordinator;
use super::find_differences::{Search, UndoPlaces, WrongCoin, WrongCoins};
use super::hinted::WrongHint;
use super::plan::{Mode, SwiftPlan};
use super::resume::{SwiftState, Workspace};
use super::tally::push_coin;
use super::undo;
use super::undo::{UndoAt, UndoWritten, read_coins};
use super::worker::validate;
use crate::claim::Claim;

/// Corrects the sums and the gathered coins where hints or undo data are wrong, checks the blocks
/// that were put off, and warns of the coins that hints and undo data are wrong about. Does nothing
/// if they are wrong about too many, if the blocks are no longer there, or if neither is to blame:
/// the sums then stay unbalanced.
///
/// # Errors
/// A block that was put off is invalid, or the coins that it spends are not found; a block cannot
/// be read, the disk fails, or `watch` asks to stop.
pub(super) fn correct(
    coordinator: &mut Coordinator,
    context: &Context,
    (claim, options): (&Claim, &Options),
    work: &Workspace,
    watch: Watch,
) -> Result<(), Fault> {
    let noted = context.wrong_hints().into_iter().map(WrongHint::into_difference);
    let mut wrong_hints: Vec<CoinDifference> = noted.collect();
    let mut wrong_undo = Vec::new();
    let (state, ledger) = coordinator.parts();
    let is_right = state.gathered.aggregate.is_balanced() && state.put_off.is_empty();
    if !is_right && let Some(plan) = of_stored(context.plan, ledger) {
        let places = undo_places(context, state);
        let undo = Some(&places).filter(|_| plan.mode == Mode::Full);
        // The blocks are read again, which takes as long as before.
        coordinator.save()?;
        let search = Search { shared: context.shared, options, plan: &plan, undo, watch };
        let WrongCoins { coins, are_more } = search.wrong_coins(claim)?.ok_or(Fault::Stopped)?;
        if !are_more {
            let threads = work.share.workers;
            let blocks = Blocks { context, plan: &plan, places: &places, threads, watch };
            let (state, ledger) = coordinator.parts();
            wrong_undo = blocks.check_again(&coins, state, ledger)?;
            if let Claim::Hints(_) = claim {
                wrong_hints.extend(turn_over(coins, plan.mode, work, state)?);
            }
        }
    }
    let (state, _) = coordinator.parts();
    if let Some(height) = state.put_off.first() {
        return Err(first_fault(context, *height));
    }
    if !wrong_hints.is_empty() {
        warn_of_hints(claim, wrong_hints);
    }
    if !wrong_undo.is_empty() {
        warn_of_undo(wrong_undo);
    }
    Ok(())
}

/// Returns the fault if the block of a hint alone shows that the hint is wrong.
pub(super) fn refuse_wrong_hints(context: &Context) -> Result<(), Fault> {
    match context.wrong_hints().into_iter().next() {
        Some(wrong) => Err(wrong.into_fault()),
        None => Ok(()),
    }
}

/// Returns where the data directory has the undo data that the sums were computed with.
fn undo_places(context: &Context, state: &SwiftState) -> UndoPlaces {
    let tree = context.shared.tree;
    let mut places = UndoPlaces::new();
    for (step, undo) in context.plan.steps.iter().zip(&context.plan.undo) {
        if let UndoAt::Stored(at) = undo {
            places.insert(tree.node(step.id).height, *at);
        }
    }
    for UndoWritten { id, at } in &state.undo {
        places.insert(tree.node(*id).height, *at);
    }
    places
}

/// Returns the fault for which the block at `height` was put off.
fn first_fault(context: &Context, height: u32) -> Fault {
    let shared = context.shared;
    let index = steps_by_height(shared.tree, context.plan)[&height];
    let step = context.plan.steps[index];
    let checked = shared.prepare(step, &NEVER).and_then(|prepared| {
        validate(context, index, &mut Some(prepared), &mut Vec::new()).map(drop)
    });
    checked.err().unwrap_or_else(|| Fault::Undo {
        id: step.id,
        path: context.plan.undo_copies.path(shared, context.plan.undo[index]),
        what: "it was damaged when it was first read".to_string(),
    })
}

/// Returns the indices of the plan's steps by height.
fn steps_by_height(tree: &Tree, plan: &SwiftPlan) -> HashMap<u32, usize> {
    let height = |(index, step): (usize, &Step)| (tree.node(step.id).height, index);
    plan.steps.iter().enumerate().map(height).collect()
}

/// The coins that one block spends and about which its undo data is wrong, by outpoint: as the
/// chain creates them, and as the undo data has them, if it can be used.
type Fixes<'a> = HashMap<OutPoint, (&'a Coin, Option<&'a Coin>)>;

/// Blocks whose undo data is corrected.
struct Blocks<'a> {
    context: &'a Context<'a>,
    /// The plan with the blocks where they are stored now.
    plan: &'a SwiftPlan,
    places: &'a UndoPlaces,
    /// Number of threads that check blocks.
    threads: usize,
    watch: Watch<'a>,
}

/// A block to check again.
struct Block<'a> {
    step: Step,
    height: u32,
    /// The number of the rev file that its undo data belongs in.
    file: u32,
    fixes: Fixes<'a>,
}

impl Blocks<'_> {
    /// Checks the blocks that spend one of these coins and the blocks that were put off, with the
    /// right coins. Changes the sums as if undo data had been right, writes undo data that is, and
    /// returns the coins that it was wrong about. A block for which a coin is not found stays put
    /// off.
    ///
    /// # Errors
    /// A block is invalid, the disk fails, or `watch` asks to stop. `state` is then as before.
    fn check_again(
        &self,
        coins: &[WrongCoin],
        state: &mut SwiftState,
        ledger: &Ledger,
    ) -> Result<Vec<CoinDifference>, Fault> {
        let blocks = self.to_check(coins, state, ledger);
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let written = self.write_undo(&blocks)?;
        let mut named = Vec::new();
        for (block, written) in blocks.iter().zip(written) {
            let Some(written) = written else { continue };
            sum_fixes(state, &block.fixes);
            state.undo.retain(|before| before.id != written.id);
            state.undo.push(written);
            state.put_off.remove(&block.height);
            let fixes = block.fixes.iter();
            named.extend(fixes.map(|(outpoint, fix)| difference(*outpoint, block.height, fix)));
        }
        Ok(named)
    }

    /// Returns the blocks to check again, in order of height.
    fn to_check<'c>(
        &self,
        coins: &'c [WrongCoin],
        state: &SwiftState,
        ledger: &Ledger,
    ) -> Vec<Block<'c>> {
        let mut by_height: BTreeMap<u32, Fixes> = BTreeMap::new();
        for height in &state.put_off {
            by_height.insert(*height, Fixes::new());
        }
        for WrongCoin { outpoint, created, wrong_undo, .. } in coins {
            // Undo data is not to blame for a coin that a later block creates.
            if let (Some(chain), Some((height, undo))) = (created, wrong_undo)
                && chain.height < *height
            {
                by_height.entry(*height).or_default().insert(*outpoint, (chain, undo.as_ref()));
            }
        }
        let steps = steps_by_height(self.context.shared.tree, self.plan);
        let mut blocks = Vec::new();
        for (height, fixes) in by_height {
            let step = self.plan.steps[steps[&height]];
            if let Some(FlatFilePos { file, .. }) = ledger.record(step.id).block_pos() {
                blocks.push(Block { step, height, file, fixes });
            }
        }
        blocks
    }

    /// Checks blocks on all threads, and writes undo data. Returns for each block where that is,
    /// and `None` for those for which a coin is not known.
    ///
    /// # Errors
    /// The first of the blocks that is invalid, the disk fails, or `watch` asks to stop.
    fn write_undo(&self, blocks: &[Block]) -> Result<Vec<Option<UndoWritten>>, Fault> {
        let next = AtomicUsize::new(0);
        let take = || {
            let at = next.fetch_add(1, Relaxed);
            blocks.get(at).map(|block| (at, block))
        };
        let work = |crew: &Crew<(usize, Result<Option<UndoWritten>, Fault>)>| {
            while !crew.is_halted()
                && !self.watch.is_stopped()
                && let Some((at, block)) = take()
            {
                crew.report((at, self.write_undo_of(block)));
            }
            Ok::<(), Fault>(())
        };
        self.report(0, blocks.len());
        let mut done = BTreeMap::new();
        let ended = threads::work_until_halt("correct", self.threads, work, |report| {
            let has_failed = matches!(report, Some((_, Err(_))));
            done.extend(report);
            self.report(done.len(), blocks.len());
            has_failed || self.watch.is_stopped()
        });
        ended.into_iter().collect::<Result<(), Fault>>()?;
        let is_complete = done.len() == blocks.len();
        // Threads take the blocks in order: those before one that is invalid were checked, too.
        let written: Vec<Option<UndoWritten>> = done.into_values().collect::<Result<_, Fault>>()?;
        if is_complete { Ok(written) } else { Err(Fault::Stopped) }
    }

    fn report(&self, done: usize, all: usize) {
        self.watch.observer.observe(&Progress {
            height: self.plan.chain.height().unwrap_or(0),
            blocks: done as u64,
            blocks_all: all as u64,
            fraction: done as f64 / all.max(1) as f64,
            ..Progress::of(Phase::CheckingAgain)
        });
    }

    /// Checks a block, and writes its undo data; returns `None` if one of its coins is not known.
    fn write_undo_of(&self, block: &Block) -> Result<Option<UndoWritten>, Fault> {
        let Some(checked) = self.check_block(block)? else { return Ok(None) };
        let written = undo::append(self.context.shared, block.step.id, block.file, checked.undo())?;
        Ok(Some(written))
    }

    /// Checks all rules and scripts of a block with its coins as the chain creates them; returns
    /// `None` if one of them is not known.
    fn check_block(&self, block: &Block) -> Result<Option<Validation>, Fault> {
        let Block { step, height, fixes, .. } = block;
        let step = *step;
        let shared = self.context.shared;
        let prepared = shared.prepare(step, &NEVER)?;
        let undo = match self.places.get(height) {
            Some(at) => read_coins(shared, step.id, *at, &prepared)?,
            None => None,
        };
        let mut coins = Vec::with_capacity(prepared.external.len());
        for (at, outpoint) in prepared.external.iter().enumerate() {
            let coin = match fixes.get(outpoint) {
                Some((chain, _)) => Some(*chain),
                None => undo.as_ref().map(|undo| &undo[at]),
            };
            let Some(coin) = coin else { return Ok(None) };
            coins.push(coin.clone());
        }
        let scripts = Some(shared.script_checks(step.id));
        check_spends(shared, step.id, prepared, coins, scripts, &self.context.times)
            .map(Some)
            .map_err(|refused| Fault::Rule(step, refused.error))
    }
}

/// Returns the difference of a coin that the block at `height` spends.
fn difference(
    outpoint: OutPoint,
    height: u32,
    (chain, undo): &(&Coin, Option<&Coin>),
) -> CoinDifference {
    let chain = (*chain).clone();
    let created = Some(chain.height);
    let kind = DifferenceKind::Undo { height, chain, undo: undo.cloned() };
    CoinDifference { outpoint, height: created, kind }
}

/// Adds the right coins to those that blocks spend, and takes out the wrong ones by adding them to
/// those that blocks create.
fn sum_fixes(state: &mut SwiftState, fixes: &Fixes) {
    let mut right = Elements::default();
    let mut wrong = Elements::default();
    for (outpoint, (chain, undo)) in fixes {
        push_coin(&mut right, outpoint, chain);
        if let Some(undo) = undo {
            push_coin(&mut wrong, outpoint, undo);
        }
    }
    state.gathered.aggregate.spend_many(&right);
    state.gathered.aggregate.create_many(&wrong);
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
        let WrongCoin { outpoint, created: Some(created), kind, .. } = &coin else { continue };
        match kind {
            DifferenceKind::Missing => {
                survivors.push(&outpoint.txid, outpoint.vout, &created.parts())?;
                state.gathered.tally.add_coin(created.amount);
                sum(state, mode, &coin, created, true);
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
fn warn_of_hints(claim: &Claim, wrong: Vec<CoinDifference>) {
    let number = wrong.len();
    let named = Differences { coins: wrong, are_more: false };
    tracing::warn!(
        "{} is wrong about {number} output{}, which the blocks decide; the UTXO set is right, and \
         `apus hints create` makes hints that are:{named}",
        claim.path().display(),
        if number == 1 { "" } else { "s" },
    );
}

/// Warns that undo data is wrong about these coins.
fn warn_of_undo(wrong: Vec<CoinDifference>) {
    let number = wrong.len();
    let named = Differences { coins: wrong, are_more: false };
    tracing::warn!(
        "undo data is wrong about {number} coin{} that blocks spend. These blocks were checked \
         with the coins of the chain, and have right undo data now:{named}",
        if number == 1 { "" } else { "s" },
    );
}
