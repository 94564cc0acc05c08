//! One SwiftSync from beginning to end, on one branch.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_chain::BlockId;
use apus_node::checked::Checked;
use apus_node::coin_count::CoinsAt;
use apus_node::coin_tables::{Tables, WRITERS_PER_CORE, Writing};
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::opened::Node;
use apus_node::shared::Shared;
use apus_progress::marks::Mark;
use apus_progress::outcome::Counts;
use apus_progress::{Phase, Progress, Watch};

use super::context::Context;
use super::coordinator::{Coordinator, Saving};
use super::correction::{correct, refuse_wrong_hints};
use super::directory::{DIRECTORY, remove_directory, saved_path};
use super::finish::{commit, prove};
use super::opened_claim::{Opened, Reading};
use super::plan::{Mode, SwiftPlan, UNDO_BLOCKS_MIN};
use super::resume::{SwiftState, Workspace, begin, new_salt};
use super::tally::Tally;
use crate::claim::Claim;

/// Share of the memory for cached coins, in per cent, that a snapshot's coins may take until they
/// are proved. The rest is for the coins that will be written.
const SNAPSHOT_PERCENT: usize = 30;

/// How an attempt has ended.
pub(super) enum Ended {
    /// The chainstate is built and committed.
    Committed,
    /// No peer has sent the coins that these blocks spend. All blocks are stored, and the work on
    /// the others is saved.
    LacksCoins(Vec<BlockId>),
}

/// Builds the chainstate up to the plan's target, and makes the target the best block. Continues
/// from the saved work of an interrupted run. `corrects` says whether hints and undo
/// data are corrected.
///
/// # Errors
/// The hints, the snapshot, a block or undo data is wrong, the disk fails, or `watch` asks to stop.
/// No coins are committed then; stored blocks are kept.
pub(super) fn attempt(
    node: &mut Node,
    claim: &Claim,
    plan: &SwiftPlan,
    corrects: bool,
    watch: Watch,
) -> Result<Ended, Fault> {
    let built = build_all(node, claim, plan, corrects, watch);
    if matches!(built, Err(Fault::Stopped)) {
        // Blocks that peers have sent are noted in the index, so that they need not be downloaded
        // again.
        let (shared, ledger) = node.split();
        ledger.write_index(shared.files, shared.tree)?;
    }
    built
}

/// Does what [`attempt`] does, but does not write the block index when it is stopped.
fn build_all(
    node: &mut Node,
    claim: &Claim,
    plan: &SwiftPlan,
    corrects: bool,
    watch: Watch,
) -> Result<Ended, Fault> {
    let directory = node.dir().path().join(DIRECTORY);
    let disk = node.dir().disk().clone();
    let options = node.options().clone();
    let (work, mut state) = begin(node, claim, plan, &directory, watch)?;
    let reading = Reading {
        height: plan.chain.height().unwrap_or(0),
        threads: node.options().threads,
        memory: node.options().dbcache_bytes / 100 * SNAPSHOT_PERCENT,
        beside: directory.join("snapshot"),
        watch,
    };
    let opened = Opened::open(claim, &reading)?;
    let every = node.options().save_every;
    let before = state.gathered.tally.counts;
    let (shared, ledger) = node.split();
    let mut context = Context::new(&shared, opened.unspent(), plan, &work.salt, &state.done);
    context.keeps = true;
    context.corrects = corrects;
    context.note_earlier(std::mem::take(&mut state.wrong_hints));
    context.survivors = opened.sorted().is_none().then_some(&work.survivors);
    context.recent = work.recent.as_ref().filter(|recent| recent.wants_any());
    tracing::debug!(
        target: "validation",
        mode = ?plan.mode, blocks = context.todo().len(), "working through blocks"
    );
    let saving = Saving { work: &work, disk: &disk, path: saved_path(&directory), every };
    let mut coordinator = Coordinator::new(&context, ledger, state, watch.observer, Some(saving));
    let tables = match opened.sorted() {
        None => None,
        Some(pieces) => {
            let bulk = shared.chainstate.bulk()?;
            Some(Tables::of_snapshot(pieces, bulk))
        }
    };
    let writers = table_writers(&shared, &work, opened.coins());
    let height = plan.chain.height().unwrap_or(0);
    let report = Progress { height, ..Progress::of(Phase::WritingCoins) }.share_to(watch.observer);
    let writing = Writing { writers, report: &report, stop: watch.stop };
    let mut all_done = false;
    let mut run = |failed: &AtomicBool| {
        let stops = || watch.is_stopped() || failed.load(Relaxed);
        let run = || coordinator.run(work.share.workers, stops);
        match shared.serve(context.wanted(), watch.observer, run) {
            Ok(()) => all_done = true,
            Err(Fault::Stopped) => return Ok(None),
            Err(fault) => return Err(fault),
        }
        Ok(Some(()))
    };
    let finished = match &tables {
        Some(tables) => tables.write_beside(writing, run)?,
        None => run(&AtomicBool::new(false))?,
    };
    let lacking = coordinator.take_lacking();
    if finished.is_some() && !lacking.is_empty() {
        coordinator.save()?;
        let (state, ledger) = coordinator.parts();
        let counts = state.gathered.tally.counts.since(before);
        ledger.done.counts = ledger.done.counts.plus(counts);
        return Ok(Ended::LacksCoins(lacking));
    }
    let finished = finished.ok_or(Fault::Stopped).and_then(|()| {
        if corrects {
            correct(&mut coordinator, &context, (claim, &options), &work, watch)
        } else {
            refuse_wrong_hints(&context)
        }
    });
    let completed = finished.and_then(|()| {
        let (state, ledger) = coordinator.parts();
        opened.assert_all_met(&state.gathered.tally);
        complete(&context, ledger, &work, state, before, tables, writing)
    });
    // All blocks are done. Gathered coins are dropped as they are written, so only the work saved
    // before is whole. Coins of a snapshot are still in its file.
    let is_worth_a_save = all_done && opened.sorted().is_some();
    if is_worth_a_save && matches!(completed, Err(Fault::Stopped)) {
        coordinator.save()?;
    }
    completed?;
    work.survivors.destroy()?;
    remove_directory(&disk, &directory)?;
    Ok(Ended::Committed)
}

