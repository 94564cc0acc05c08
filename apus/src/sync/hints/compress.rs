use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use rayon::ThreadPool;
use rayon::prelude::*;

use super::summary::{Halt, HintsSummary};
use super::workers::{check, in_order};
use super::write::{Sink, Totals};
use crate::disk::Disk;
use crate::swiftsync::hints::Numbering;
use crate::swiftsync::hints::compressed::{Compressor, Survey, ranges};
use crate::swiftsync::{Hints, HintsError};
use crate::sync::error::SyncError;
use crate::sync::progress::{Observer, Phase, Progress};

/// Ranges for each thread that are compressed before they are written, so that threads seldom wait.
/// One takes less than 3 MB on mainnet, and what is in work 4 MB a thread.
const RANGES_PER_THREAD: usize = 4;

/// Writes hints in the compressed form, on all threads. Goes through them twice. `out` is replaced
/// in one step, at the end.
///
/// # Errors
/// The hints count outputs that cannot be spent, so that they have to be converted first; they
/// cannot be right; the disk fails.
pub fn compress_hints(
    hints: &dyn Hints,
    threads: usize,
    out: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<HintsSummary, SyncError> {
    let started = Instant::now();
    let format = hints.format();
    if format.numbering() != Numbering::Spendable {
        return Err(SyncError::Usage(format!(
            "these hints are in the format {}, which counts outputs that nobody can spend: first \
             make a bip456 file of them with `apus hints convert`, then compress that",
            format.name()
        )));
    }
    let pool = crate::sync::threads::pool(threads)?;
    let (totals, interrupted) = match compress(hints, &pool, out, observer, stop) {
        Ok(totals) => (totals, false),
        Err(Halt::Stopped) => (Totals::default(), true),
        Err(Halt::Failed(error)) => return Err(error),
    };
    let height = hints.height();
    Ok(HintsSummary {
        height,
        best_block: None,
        blocks: height,
        outputs: None,
        unspent: totals.unspent,
        bytes: totals.bytes,
        elapsed: started.elapsed(),
        interrupted,
    })
}

fn compress(
    hints: &dyn Hints,
    pool: &ThreadPool,
    out: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Totals, Halt> {
    let height = hints.height();
    let seen = Seen { observer, blocks: AtomicU64::new(0), of: height };
    let surveys = in_order(pool, ranges(height), stop, Survey::default, |survey, range| {
        let blocks = range.len();
        survey.add(hints, range)?;
        seen.add(blocks);
        Ok(())
    })?;
    let mut survey = Survey::default();
    surveys.iter().for_each(|other| survey.merge(other));
    let compressor = Compressor::new(&survey);
    let ranges: Vec<_> = ranges(height).collect();
    Disk::new().replace_with(out, |file| {
        let mut sink = Sink::new(file, compressor.head(height));
        let (mut totals, mut entries) = (Totals::default(), Vec::new());
        for some in ranges.chunks(RANGES_PER_THREAD * pool.current_num_threads()) {
            check(stop)?;
            let one = |range: &Range<u32>| {
                let done = compressor.range(hints, range.clone());
                seen.add(range.len());
                done
            };
            let done: Result<Vec<_>, HintsError> =
                pool.install(|| some.par_iter().map(one).collect());
            for mut range in done? {
                totals.unspent += range.unspent;
                entries.append(&mut range.entries);
                sink.held.append(&mut range.bytes);
                sink.flush_beyond(0)?;
            }
        }
        sink.held.extend(compressor.tail(height, &entries));
        sink.flush_beyond(0)?;
        totals.bytes = sink.written;
        Ok(totals)
    })
}

/// How far it is; every block is gone through twice.
struct Seen<'a> {
    observer: &'a dyn Observer,
    blocks: AtomicU64,
    of: u32,
}

impl Seen<'_> {
    fn add(&self, blocks: usize) {
        let twice = self.blocks.fetch_add(blocks as u64, Relaxed) + blocks as u64;
        let (blocks, fraction) = (twice / 2, twice as f64 / (2.0 * f64::from(self.of)));
        let (phase, height) = (Phase::MakingHints, blocks as u32);
        let progress = Progress { phase, height, time: 0, blocks, bytes: 0, coins: 0, fraction };
        self.observer.observe(&progress);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swiftsync::hints::{Format, compressed, encoder, open};
    use crate::sync::Unobserved;

    /// A bip456 file of `height` blocks.
    fn bip456(height: u32) -> Vec<u8> {
        let (encoder, mut file) = (encoder(Format::Bip456), Vec::new());
        encoder.put_head(height, &mut file);
        for height in 1..=height {
            let unspent: Vec<u32> = (0..height % 50).map(|i| i * (1 + height % 7)).collect();
            encoder.put_block(&unspent, 1_000, &mut file).unwrap();
        }
        file
    }

    #[test]
    fn any_number_of_threads_writes_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (out, stop) = (dir.path().join("out"), AtomicBool::new(false));
        for height in [0, 1, 60_000] {
            let file = bip456(height);
            let hints = open(file.clone()).unwrap();
            let expected = compressed::compress(hints.as_ref()).unwrap();
            for threads in [1, 2, 3, 8] {
                let made = compress_hints(hints.as_ref(), threads, &out, &Unobserved, &stop);
                let summary = made.unwrap();
                assert!(std::fs::read(&out).unwrap() == expected);
                assert_eq!(summary.bytes, expected.len() as u64);
                assert_eq!(summary.unspent, (1..=u64::from(height)).map(|h| h % 50).sum::<u64>());
            }
            let again = dir.path().join("again");
            let hints = open(expected).unwrap();
            let options = crate::sync::Options::new(dir.path().into(), network());
            let (format, observer) = (Format::Bip456, &Unobserved);
            crate::sync::hints::convert_hints(
                hints.as_ref(),
                &options,
                format,
                &again,
                observer,
                &stop,
            )
            .unwrap();
            assert!(std::fs::read(again).unwrap() == file);
        }
    }

    fn network() -> crate::wire::Network {
        crate::wire::Network::new(crate::wire::Chain::Regtest)
    }

    #[test]
    fn stopped_or_refused_it_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let hints = open(bip456(20_000)).unwrap();
        let stop = AtomicBool::new(true);
        let summary = compress_hints(hints.as_ref(), 2, &out, &Unobserved, &stop).unwrap();
        assert!(summary.interrupted);
        let mut booster = vec![1, 0, 0];
        encoder(Format::Booster).put_block(&[1], 3, &mut booster).unwrap();
        booster.extend([0, 0]);
        let hints = open(booster).unwrap();
        let stop = AtomicBool::new(false);
        let error = compress_hints(hints.as_ref(), 2, &out, &Unobserved, &stop).unwrap_err();
        assert!(error.to_string().contains("apus hints convert"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
