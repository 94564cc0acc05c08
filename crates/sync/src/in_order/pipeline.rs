//! The threads of in-order sync, and the queues between them.
//!
//! ```text
//!            tickets           events            sections          jobs
//! connector ─────────► workers ────────► connector ─────────► workers ─────► workers
//!           "block i"  read, parse,      keep in   "section s" take coins,   rules, scripts,
//!                      check, look up    order                 add coins     undo, in chunks
//! ```
//!
//! The connector (`connect.rs`) does only what must be done in order. Workers prefer sections of
//! the cache (`sections.rs`) to jobs, and jobs to tickets, so that the oldest block is finished
//! first. Two more threads write commits and merge tables meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use apus_coins::Coin;
use apus_disk::{ShareWatch, StoreError};
use apus_host::threads;
use apus_node::block::prepare::Prepared;
use apus_node::block::step::Step;
use apus_node::block::validate::Validation;
use apus_node::cache_limit::CACHED_COIN_BYTES;
use apus_node::commit_job::CommitJob;
use apus_node::fault::Fault;
use apus_node::shared::Shared;
use apus_progress::clock::Stage;
use apus_wire::OutPoint;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, never, select, unbounded};

use super::ready::{Branch, Event, Ready};
use super::sections::Sections;

/// Maximum number of blocks by which workers may be ahead of the connector: 64 MB, at 2 MB for each
/// block with its offsets.
const AHEAD_MAX: usize = 32;
/// Number of blocks by which workers may always be ahead, whatever the blocks spend: one is
/// prepared while another is connected.
const AHEAD_MIN: usize = 2;
/// Bytes of the cache for each coin that blocks ahead spend. The cache keeps these coins until
/// their block is connected, so they may take about an eighth of it: 106 bytes each, and more for
/// long scripts. The rest is for coins that blocks create while others are written.
const CACHE_BYTES_AHEAD: usize = 8 * CACHED_COIN_BYTES;

/// Maximum number of blocks in flight: being connected, or with unfinished checks. Enough that
/// every core has work, and few enough that taking them back is quick.
const IN_FLIGHT_MAX: usize = 16;

/// How long the connector waits for an event before it checks whether to stop.
const WAIT: Duration = Duration::from_millis(100);

/// The connector's ends of the queues.
pub struct Workers<'w, 'a> {
    shared: &'w Shared<'a>,
    /// The sections of the cache, through which blocks pass.
    pub sections: &'w Sections<'w, 'a>,
    tickets: Sender<usize>,
    jobs: Sender<Arc<Validation>>,
    job_queue: Receiver<Arc<Validation>>,
    events: Receiver<Event>,
    threads: usize,
    next_ticket: usize,
    /// Number of tickets whose block was prepared, or could not be.
    answered: usize,
    halt: &'w AtomicBool,
    steps: usize,
    ready: BTreeMap<usize, Result<Ready, Fault>>,
    /// Blocks that have been connected, each with the index of its step.
    connected: Vec<(usize, Arc<Validation>)>,
    /// The number of coins that the blocks in `ready` spend.
    coins_ready: usize,
    /// The number of coins that a block is expected to spend before it is ready: the most that one
    /// of the last blocks spent, less an eighth for each block since.
    coins_expected: usize,
    commits: Sender<CommitJob<'a>>,
    committed: Option<Result<(), StoreError>>,
    merges: Sender<()>,
    failed: Option<StoreError>,
}

