use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A callback that is given the share of a long piece of work that is done, from 0 to 1, by the
/// threads that do the work.
pub type OnShare<'a> = &'a (dyn Fn(f64) + Sync);

/// How a long piece of work is watched: a callback for its progress, and the flag that asks for an
/// early end.
#[derive(Clone, Copy)]
pub struct ShareWatch<'a> {
    /// Receives the share of the work that is done.
    pub report: OnShare<'a>,
    /// Ends the work within a second once it is raised.
    pub stop: &'a AtomicBool,
}

impl<'a> ShareWatch<'a> {
    /// Reports nothing, and ends the work once `stop` is raised.
    pub fn until(stop: &'a AtomicBool) -> Self {
        Self { report: &|_| {}, stop }
    }

    /// Whether the work is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Default for ShareWatch<'_> {
    /// Reports nothing, and never ends the work early.
    fn default() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self::until(&NEVER)
    }
}

/// Counts how much of a long piece of work is done, for any number of threads, and reports it.
pub struct Share<'a> {
    report: OnShare<'a>,
    done: AtomicU64,
    total: u64,
}

impl<'a> Share<'a> {
    /// A count that starts at 0 and ends at `total`, in any unit.
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
