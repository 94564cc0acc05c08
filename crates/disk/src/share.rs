use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A callback for the progress of a long task, from 0 to 1. The threads that do the work call it.
pub type OnShare<'a> = &'a (dyn Fn(f64) + Sync);

/// How a long task is watched: a callback for its progress, and a flag that asks it to stop early.
#[derive(Clone, Copy)]
pub struct ShareWatch<'a> {
    /// Receives the share of the work that is done, from 0 to 1.
    pub report: OnShare<'a>,
    /// Stops the work within a second once it is set.
    pub stop: &'a AtomicBool,
}

impl<'a> ShareWatch<'a> {
    /// Returns a watch that reports nothing and stops the work once `stop` is set.
    pub fn until(stop: &'a AtomicBool) -> Self {
        Self { report: &|_| {}, stop }
    }

    /// Returns whether the work is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Default for ShareWatch<'_> {
    /// Returns a watch that reports nothing and never stops the work early.
    fn default() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self::until(&NEVER)
    }
}

/// Counts how much of a long task is done, for any number of threads, and reports it.
pub struct Share<'a> {
    report: OnShare<'a>,
    done: AtomicU64,
    total: u64,
}

impl<'a> Share<'a> {
    /// Returns a count that starts at 0 and ends at `total`, in any unit.
    pub fn new(total: u64, report: OnShare<'a>) -> Self {
        Self { report, done: AtomicU64::new(0), total }
    }

    /// Counts `more` units as done.
    pub fn add(&self, more: u64) {
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        if self.total > 0 {
            (self.report)(done.min(self.total) as f64 / self.total as f64);
        }
    }
}
