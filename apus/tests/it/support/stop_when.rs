//! Requests to stop at a chosen moment.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_progress::{Observer, Progress};

/// An observer that raises the flag at the first report for which the condition holds.
pub struct StopWhen<'a, C>(pub &'a AtomicBool, pub C);

impl<C: Fn(&Progress) -> bool + Sync> Observer for StopWhen<'_, C> {
    fn observe(&self, progress: &Progress) {
        let Self(stop, condition) = self;
        if condition(progress) {
            stop.store(true, Relaxed);
        }
    }
}
