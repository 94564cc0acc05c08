//! The present time, the time that each stage of the work takes, summed over all threads, and what
//! the thread that connects blocks waits for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The stages of the work, each timed separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Finding blocks in the sources and checking headers.
    Headers,
    /// Reading blocks.
    Read,
    /// Parsing, hashing, and checking rules that need no coins.
    Check,
    /// SwiftSync: separating spent from unspent outputs, and the aggregate.
    Sum,
    /// Join: matching the spends of recent outputs, and writing records of all others.
    Join,
    /// Join: matching the outputs and spends of a partition.
    Pair,
    /// Looking coins up in the tables.
    LookUp,
    /// Storing blocks that came from a source.
    Store,
    /// Taking and adding coins.
    Connect,
    /// Checking rules that need coins, and scripts, and encoding undo data.
    Validate,
    /// Writing undo data.
    Undo,
    /// Writing changed coins.
    Commit,
    /// Merging tables.
    Merge,
}

/// All stages in the order of [`Stage`], with their names in reports.
const STAGES: [(Stage, &str); 13] = [
    (Stage::Headers, "headers"),
    (Stage::Read, "read"),
    (Stage::Check, "check"),
    (Stage::Sum, "sum"),
    (Stage::Join, "join"),
    (Stage::Pair, "pair"),
    (Stage::LookUp, "look_up"),
    (Stage::Store, "store"),
    (Stage::Connect, "connect"),
    (Stage::Validate, "validate"),
    (Stage::Undo, "undo"),
    (Stage::Commit, "commit"),
    (Stage::Merge, "merge"),
];

/// A reason for the thread that connects blocks in order to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// The reading and checking of the next block, and the look-up of its coins.
    Blocks,
    /// The download of the next block from a peer.
    Peers,
    /// The checks of connected blocks.
    Checks,
    /// The writing of coins.
    Commit,
}

const WAITS: usize = 4;

/// The number of classes of stalls by length: below 1 ms, 2 ms, 4 ms … 16 s, and longer.
pub const STALLS: usize = 16;

/// What the thread that connects blocks in order waited for, and how full the queues before and
/// after it were. All zero if no block was connected in order.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Waits {
    /// The total time of that thread.
    pub connecting: Duration,
    /// Time spent waiting for the next block to be read and checked, and its coins to be looked up.
    pub blocks: Duration,
    /// Time spent waiting for the next block to be downloaded from a peer.
    pub peers: Duration,
    /// Time spent waiting for the checks of connected blocks: rules about coins, and scripts.
    pub checks: Duration,
    /// Time spent waiting for coins to be written.
    pub commits: Duration,
    /// Mean number of blocks that were ready to be connected, of 32 at most.
    pub ready: f64,
    /// Mean number of blocks that were connected and not yet checked, of 16 at most.
    pub in_flight: f64,
    /// Number of waits for coins to be written, by length: first those below a millisecond, and in
    /// each further class those up to twice as long.
    pub stalls: [u64; STALLS],
    /// The longest wait for coins to be written.
    pub longest_stall: Duration,
    /// Number of coins that were read from the tables, since the cache did not hold them.
    pub looked_up: u64,
}

/// The time spent in each stage, summed over all threads, and the time spent waiting.
#[derive(Default)]
pub struct Clock {
    nanoseconds: [AtomicU64; STAGES.len()],
    waits: [AtomicU64; WAITS],
    /// Time in which blocks were connected in order.
    connecting: AtomicU64,
    /// Sums of the arguments of [`Clock::note_queues`], and the number of its calls.
    queues: [AtomicU64; 3],
    /// Number of stalls by length; the longest stall is in nanoseconds.
    stalls: [AtomicU64; STALLS],
    longest_stall: AtomicU64,
    looked_up: AtomicU64,
    commits: AtomicU64,
    spilled: AtomicU64,
    /// When [`Clock::log`] was last called.
    logged: Mutex<Option<Instant>>,
}

/// A timer that adds the time from its start until it is dropped to a sum.
pub struct Timer<'a> {
    sum: &'a AtomicU64,
    started: Instant,
}