/// Runs `connect` with workers that prepare the blocks of `branch` ahead of it. All threads end
/// when it returns; a merge of tables ends early when `stop` is raised.
pub fn with_workers<'a, T>(
    shared: &Shared<'a>,
    branch: &Branch,
    threads: usize,
    stop: &AtomicBool,
    connect: impl FnOnce(&mut Workers<'_, 'a>) -> T,
) -> Result<T, StoreError> {
    let (tickets, ticket_queue) = bounded(AHEAD_MAX);
    // Every worker may take part in the checks of every block in flight.
    let (jobs, job_queue) = bounded(IN_FLIGHT_MAX * threads);
    // Unbounded, since a worker must never wait here: the connector may be busy with a job itself.
    // The numbers of tickets and of blocks in flight bound what can be queued.
    let (event_queue, events) = unbounded();
    // One request is enough: a merge goes on until nothing is left to merge.
    let (merges, merge_queue) = bounded(1);
    // One commit is written at a time.
    let (commits, commit_queue) = bounded(1);
    // Raised once nothing more is connected, so that no worker waits for blocks from peers.
    let halt = AtomicBool::new(false);
    let sections = Sections::new(shared, branch, event_queue.clone());
    let sections = &sections;
    thread::scope(|scope| {
        let _over = threads::RaiseOnDrop(&halt);
        let events_of_merger = event_queue.clone();
        let events_of_writer = event_queue.clone();
        threads::spawn(scope, "apus-commit", move || {
            write_on_request(shared, &commit_queue, &events_of_writer);
        })?;
        threads::spawn(scope, "apus-merge", move || {
            let _tell = TellOfPanic(&events_of_merger);
            if let Err(error) = merge_on_request(shared, &merge_queue, stop) {
                let _ = events_of_merger.send(Event::Failed(error));
            }
        })?;
        for number in 0..threads {
            let worker = Worker {
                shared,
                steps: branch.steps,
                sections,
                halt: &halt,
                tickets: ticket_queue.clone(),
                sections_idle: sections.work.clone(),
                jobs: job_queue.clone(),
                events: event_queue.clone(),
            };
            threads::spawn(scope, format!("apus-work-{number}"), move || worker.run())?;
        }
        drop((ticket_queue, event_queue));
        Ok(connect(&mut Workers {
            shared,
            sections,
            tickets,
            jobs,
            job_queue,
            commits,
            committed: None,
            merges,
            events,
            threads,
            next_ticket: 0,
            answered: 0,
            halt: &halt,
            steps: branch.steps.len(),
            ready: BTreeMap::new(),
            connected: Vec::new(),
            coins_ready: 0,
            coins_expected: 0,
            failed: None,
        }))
    })
}

