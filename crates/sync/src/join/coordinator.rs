//! The thread that runs the workers of each pass, and records what they have done.
//!
//! Between two saves, all workers run inside one thread scope. When a save is due, each worker
//! finishes its current block or partition and hands over all records that it holds, so that
//! nothing changes during the save.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use apus_coins::Bulk;
use apus_disk::lock;
use apus_host::threads;
use apus_host::threads::Crew;
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::shared::Shared;
use apus_progress::{Observer, Phase, Progress, Watch};

use super::bucket::BlockQueue;
use super::check::Checking;
use super::context::Context;
use super::pair::{PairedRange, Pairer};
use super::plan::JoinPlan;
use super::read::{ReadBlock, Reader};
use super::sequencer::Sequencer;
use super::state::{JoinState, SpanState};
use super::workspace::Workspace;
use crate::saving::{Deadline, work_and_save};

/// Ranges of partitions for each worker: enough that all workers end at about the same time, and
/// few enough that tables reach their full size.
const RANGES_PER_WORKER: usize = 4;

/// The thread that runs the workers of all passes.
pub(super) struct Coordinator<'a> {
    shared: &'a Shared<'a>,
    ledger: &'a mut Ledger,
    plan: &'a JoinPlan,
    work: &'a mut Workspace,
    watch: Watch<'a>,
}

impl<'a> Coordinator<'a> {
    /// Creates a coordinator that carries on from the state of `work`.
    pub fn new(
        shared: &'a Shared<'a>,
        ledger: &'a mut Ledger,
        plan: &'a JoinPlan,
        work: &'a mut Workspace,
        watch: Watch<'a>,
    ) -> Self {
        Self { shared, ledger, plan, work, watch }
    }

    /// Runs the first pass, which reads all blocks.
    ///
    /// # Errors
    /// A block is damaged or refused, the disk fails, or the join is stopped. What was read until
    /// then is kept.
    pub fn read_all(&mut self) -> Result<(), Fault> {
        let is_done = |state: &JoinState| state.spans.iter().all(|span| span.next == span.end);
        let read = self.pass(None, is_done, Self::read_until_save);
        tracing::debug!(target: "validation", read = ?self.work.state.read(), "read blocks");
        read
    }

    /// Runs the second pass, which matches all partitions.
    pub fn pair_all(&mut self, bulk: &Bulk) -> Result<(), Fault> {
        let is_done = |state: &JoinState| {
            state.paired.fault.is_none() && state.paired.done.iter().all(|done| *done)
        };
        self.pass(Some(bulk), is_done, |this| {
            let fault = this.work.state.paired.fault;
            fault.map_or_else(|| this.pair_until_save(bulk), |height| Err(Fault::Unjudged(height)))
        })?;
        let counts = &self.work.state.paired.counts;
        tracing::debug!(target: "validation", ?counts, "matched spends");
        Ok(())
    }

    /// Runs the last pass, which checks all blocks.
    ///
    /// # Errors
    /// A block is damaged or refused, the disk fails, or the join is stopped. Blocks that were
    /// checked until then stay checked.
    pub fn check_all(&mut self, bulk: &Bulk) -> Result<(), Fault> {
        let steps = self.plan.steps.len();
        self.pass(
            Some(bulk),
            |state| state.checked == steps,
            |this| {
                if !this.plan.keeps {
                    return this.check_until_save();
                }
                // Tables are synced to disk while blocks are checked.
                std::thread::scope(|scope| {
                    let synced = threads::spawn(scope, "apus-sync", || bulk.sync())?;
                    let checked = this.check_until_save();
                    let synced = synced.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
                    checked.and(synced.map_err(Fault::from))
                })
            },
        )?;
        tracing::debug!(target: "validation", checked = self.work.state.checked, "checked blocks");
        Ok(())
    }

    /// Calls `run_until_save` until the pass is done. If blocks are kept, saves the work between
    /// two calls, and when the join is stopped.
    fn pass(
        &mut self,
        bulk: Option<&Bulk>,
        is_done: impl Fn(&JoinState) -> bool,
        run_until_save: impl FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let stop = self.watch.stop;
        let save = |this: &mut Self| if this.plan.keeps { this.save(bulk) } else { Ok(()) };
        let is_done = |this: &Self| is_done(&this.work.state);
        work_and_save(self, is_done, run_until_save, save, || stop.load(Relaxed))
    }