impl Clock {
    /// Starts timing a stage.
    pub fn start(&self, stage: Stage) -> Timer<'_> {
        Timer { sum: &self.nanoseconds[stage as usize], started: Instant::now() }
    }

    /// Starts timing what the thread that connects blocks waits for.
    pub fn wait(&self, wait: Wait) -> Timer<'_> {
        Timer { sum: &self.waits[wait as usize], started: Instant::now() }
    }

    /// Starts timing the thread that connects blocks.
    pub fn connect(&self) -> Timer<'_> {
        Timer { sum: &self.connecting, started: Instant::now() }
    }

    /// Records how many blocks are ready to be connected, and how many are connected and not yet
    /// checked.
    pub fn note_queues(&self, ready: usize, in_flight: usize) {
        for (sum, by) in self.queues.iter().zip([ready as u64, in_flight as u64, 1]) {
            sum.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// Records that blocks waited for `time` until coins were written.
    pub fn note_stall(&self, time: Duration) {
        let length = (u64::BITS - (time.as_millis() as u64).leading_zeros()) as usize;
        self.stalls[length.min(STALLS - 1)].fetch_add(1, Ordering::Relaxed);
        self.longest_stall.fetch_max(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Records that coins and their best block were written.
    pub fn note_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often coins and their best block were written.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Records that the present join has written `bytes` to temporary files so far.
    pub fn set_spilled(&self, bytes: u64) {
        self.spilled.store(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes that the last join has written to temporary files.
    pub fn spilled(&self) -> u64 {
        self.spilled.load(Ordering::Relaxed)
    }

    /// Records that `count` coins were read from the tables.
    pub fn note_looked_up(&self, count: usize) {
        self.looked_up.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Returns what the thread that connects blocks in order waited for, and how full its queues
    /// were.
    pub fn waits(&self) -> Waits {
        let time = |sum: &AtomicU64| Duration::from_nanos(sum.load(Ordering::Relaxed));
        let [blocks, peers, checks, commits] = self.waits.each_ref().map(time);
        let [ready, in_flight, times] =
            self.queues.each_ref().map(|sum| sum.load(Ordering::Relaxed) as f64);
        let connecting = time(&self.connecting);
        let ready = ready / times.max(1.0);
        let in_flight = in_flight / times.max(1.0);
        let stalls = self.stalls.each_ref().map(|count| count.load(Ordering::Relaxed));
        let longest_stall = time(&self.longest_stall);
        let looked_up = self.looked_up.load(Ordering::Relaxed);
        Waits {
            connecting,
            blocks,
            peers,
            checks,
            commits,
            ready,
            in_flight,
            stalls,
            longest_stall,
            looked_up,
        }
    }

    /// Logs the time of each stage and of each wait since the start (Core's category `bench`).
    pub fn log(&self) {
        if !tracing::enabled!(target: "bench", tracing::Level::DEBUG) {
            return;
        }
        *self.logged.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let seconds = |time: &Duration| format!("{:.2}", time.as_secs_f64());
        let stages = self.stages();
        let stages = stages.iter().filter(|(_, time)| !time.is_zero());
        let stages: Vec<String> =
            stages.map(|(name, time)| format!("{name} {} s", seconds(time))).collect();
        let Waits { blocks, peers, checks, commits, ready, in_flight, .. } = self.waits();
        tracing::debug!(
            target: "bench",
            "stages, over all threads: {}; connecting waited for blocks {} s, for peers {} s, for \
             checks {} s, for coins to be written {} s; blocks ready {ready:.1}, in checks \
             {in_flight:.1}",
            stages.join(", "),
            seconds(&blocks),
            seconds(&peers),
            seconds(&checks),
            seconds(&commits),
        );
    }

    /// Calls [`Clock::log`] if its last call, or the first call of this, was at least `every` ago.
    pub fn log_every(&self, every: Duration) {
        if !tracing::enabled!(target: "bench", tracing::Level::DEBUG) {
            return;
        }
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = logged.get_or_insert_with(Instant::now).elapsed() >= every;
        drop(logged);
        if is_due {
            self.log();
        }
    }

    /// Adds time that the caller has measured.
    pub fn add(&self, stage: Stage, elapsed: Duration) {
        self.nanoseconds[stage as usize].fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Returns the time of each stage, by the stage's name.
    pub fn stages(&self) -> BTreeMap<&'static str, Duration> {
        STAGES
            .iter()
            .map(|(stage, name)| {
                let sum = &self.nanoseconds[*stage as usize];
                (*name, Duration::from_nanos(sum.load(Ordering::Relaxed)))
            })
            .collect()
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        let elapsed = self.started.elapsed().as_nanos() as u64;
        self.sum.fetch_add(elapsed, Ordering::Relaxed);
    }
}

/// Returns the present time in seconds since 1970. Headers too far ahead of it are refused.
pub fn unix_time() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
