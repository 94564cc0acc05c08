//! From the tip to the best valid chain, over any reorganisation (Core's `ActivateBestChain`).

use std::collections::VecDeque;

use apus_chain::BlockId;
use apus_disk::StoreError;
use apus_node::assumevalid::Assumed;
use apus_node::block::step::Step;
use apus_node::block_peers::Wanted;
use apus_node::error::SyncError;
use apus_node::mend::take_another_copy;
use apus_node::opened::{Node, observe, refusal, step};
use apus_node::outcome::Activated;
use apus_node::progress::{Phase, Watch};
use apus_peers::store_left;

use super::connect::{Connector, Outcome};
use super::disconnect::{Disconnected, disconnect_tip};
use super::pipeline::with_workers;

/// Makes the best valid chain active and commits it. After an error of the disk nothing more is
/// written, since the cache may hold half a block; but where the disk is full, what was connected
/// until then is committed if there is room for that.
pub fn activate_best_chain(node: &mut Node, watch: Watch) -> Result<Activated, SyncError> {
    let activated = activate(node, watch).and_then(|activated| {
        let (shared, ledger) = node.split();
        ledger.commit(&shared, watch.observer)?;
        // No coins wait to be written any more.
        shared.files.keep_free(0);
        ledger.prune(&shared)?;
        Ok(activated)
    });
    activated.map_err(|error| with_kept(error, node.ledger.committed_height).into())
}

/// Adds to the error of a full disk what is kept, and what to do.
fn with_kept(mut error: StoreError, height: u32) -> StoreError {
    if error.is_full() {
        error.what += &format!(
            " (the disk is full: free some space, and the same command carries on from height {}; \
             what is below is kept)",
            height + 1
        );
    }
    error
}

fn activate(node: &mut Node, watch: Watch) -> Result<Activated, StoreError> {
    loop {
        node.forget_pruned();
        let Some(best) = node.tree.best_candidate() else { break };
        if !node.tree.is_better(best, node.tip()) || is_high_enough(node) {
            break;
        }
        let fork = node.ledger.active.fork(&node.tree, best).unwrap_or(node.tree.genesis());
        if disconnect_to(node, fork, watch)? == Activated::Stopped {
            return Ok(Activated::Stopped);
        }
        let steps = steps(node, fork, best);
        let (from, to) = (node.tree.node(fork).height, node.tree.node(best).height);
        tracing::debug!(
            target: "validation",
            from, to, best = %node.tree.node(best).hash, "connecting a chain"
        );
        if steps.is_empty() {
            break;
        }
        let mut outcome = connect(node, &steps, watch)?;
        if !matches!(outcome, Outcome::Done | Outcome::Full(_)) {
            match store_left(node) {
                Err(error) if error.is_full() => outcome = Outcome::Full(error),
                stored => stored?,
            }
        }
        match outcome {
            Outcome::Done => {}
            Outcome::Stopped => return Ok(Activated::Stopped),
            Outcome::Invalid(step, error) => {
                let refusal = refusal(node, &step, error.to_string());
                tracing::debug!(target: "validation", %refusal, "refused");
                node.refusals.push(refusal);
                node.mark_failed(step.id);
            }
            Outcome::Gone(step) => node.tree.mark_missing(step.id),
            Outcome::Full(error) => {
                let (shared, ledger) = node.split();
                // Only the first error is reported.
                let _ = ledger.commit(&shared, watch.observer);
                return Err(error);
            }
            Outcome::Damaged(step, what) => {
                if let Err(error) = take_another_copy(node, step, &what, watch.stop) {
                    // No block is in flight: those connected before this one are kept.
                    let (shared, ledger) = node.split();
                    ledger.commit(&shared, watch.observer)?;
                    return Err(error);
                }
            }
        }
    }
    Ok(Activated::Best)
}

/// Disconnects the blocks above the last one that the active chain has in common with the branch of
/// `target`, and commits that block as the tip.
pub fn return_to_fork(
    node: &mut Node,
    target: BlockId,
    watch: Watch,
) -> Result<Activated, SyncError> {
    let fork = node.ledger.active.fork(&node.tree, target).unwrap_or(node.tree.genesis());
    if node.tip() == fork {
        return Ok(Activated::Best);
    }
    let activated = disconnect_to(node, fork, watch)?;
    let (shared, ledger) = node.split();
    ledger.commit(&shared, watch.observer)?;
    Ok(activated)
}

