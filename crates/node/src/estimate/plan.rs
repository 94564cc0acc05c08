//! The stages of a run, and how long each would take on the machine of docs/budget.md.

use crate::phase::Phase;

/// A stage of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stage {
    /// The phase that is reported meanwhile.
    pub phase: Phase,
    /// Seconds that the processors take, on the machine of docs/budget.md with as many cores as
    /// this one.
    pub seconds: f64,
    /// Bytes read from the disk and written to it.
    pub disk_bytes: f64,
    /// Whether blocks come from peers in this stage.
    pub downloads: bool,
}

impl Stage {
    /// Creates a stage that downloads nothing.
    pub fn new(phase: Phase, seconds: f64, disk_bytes: f64) -> Self {
        Self { phase, seconds, disk_bytes, downloads: false }
    }
}

/// The stages of a run in their order, from now on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// The stages. A phase may occur more than once.
    pub stages: Vec<Stage>,
}
