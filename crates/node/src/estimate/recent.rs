//! The last minute of a phase, for speeds and the bottleneck.

use std::collections::VecDeque;

use crate::bottleneck::Bottleneck;
use crate::outcome::ThreadStates;
use crate::progress::{Download, Phase, Progress};

/// Seconds that speeds are computed from.
const WINDOW: f64 = 60.0;
/// Seconds from one sample to the next.
const SAMPLE_EVERY: f64 = 1.0;
/// Speeds are computed from at least this many seconds.
const SPAN_MIN: f64 = 0.5;

/// What was seen in the last minute of a phase.
#[derive(Default)]
pub struct Recent {
    phase: Option<Phase>,
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy)]
struct Sample {
    at: f64,
    bytes: u64,
    download: Download,
    states: ThreadStates,
}

/// What was computed from the last minute.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Speeds {
    /// Bytes a second that have come from peers; `None` if none have.
    pub download: Option<f64>,
    /// Bytes of blocks processed a second; `None` if none were.
    pub blocks: Option<f64>,
    /// What limits the speed.
    pub bottleneck: Option<Bottleneck>,
}

impl Recent {
    /// Takes note of the progress at second `now`, and returns the speeds of the last minute.
    pub fn add(&mut self, now: f64, progress: &Progress) -> Speeds {
        if self.phase != Some(progress.phase) {
            (self.phase, self.samples) = (Some(progress.phase), VecDeque::new());
        }
        let (download, states) = (progress.download, progress.states);
        let (download, states) = (download.unwrap_or_default(), states.unwrap_or_default());
        let sample = Sample { at: now, bytes: progress.bytes, download, states };
        if self.samples.back().is_none_or(|last| now >= last.at + SAMPLE_EVERY) {
            self.samples.push_back(sample);
        }
        while self.samples.get(1).is_some_and(|next| next.at + WINDOW <= now) {
            self.samples.pop_front();
        }
        self.samples.front().map_or_else(Speeds::default, |first| sample.since(first))
    }
}

impl Sample {
    fn since(&self, first: &Self) -> Speeds {
        let elapsed = self.at - first.at;
        if elapsed < SPAN_MIN {
            return Speeds::default();
        }
        let speed = |now: u64, before: u64| {
            let bytes = now.saturating_sub(before);
            (bytes > 0).then_some(bytes as f64 / elapsed)
        };
        let download = speed(self.download.bytes, first.download.bytes);
        let waited = self.download.waited.saturating_sub(first.download.waited);
        let states = self.states.since(first.states);
        let bottleneck =
            Bottleneck::of(std::time::Duration::from_secs_f64(elapsed), waited, states);
        let bottleneck = bottleneck.map(|bottleneck| match bottleneck {
            Bottleneck::Peers if self.download.is_at_limit(download.unwrap_or(0.0)) => {
                Bottleneck::DownloadLimit
            }
            bottleneck => bottleneck,
        });
        Speeds { download, blocks: speed(self.bytes, first.bytes), bottleneck }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn progress(bytes: u64, waited: u64, blocked: u64, limit: Option<u64>) -> Progress {
        let waited = Duration::from_secs(waited);
        let download = Download { peers: 1, bytes, waited, limit, ..Download::default() };
        Progress {
            download: Some(download),
            bytes: 2 * bytes,
            states: Some(ThreadStates { working: 100, blocked }),
            ..Progress::of(Phase::Connecting)
        }
    }

    #[test]
    fn the_last_minute_counts() {
        use Bottleneck::{Disk, DownloadLimit, Peers};
        let mut recent = Recent::default();
        assert_eq!(recent.add(0.0, &progress(0, 0, 0, None)), Speeds::default());
        let speeds = |download: Option<f64>, bottleneck| Speeds {
            download,
            blocks: download.map(|speed| 2.0 * speed),
            bottleneck: Some(bottleneck),
        };
        for (second, state, expected) in [
            // The first minute lacks blocks.
            (30.0, progress(3_000, 20, 0, None), speeds(Some(100.0), Peers)),
            (60.0, progress(6_000, 50, 0, None), speeds(Some(100.0), Peers)),
            // In the second one, nothing comes, and threads are blocked.
            (120.0, progress(6_000, 50, 100, None), speeds(None, Disk)),
            (180.0, progress(12_000, 110, 100, Some(110)), speeds(Some(100.0), DownloadLimit)),
        ] {
            assert_eq!(recent.add(second, &state), expected, "{second}");
        }
        let merging = Progress { phase: Phase::Merging, ..progress(12_000, 110, 100, None) };
        assert_eq!(recent.add(240.0, &merging), Speeds::default(), "another phase");
    }
}
