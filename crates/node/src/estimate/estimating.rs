//! An observer that adds the estimate of the run to each progress report.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::estimator::Estimator;
use super::plan::Plan;
use crate::progress::{Observer, Progress};

/// Passes everything to another observer, and adds to each progress report how far the whole run
/// is. The run begins when this is made.
pub struct Estimating<'a> {
    inner: &'a dyn Observer,
    started: Instant,
    estimator: Mutex<Estimator>,
}

impl<'a> Estimating<'a> {
    /// Creates an observer of a run that begins now.
    pub fn new(inner: &'a dyn Observer) -> Self {
        Self { inner, started: Instant::now(), estimator: Mutex::default() }
    }

    fn estimator(&self) -> MutexGuard<'_, Estimator> {
        self.estimator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Estimating<'_> {
    fn observe(&self, progress: &Progress) {
        let estimate = Some(self.estimator().add(self.started.elapsed().as_secs_f64(), progress));
        self.inner.observe(&Progress { estimate, ..progress.clone() });
    }

    fn plan(&self, plan: &Plan) {
        self.estimator().plan(plan);
        self.inner.plan(plan);
    }

    fn inner(&self) -> Option<&dyn Observer> {
        Some(self.inner)
    }
}
