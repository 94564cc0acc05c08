//! The loop of work that is saved now and then, so that a later run can carry on.

use std::time::{Duration, Instant};

use apus_node::fault::Fault;

/// Calls `run` on `work` until that is done, and `save` after each call that leaves some to do. If
/// `stops` returns true after a call, saves and ends.
///
/// # Errors
/// Those of `run` and `save`, or `stops` returned true.
pub fn work_and_save<W>(
    work: &mut W,
    is_done: impl Fn(&W) -> bool,
    mut run: impl FnMut(&mut W) -> Result<(), Fault>,
    save: impl Fn(&mut W) -> Result<(), Fault>,
    stops: impl Fn() -> bool,
) -> Result<(), Fault> {
    while !is_done(work) {
        run(work)?;
        let is_stopped = stops();
        if is_stopped || !is_done(work) {
            save(work)?;
        }
        if is_stopped {
            return Err(Fault::Stopped);
        }
    }
    Ok(())
}

/// Decides when workers end: for a save, or because the work is stopped.
pub struct Deadline<S> {
    started: Instant,
    every: Duration,
    stops: S,
    /// Whether any piece of work is done, so that there is something to save.
    has_work: bool,
}

impl<S: Fn() -> bool> Deadline<S> {
    /// Returns a deadline for a save after `every`, and for a stop once `stops` returns true.
    pub fn new(every: Duration, stops: S) -> Self {
        Self { started: Instant::now(), every, stops, has_work: false }
    }

    /// Returns whether workers must end now. `is_done` says whether a worker has finished a piece
    /// of work. No save is due before the first piece: there is nothing to save yet, and with a
    /// very short time between saves no worker would ever begin.
    pub fn is_due(&mut self, is_done: bool) -> bool {
        self.has_work |= is_done;
        (self.stops)() || (self.has_work && self.started.elapsed() > self.every)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn workers_end_for_a_save_after_work_and_for_a_stop_at_once() {
        let stop = AtomicBool::new(false);
        let mut until = Deadline::new(Duration::ZERO, || stop.load(Relaxed));
        assert!(!until.is_due(false) && until.is_due(true) && until.is_due(false));
        let mut until = Deadline::new(Duration::MAX, || stop.load(Relaxed));
        assert!(!until.is_due(true));
        stop.store(true, Relaxed);
        assert!(until.is_due(false));
    }
}