impl<'a> Workers<'_, 'a> {
    /// Lets workers prepare at most this many `blocks` beyond the `taken` ones, as long as a cache
    /// of `cache_bytes` bytes has room for the coins that they spend.
    pub fn let_ahead(&mut self, taken: usize, blocks: usize, cache_bytes: usize) {
        let coins_max = cache_bytes / CACHE_BYTES_AHEAD;
        let blocks = blocks.clamp(AHEAD_MIN, AHEAD_MAX);
        while self.next_ticket < self.steps.min(taken + blocks) {
            let is_full = self.coins_ahead() + self.coins_expected > coins_max;
            // What blocks spend is unknown until one is ready.
            if self.next_ticket >= taken + AHEAD_MIN && (is_full || self.answered == 0) {
                return;
            }
            if self.tickets.send(self.next_ticket).is_err() {
                return;
            }
            self.next_ticket += 1;
        }
    }

    /// Returns the number of coins that blocks ahead spend: those that are ready, and, as expected,
    /// those that are being prepared.
    fn coins_ahead(&self) -> usize {
        self.coins_ready + (self.next_ticket - self.answered) * self.coins_expected
    }

    /// Returns whether another block may be in flight, if at most this many `blocks` may.
    pub fn has_room(&self, in_flight: usize, blocks: usize) -> bool {
        in_flight < blocks.min(IN_FLIGHT_MAX)
    }

    /// Takes the block of step `index`, if it is ready.
    pub fn take_ready(&mut self, index: usize) -> Option<Result<Ready, Fault>> {
        let ready = self.ready.remove(&index)?;
        self.coins_ready -= coins_of(&ready);
        Some(ready)
    }

    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Returns the block of step `index`, or why it cannot be prepared, if that is known.
    pub fn next(&self, index: usize) -> Option<&Result<Ready, Fault>> {
        self.ready.get(&index)
    }

    /// Takes the blocks that have been connected, each with the index of its step.
    pub fn take_connected(&mut self) -> Vec<(usize, Arc<Validation>)> {
        std::mem::take(&mut self.connected)
    }

    /// Works on sections of the cache while some have no thread: all workers may be waiting for
    /// blocks from peers.
    pub fn help_sections(&self) {
        while let Ok(section) = self.sections.work.try_recv() {
            self.sections.run(section);
        }
    }

    /// Queues the checks of a connected block for as many workers as can take part. While the queue
    /// is full, this thread takes jobs, too: if all workers wait for blocks from peers, the queue
    /// is full of blocks that are checked already.
    pub fn check(&self, block: &Arc<Validation>) {
        for _ in 0..self.threads.min(block.parts()) {
            let mut job = Arc::clone(block);
            while let Err(TrySendError::Full(back)) = self.jobs.try_send(job) {
                job = back;
                if let Ok(oldest) = self.job_queue.try_recv() {
                    oldest.work(self.shared.network, self.shared.scripts);
                }
            }
        }
    }

    /// Sends a commit to be written in the background.
    pub fn commit(&self, job: CommitJob<'a>) {
        // The thread ends only after this one, or by a panic, which an event reports.
        let _ = self.commits.send(job);
    }

    /// Takes the result of the commit, once it is written.
    pub fn take_committed(&mut self) -> Option<Result<(), StoreError>> {
        self.committed.take()
    }

    /// Requests a merge of tables in the background, done if there are too many for fast look-ups.
    pub fn merge(&self) {
        // If the queue is full, a request is waiting already.
        let _ = self.merges.try_send(());
    }

    /// Takes the error of the disk that ended a merge in the background or a look-up of coins, if
    /// there is one.
    pub fn take_failure(&mut self) -> Option<StoreError> {
        self.failed.take()
    }

    /// Wakes every worker that waits for a block from a peer.
    pub fn let_go(&self) {
        self.halt.store(true, Relaxed);
    }

    /// Ends the preparation of blocks, and returns the blocks that are ready, each with the index
    /// of its step.
    pub fn end(&mut self) -> impl Iterator<Item = (usize, Prepared)> + use<> {
        self.let_go();
        while self.answered < self.next_ticket {
            self.wait();
        }
        let ready = std::mem::take(&mut self.ready).into_iter();
        ready.filter_map(|(index, block)| Some((index, block.ok()?.prepared)))
    }

    /// Waits for an event, at most [`WAIT`].
    ///
    /// # Panics
    /// A thread has panicked.
    pub fn wait(&mut self) {
        match self.events.recv_timeout(WAIT) {
            Ok(event) => self.note(event),
            Err(_) => return,
        }
        self.note_events();
    }

    /// Takes note of the events until now.
    pub fn note_events(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.note(event);
        }
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Prepared(index, prepared) => {
                let coins = coins_of(&prepared);
                self.answered += 1;
                self.coins_ready += coins;
                self.coins_expected = coins.max(self.coins_expected - self.coins_expected / 8);
                self.ready.insert(index, *prepared);
            }
            Event::Connected(index, block) => self.connected.push((index, block)),
            Event::Checked | Event::Rests => {}
            Event::Committed(written) => self.committed = Some(written),
            Event::Failed(error) => _ = self.failed.get_or_insert(error),
            Event::Panicked => panic!("a worker has panicked"),
        }
    }
}

/// Returns the number of coins that a block spends and does not create.
fn coins_of(block: &Result<Ready, Fault>) -> usize {
    block.as_ref().map_or(0, |block| block.prepared.external.len())
}