    /// Runs workers until all spans are read, a worker fails, or a save is due.
    fn read_until_save(&mut self) -> Result<(), Fault> {
        let Self { shared, ledger, plan, work, watch } = self;
        let Workspace { state, parts, layout, memory, hash_key, save_every, .. } = &mut **work;
        let context = Context::new(shared, plan, layout, *memory, parts, hash_key);
        let spans: VecDeque<usize> =
            (0..state.spans.len()).filter(|i| state.spans[*i].next < state.spans[*i].end).collect();
        let read = state.spans.iter().flat_map(|span| span.first..span.next);
        let mut progress = Tracked::new(watch.observer, shared, Phase::JoinReading, plan, read);
        let queue = Mutex::new((spans, &mut state.spans));
        let take = || {
            let mut queue = lock(&queue);
            let index = queue.0.pop_front()?;
            Some((index, queue.1[index].clone()))
        };
        let give_back = |index: usize, span: SpanState| {
            let mut queue = lock(&queue);
            queue.1[index] = span;
        };
        let run = |crew: &Crew<ReadBlock>| -> Result<(), Fault> {
            let mut reader = Reader::new(&context);
            while let Some((index, mut span)) = take() {
                let result = reader.read(&mut span, crew.halt(), |block| crew.report(block));
                give_back(index, span);
                result?;
                if crew.is_halted() {
                    break;
                }
            }
            Ok(())
        };
        let mut until = Deadline::new(*save_every, || watch.is_stopped());
        let results = threads::work_until_halt("join", memory.workers, run, |block| {
            let is_done = block.is_some();
            if let Some(block) = block {
                let id = plan.steps[block.index].id;
                if let Some(pos) = block.stored {
                    ledger.records.note_stored(shared.tree, id, pos, block.tx_count);
                }
                progress.add(block.index, block.bytes);
            }
            progress.report();
            shared.clock.set_spilled(parts.bytes_written());
            until.is_due(is_done)
        });
        drop(queue);
        gather(results, context.fault()).map(drop)
    }

    fn pair_until_save(&mut self, bulk: &Bulk) -> Result<(), Fault> {
        let Self { shared, plan, work, watch, .. } = self;
        let Workspace { state, parts, layout, memory, hash_key, save_every, .. } = &mut **work;
        let context = Context::new(shared, plan, layout, *memory, parts, hash_key);
        let paired = &mut state.paired;
        let dropped = &state.dropped;
        let ranges = ranges(&paired.done, memory.workers * RANGES_PER_WORKER);
        let ranges = Mutex::new(VecDeque::from(ranges));
        let take = || lock(&ranges).pop_front();
        let run = |crew: &Crew<u64>| -> Result<Vec<PairedRange>, Fault> {
            let mut pairer = Pairer::new(&context, paired.source, dropped)?;
            let mut done = Vec::new();
            while let Some(range) = take() {
                done.push(pairer.pair(range, bulk, crew.halt(), |bytes| crew.report(bytes))?);
                if crew.is_halted() {
                    break;
                }
            }
            Ok(done)
        };
        let bytes_of = |partition: usize| parts.bytes(layout.outputs(partition));
        let all: u64 = (0..layout.partitions()).map(bytes_of).sum();
        let is_done = |partition: &usize| paired.done[*partition];
        let mut matched: u64 = (0..layout.partitions()).filter(is_done).map(bytes_of).sum();
        let height = plan.end_height() - 1;
        let mut until = Deadline::new(*save_every, || watch.is_stopped());
        let results = threads::work_until_halt("pair", memory.workers, run, |bytes| {
            matched += bytes.unwrap_or(0);
            let fraction = matched as f64 / all.max(1) as f64;
            let phase = Progress::of(Phase::JoinMatching);
            watch.observer.observe(&Progress { height, bytes: matched, fraction, ..phase });
            until.is_due(bytes.is_some())
        });
        for PairedRange { done, counts } in gather(results, None)?.into_iter().flatten() {
            paired.counts.add(&counts);
            paired.done[done].fill(true);
        }
        paired.fault = context.fault();
        Ok(())
    }

