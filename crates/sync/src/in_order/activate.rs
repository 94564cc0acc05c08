//! Makes the best valid chain active, through any reorganisation (Core's `ActivateBestChain`).

use std::collections::VecDeque;

use apus_chain::{BlockId, Tree};
use apus_disk::StoreError;
use apus_node::assumevalid::Assumed;
use apus_node::block::step::Step;
use apus_node::block_peers::{GivesUp, Wanted};
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::mend::take_another_copy;
use apus_node::opened::{Node, observe, refusal, step};
use apus_node::options::Options;
use apus_peers::store_left_after;
use apus_progress::outcome::Refusal;
use apus_progress::{Phase, Watch};

use super::connect::Connector;
use super::disconnect::disconnect_tip;
use super::pipeline::with_workers;
use super::ready::Branch;

/// The block to connect up to.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// The last block of the best valid chain, or its ancestor at `up_to` or at
    /// [`Options::stop_at_height`]. Blocks that break a rule are refused, and another chain becomes
    /// the best one.
    Best {
        /// The greatest height to connect.
        up_to: u32,
    },
    /// This block, which descends from the tip, whether or not it is on the best chain. A block
    /// that breaks a rule is an error.
    Exactly(BlockId),
}

impl Goal {
    /// The best valid chain, up to any height.
    pub const BEST: Self = Self::Best { up_to: u32::MAX };

    /// Returns the last block of the chain to connect next; `None` if the goal is reached.
    fn next(self, tree: &Tree, tip: BlockId, options: &Options) -> Option<BlockId> {
        match self {
            Self::Exactly(block) => Some(block).filter(|block| *block != tip),
            Self::Best { up_to } => {
                let height = tree.node(tip).height;
                let top = options.stop_at_height.unwrap_or(u32::MAX).min(up_to);
                let best = tree.best_candidate()?;
                (height < top && tree.is_better(best, tip)).then_some(best)
            }
        }
    }

    /// Returns the block at which the goal ends, in the chain up to `next`.
    fn top(self, tree: &Tree, options: &Options, next: BlockId) -> BlockId {
        let Self::Best { up_to } = self else { return next };
        let top = options.stop_at_height.unwrap_or(u32::MAX).min(up_to);
        let top = top.min(tree.node(next).height);
        tree.ancestor(next, top).unwrap_or(next)
    }
}

/// Makes the best valid chain active ([`activate`]), and deletes the block files that need not be
/// kept.
pub fn activate_best_chain(node: &mut Node, watch: Watch) -> Result<(), SyncError> {
    let activated = activate(node, Goal::BEST, watch);
    if matches!(activated, Ok(()) | Err(SyncError::Stopped)) {
        let (shared, ledger) = node.split();
        // No coins are left to be written, so no space need stay free.
        shared.keep_free(0);
        ledger.prune(&shared)?;
    }
    activated
}

/// Connects blocks in order up to the goal and commits them, also if `watch` asks to stop. After an
/// error of the disk nothing more is written, since the cache may hold half a block; but if the
/// disk is full, what was connected until then is committed if there is room.
///
/// # Errors
/// The disk fails; `watch` asks to stop; or a block on the way to [`Goal::Exactly`] is refused, or
/// no good copy of it is left.
pub fn activate(node: &mut Node, goal: Goal, watch: Watch) -> Result<(), SyncError> {
    let activated = match connect_branches(node, goal, watch) {
        activated @ (Ok(()) | Err(SyncError::Stopped)) => {
            let (shared, ledger) = node.split();
            ledger.commit(&shared, watch.observer).map_err(SyncError::from).and(activated)
        }
        failed => failed,
    };
    activated.map_err(|error| with_kept(error, node.ledger().committed_height()))
}

/// Adds to the error of a full disk what is kept, and what to do.
fn with_kept(mut error: SyncError, height: u32) -> SyncError {
    if let SyncError::Store(error) = &mut error
        && error.is_full()
    {
        error.what += &format!(
            " (the disk is full: free some space and run the same command, which continues from \
             height {}; the blocks below are kept)",
            height + 1
        );
    }
    error
}

