//! One SwiftSync from its start, or from where it was interrupted, to its end.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use super::alternatives::balance;
use super::directory::{DIRECTORY, load, remove_directory, saved_path};
use super::fault::Fault;
use super::finish::{WRITERS_PER_CORE, commit, prove};
use super::hints_file::HintsFile;
use super::job::{Done, Job};
use super::plan::{Mode, Plan, UNDO_BLOCKS_MIN};
use super::recent::Recent;
use super::run::{Coordinate, Ended, run};
use super::saved::{Key, Saved};
use super::tally::{Gathered, Tally};
use crate::chain::BlockId;
use crate::coins::{SavedSurvivors, Survivors};
use crate::disk::{Disk, StoreError};
use crate::swiftsync::{Aggregate, Salt};
use crate::sync::block::validate::Times;
use crate::sync::checked::Checked;
use crate::sync::commit::Ledger;
use crate::sync::node::Node;
use crate::sync::outcome::{Activated, Counts};
use crate::sync::progress::{Observer, Phase, Progress};
use crate::sync::resources::SwiftShare;
use crate::sync::sources::Place;

/// Of the memory for cached coins, the share that coins to be written may take; the rest is for
/// the blocks under way and for building tables.
const SURVIVORS_PERCENT: usize = 70;

/// More gains nothing: touching memory for the first time costs as much as writing it out past the
/// page cache, in pieces of 200 KiB. With what [`Recent`] keeps, at most 250 MB for 288 full
/// blocks, and the blocks under way it stays below 500 MiB.
const SURVIVORS_BYTES_MAX: usize = 200 << 20;

/// What a SwiftSync works with that does not change while it runs.
struct Work {
    key: Key,
    salt: Salt,
    survivors: Survivors,
    recent: Option<Recent>,
    share: SwiftShare,
}

/// What is done of it.
struct State<A> {
    gathered: Gathered<A>,
    /// Heights of blocks that are done.
    done: HashSet<u32>,
    /// Where undo data was written that the index does not know yet.
    undo: Vec<(BlockId, u32)>,
}

impl<A: Aggregate> State<A> {
    fn new(salt: &Salt) -> Self {
        Self { gathered: Gathered::empty(salt), done: HashSet::new(), undo: Vec::new() }
    }
}