struct Worker<'w, 'a> {
    shared: &'w Shared<'a>,
    steps: &'w [Step],
    sections: &'w Sections<'w, 'a>,
    halt: &'w AtomicBool,
    tickets: Receiver<usize>,
    sections_idle: Receiver<usize>,
    jobs: Receiver<Arc<Validation>>,
    events: Sender<Event>,
}

/// The next task of a worker.
enum Task {
    /// Connect blocks in this section of the cache.
    Connect(usize),
    /// Take part in the checks of a connected block.
    Check(Arc<Validation>),
    /// Prepare the block of this step to be connected.
    Prepare(usize),
    /// No task will follow.
    End,
}

impl Worker<'_, '_> {
    fn run(mut self) {
        let events = self.events.clone();
        let _tell = TellOfPanic(&events);
        loop {
            let event = match self.next() {
                Task::Connect(section) => {
                    self.sections.run(section);
                    None
                }
                Task::Check(block) => self.check(&block),
                Task::Prepare(step) => Some(self.prepare(step)),
                Task::End => return,
            };
            if event.is_some_and(|event| self.events.send(event).is_err()) {
                return;
            }
        }
    }

    /// Waits for the next task; sections come before checks, and checks before blocks to prepare.
    fn next(&mut self) -> Task {
        if let Ok(section) = self.sections_idle.try_recv() {
            return Task::Connect(section);
        }
        if let Ok(block) = self.jobs.try_recv() {
            return Task::Check(block);
        }
        loop {
            select! {
                recv(self.sections_idle) -> section => match section {
                    Ok(section) => return Task::Connect(section),
                    Err(_) => self.sections_idle = never(),
                },
                recv(self.jobs) -> block => return block.map_or(Task::End, Task::Check),
                recv(self.tickets) -> ticket => match ticket {
                    Ok(step) => return Task::Prepare(step),
                    Err(_) => self.tickets = never(),
                },
            }
        }
    }

    fn check(&self, block: &Validation) -> Option<Event> {
        let _timer = self.shared.clock.start(Stage::Validate);
        block.work(self.shared.network, self.shared.scripts).then_some(Event::Checked)
    }

    fn prepare(&self, step: usize) -> Event {
        let ready = prepare_with_coins(self.shared, self.steps[step], self.halt);
        Event::Prepared(step, Box::new(ready))
    }
}

/// A guard that reports a panic of its thread to the connector.
struct TellOfPanic<'a>(&'a Sender<Event>);

impl Drop for TellOfPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(Event::Panicked);
        }
    }
}

/// Writes commits as they are requested, until the connector has ended.
fn write_on_request<'a>(
    shared: &Shared<'a>,
    requests: &Receiver<CommitJob<'a>>,
    events: &Sender<Event>,
) {
    let _tell = TellOfPanic(events);
    while let Ok(job) = requests.recv() {
        let written = job.write(shared, &|_| {});
        if events.send(Event::Committed(written)).is_err() {
            return;
        }
    }
}

/// Merges tables when requested, until the connector has ended. A commit must not wait for a merge,
/// which takes much longer, so that merges have threads of their own.
fn merge_on_request(
    shared: &Shared,
    requests: &Receiver<()>,
    stop: &AtomicBool,
) -> Result<(), StoreError> {
    let Ok(()) = requests.recv() else { return Ok(()) };
    let count = shared.pool.current_num_threads().div_ceil(2);
    let pool = threads::named_pool("apus-merge", count)?;
    loop {
        let timer = shared.clock.start(Stage::Merge);
        let bytes = shared.chainstate.disk_bytes();
        tracing::debug!(target: "leveldb", bytes, "merging tables");
        while shared.merge(&pool, ShareWatch::until(stop))? {}
        drop(timer);
        if requests.recv().is_err() {
            return Ok(());
        }
    }
}