    fn check_until_save(&mut self) -> Result<(), Fault> {
        let Self { shared, ledger, plan, work, watch } = self;
        let Workspace { state, parts, layout, memory, hash_key, save_every, .. } = &mut **work;
        let context = Context::new(shared, plan, layout, *memory, parts, hash_key);
        let has_undo =
            |step: &apus_node::block::step::Step| ledger.record(step.id).undo_pos().is_some();
        let checking = Checking {
            context: &context,
            queue: BlockQueue::new(&context, &state.dropped, state.checked),
            sequencer: Sequencer::new(shared.files, state.checked),
            has_undo: plan.steps.iter().map(has_undo).collect(),
        };
        let checked = 0..state.checked;
        let mut progress = Tracked::new(watch.observer, shared, Phase::JoinChecking, plan, checked);
        let mut until = Deadline::new(*save_every, || watch.is_stopped());
        let run = |crew: &Crew<usize>| checking.work(crew);
        let results = threads::work_until_halt("check", memory.workers, run, |step| {
            let is_done = step.is_some();
            if let Some(index) = step {
                progress.add(index, plan.steps[index].weight);
            }
            progress.report();
            until.is_due(is_done)
        });
        let (checked, written) = checking.sequencer.into_written();
        state.checked = checked;
        state.undo.extend(written);
        gather(results, context.fault()).map(drop)
    }

    /// Saves the work: first block files, undo files and block index, then the tables, then the
    /// rest.
    fn save(&mut self, bulk: Option<&Bulk>) -> Result<(), Fault> {
        self.ledger.write_index(self.shared.files, self.shared.tree)?;
        if let Some(bulk) = bulk {
            self.work.state.paired.tables = bulk.finished()?;
        }
        Ok(self.work.save(self.plan, self.shared.tree, self.ledger)?)
    }
}

/// Returns the results of all threads, or the fault to report: an error of the operating system,
/// then errors that follow from it in other threads, then the refused block at height `refused`,
/// then any other. A refusal comes before damaged bytes: a refused block counts as read, and is
/// read again only if it is reported, but damaged bytes are found again.
fn gather<T>(results: Vec<Result<T, Fault>>, refused: Option<u32>) -> Result<Vec<T>, Fault> {
    let rank = |fault: &Fault| match fault {
        Fault::Store(error) if error.source.is_some() => 0,
        Fault::Store(_) => 1,
        Fault::Unjudged(_) => 2,
        _ => 3,
    };
    let mut returned = Vec::new();
    let mut faults: Vec<Fault> = refused.map(Fault::Unjudged).into_iter().collect();
    for result in results {
        match result {
            Ok(value) => returned.push(value),
            Err(fault) => faults.push(fault),
        }
    }
    faults.into_iter().min_by_key(rank).map_or(Ok(returned), Err)
}

/// Cuts the partitions that are not done into about `count` consecutive ranges.
fn ranges(done: &[bool], count: usize) -> Vec<Range<usize>> {
    let left = done.iter().filter(|done| !**done).count();
    let each = left.div_ceil(count.max(1)).max(1);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for partition in (0..done.len()).filter(|partition| !done[*partition]) {
        match ranges.last_mut() {
            Some(last) if last.end == partition && last.len() < each => last.end += 1,
            _ => ranges.push(partition..partition + 1),
        }
    }
    ranges
}

/// The progress of a pass over blocks.
struct Tracked<'a> {
    observer: &'a dyn Observer,
    phase: Phase,
    height: u32,
    blocks_all: u64,
    /// The time that each block takes.
    weights: Vec<u64>,
    weight_all: u64,
    weight: u64,
    blocks: u64,
    bytes: u64,
}