/// Builds the chainstate up to the plan's target.
pub(super) fn attempt<A: Aggregate>(
    node: &mut Node,
    hints: &HintsFile,
    plan: &Plan,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Activated, Fault> {
    let directory = node.dir.path().join(DIRECTORY);
    let disk = node.dir.disk().clone();
    let (work, state) = begin::<A>(node, hints, plan, &directory)?;
    let save_every = node.options.save_every;
    let before = state.gathered.tally.counts;
    let height_of = |step: usize| node.tree.node(plan.steps[step].id).height;
    let todo: Vec<usize> =
        (0..plan.steps.len()).filter(|step| !state.done.contains(&height_of(*step))).collect();
    let times = Times::of_branch(&node.tree, plan.target);
    tracing::debug!(mode = ?plan.mode, blocks = todo.len(), "working through blocks");
    let (shared, ledger) = node.split();
    let job = Job {
        shared: &shared,
        hints,
        plan,
        salt: &work.salt,
        todo: &todo,
        survivors: Some(&work.survivors),
        recent: work.recent.as_ref().filter(|recent| recent.wants_any()),
        times,
        next: AtomicUsize::new(0),
        pause: AtomicBool::new(false),
    };
    let mut tracker = Tracker::new(&job, ledger, state, observer);
    tracker.saving = Some(Saving { work: &work, disk: &disk, path: saved_path(&directory) });
    if let Ended::Stopped = run(&job, work.share.workers, save_every, stop, &mut tracker)? {
        return Ok(Activated::Stopped);
    }
    if stop.load(Relaxed) {
        tracker.save()?;
        return Ok(Activated::Stopped);
    }
    let Tracker { ledger, state, .. } = tracker;
    complete(&job, ledger, &work, state, before, observer)?;
    work.survivors.destroy().map_err(Fault::Store)?;
    remove_directory(&disk, &directory).map_err(Fault::Store)?;
    Ok(Activated::Best)
}

/// Proves what is done, which is everything, and commits it. `before` is what earlier runs did.
fn complete<A: Aggregate>(
    job: &Job,
    ledger: &mut Ledger,
    work: &Work,
    state: State<A>,
    before: Counts,
    observer: &dyn Observer,
) -> Result<(), Fault> {
    let State { mut gathered, mut undo, done } = state;
    let (shared, plan) = (job.shared, job.plan);
    let (tally, blocks) = (&gathered.tally, plan.steps.len());
    assert_eq!((done.len(), tally.counts.blocks), (blocks, blocks as u64), "every block is summed");
    let held = (work.survivors.count(), work.survivors.amount());
    assert_eq!(held, (tally.coins, tally.amount), "every coin that stays is held");
    if plan.mode == Mode::Full && !gathered.aggregate.is_balanced() {
        balance(job, &ledger.entries, &mut gathered.aggregate, &mut undo)?;
    }
    prove(&gathered, plan, shared)?;
    tracing::debug!(coins = gathered.tally.coins, "proved");
    let height = plan.chain.height().unwrap_or(0);
    if let Some(recent) = &work.recent {
        undo = recent.write_undo(shared, &ledger.entries, &job.times)?;
    }
    let report = Progress { height, ..Progress::of(Phase::WritingCoins) }.share_to(observer);
    report(0.0);
    let tally = &gathered.tally;
    let writers = shared.pool.current_num_threads() * WRITERS_PER_CORE;
    let writers = work.share.table_writers(writers, tally.coins);
    commit(shared, ledger, plan, &work.survivors, &undo, writers, &report)?;
    let (best, counts) = (shared.tree.node(plan.target).hash, tally.counts.since(before));
    ledger.stand_at(plan.chain.clone(), best, tally.coins, counts).map_err(Fault::Store)?;
    if plan.mode == Mode::AssumeValid {
        ledger.checked = Checked::outpoints_alone(height, UNDO_BLOCKS_MIN);
    }
    tracing::debug!("committed");
    Ok(())
}

/// Runs the proof over blocks that are all stored, and keeps nothing; `None` if it was stopped.
pub(crate) fn verify<A: Aggregate>(
    node: &mut Node,
    hints: &HintsFile,
    plan: &Plan,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Option<Tally>, Fault> {
    let directory = node.dir.path().to_path_buf();
    let salt = new_salt(&directory).map_err(Fault::Store)?;
    let threads = node.options.threads;
    let todo: Vec<usize> = (0..plan.steps.len()).collect();
    let times = Times::of_branch(&node.tree, plan.target);
    let (shared, ledger) = node.split();
    let job = Job {
        shared: &shared,
        hints,
        plan,
        salt: &salt,
        todo: &todo,
        survivors: None,
        recent: None,
        times,
        next: AtomicUsize::new(0),
        pause: AtomicBool::new(false),
    };
    let mut tracker = Tracker::<A>::new(&job, ledger, State::new(&salt), observer);
    if let Ended::Stopped = run(&job, threads, Duration::MAX, stop, &mut tracker)? {
        return Ok(None);
    }
    let gathered = tracker.state.gathered;
    prove(&gathered, plan, &shared)?;
    Ok(Some(gathered.tally))
}

fn new_salt(place: &Path) -> Result<Salt, StoreError> {
    Salt::random()
        .map_err(|error| StoreError::new(place, format!("no randomness for a salt: {error}")))
}

/// Takes up what an interrupted run has saved, if that was the same work; else begins anew.
fn begin<A: Aggregate>(
    node: &mut Node,
    hints: &HintsFile,
    plan: &Plan,
    directory: &Path,
) -> Result<(Work, State<A>), Fault> {
    let disk = node.dir.disk().clone();
    let target = node.tree.node(plan.target).hash;
    let kind = format!("{:?} {:?}", plan.mode, node.options.aggregate);
    let key = Key { target, kind, hints: hints.digest };
    let recent = match plan.mode {
        Mode::AssumeValid => Some(Recent::collect(node, plan)?),
        Mode::Full => None,
    };
    let share = share(node, recent.as_ref()).map_err(Fault::Memory)?;
    let memory = share.survivors_bytes;
    let saved = load(&disk, directory).map_err(Fault::Store)?;
    if let Some(saved) = saved.filter(|saved| saved.key == key)
        && plan.steps.iter().all(|step| {
            let height = node.tree.node(step.id).height;
            matches!(step.place, Place::Stored(_)) || !saved.is_done(height)
        })
        && let Some(taken) = take_up(&saved, plan, &disk, directory, memory, recent.as_ref())
    {
        let (salt, survivors, state) = taken;
        tracing::debug!(blocks = state.done.len(), "carrying on with an interrupted SwiftSync");
        return Ok((Work { key, salt, survivors, recent, share }, state));
    }
    remove_directory(&disk, directory).map_err(Fault::Store)?;
    let salt = new_salt(directory).map_err(Fault::Store)?;
    let survivors = Survivors::new(&disk, directory, memory);
    let state = State::new(&salt);
    Ok((Work { key, salt, survivors, recent, share }, state))
}

/// Workers and memory for coins, as many and as much as there is room for.
fn share(node: &Node, recent: Option<&Recent>) -> Result<SwiftShare, String> {
    // One more than there are cores, for one or another waits for the disk; one alone stays alone.
    let threads = node.options.threads;
    let workers = if threads > 1 { threads + 1 } else { 1 };
    let survivors = (node.options.dbcache_bytes / 100 * SURVIVORS_PERCENT).min(SURVIVORS_BYTES_MAX);
    SwiftShare::new(workers, survivors, node.tree.len(), recent.map_or(0, Recent::bytes))
}

/// What was saved, ready to be carried on; `None` if it is not whole any more.
fn take_up<A: Aggregate>(
    saved: &Saved,
    plan: &Plan,
    disk: &Disk,
    directory: &Path,
    memory: usize,
    recent: Option<&Recent>,
) -> Option<(Salt, Survivors, State<A>)> {
    let salt = Salt::new(<[u8; 64]>::try_from(&saved.salt[..]).ok()?);
    let aggregate = A::from_bytes(&salt, &saved.aggregate)?;
    let survivors = SavedSurvivors::from_bytes(&saved.survivors).ok()?;
    let survivors = Survivors::resume(disk, directory, memory, &survivors)
        .inspect_err(|error| tracing::warn!("SwiftSync starts over: {error}"))
        .ok()?;
    if let Some(recent) = recent {
        recent.restore(&saved.recent)?;
    }
    let height = plan.chain.height().unwrap_or(0);
    let done = (1..=height).filter(|height| saved.is_done(*height)).collect();
    let undo = saved.undo.iter();
    let undo = undo.filter_map(|(height, pos)| Some((plan.chain.at(*height)?, *pos))).collect();
    let gathered = Gathered { aggregate, tally: saved.tally.clone() };
    Some((salt, survivors, State { gathered, done, undo }))
}

/// Keeps the books while workers run.
pub(super) struct Tracker<'a, A> {
    job: &'a Job<'a>,
    ledger: &'a mut Ledger,
    state: State<A>,
    observer: &'a dyn Observer,
    weight_total: u64,
    weight_done: u64,
    bytes: u64,
    saving: Option<Saving<'a>>,
}

/// Where to save to, and what does not change.
struct Saving<'a> {
    work: &'a Work,
    disk: &'a Disk,
    path: PathBuf,
}

