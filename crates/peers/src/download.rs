//! Downloads blocks and stores them as they arrive, before a pipeline needs them.

use apus_chain::BlockId;
use apus_consensus::CheckedBlock;
use apus_disk::StoreError;
use apus_host::threads::CHECKED_AT_ONCE;
use apus_node::block::check::{History, check_bytes};
use apus_node::block::step::Step;
use apus_node::block_peers::{GivesUp, Wanted};
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::opened::{Node, step};
use apus_node::shared::Shared;
use apus_node::sources::{BlockBytes, BlockOrigin};
use apus_progress::clock::Stage;
use apus_progress::{Phase, Progress, Watch};
use rayon::prelude::*;

/// A block that has arrived, and passed all rules that need no coins.
pub(super) type Block = CheckedBlock<BlockBytes>;

/// Downloads the blocks among `ids` that are neither stored nor in a source, and stores them. `ids`
/// are of one branch and in order of height. A block that breaks a rule is left out, and so is one
/// that does not come and that `gives_up` covers.
///
/// # Errors
/// The disk fails, or `watch` asks to stop; what has arrived until then is stored.
pub fn download(
    node: &mut Node,
    ids: &[BlockId],
    gives_up: GivesUp,
    watch: Watch,
) -> Result<(), Fault> {
    let store = |shared: &Shared, ledger: &mut Ledger, id: BlockId, block: &Block| {
        let _timer = shared.clock.start(Stage::Store);
        ledger.store_block(shared, id, block.view())
    };
    let fetched = fetch(node, (ids, gives_up), watch, store);
    if let Err(fault @ Fault::Stopped) = &fetched {
        store_left_after(node, 0, Some(fault))?;
    }
    fetched
}

/// Downloads the blocks among `ids` that are neither stored nor in a source, and calls `take` with
/// each one that breaks no rule. `ids` and `gives_up` are as for [`download`].
///
/// # Errors
/// `take` fails, the disk fails, or `watch` asks to stop.
pub(super) fn fetch(
    node: &mut Node,
    (ids, gives_up): (&[BlockId], GivesUp),
    watch: Watch,
    mut take: impl FnMut(&Shared, &mut Ledger, BlockId, &Block) -> Result<(), StoreError>,
) -> Result<(), Fault> {
    let steps = ids.iter().filter_map(|id| step(node, *id));
    let steps: Vec<Step> = steps.filter(|step| step.place == BlockOrigin::Peers).collect();
    if steps.is_empty() {
        return Ok(());
    }
    let save_every = node.options().save_every;
    let (shared, ledger) = node.split();
    let wanted = Wanted { gives_up, ..Wanted::of([&steps[..]]) };
    shared.serve(wanted, watch.observer, || {
        let mut done = 0;
        let all = steps.len();
        for steps in steps.chunks(CHECKED_AT_ONCE * shared.pool.current_num_threads()) {
            let next = shared.tree.node(steps[0].id);
            watch.observer.observe(&Progress {
                height: next.height,
                time: next.time,
                blocks: done as u64,
                blocks_all: all as u64,
                fraction: done as f64 / all as f64,
                ..Progress::of(Phase::DownloadingBlocks)
            });
            done += steps.len();
            let check = |step: &Step| (step.id, shared.checked(*step, watch.stop));
            let checked: Vec<_> = shared.pool.install(|| steps.par_iter().map(check).collect());
            let mut is_stopped = false;
            for (id, checked) in checked {
                match checked {
                    Ok(block) => take(&shared, ledger, id, &block)?,
                    Err(Fault::Store(error)) => return Err(error.into()),
                    Err(Fault::Stopped) => is_stopped = true,
                    // The pipeline will request the block again, and refuse it.
                    Err(_) => {}
                }
            }
            if is_stopped {
                ledger.write_index(shared.files, shared.tree)?;
                return Err(Fault::Stopped);
            }
            ledger.write_index_every(save_every, &shared)?;
        }
        Ok(())
    })
}

/// Stores the blocks from height `from` on that have arrived and that no thread has taken, so that
/// they need not be downloaded again; `fault` is how the work on blocks has ended. Drops the others
/// and, if the disk has failed, all: nothing more is written there, so that the first error is the
/// one to report, and their space is free for what is still to be kept.
///
/// # Errors
/// The disk fails.
pub fn store_left_after(
    node: &mut Node,
    from: u32,
    fault: Option<&Fault>,
) -> Result<(), StoreError> {
    let Some(peers) = node.peers().cloned() else { return Ok(()) };
    if matches!(fault, Some(Fault::Full(_) | Fault::Store(_))) {
        peers.drop_left();
        return Ok(());
    }
    let (shared, ledger) = node.split();
    let mut stored = Vec::new();
    while let Some((id, bytes)) = peers.take_left() {
        let step = Step { id, place: BlockOrigin::Peers, weight: 0 };
        if shared.tree.node(id).height >= from
            && let Ok(block) = check_bytes(shared.tree, step, History::New, bytes)
        {
            ledger.store_block(&shared, id, block.view())?;
            stored.push(id);
        }
    }
    if !stored.is_empty() {
        ledger.write_index(shared.files, shared.tree)?;
    }
    // Those that came between pipelines were not claimed, and would not be asked for again.
    node.change_tree(|tree| stored.into_iter().for_each(|id| tree.mark_available(id)));
    Ok(())
}
