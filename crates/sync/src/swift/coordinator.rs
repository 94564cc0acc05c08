//! The threads of SwiftSync: workers, each of which takes one block after another, and the
//! coordinator, which keeps account of finished blocks and saves the work every [`Saving::every`]
//! and when it is stopped.
//!
//! ```text
//!        ┌─ worker ─┐                       ┌─ worker ─┐
//! scope ─┼─ worker ─┼─ sums added up, save ─┼─ worker ─┼─ …
//!        └─ worker ─┘                       └─ worker ─┘
//! ```
//!
//! Between two saves all workers run inside one scope. When a save is due, each worker finishes its
//! block, returns its sums and ends. Nothing changes during a save, so the saved work is
//! consistent.

use std::path::PathBuf;
use std::time::Duration;

use apus_chain::BlockId;
use apus_disk::Disk;
use apus_host::threads;
use apus_host::threads::Crew;
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_progress::{Observer, Phase, Progress};

use super::context::{Context, FinishedBlock};
use super::plan::Mode;
use super::recent::Recent;
use super::resume::{SwiftState, Workspace};
use super::saved::{Saved, SavedUndo};
use super::tally::Gathered;
use super::undo::UndoWritten;
use super::worker::Worker;
use crate::saving::{Deadline, work_and_save};

/// Where and how often the work is saved, and the parts of it that the coordinator does not keep
/// itself: key, salt, unspent coins, and the coins that the last blocks spend.
pub(super) struct Saving<'a> {
    pub work: &'a Workspace,
    pub disk: &'a Disk,
    pub path: PathBuf,
    /// Time between two saves ([`Options::save_every`](apus_node::options::Options::save_every)).
    pub every: Duration,
}

/// Runs the workers, and keeps account of what they have finished.
pub(super) struct Coordinator<'a> {
    context: &'a Context<'a>,
    ledger: &'a mut Ledger,
    state: SwiftState,
    observer: &'a dyn Observer,
    /// `None` if nothing is saved.
    saving: Option<Saving<'a>>,
    /// The time that each step takes, for progress.
    weights: Vec<u64>,
    weight_all: u64,
    weight_done: u64,
    bytes: u64,
    /// Blocks whose coins no peer has sent.
    lacking: Vec<BlockId>,
}

impl<'a> Coordinator<'a> {
    /// Creates a coordinator for the blocks that are left after `state`.
    pub fn new(
        context: &'a Context<'a>,
        ledger: &'a mut Ledger,
        state: SwiftState,
        observer: &'a dyn Observer,
        saving: Option<Saving<'a>>,
    ) -> Self {
        let steps = &context.plan.steps;
        let scripts_from = match context.plan.mode {
            Mode::Full => 0,
            Mode::AssumeValid => steps.len(),
        };
        let weights = context.shared.weights(Phase::SwiftSync, steps, scripts_from);
        let weight_all: u64 = weights.iter().sum();
        let left: u64 = context.todo().iter().map(|index| weights[*index]).sum();
        let weight_done = weight_all - left;
        Self {
            context,
            ledger,
            state,
            observer,
            saving,
            weights,
            weight_all,
            weight_done,
            bytes: 0,
            lacking: Vec::new(),
        }
    }

    /// Runs `threads` workers until every block is finished, or until `stops` returns true. Saves
    /// the work whenever it is due, and once more before it returns because of `stops`.
    ///
    /// # Errors
    /// A block, its hints or its undo data is wrong, the disk fails, or `stops` returned true. The
    /// ledger has a record of every stored block even then.
    pub fn run(&mut self, threads: usize, stops: impl Fn() -> bool) -> Result<(), Fault> {
        let context = self.context;
        let run = |this: &mut Self| this.run_until_save(threads, &stops);
        let done = work_and_save(self, |_| context.all_taken(), run, Self::save, &stops);
        // Also where an earlier run finished the last block, and none is left.
        self.report();
        if done.is_ok() && stops() {
            // Once unspent coins are written, only the work saved before is whole.
            self.save()?;
            return Err(Fault::Stopped);
        }
        done
    }

    /// Returns the blocks that are left to do, since no peer has sent the coins that they spend, in
    /// order of height.
    pub fn take_lacking(&mut self) -> Vec<BlockId> {
        let mut lacking = std::mem::take(&mut self.lacking);
        lacking.sort_by_key(|id| self.context.shared.tree.height(*id));
        lacking
    }

    /// Returns the work done, and the ledger.
    pub fn parts(&mut self) -> (&mut SwiftState, &mut Ledger) {
        (&mut self.state, self.ledger)
    }

    /// Runs workers until no blocks are left, one of them fails, or a save is due. When it returns,
    /// all workers have ended and their sums are in the state.
    fn run_until_save(&mut self, threads: usize, stops: &dyn Fn() -> bool) -> Result<(), Fault> {
        let context = self.context;
        let every = self.saving.as_ref().map_or(Duration::MAX, |saving| saving.every);
        let mut until = Deadline::new(every, stops);
        let work = |crew: &Crew<FinishedBlock>| work_until(context, crew);
        let results = threads::work_until_halt("swift", threads, work, |block| {
            let is_done = block.is_some();
            if let Some(block) = block {
                self.note(block);
            }
            self.report();
            until.is_due(is_done)
        });
        for gathered in results {
            self.state.gathered.add(gathered?);
        }
        Ok(())
    }

