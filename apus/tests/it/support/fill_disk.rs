//! Fills a disk at a chosen moment.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_progress::{Observer, Phase, Progress};

/// An observer that fills a disk at the first report of a phase.
pub struct FillDisk {
    phase: Phase,
    /// The file that takes all free space.
    path: PathBuf,
    /// The lowest height at which the disk is filled.
    height: u32,
    /// Bytes that are left free.
    left: u64,
    is_filled: AtomicBool,
}

impl FillDisk {
    pub fn new(phase: Phase, path: PathBuf) -> Self {
        Self { phase, path, height: 0, left: 0, is_filled: AtomicBool::new(false) }
    }

    /// Returns the same observer, but one that waits for a height and leaves `left` bytes free.
    pub fn at(self, height: u32, left: u64) -> Self {
        Self { height, left, ..self }
    }
}

impl Observer for FillDisk {
    fn observe(&self, progress: &Progress) {
        let is_time = progress.phase == self.phase && progress.height >= self.height;
        if !is_time || self.is_filled.swap(true, Relaxed) {
            return;
        }
        let mut file = std::fs::File::create(&self.path).unwrap();
        for size in [1 << 20, 1 << 12] {
            let zeros = vec![0; size];
            while file.write_all(&zeros).is_ok() {}
        }
        let filled = file.metadata().unwrap().len();
        file.set_len(filled - self.left).unwrap();
    }
}