/// Connects the branch that the goal asks for; if a block on it is refused or does not come, the
/// next best one, until none is better than the active chain.
fn connect_branches(node: &mut Node, goal: Goal, watch: Watch) -> Result<(), SyncError> {
    loop {
        node.forget_pruned();
        let Some(next) = goal.next(node.tree(), node.tip(), node.options()) else { return Ok(()) };
        let fork = node.ledger().active.fork(node.tree(), next).unwrap_or(node.tree().genesis());
        disconnect_to(node, fork, watch)?;
        let steps = steps(node, fork, goal.top(node.tree(), node.options(), next));
        let from = node.tree().node(fork).height;
        let to = node.tree().node(next).height;
        tracing::debug!(
            target: "validation",
            from, to, best = %node.tree().node(next).hash, "connecting a chain"
        );
        if steps.is_empty() {
            return match goal {
                Goal::Best { .. } => Ok(()),
                Goal::Exactly(last) => {
                    Err(no_good_copy(node.tree(), node.tip(), last, node.refusals()))
                }
            };
        }
        let Err(fault) = connect(node, &steps, watch) else { continue };
        match with_left_stored(node, fault)? {
            Fault::Rule(step, error) if matches!(goal, Goal::Best { .. }) => {
                let refusal = refusal(&node.shared(), &step, error.to_string());
                tracing::debug!(target: "validation", %refusal, "refused");
                node.refuse(refusal);
                node.mark_failed(step.id);
            }
            Fault::Gone(step) => {
                node.change_tree(|tree| tree.mark_missing(step.id));
                // The next branch might not come either: the rest is awaited between pipelines,
                // where no branch holds up another.
                if matches!(goal, Goal::Best { .. }) {
                    node.forget_claims();
                }
            }
            Fault::Full(error) => {
                let (shared, ledger) = node.split();
                // Only the first error is reported.
                let _ = ledger.commit(&shared, watch.observer);
                return Err(error.into());
            }
            Fault::Damaged(step, what) => {
                if let Err(error) = take_another_copy(node, step, &what, watch.stop) {
                    // No block is in flight: those connected before this one are kept.
                    let (shared, ledger) = node.split();
                    ledger.commit(&shared, watch.observer)?;
                    return Err(error.into());
                }
            }
            fault => return Err(fault.into_error(node)),
        }
    }
}

/// Returns the error for the block after the tip, on the way to `last`, if no good copy of it is
/// left.
fn no_good_copy(tree: &Tree, tip: BlockId, last: BlockId, refusals: &[Refusal]) -> SyncError {
    let next = tree.node(tip).height + 1;
    let block = tree.ancestor(last, next).map(|id| tree.node(id).hash);
    let refused = refusals.iter().rev().find(|refusal| refusal.block == block);
    let reason = format!("no good copy of this block, at height {next}, is left");
    let gone = Refusal { path: None, offset: None, block, reason };
    SyncError::Refused(refused.cloned().unwrap_or(gone))
}

/// Stores the blocks from peers that were not connected, and returns the fault to report.
fn with_left_stored(node: &mut Node, fault: Fault) -> Result<Fault, StoreError> {
    match store_left_after(node, 0, Some(&fault)) {
        Ok(()) => Ok(fault),
        Err(error) if error.is_full() => Ok(Fault::Full(error)),
        Err(error) => Err(error),
    }
}

/// Disconnects the blocks above the fork of the active chain and the branch of `target`, and
/// commits the fork as the tip, or the block reached when `watch` asks to stop.
pub fn return_to_fork(node: &mut Node, target: BlockId, watch: Watch) -> Result<(), SyncError> {
    let fork = node.ledger().active.fork(node.tree(), target).unwrap_or(node.tree().genesis());
    if node.tip() == fork {
        return Ok(());
    }
    let disconnected = disconnect_to(node, fork, watch);
    if matches!(disconnected, Ok(()) | Err(SyncError::Stopped)) {
        let (shared, ledger) = node.split();
        ledger.commit(&shared, watch.observer)?;
    }
    disconnected
}

