//! The present time, and the time that each stage of the work takes, summed over all threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The stages of the work whose time is measured apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Finding blocks in the sources and checking headers.
    Headers,
    /// Reading blocks.
    Read,
    /// Parsing, hashing, rules that need no coins.
    Check,
    /// SwiftSync: separating spent from unspent outputs, and the aggregate.
    Sum,
    /// Join: meeting the spends of recent outputs, and making records of all others.
    Join,
    /// Join: bringing outputs and spends of a partition together.
    Pair,
    /// Looking coins up in the tables.
    LookUp,
    /// Storing blocks that came from a source.
    Store,
    /// Taking and adding coins.
    Connect,
    /// Rules that need coins, scripts, encoding undo data.
    Validate,
    /// Writing undo data.
    Undo,
    /// Writing changed coins.
    Commit,
    /// Merging tables.
    Merge,
}

/// All stages in the order of [`Stage`], with the names that reports use.
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

/// The time spent in each stage, summed over all threads.
#[derive(Default)]
pub(super) struct Clock {
    nanoseconds: [AtomicU64; STAGES.len()],
}

/// A timer that adds the time from its start until it is dropped to a stage.
pub(super) struct Timer<'a> {
    sum: &'a AtomicU64,
    started: Instant,
}

impl Clock {
    /// Starts timing a stage.
    pub fn start(&self, stage: Stage) -> Timer<'_> {
        Timer { sum: &self.nanoseconds[stage as usize], started: Instant::now() }
    }

    /// Adds time that the caller has measured.
    pub fn add(&self, stage: Stage, elapsed: Duration) {
        self.nanoseconds[stage as usize].fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The time of each stage, by the stage's name.
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

/// The present time in seconds since 1970. Headers too far ahead of it are refused.
pub(super) fn unix_time() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