/// Prepares the block of a step, and loads the coins that it spends into the cache.
fn prepare_with_coins(shared: &Shared, step: Step, halt: &AtomicBool) -> Result<Ready, Fault> {
    let prepared = shared.prepare(step, halt)?;
    let _timer = shared.clock.start(Stage::LookUp);
    let ready = Ready::new(shared, prepared);
    prefetch(shared, &ready)?;
    Ok(ready)
}

/// Makes the cache keep the coins that a block spends, and loads those that the tables have.
fn prefetch(shared: &Shared, block: &Ready) -> Result<(), StoreError> {
    let Shared { chainstate, cache, clock, .. } = shared;
    let external = &block.prepared.external;
    let unknown = cache.want(external, &block.sorted);
    if unknown.is_empty() || chainstate.is_empty() {
        return Ok(());
    }
    let generation = cache.generation();
    let wanted: Vec<OutPoint> = unknown.into_iter().map(|index| external[index]).collect();
    let found = chainstate.get_many(&wanted).inspect_err(|_| cache.release(external))?;
    let coins: Vec<(OutPoint, Coin)> = wanted
        .into_iter()
        .zip(found)
        .filter_map(|(outpoint, coin)| Some((outpoint, coin?)))
        .collect();
    clock.note_looked_up(coins.len());
    cache.fill_batch(generation, &coins);
    Ok(())
}

#[cfg(test)]
mod tests {
    use apus_node::Run;
    use std::sync::atomic::AtomicUsize;

    use apus_chain::Tree;
    use apus_node::assumevalid::Assumed;
    use apus_node::block::validate::BranchTimes;
    use apus_node::block_peers::{BlockPeers, Wanted};
    use apus_node::opened::{Coins, step};
    use apus_node::options::{AssumeValid, Options};
    use apus_node::scan::{open_sources, scan_into_node};
    use apus_node::sources::{BlockBytes, BlockOrigin, SourcePlace};
    use apus_progress::Method;
    use apus_progress::Unobserved;
    use apus_progress::{Observer, Watch};
    use apus_testchain::write::write_framed;
    use apus_testchain::{Spends, Wide, WideSpec};
    use apus_wire::{Chain, Network};

    use super::*;
    use crate::in_order::activate::steps;
    use crate::sync;
    use crate::unfinished::open_node;

