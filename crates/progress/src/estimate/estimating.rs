//! An observer that adds the estimate of the run to each progress report.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::estimator::{Estimator, Ran};
use super::plan::RunPlan;
use crate::bottleneck::Machine;
use crate::observer::{Download, Observer, Phase, Progress};

/// Seconds between two estimates in one phase; what is reported meanwhile gets the last one.
const EVERY: f64 = 0.1;
/// Seconds without a report after which the last one is repeated while peers are heard.
const REPEAT_AFTER: f64 = 1.0;

/// An estimator with a clock.
pub struct Timed {
    started: Instant,
    estimator: Estimator,
    /// The second of the last estimate, and the progress with it.
    last: Option<(f64, Progress)>,
}

impl Timed {
    /// Returns the estimator of work that begins now.
    pub fn begin() -> Self {
        Self { started: Instant::now(), estimator: Estimator::default(), last: None }
    }

    pub fn add(&mut self, progress: &Progress) -> Progress {
        let now = self.started.elapsed().as_secs_f64();
        let mut progress = progress.clone();
        // The end of a phase is never left out.
        if let Some((at, last)) = &self.last
            && now < at + EVERY
            && last.phase == progress.phase
            && progress.fraction < 1.0
        {
            progress.estimate.clone_from(&last.estimate);
            return progress;
        }
        progress.estimate = Some(self.estimator.add(now, &progress, Machine::now()));
        self.last = Some((now, progress.clone()));
        progress
    }
}

/// Passes everything to another observer, and adds to each progress report how far the whole run
/// is. The run begins when this is made.
pub struct Estimating<'a> {
    inner: &'a dyn Observer,
    timed: Mutex<Timed>,
}

impl<'a> Estimating<'a> {
    /// Creates an observer of a run that begins now.
    pub fn new(inner: &'a dyn Observer) -> Self {
        Self { inner, timed: Mutex::new(Timed::begin()) }
    }

    /// Returns what the run has shown so far.
    pub fn ran(&self) -> Ran {
        self.timed().estimator.ran()
    }

    fn timed(&self) -> MutexGuard<'_, Timed> {
        self.timed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Estimating<'_> {
    fn observe(&self, progress: &Progress) {
        let progress = self.timed().add(progress);
        self.inner.observe(&progress);
    }

    fn plan(&self, plan: &RunPlan) {
        self.timed().estimator.plan(plan);
    }

    fn heard(&self, download: Download) {
        let Some((at, last)) = self.timed().last.clone() else { return };
        let is_due = self.timed().started.elapsed().as_secs_f64() >= at + REPEAT_AFTER;
        if is_due && last.phase != Phase::Serving {
            self.observe(&Progress { download: Some(download), ..last });
        }
    }

    fn inner(&self) -> Option<&dyn Observer> {
        Some(self.inner)
    }
}
