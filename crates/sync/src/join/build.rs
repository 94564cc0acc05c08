//! Runs a join from its beginning to its commit, and handles blocks that turn out to be damaged or
//! invalid.

use std::sync::atomic::AtomicBool;

use apus_chain::BlockId;
use apus_coins::Bulk;
use apus_disk::StoreError;
use apus_leveldb::RunKind;
use apus_node::block::step::Step;
use apus_node::block_peers::{GivesUp, Wanted};
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::mend::take_another_copy;
use apus_node::opened::Node;
use apus_node::shared::Shared;
use apus_peers::store_left_after;
use apus_progress::outcome::Counts;
use apus_progress::{Observer, Watch};

use super::commit::{balance, commit};
use super::coordinator::Coordinator;
use super::plan::JoinPlan;
use super::workspace::Workspace;
use apus_node::sealed::begun_again;

/// How a join ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joined {
    /// The target is the tip.
    Done {
        /// The amount, in satoshi, of all outputs that the blocks of the join created and did not
        /// spend.
        left_amount: u64,
    },
    /// The block at this height is missing, damaged or invalid, or cannot be judged out of order.
    /// The block below it is the tip.
    Below(u32),
}

/// Joins the blocks after the tip of `node` up to its descendant `target`, and makes `target` the
/// tip. After an interruption, the next call carries on from the saved work. Adds the bytes that it
/// writes to temporary files to `spilled`.
///
/// # Errors
/// The disk fails, or `watch` asks to stop. No coins are committed then; stored blocks are kept.
pub fn build(
    node: &mut Node,
    target: BlockId,
    spilled: &mut u64,
    watch: Watch,
) -> Result<Joined, SyncError> {
    empty_cache(node, watch.observer)?;
    let mut plan = JoinPlan::new(node, target);
    let mut below = None;
    if plan.end_height() <= node.tree().node(target).height {
        below = Some(plan.end_height());
    }
    if plan.steps.is_empty() {
        Workspace::forget(node)?;
        return Ok(below.map_or(Joined::Done { left_amount: 0 }, Joined::Below));
    }
    let mut work = Workspace::begin(node, &plan, watch.observer)?;
    let mut read_before = work.state.read().counts;
    let mut is_second = false;
    let mut stored = Ok(());
    while !plan.steps.is_empty() {
        let joined = attempt(node, &mut plan, &mut work, watch);
        let left = store_left_after(node, 0, joined.as_ref().err());
        let joined = match left {
            // A join that is done removes its files before the error is reported.
            Err(error) if joined.is_ok() => {
                stored = Err(error);
                joined
            }
            Err(error) => Err(Fault::Store(error)),
            Ok(()) => joined,
        };
        let height = match joined {
            Ok(()) => break,
            Err(Fault::Stopped) => {
                *spilled += work.spilled_bytes();
                // Scripts are checked only in the last pass.
                let read = Counts { scripts: 0, ..work.state.read().counts };
                let done = &mut node.ledger_mut().done;
                done.counts = done.counts.plus(read.since(read_before));
                return Err(SyncError::Stopped);
            }
            // Starts over only once: a disk that damages the files again would do so forever.
            Err(Fault::Store(error)) if work.is_damaged(&error) && !is_second => {
                watch.observer.note(&begun_again(&error, "the join"));
                is_second = true;
                *spilled += work.spilled_bytes();
                work = begin_again(node, &mut plan, work, watch.observer)?;
                read_before = work.state.read().counts;
                continue;
            }
            Err(Fault::Store(error)) => return Err(work.fail(node.options(), &plan, error).into()),
            Err(Fault::Unjudged(height)) => height,
            Err(Fault::Damaged(step, what)) => {
                match another_copy(node, &mut plan, step, &what, watch.stop) {
                    None => continue,
                    Some(height) => height,
                }
            }
            Err(fault) => return Err(fault.into_error(node)),
        };
        tracing::debug!(target: "validation", height, "the join ends below this block");
        below = Some(height);
        plan.end_below(node.tree(), height);
        work.state.end_at(plan.steps.len());
    }
    *spilled += work.spilled_bytes();
    let left_amount = work.state.paired.counts.left_amount;
    work.remove(node.options())?;
    stored?;
    Ok(below.map_or(Joined::Done { left_amount }, Joined::Below))
}