impl<'a, A: Aggregate> Tracker<'a, A> {
    fn new(
        job: &'a Job<'a>,
        ledger: &'a mut Ledger,
        state: State<A>,
        observer: &'a dyn Observer,
    ) -> Self {
        let weight = |index: &usize| job.plan.steps[*index].weight;
        let weight_total = job.plan.steps.iter().map(|step| step.weight).sum();
        let weight_done = weight_total - job.todo.iter().map(weight).sum::<u64>();
        Self { job, ledger, state, observer, weight_total, weight_done, bytes: 0, saving: None }
    }
}

impl<A: Aggregate> Coordinate<A> for Tracker<'_, A> {
    fn done(&mut self, done: Done) {
        let step = self.job.plan.steps[done.step];
        let shared = self.job.shared;
        if let Some(pos) = done.stored {
            self.ledger.note_stored(step.id, pos, done.tx_count, shared.network.segwit_height);
        }
        if let Some(pos) = done.undo_pos {
            self.state.undo.push((step.id, pos));
        }
        self.state.done.insert(shared.tree.node(step.id).height);
        self.weight_done += step.weight;
        self.bytes += done.bytes;
    }

    fn gather(&mut self, gathered: Gathered<A>) {
        self.state.gathered.add(gathered);
    }

    fn save(&mut self) -> Result<(), Fault> {
        let Some(Saving { work, disk, path }) = &self.saving else { return Ok(()) };
        self.ledger.write_index(self.job.shared.files).map_err(Fault::Store)?;
        let survivors = work.survivors.save().map_err(Fault::Store)?;
        let height_of = |id: &BlockId| self.job.shared.tree.node(*id).height;
        let saved = Saved {
            key: work.key.clone(),
            salt: work.salt.as_bytes().to_vec(),
            aggregate: self.state.gathered.aggregate.to_bytes(),
            tally: self.state.gathered.tally.clone(),
            done: Saved::bits(&self.state.done),
            survivors: survivors.to_bytes(),
            recent: work.recent.as_ref().map_or_else(Vec::new, Recent::to_bytes),
            undo: self.state.undo.iter().map(|(id, pos)| (height_of(id), *pos)).collect(),
        };
        if let Some(directory) = path.parent() {
            disk.create_dir_all(directory).map_err(Fault::Store)?;
        }
        disk.write_private(path, &saved.to_bytes()).map_err(Fault::Store)
    }

    fn report(&mut self) {
        let blocks = self.state.done.len() as u64;
        self.observer.observe(&Progress {
            height: self.job.plan.chain.height().unwrap_or(0),
            blocks,
            bytes: self.bytes,
            fraction: self.weight_done as f64 / self.weight_total.max(1) as f64,
            ..Progress::of(Phase::SwiftSync)
        });
    }
}
