//! A request to stop while SwiftSync works through blocks.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apus_node::{Options, SyncError};
use apus_progress::Watch;
use apus_progress::{Observer, Phase, Progress};
use apus_sync as sync;
use apus_sync::Summary;

/// An observer that asks to stop when a SwiftSync, or its second branch, first reports blocks, and
/// counts the branches.
pub struct StopSoon {
    flag: AtomicBool,
    branch: usize,
    /// The number of branches begun, and of blocks at the last report.
    seen: Mutex<(usize, u64)>,
}

impl StopSoon {
    pub fn new(branch: usize) -> Self {
        Self { flag: AtomicBool::new(false), branch, seen: Mutex::new((0, u64::MAX)) }
    }

    /// The number of branches that were begun.
    pub fn branches(&self) -> usize {
        self.seen.lock().unwrap().0
    }

    /// One run with a single worker.
    pub fn run(&self, options: &Options, sources: &[PathBuf]) -> Result<Summary, SyncError> {
        let options = Options { save_every: Duration::MAX, threads: 1, ..options.clone() };
        sync::sync(&options, sources, Watch::new(self, &self.flag))
    }
}

impl Observer for StopSoon {
    fn observe(&self, progress: &Progress) {
        if progress.phase != Phase::SwiftSync {
            return;
        }
        let mut seen = self.seen.lock().unwrap();
        seen.0 += usize::from(progress.blocks < seen.1);
        seen.1 = progress.blocks;
        self.flag.fetch_or(seen.0 == self.branch && progress.blocks > 0, Relaxed);
    }
}