/// Disconnects blocks until `fork` is the tip.
fn disconnect_to(node: &mut Node, fork: BlockId, watch: Watch) -> Result<(), SyncError> {
    check_undo_data(node, fork)?;
    while node.tip() != fork {
        if watch.is_stopped() {
            return Err(SyncError::Stopped);
        }
        observe(watch.observer, Phase::Disconnecting, node);
        let (shared, ledger) = node.split();
        if ledger.limit.is_over(shared.cache, 0) {
            ledger.commit(&shared, watch.observer)?;
        }
        match disconnect_tip(&shared, ledger) {
            Ok(()) => ledger.show_tip(&shared, watch.observer),
            Err(Fault::Damaged(step, what)) => take_another_copy(node, step, &what, watch.stop)?,
            Err(fault) => return Err(fault.into_error(node)),
        }
    }
    Ok(())
}

/// Fails if a block above `fork` cannot be disconnected, before any block is.
fn check_undo_data(node: &Node, fork: BlockId) -> Result<(), StoreError> {
    let from = node.tree().node(fork).height + 1;
    let top = node.tree().node(node.tip()).height;
    let lacks = |height: &u32| {
        let id = node.ledger().active.at(*height)?;
        let record = node.record(id);
        let what = match (record.block_pos(), record.undo_pos()) {
            (None, _) => "the block is pruned",
            (_, None) if node.ledger().pruning.is_pruned => "its undo data is not stored",
            (_, None) => "its undo data is not stored; `apus reindex` writes it",
            _ => return None,
        };
        Some((id, what))
    };
    let Some((id, what)) = (from..=top).find_map(|height| lacks(&height)) else {
        return Ok(());
    };
    let block = node.tree().node(id);
    Err(StoreError::new(
        node.dir().blocks_path(),
        format!("cannot disconnect block {} at height {}: {what}", block.hash, block.height),
    ))
}

/// Returns the blocks after `fork` up to `last`, or to the one before the first that is not
/// available.
pub(super) fn steps(node: &Node, fork: BlockId, last: BlockId) -> Vec<Step> {
    let branch = node.tree().ancestors(last).take_while(|id| *id != fork);
    let mut branch: Vec<BlockId> = branch.collect();
    branch.reverse();
    branch.into_iter().map_while(|id| step(node, id)).collect()
}

/// Connects the blocks of `steps`, the first of which builds on the tip.
pub fn connect(node: &mut Node, steps: &[Step], watch: Watch) -> Result<(), Fault> {
    let threads = node.options().threads;
    let save_every = node.options().save_every;
    let assumed = Assumed::new(node.options().assumevalid, node.tree());
    let last = steps.last().map_or(node.tip(), |step| step.id);
    let times = node.times_of_branch(last);
    let scripts_from = steps.partition_point(|step| assumed.covers(node.tree(), step.id));
    let (shared, ledger) = node.split();
    let weights = shared.weights(Phase::Connecting, steps, scripts_from);
    let branch = Branch { steps, assumed, times };
    let connect = || {
        with_workers(&shared, &branch, threads, watch.stop, |workers| {
            let mut connector = Connector {
                shared: &shared,
                steps,
                ledger,
                watch,
                save_every,
                weight_all: weights.iter().sum(),
                weight_done: 0,
                weights,
                in_flight: VecDeque::new(),
                taken: 0,
                retired: 0,
                stalled_since: None,
            };
            connector.run(workers)
        })?
    };
    let wanted = Wanted { gives_up: GivesUp::Near, ..Wanted::of([steps]) };
    shared.serve(wanted, watch.observer, connect)
}