/// Gives up what the passes have done so far, and begins again with the first one.
fn begin_again(
    node: &mut Node,
    plan: &mut JoinPlan,
    work: Workspace,
    observer: &dyn Observer,
) -> Result<Workspace, StoreError> {
    drop(work);
    Workspace::forget(node)?;
    plan.find_places_again(node);
    Workspace::begin(node, plan, observer)
}

/// Commits the changes in the coins cache and empties it, since a join writes coins to the tables
/// directly.
fn empty_cache(node: &mut Node, observer: &dyn Observer) -> Result<(), StoreError> {
    let (shared, ledger) = node.split();
    if shared.cache.sizes().changed > 0 {
        ledger.commit(&shared, observer)?;
    }
    node.drop_cache();
    Ok(())
}

/// Replaces a damaged block with another copy, if there is one. Returns `None` if the join can
/// carry on from what was done so far, or else the height of the block that it must end below.
fn another_copy(
    node: &mut Node,
    plan: &mut JoinPlan,
    step: Step,
    what: &str,
    stop: &AtomicBool,
) -> Option<u32> {
    let mended = take_another_copy(node, step, what, stop);
    tracing::debug!(target: "validation", what, is_mended = mended.is_ok(), "a block is damaged");
    match (plan.find_places_again(node), mended) {
        (None, Ok(())) => None,
        (missing, _) => Some(missing.or(plan.height_of(step)).unwrap_or(plan.first_height)),
    }
}

/// Runs all passes over the blocks of the plan, and commits the result.
fn attempt(
    node: &mut Node,
    plan: &mut JoinPlan,
    work: &mut Workspace,
    watch: Watch,
) -> Result<(), Fault> {
    {
        let (shared, ledger) = node.split();
        let spans = work.state.spans.iter().map(|span| &plan.steps[span.next..span.end]);
        // A branch may exist only as headers, of which a chain without them says nothing.
        let wanted = Wanted { gives_up: GivesUp::Disputed, ..Wanted::of(spans) };
        let mut coordinator = Coordinator::new(&shared, ledger, plan, work, watch);
        shared.serve(wanted, watch.observer, || coordinator.read_all())?;
    }
    plan.find_places_again(node);
    let (shared, ledger) = node.split();
    let bulk = begin_tables(&shared, work)?;
    let mut coordinator = Coordinator::new(&shared, ledger, plan, work, watch);
    // Connections to peers are kept alive, although no block is wanted.
    let checked = shared.serve(Wanted::default(), watch.observer, || {
        coordinator.pair_all(&bulk)?;
        coordinator.check_all(&bulk)
    });
    if let Err(fault) = checked {
        match fault {
            Fault::Unjudged(_) => bulk.discard(),
            Fault::Damaged(..) => work.state.paired.tables = bulk.suspend()?,
            // Tables that saved work names are kept. The others are removed, since no run will
            // carry on with them.
            _ => {}
        }
        return Err(fault);
    }
    // If the balance does not hold, Apus has a bug, and nothing is committed.
    balance(&work.state, plan, shared.network).expect("the balance holds");
    commit(&shared, ledger, plan, &work.state, bulk)?;
    Ok(())
}

/// Begins, or resumes, the tables of unspent coins: those of a new UTXO set, or changes to the
/// existing one.
fn begin_tables<'a>(shared: &Shared<'a>, work: &mut Workspace) -> Result<Bulk<'a>, StoreError> {
    let chainstate = shared.chainstate;
    let tables = &work.state.paired.tables;
    let kind = if chainstate.is_empty() { RunKind::Replaces } else { RunKind::Adds };
    match chainstate.resume(kind, tables) {
        Err(error) if !tables.is_empty() && error.source.is_none() => {
            tracing::warn!("partitions are matched again: {error}");
            chainstate.remove_pending(tables)?;
            work.state.begin_pairing(work.layout.partitions());
            chainstate.resume(kind, &[])
        }
        result => result,
    }
}

/// Gives up an interrupted join, and removes what it has left.
pub fn forget(node: &mut Node) -> Result<(), StoreError> {
    Workspace::forget(node)
}