impl<'a> Tracked<'a> {
    /// Creates the progress of a pass over all blocks of the plan. `done` are the blocks that are
    /// done already, by index among the steps.
    fn new(
        observer: &'a dyn Observer,
        shared: &Shared,
        phase: Phase,
        plan: &JoinPlan,
        done: impl Iterator<Item = usize>,
    ) -> Self {
        let weights = shared.weights(phase, &plan.steps, plan.assumed_blocks(shared.tree));
        let mut progress = Self {
            observer,
            phase,
            height: plan.end_height() - 1,
            blocks_all: plan.steps.len() as u64,
            weight_all: weights.iter().sum(),
            weights,
            weight: 0,
            blocks: 0,
            bytes: 0,
        };
        done.for_each(|index| progress.add(index, 0));
        progress
    }

    fn add(&mut self, index: usize, bytes: u64) {
        self.weight += self.weights[index];
        self.blocks += 1;
        self.bytes += bytes;
    }

    fn report(&self) {
        self.observer.observe(&Progress {
            height: self.height,
            blocks: self.blocks,
            blocks_all: self.blocks_all,
            bytes: self.bytes,
            fraction: self.weight as f64 / self.weight_all.max(1) as f64,
            ..Progress::of(self.phase)
        });
    }
}

#[cfg(test)]
mod tests {
    use apus_disk::StoreError;
    use apus_node::Run;
    use apus_node::block::step::Step;
    use apus_node::opened::Coins;
    use apus_node::options::Options;
    use apus_node::sources::{BlockOrigin, SourcePlace};
    use apus_progress::Unobserved;
    use apus_wire::{Chain, Network};

    use super::*;
    use crate::unfinished::open_node;

    /// Calls `work` with the coordinator of a join of one block, which is in no source.
    fn coordinate(change: impl FnOnce(&mut Workspace), work: impl FnOnce(&mut Coordinator)) {
        let place = tempfile::tempdir().unwrap();
        let options = Options::new(place.path().join("data"), Network::new(Chain::Regtest));
        let mut node = open_node(&Run::new(&options), Coins::InPlace).unwrap();
        let id = node.tree().genesis();
        let mut plan = JoinPlan::new(&node, id);
        let nowhere = BlockOrigin::Source(SourcePlace { file: 9, offset: 0, len: 0 });
        plan.steps = vec![Step { id, place: nowhere, weight: 1 }];
        let mut workspace = Workspace::begin(&mut node, &plan, &Unobserved).unwrap();
        workspace.memory.workers = 3;
        change(&mut workspace);
        let (shared, ledger) = node.split();
        let plan = &plan;
        work(&mut Coordinator::new(&shared, ledger, plan, &mut workspace, Watch::default()));
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_panic_in_one_worker_ends_the_first_pass() {
        coordinate(|_| {}, |coordinator| drop(coordinator.read_all()));
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_panic_in_one_worker_ends_the_second_pass() {
        // More partitions than there are parts.
        let change = |work: &mut Workspace| work.state.paired.done = vec![false; 1 << 10];
        coordinate(change, |coordinator| {
            let bulk = coordinator.shared.chainstate.bulk().unwrap();
            drop(coordinator.pair_all(&bulk));
        });
    }

    #[test]
    #[should_panic(expected = "a record of each block")]
    fn a_panic_in_one_worker_ends_the_last_pass() {
        coordinate(
            |_| {},
            |coordinator| {
                let bulk = coordinator.shared.chainstate.bulk().unwrap();
                drop(coordinator.check_all(&bulk));
            },
        );
    }

    #[test]
    fn of_faults_their_cause_counts_and_then_a_refused_block() {
        let follows = || Fault::Store(StoreError::new("f", "an earlier write failed"));
        let full = Fault::Store(StoreError::full("f", "no room"));
        let fault = gather(vec![Ok(1), Err(follows()), Err(full), Err(follows())], Some(7)).err();
        assert!(matches!(fault, Some(Fault::Store(error)) if error.source.is_some()));
        let fault = gather(vec![Ok(1), Err(Fault::Stopped), Err(follows())], Some(7)).err();
        assert!(matches!(fault, Some(Fault::Store(_))));
        let fault = gather(vec![Err(Fault::Stopped), Ok(1)], Some(7)).err();
        assert!(matches!(fault, Some(Fault::Unjudged(7))));
        assert_eq!(gather(vec![Ok(1), Ok(2)], None).ok(), Some(vec![1, 2]));
    }
}