    fn note(&mut self, block: FinishedBlock) {
        let step = self.context.plan.steps[block.step];
        let shared = self.context.shared;
        match block.stored {
            Some(pos) => self.ledger.records.note_stored(shared.tree, step.id, pos, block.tx_count),
            None if self.saving.is_some() && self.context.plan.drops(shared.tree, &step) => {
                self.ledger.note_dropped(shared.tree, step.id, block.tx_count);
            }
            None => {}
        }
        if block.lacks_coins {
            self.lacking.push(step.id);
            return;
        }
        if let Some(at) = block.undo {
            self.state.undo.push(UndoWritten { id: step.id, at });
        }
        let height = shared.tree.node(step.id).height;
        if block.is_stripped {
            self.state.stripped_below = self.state.stripped_below.max(height + 1);
        }
        if block.is_put_off {
            self.state.put_off.insert(height);
        }
        self.state.done.insert(height);
        self.weight_done += self.weights[block.step];
        self.bytes += block.bytes;
    }

    /// Saves the work: block and undo files, then the block index, then the unspent coins, and last
    /// the file `progress`, which names places in all of these. If a crash comes before that, the
    /// work saved before is still valid. No worker may run, or sums, coins and finished blocks
    /// would be of different sets of blocks.
    pub fn save(&mut self) -> Result<(), Fault> {
        let Some(Saving { work, disk, path, .. }) = &self.saving else { return Ok(()) };
        self.ledger.write_index(self.context.shared.files, self.context.shared.tree)?;
        let survivors = work.survivors.save()?;
        let saved_undo = |undo: &UndoWritten| SavedUndo {
            height: self.context.shared.tree.node(undo.id).height,
            at: undo.at,
        };
        let saved = Saved {
            key: work.key.clone(),
            salt: work.salt.as_bytes().to_vec(),
            aggregate: self.state.gathered.aggregate.to_bytes(),
            tally: self.state.gathered.tally.clone(),
            done: Saved::bits(&self.state.done),
            stripped_below: self.state.stripped_below,
            survivors: survivors.to_bytes(),
            recent: work.recent.as_ref().map_or_else(Vec::new, Recent::to_bytes),
            undo: self.state.undo.iter().map(saved_undo).collect(),
            put_off: self.state.put_off.iter().copied().collect(),
            wrong_hints: self.context.wrong_hints(),
        };
        if let Some(directory) = path.parent() {
            disk.create_dir_all(directory)?;
        }
        disk.write_private(path, &saved.to_bytes()).map_err(Fault::Store)
    }

    fn report(&self) {
        self.observer.observe(&Progress {
            height: self.context.plan.chain.height().unwrap_or(0),
            blocks: self.state.done.len() as u64,
            blocks_all: self.context.plan.chain.height().unwrap_or(0).into(),
            bytes: self.bytes,
            fraction: self.weight_done as f64 / self.weight_all.max(1) as f64,
            ..Progress::of(Phase::SwiftSync)
        });
    }
}

/// Runs one worker, which takes blocks until none are left or all workers are to end, and returns
/// its sums.
fn work_until(context: &Context, crew: &Crew<FinishedBlock>) -> Result<Gathered, Fault> {
    let mut worker = Worker::new(context, crew.halt());
    while !crew.is_halted() {
        let Some(mut taken) = context.take(crew.halt()) else { break };
        match worker.work_on(&mut taken) {
            Err(Fault::Stopped) => context.give_back(taken),
            done => crew.report(done?),
        }
    }
    worker.into_gathered()
}

#[cfg(test)]
mod tests {
    use apus_node::Run;
    use apus_node::block::step::Step;
    use apus_node::opened::Coins;
    use apus_node::options::Options;
    use apus_node::sources::{BlockOrigin, SourcePlace};
    use apus_progress::Unobserved;
    use apus_swiftsync::Salt;
    use apus_swiftsync::hints::{Format, encoder};
    use apus_wire::{Chain, Network};

    use super::*;
    use crate::hints_file::HintsFile;
    use crate::swift::opened_claim::Unspent;
    use crate::swift::plan::SwiftPlan;
    use crate::unfinished::open_node;

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_panic_in_one_worker_ends_all() {
        let place = tempfile::tempdir().unwrap();
        let datadir = place.path().join("data");
        let file = place.path().join("hints");
        let mut bytes = Vec::new();
        encoder(Format::Bip456).put_head(0, &mut bytes);
        std::fs::write(&file, bytes).unwrap();
        let hints = HintsFile::open(&file).unwrap();
        let options = Options::new(datadir, Network::new(Chain::Regtest));
        let mut node = open_node(&Run::new(&options), Coins::InPlace).unwrap();
        let id = node.tree().genesis();
        let Ok(mut plan) = SwiftPlan::new(&node, id, Mode::AssumeValid) else { unreachable!() };
        // No source has this number.
        let nowhere = BlockOrigin::Source(SourcePlace { file: 9, offset: 0, len: 0 });
        plan.steps = vec![Step { id, place: nowhere, weight: 1 }];
        let salt = Salt::new([0; 64]);
        let (shared, ledger) = node.split();
        let context =
            Context::new(&shared, Unspent::Hints(&hints), &plan, &salt, &Default::default());
        let state = SwiftState::new(plan.aggregate, &salt);
        let _ = Coordinator::new(&context, ledger, state, &Unobserved, None).run(3, || false);
    }
}
