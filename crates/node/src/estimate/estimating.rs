//! An observer that adds the estimate of the run to each progress report.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::estimator::{Estimator, Ran};
use super::left::Estimate;
use super::plan::Plan;
use crate::bottleneck::Machine;
use crate::progress::{Download, Observer, Phase, Progress};

/// Seconds between two estimates in one phase; what is reported meanwhile gets the last one.
const EVERY: f64 = 0.1;
/// Seconds without a report after which the last one is repeated while peers are heard.
const REPEAT_AFTER: f64 = 1.0;

/// An estimator with a clock, which begins when this is made.
pub struct Timed {
    started: Instant,
    estimator: Estimator,
    /// The second of the last estimate, the progress, and the estimate.
    last: Option<(f64, Progress, Estimate)>,
}

impl Timed {
    /// Takes note of the progress now, and returns the estimate.
    pub fn add(&mut self, progress: &Progress) -> Estimate {
        let now = self.started.elapsed().as_secs_f64();
        // The end of a phase is never left out.
        if let Some((at, last, estimate)) = &self.last
            && now < at + EVERY
            && last.phase == progress.phase
            && progress.fraction < 1.0
        {
            return estimate.clone();
        }
        let estimate = self.estimator.add(now, progress, Machine::now());
        self.last = Some((now, progress.clone(), estimate.clone()));
        estimate
    }

    /// Returns the last progress with this download, if the work has reported none for a while.
    fn overdue(&self, download: Download) -> Option<Progress> {
        let (at, last, _) = self.last.as_ref()?;
        let is_due = self.started.elapsed().as_secs_f64() >= at + REPEAT_AFTER;
        let progress = Progress { download: Some(download), ..last.clone() };
        (is_due && last.phase != Phase::Serving).then_some(progress)
    }
}

impl Default for Timed {
    /// Returns the estimator of work that begins now.
    fn default() -> Self {
        Self { started: Instant::now(), estimator: Estimator::default(), last: None }
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
        Self { inner, timed: Mutex::default() }
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
        let estimate = Some(self.timed().add(progress));
        self.inner.observe(&Progress { estimate, ..progress.clone() });
    }

    fn plan(&self, plan: &Plan) {
        self.timed().estimator.plan(plan);
    }

    fn heard(&self, download: Download) {
        let overdue = self.timed().overdue(download);
        if let Some(progress) = overdue {
            self.observe(&progress);
        }
    }

    fn inner(&self) -> Option<&dyn Observer> {
        Some(self.inner)
    }
}
