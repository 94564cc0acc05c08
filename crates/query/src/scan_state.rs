//! The scan of blocks that runs, of which there is one at most.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// The state of the scan that runs, if one does.
#[derive(Default)]
pub struct Scan {
    is_running: AtomicBool,
    is_aborted: AtomicBool,
    /// In per cent.
    progress: AtomicU32,
    height: AtomicU32,
}

/// The scan that runs; when it is dropped, another may begin (Core's `BlockFiltersScanReserver`).
pub struct Running<'a>(pub &'a Scan);

impl Scan {
    /// Begins a scan; `None` if one runs.
    pub fn begin(&self) -> Option<Running<'_>> {
        // What is dropped ends a scan, so it is made only if this one begins.
        (!self.is_running.swap(true, Relaxed)).then(|| Running(self))
    }

    /// Notes that the scan starts at a height.
    pub fn start(&self, height: u32) {
        self.is_aborted.store(false, Relaxed);
        self.reach(0, height);
    }

    /// Notes how far the scan is, in per cent, and the height of the last block.
    pub fn reach(&self, progress: u32, height: u32) {
        self.progress.store(progress, Relaxed);
        self.height.store(height, Relaxed);
    }

    /// Returns how far the scan is, in per cent, and the height of the last block; `None` if none
    /// runs.
    pub fn reached(&self) -> Option<(u32, u32)> {
        let is_running = self.is_running.load(Relaxed);
        is_running.then(|| (self.progress.load(Relaxed), self.height.load(Relaxed)))
    }

    /// Asks the scan to end soon. Returns whether one runs.
    pub fn abort(&self) -> bool {
        let is_running = self.is_running.load(Relaxed);
        self.is_aborted.store(is_running, Relaxed);
        is_running
    }

    /// Returns whether the scan was asked to end.
    pub fn is_aborted(&self) -> bool {
        self.is_aborted.load(Relaxed)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.is_running.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_scan_runs_at_a_time() {
        let scan = Scan::default();
        assert_eq!((scan.reached(), scan.abort()), (None, false));
        let running = scan.begin().unwrap();
        assert!(scan.begin().is_none());
        scan.start(7);
        scan.reach(40, 9);
        assert_eq!(scan.reached(), Some((40, 9)));
        assert!(!scan.is_aborted() && scan.abort() && scan.is_aborted());
        drop(running);
        assert_eq!((scan.reached(), scan.abort()), (None, false));
        assert!(scan.begin().is_some());
    }
}