/// Disconnects the tip until it is `fork`.
fn disconnect_to(node: &mut Node, fork: BlockId, watch: Watch) -> Result<Activated, StoreError> {
    check_undo_data(node, fork)?;
    while node.tip() != fork {
        if watch.is_stopped() {
            return Ok(Activated::Stopped);
        }
        observe(watch.observer, Phase::Disconnecting, node);
        let (shared, ledger) = node.split();
        if shared.cache.bytes() > ledger.cache_bytes_max {
            ledger.commit(&shared, watch.observer)?;
        }
        match disconnect_tip(&shared, ledger)? {
            Disconnected::Done => ledger.show_tip(&shared, watch.observer),
            Disconnected::Damaged(step, what) => take_another_copy(node, step, &what, watch.stop)?,
        }
    }
    Ok(Activated::Best)
}

/// An error if a block above `fork` cannot be disconnected, before any is.
fn check_undo_data(node: &Node, fork: BlockId) -> Result<(), StoreError> {
    let from = node.tree.node(fork).height + 1;
    let top = node.tree.node(node.tip()).height;
    let lacks = |height: &u32| {
        let id = node.ledger.active.at(*height)?;
        let record = node.record(id);
        let what = match (record.block_pos(), record.undo_pos()) {
            (None, _) => "the block is pruned",
            (_, None) if node.ledger.pruning.is_pruned => "its undo data is not stored",
            (_, None) => "its undo data is not stored; `apus reindex` writes it",
            _ => return None,
        };
        Some((id, what))
    };
    let Some((id, what)) = (from..=top).find_map(|height| lacks(&height)) else {
        return Ok(());
    };
    let block = node.tree.node(id);
    Err(StoreError::new(
        node.dir.blocks_path(),
        format!(
            "block {} at height {} is to be disconnected, but {what}",
            block.hash, block.height
        ),
    ))
}

fn is_high_enough(node: &Node) -> bool {
    let height = node.tree.node(node.tip()).height;
    node.options.stop_at_height.is_some_and(|stop_at| height >= stop_at)
}

/// The blocks after `fork` up to `best`, or up to the height to stop at; none above one that is not
/// available.
pub fn steps(node: &Node, fork: BlockId, best: BlockId) -> Vec<Step> {
    let top = node.options.stop_at_height.unwrap_or(u32::MAX).min(node.tree.node(best).height);
    let Some(top) = node.tree.ancestor(best, top) else { return Vec::new() };
    let branch = node.tree.ancestors(top).take_while(|id| *id != fork);
    let mut branch: Vec<BlockId> = branch.collect();
    branch.reverse();
    // Nothing is connected above a block that cannot be had.
    branch.into_iter().map_while(|id| step(node, id)).collect()
}

/// Connects the blocks of `steps`, the first of which builds on the tip.
pub fn connect(node: &mut Node, steps: &[Step], watch: Watch) -> Result<Outcome, StoreError> {
    let (threads, save_every) = (node.options.threads, node.options.save_every);
    let assumed = Assumed::new(node.options.assumevalid, &node.tree);
    let last = steps.last().map_or(node.tip(), |step| step.id);
    node.times.follow(&node.tree, last);
    let times = node.times.clone();
    let (shared, ledger) = node.split();
    let connect = || {
        with_workers(&shared, steps, threads, watch.stop, |workers| {
            let mut connector = Connector {
                shared: &shared,
                steps,
                ledger,
                assumed,
                times,
                watch,
                save_every,
                weight_total: steps.iter().map(|step| step.weight).sum(),
                weight_done: 0,
                in_flight: VecDeque::new(),
                connected: 0,
                retired: 0,
                stalled_since: None,
            };
            connector.run(workers)
        })
    };
    let wanted = Wanted { gives_up: true, ..Wanted::of([steps]) };
    shared.serve(wanted, watch.observer, connect)
}