    fn branch<'a>(shared: &Shared, steps: &'a [Step]) -> Branch<'a> {
        let assumed = Assumed::new(AssumeValid::Nothing, shared.tree);
        Branch { steps, assumed, times: BranchTimes::default() }
    }

    #[test]
    fn blocks_ahead_have_their_coins_and_no_more_than_fit() {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("source.dat");
        let spec = WideSpec { busy_blocks: 40, txs: 100, ..WideSpec::of_size(1, 0, 0) };
        let spec = WideSpec { empty_blocks_after: 0, spends: Spends::Old, ..spec };
        write_framed(&source, Wide::new(spec)).unwrap();
        let mut options = Options::new(place.path().to_path_buf(), Network::new(Chain::Regtest));
        options.method = Some(Method::InOrder);
        let stop = AtomicBool::new(false);
        options.stop_at_height = Some(150);
        sync(&options, std::slice::from_ref(&source), Watch::new(&Unobserved, &stop)).unwrap();
        options.stop_at_height = None;
        for coins_max in [0, 3_000, 6_000, 1_000_000] {
            let mut node = open_node(&Run::new(&options), Coins::InPlace).unwrap();
            let sources = open_sources(&options, std::slice::from_ref(&source)).unwrap();
            scan_into_node(&mut node, &sources, Watch::new(&Unobserved, &stop)).unwrap();
            let best = node.tree().best_candidate().unwrap();
            let steps = steps(&node, node.tip(), best);
            assert_eq!(steps.len(), 40);
            let (shared, _) = node.split();
            with_workers(&shared, &branch(&shared, &steps), 2, &stop, |workers| {
                for _ in 0..40 {
                    workers.let_ahead(0, AHEAD_MAX, coins_max * CACHE_BYTES_AHEAD);
                    while workers.answered < workers.next_ticket {
                        workers.wait();
                    }
                }
                let blocks = workers.ready();
                let coins = workers.coins_ready;
                match coins_max {
                    0 => assert_eq!(blocks, AHEAD_MIN),
                    1_000_000 => assert_eq!(blocks, AHEAD_MAX),
                    _ => assert!(coins > coins_max / 2 && coins <= coins_max, "{coins}"),
                }
                (0..20).for_each(|_| shared.cache.shrink_to(0));
                let Some(Ok(next)) = workers.take_ready(0) else { panic!("it is not ready") };
                let unknown = shared.cache.unknown(&next.prepared.external).len();
                assert_eq!(
                    unknown, 0,
                    "of {coins} coins some that the next block spends were dropped"
                );
            })
            .unwrap();
        }
    }

    /// Peers that send nothing.
    #[derive(Default)]
    struct Silent {
        /// The number of threads that wait for a block.
        waiting: AtomicUsize,
    }

    impl BlockPeers for Silent {
        fn fetch(
            &self,
            _: &Tree,
            _: Step,
            halt: &AtomicBool,
            _: &mut dyn FnMut(BlockBytes) -> Result<(), Fault>,
        ) -> Result<(), Fault> {
            self.waiting.fetch_add(1, Relaxed);
            while !halt.load(Relaxed) {
                thread::yield_now();
            }
            Err(Fault::Stopped)
        }

        fn serve(&self, _: &Tree, _: Wanted, _: &dyn Observer, work: &mut dyn FnMut()) {
            work();
        }
    }

    #[test]
    fn blocks_are_checked_while_all_workers_wait_for_peers() {
        const THREADS: usize = 2;
        let place = tempfile::tempdir().unwrap();
        let options = Options::new(place.path().to_path_buf(), Network::new(Chain::Regtest));
        let mut node = open_node(&Run::new(&options), Coins::InPlace).unwrap();
        let id = node.tree().genesis();
        let stored = step(&node, id).unwrap();
        let (mut shared, _) = node.split();
        let peers = Silent::default();
        shared.peers = Some(&peers);
        let of_peers = Step { place: BlockOrigin::Peers, ..stored };
        let steps = [of_peers; THREADS];
        let stop = AtomicBool::new(false);
        with_workers(&shared, &branch(&shared, &steps), THREADS, &stop, |workers| {
            workers.let_ahead(0, AHEAD_MAX, 0);
            while peers.waiting.load(Relaxed) < THREADS {
                thread::yield_now();
            }
            let times = BranchTimes::default();
            for _ in 0..2 * IN_FLIGHT_MAX {
                let prepared = shared.prepare(stored, &stop).ok().unwrap();
                let block = Validation::new(shared.tree, id, prepared, Vec::new(), None, &times);
                workers.check(&Arc::new(block));
            }
            workers.let_go();
        })
        .unwrap();
    }

    #[test]
    #[should_panic(expected = "a worker has panicked")]
    fn a_panic_in_one_worker_ends_the_connector() {
        let place = tempfile::tempdir().unwrap();
        let options = Options::new(place.path().to_path_buf(), Network::new(Chain::Regtest));
        let mut node = open_node(&Run::new(&options), Coins::InPlace).unwrap();
        let id = node.tree().genesis();
        let (shared, _) = node.split();
        // No source has this number.
        let nowhere = BlockOrigin::Source(SourcePlace { file: 9, offset: 0, len: 0 });
        let steps = [Step { id, place: nowhere, weight: 0 }];
        let stop = AtomicBool::new(false);
        with_workers(&shared, &branch(&shared, &steps), 2, &stop, |workers| {
            workers.let_ahead(0, AHEAD_MAX, 0);
            (0..50).for_each(|_| workers.wait());
        })
        .unwrap();
    }
}
