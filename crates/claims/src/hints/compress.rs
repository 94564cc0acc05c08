//! Writes hints files in the compressed format.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use apus_disk::Disk;
use apus_host::threads;
use apus_node::error::SyncError;
use apus_node::remedy;
use apus_node::workers::check_stop;
use apus_progress::{Observer, Phase, Progress, Watch};
use apus_swiftsync::HintsError;
use apus_swiftsync::hints::Numbering;
use apus_swiftsync::hints::compressed::{blocks_of, compress_range, head, ranges, tail};
use apus_sync::hints_file::HintsFile;
use rayon::ThreadPool;
use rayon::prelude::*;

use super::assemble::Sink;
use super::summary::{HintsSummary, Made};

/// Ranges that are compressed for each thread before any of them is written, so that threads seldom
/// wait. On mainnet one range takes less than 3 MB, and each thread works in 4 MB.
const RANGES_PER_THREAD: usize = 4;

/// Writes hints in the compressed format, on `threads` threads. `out` is replaced in one step, at
/// the end.
///
/// # Errors
/// The hints' format counts unspendable outputs, so that they must be converted first; the hints
/// are damaged; or the disk fails.
pub fn compress_hints(
    hints: &HintsFile,
    threads: usize,
    out: &Path,
    watch: Watch,
) -> Result<HintsSummary, SyncError> {
    let started = Instant::now();
    let format = hints.reader.format();
    if format.numbering() != Numbering::Spendable {
        return Err(SyncError::Input(format!(
            "{}: these hints are in the format {}, which counts unspendable outputs: first \
             convert them to bip456 with `apus hints convert`, then compress that file",
            hints.path.display(),
            format.name()
        )));
    }
    let pool = threads::pool(threads)?;
    let made = compress(hints, &pool, out, watch);
    HintsSummary::of(hints.reader.height(), started, made)
        .map_err(|error| remedy::with_room(error, false))
}

fn compress(
    hints: &HintsFile,
    pool: &ThreadPool,
    out: &Path,
    watch: Watch,
) -> Result<Made, SyncError> {
    let reader = hints.reader.as_ref();
    let height = reader.height();
    let read = blocks_of(reader).map_err(|error| hints.error(error))?;
    let blocks = AtomicU64::new(0);
    let ranges: Vec<_> = ranges(height).collect();
    Disk::new().replace_with(out, |file| {
        let mut sink = Sink::new(file, head(height));
        let mut made = Made::default();
        let mut entries = Vec::new();
        for some in ranges.chunks(RANGES_PER_THREAD * pool.current_num_threads()) {
            check_stop(watch.stop)?;
            let one = |range: &Range<u32>| {
                let done = compress_range(range.clone(), read);
                let more = range.len() as u64;
                observe(watch.observer, blocks.fetch_add(more, Relaxed) + more, height);
                done
            };
            let done: Result<Vec<_>, HintsError> =
                pool.install(|| some.par_iter().map(one).collect());
            for mut range in done.map_err(|error| hints.error(error))? {
                made.unspent += range.unspent;
                entries.append(&mut range.entries);
                sink.held.append(&mut range.bytes);
                sink.flush_beyond(0)?;
            }
        }
        check_stop(watch.stop)?;
        sink.held.extend(tail(height, &entries));
        sink.flush_beyond(0)?;
        made.bytes = sink.written;
        Ok(made)
    })
}

/// Reports that this many blocks `of` all are done.
fn observe(observer: &dyn Observer, blocks: u64, of: u32) {
    let fraction = blocks as f64 / f64::from(of);
    let begun = Progress::of(Phase::MakingHints);
    observer.observe(&Progress { height: blocks as u32, blocks, fraction, ..begun });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use std::path::PathBuf;

    use apus_node::options::Options;
    use apus_progress::Unobserved;
    use apus_swiftsync::hints::{Format, compressed, encoder};
    use apus_wire::{Chain, Network};

    use super::*;
    use crate::hints::convert::convert_hints;

    /// Returns the bytes of a bip456 file for `height` blocks.
    fn bip456(height: u32) -> Vec<u8> {
        let encoder = encoder(Format::Bip456);
        let mut file = Vec::new();
        encoder.put_head(height, &mut file);
        for height in 1..=height {
            let unspent: Vec<u32> = (0..height % 50).map(|i| i * (1 + height % 7)).collect();
            encoder.put_block(&unspent, 1_000, &mut file).unwrap();
        }
        file
    }

    /// Writes a hints file with these bytes, and opens it.
    fn write(path: PathBuf, bytes: &[u8]) -> HintsFile {
        std::fs::write(&path, bytes).unwrap();
        HintsFile::open(&path).unwrap()
    }

    #[test]
    fn any_number_of_threads_writes_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        for height in [0, 1, 60_000] {
            let file = bip456(height);
            let hints = write(dir.path().join("in"), &file);
            let expected = compressed::compress(hints.reader.as_ref()).unwrap();
            for threads in [1, 2, 3, 8] {
                let made = compress_hints(&hints, threads, &out, Watch::default());
                let summary = made.unwrap();
                assert!(std::fs::read(&out).unwrap() == expected);
                assert_eq!(summary.bytes, expected.len() as u64);
                assert_eq!(summary.unspent, (1..=u64::from(height)).map(|h| h % 50).sum::<u64>());
            }
            let again = dir.path().join("again");
            let hints = HintsFile::open(&out).unwrap();
            let options = Options::new(dir.path().into(), Network::new(Chain::Regtest));
            convert_hints(&hints, &options, Format::Bip456, &again, Watch::default()).unwrap();
            assert!(std::fs::read(again).unwrap() == file);
        }
    }

    #[test]
    fn a_stopped_or_refused_compression_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let hints = write(dir.path().join("bip456"), &bip456(20_000));
        let stop = AtomicBool::new(true);
        let summary = compress_hints(&hints, 2, &out, Watch::new(&Unobserved, &stop)).unwrap();
        assert!(summary.interrupted);
        let mut booster = vec![1, 0, 0];
        encoder(Format::Booster).put_block(&[1], 3, &mut booster).unwrap();
        booster.extend([0, 0]);
        let hints = write(dir.path().join("booster"), &booster);
        let error = compress_hints(&hints, 2, &out, Watch::default()).unwrap_err();
        assert!(error.to_string().contains("apus hints convert"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "the two files read");
    }
}
