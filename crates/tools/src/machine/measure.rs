//! The speed of a disk, measured with a file that has no name and is gone afterwards.

use std::path::Path;
use std::time::{Duration, Instant};

use apus_disk::{Caching, Disk, StoreError};

/// Bytes of a write.
const PIECE: usize = 4 << 20;
/// The most bytes that are written, and the most reads: a fast disk is measured in less time.
const BYTES_MAX: u64 = 256 << 20;
const READS_MAX: u64 = 2_000;
/// How long is written and how long is read, at most.
const TIME: Duration = Duration::from_millis(1500);

/// The speed of a disk.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Bytes a second written in order, until they are on the disk.
    pub written: f64,
    /// Reads a second of 4 KiB at random places, one after the other.
    pub reads: f64,
}

/// Measures the disk of a directory, which must exist, for at most about three seconds. Up to 256
/// MiB are written to a file whose name is removed before the first of them.
///
/// # Errors
/// The directory cannot be written to, or the disk fails.
pub fn measure(directory: &Path) -> Result<Speed, StoreError> {
    let disk = Disk::new();
    let path = directory.join(format!(".apus-doctor-{}.tmp", std::process::id()));
    let file = disk.create_cached(&path, Caching::Direct)?;
    disk.remove(&path)?;
    // Direct reads and writes need aligned memory.
    let page_bytes = Disk::DIRECT_BYTES;
    let mut bytes: Vec<u8> = (0..PIECE + page_bytes).map(|n| ((n * 31) >> 3) as u8).collect();
    let from = bytes.as_ptr().align_offset(page_bytes);
    let piece = &mut bytes[from..from + PIECE];
    let began = Instant::now();
    let mut len = 0;
    while len < BYTES_MAX && began.elapsed() < TIME {
        file.write_all_at(piece, len)?;
        len += PIECE as u64;
    }
    file.sync()?;
    let written = len as f64 / began.elapsed().as_secs_f64();
    let mut reads = 0u64;
    let mut place = 1u64;
    let began = Instant::now();
    while reads < READS_MAX && began.elapsed() < TIME {
        // A linear congruence visits the pages in an order that no disk foresees.
        place =
            place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let page = (place >> 33) % (len / page_bytes as u64);
        file.read_exact_at(&mut piece[..page_bytes], page * page_bytes as u64)?;
        reads += 1;
    }
    Ok(Speed { written, reads: reads as f64 / began.elapsed().as_secs_f64() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let speed = measure(dir.path()).unwrap();
        assert!(speed.written > 0.0 && speed.reads > 0.0, "{speed:?}");
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        assert!(measure(&dir.path().join("missing")).is_err());
    }
}
