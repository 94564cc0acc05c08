use std::sync::atomic::{AtomicU64, Ordering};

/// Whoever wants to know which share of a long piece of work is done, from 0 to 1. Called from the
/// threads that do the work.
pub type OnShare<'a> = &'a (dyn Fn(f64) + Sync);

/// How much of a long piece of work is done. Any thread adds to it, and it reports.
pub struct Share<'a> {
    report: OnShare<'a>,
    done: AtomicU64,
    total: u64,
}

impl<'a> Share<'a> {
    /// Nothing done of `total`, in whatever unit.
    pub fn new(total: u64, report: OnShare<'a>) -> Self {
        Self { report, done: AtomicU64::new(0), total }
    }

    /// So much more is done.
    pub fn add(&self, more: u64) {
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        if self.total > 0 {
            (self.report)(done.min(self.total) as f64 / self.total as f64);
        }
    }
}
