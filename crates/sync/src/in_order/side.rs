//! Stores blocks from sources that are not part of the best chain.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_chain::BlockId;
use apus_consensus::CheckedBlock;
use apus_disk::StoreError;
use apus_host::threads::CHECKED_AT_ONCE;
use apus_node::block::step::Step;
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::mend::take_another_copy;
use apus_node::opened::{Node, refusal};
use apus_node::shared::Shared;
use apus_node::sources::{BlockBytes, BlockOrigin, Sources};
use apus_progress::clock::Stage;
use apus_progress::{Phase, Progress, Watch};
use rayon::prelude::*;

/// Stores the blocks of sources that are on side branches, or after a missing block, and that break
/// no rule that can be checked without coins, as Core does: a later block may make them part of the
/// best chain. If stopped, the blocks stored so far are in the block index.
pub fn store_side_branches(node: &mut Node, watch: Watch) -> Result<(), SyncError> {
    let ids: Vec<BlockId> = node
        .tree()
        .ids()
        // A block whose transactions were counted is stored, or was pruned and is not stored again.
        .filter(|id| !node.tree().node(*id).failed && node.record(*id).tx_count == 0)
        .filter(|id| {
            node.options().stop_at_height.is_none_or(|h| node.tree().node(*id).height <= h)
        })
        .collect();
    let steps: Vec<Step> =
        ids.into_iter().filter_map(|id| source_step(node.sources(), id)).collect();
    let bytes_all = weight(&steps);
    let save_every = node.options().save_every;
    let mut progress =
        Progress { blocks_all: steps.len() as u64, ..Progress::of(Phase::StoringBranches) };
    for steps in steps.chunks(CHECKED_AT_ONCE * node.shared().pool.current_num_threads()) {
        progress.fraction = progress.bytes as f64 / bytes_all.max(1) as f64;
        watch.observer.observe(&progress);
        for (step, checked) in steps.iter().zip(check(&node.shared(), steps, watch.stop)) {
            store(node, *step, checked, watch.stop)?;
        }
        let (shared, ledger) = node.split();
        if watch.is_stopped() {
            ledger.write_index(shared.files, shared.tree)?;
            return Err(SyncError::Stopped);
        }
        ledger.write_index_every(save_every, &shared)?;
        progress.blocks += steps.len() as u64;
        progress.bytes += weight(steps);
    }
    if progress.blocks > 0 {
        watch.observer.observe(&Progress { fraction: 1.0, ..progress });
    }
    let (shared, ledger) = node.split();
    Ok(ledger.write_index(shared.files, shared.tree)?)
}

/// Returns a step with the first copy of a block in the sources, if there is one.
fn source_step(sources: &Sources, id: BlockId) -> Option<Step> {
    let place = sources.place(id)?;
    Some(Step { id, place: BlockOrigin::Source(place), weight: u64::from(place.len) })
}

fn weight(steps: &[Step]) -> u64 {
    steps.iter().map(|step| step.weight).sum()
}

type Checked = Result<CheckedBlock<BlockBytes>, Fault>;

/// Reads and checks blocks on all threads.
fn check(shared: &Shared, steps: &[Step], stop: &AtomicBool) -> Vec<Checked> {
    let check = |step: &Step| {
        if stop.load(Relaxed) { Err(Fault::Stopped) } else { shared.checked(*step, stop) }
    };
    shared.pool.install(|| steps.par_iter().map(check).collect())
}

/// Stores a block that passed its checks, or another copy if its bytes are damaged. Refuses a block
/// that breaks a rule: neither it nor any block that builds on it is stored.
fn store(
    node: &mut Node,
    mut step: Step,
    mut checked: Checked,
    stop: &AtomicBool,
) -> Result<(), StoreError> {
    while !node.tree().node(step.id).failed {
        match checked {
            Ok(block) => {
                let (shared, ledger) = node.split();
                let _timer = shared.clock.start(Stage::Store);
                return ledger.store_block(&shared, step.id, block.view());
            }
            Err(Fault::Store(error)) => return Err(error),
            Err(Fault::Damaged(_, what)) => {
                take_another_copy(node, step, &what, stop)?;
                let Some(next) = source_step(node.sources(), step.id) else { break };
                step = next;
                checked = node.split().0.checked(step, stop);
            }
            Err(Fault::Rule(_, error)) => {
                let refusal = refusal(&node.shared(), &step, error.to_string());
                node.refuse(refusal);
                node.mark_failed(step.id);
                break;
            }
            // The run is stopped, since only blocks from peers can be gone.
            Err(_) => break,
        }
    }
    Ok(())
}
