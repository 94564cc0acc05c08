//! A disk that is full from some moment on.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus::sync::{Observer, Phase, Progress};

/// An observer that fills a disk at the first report of a phase.
pub struct FillDisk {
    phase: Phase,
    /// The file that takes all room.
    path: PathBuf,
    is_filled: AtomicBool,
}

impl FillDisk {
    pub fn new(phase: Phase, path: PathBuf) -> Self {
        Self { phase, path, is_filled: AtomicBool::new(false) }
    }
}

impl Observer for FillDisk {
    fn observe(&self, progress: &Progress) {
        if progress.phase != self.phase || self.is_filled.swap(true, Relaxed) {
            return;
        }
        let mut file = std::fs::File::create(&self.path).unwrap();
        for size in [1 << 20, 1 << 12] {
            let zeros = vec![0; size];
            while file.write_all(&zeros).is_ok() {}
        }
    }
}