/// Returns the number of threads that may write the tables of this many coins.
fn table_writers(shared: &Shared, work: &Workspace, coins: u64) -> usize {
    work.share.table_writers(shared.pool.current_num_threads() * WRITERS_PER_CORE, coins)
}

/// Proves the sums of all blocks, and commits the result. `before` counts the work of earlier runs.
fn complete(
    context: &Context,
    ledger: &mut Ledger,
    work: &Workspace,
    state: &mut SwiftState,
    before: Counts,
    tables: Option<Tables>,
    writing: Writing,
) -> Result<(), Fault> {
    let SwiftState { gathered, undo, done, stripped_below, put_off, .. } = state;
    let shared = context.shared;
    let plan = context.plan;
    let tally = &gathered.tally;
    let blocks = plan.steps.len();
    assert_eq!((done.len(), tally.counts.blocks), (blocks, blocks as u64), "every block is summed");
    if tables.is_none() {
        let held = (work.survivors.count(), work.survivors.amount());
        assert_eq!(held, (tally.coins, tally.amount), "every unspent coin is held");
    }
    assert!(put_off.is_empty(), "every block is checked");
    prove(gathered, &context.unspent, plan, shared)?;
    tracing::debug!(target: "validation", coins = gathered.tally.coins, "proved");
    let height = plan.chain.height().unwrap_or(0);
    let undo_of_recent;
    let undo = match &work.recent {
        None => &undo[..],
        Some(recent) => {
            undo_of_recent =
                recent.write_undo(shared, &ledger.records.all, &context.times, writing.stop)?;
            &undo_of_recent
        }
    };
    let tally = &gathered.tally;
    let next = CoinsAt { block: shared.tree.node(plan.target).hash, coins: tally.coins };
    ledger.write_coin_count(shared, next)?;
    commit(shared, ledger, plan, undo, || {
        let tables = match tables {
            Some(tables) => tables,
            None => {
                let bulk = shared.chainstate.bulk()?;
                let writers = table_writers(shared, work, tally.coins);
                let tables = Tables::of_gathered(&work.survivors, bulk, writers);
                (writing.report)(0.0);
                tables.write_all(Writing { writers, ..writing })?;
                if writing.stop.load(Relaxed) {
                    return Err(Fault::Stopped);
                }
                assert!(work.survivors.has_left_out_all(), "spent outputs are held once");
                tables
            }
        };
        Ok(tables.into_bulk())
    })?;
    let coins = Some(tally.coins as i64);
    let counts = ledger.done.counts.plus(tally.counts.since(before));
    ledger.stand_at(shared, plan.chain.clone(), coins, counts);
    if plan.mode == Mode::AssumeValid {
        // Blocks before segwit have no witnesses.
        let stripped = shared.network.segwit_height.max(1)..*stripped_below;
        ledger.done.checked = Checked::outpoints_alone(height, UNDO_BLOCKS_MIN, stripped);
        (1..=height).for_each(|height| shared.marks.set(height, Mark::Proved));
    }
    tracing::debug!(target: "validation", "committed");
    Ok(())
}

/// Proves a claim with blocks that are all available, without storing anything.
pub fn verify(
    node: &mut Node,
    claim: &Claim,
    plan: &SwiftPlan,
    watch: Watch,
) -> Result<Tally, Fault> {
    let salt = new_salt(node.dir().path())?;
    let threads = node.options().threads;
    let opened = Opened::open(claim, &Reading::of_proof(node.options(), plan, watch))?;
    let (shared, ledger) = node.split();
    let context = Context::new(&shared, opened.unspent(), plan, &salt, &HashSet::new());
    let state = SwiftState::new(plan.aggregate, &salt);
    let mut coordinator = Coordinator::new(&context, ledger, state, watch.observer, None);
    coordinator.run(threads, || watch.is_stopped())?;
    let (SwiftState { gathered, .. }, _) = coordinator.parts();
    opened.assert_all_met(&gathered.tally);
    refuse_wrong_hints(&context)?;
    prove(gathered, &context.unspent, plan, &shared)?;
    Ok(gathered.tally.clone())
}
