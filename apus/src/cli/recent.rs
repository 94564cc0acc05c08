//! The last minute of a phase, for the speed of the download and the bottleneck.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use apus_node::{Bottleneck, Download, Phase, Progress, ThreadStates};

/// The length of time that speeds are computed from.
const WINDOW: Duration = Duration::from_secs(60);
/// Time from one sample to the next.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Speeds are computed from at least this long.
const SPAN_MIN: Duration = Duration::from_millis(500);
/// The words for a download that the user limits.
const LIMIT_WORDS: &str = "--maxdownload";

/// What was seen in the last minute of a phase.
#[derive(Default)]
pub struct Recent {
    phase: Option<Phase>,
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    download: Download,
    states: ThreadStates,
}

/// What was computed from the last minute.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Speeds {
    /// Bytes a second that have come from peers.
    pub download: Option<f64>,
    /// The name of what limits the speed.
    pub bottleneck: Option<&'static str>,
}

impl Recent {
    /// Takes note of the progress at `now`, and returns the speeds of the last minute.
    pub fn add(&mut self, now: Instant, progress: &Progress) -> Speeds {
        if self.phase != Some(progress.phase) {
            (self.phase, self.samples) = (Some(progress.phase), VecDeque::new());
        }
        let (download, states) = (progress.download, progress.states);
        let (download, states) = (download.unwrap_or_default(), states.unwrap_or_default());
        let sample = Sample { at: now, download, states };
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
        let elapsed = self.at.saturating_duration_since(first.at);
        if elapsed < SPAN_MIN {
            return Speeds::default();
        }
        let bytes = self.download.bytes.saturating_sub(first.download.bytes);
        let speed = bytes as f64 / elapsed.as_secs_f64();
        let waited = self.download.waited.saturating_sub(first.download.waited);
        let bottleneck = Bottleneck::of(elapsed, waited, self.states.since(first.states));
        let bottleneck = bottleneck.map(|bottleneck| match bottleneck {
            Bottleneck::Peers if self.download.is_at_limit(speed) => LIMIT_WORDS,
            bottleneck => bottleneck.word(),
        });
        Speeds { download: Some(speed).filter(|_| bytes > 0), bottleneck }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(bytes: u64, waited: u64, blocked: u64, limit: Option<u64>) -> Progress {
        let waited = Duration::from_secs(waited);
        let download = Download { peers: 1, bytes, waited, limit, ..Download::default() };
        Progress {
            download: Some(download),
            states: Some(ThreadStates { working: 100, blocked }),
            ..Progress::of(Phase::Connecting)
        }
    }

    #[test]
    fn the_last_minute_counts() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut recent = Recent::default();
        assert_eq!(recent.add(at(0), &progress(0, 0, 0, None)), Speeds::default());
        let speeds = |download, bottleneck| Speeds { download, bottleneck: Some(bottleneck) };
        for (second, state, expected) in [
            // The first minute lacks blocks.
            (30, progress(3_000, 20, 0, None), speeds(Some(100.0), "peers")),
            (60, progress(6_000, 50, 0, None), speeds(Some(100.0), "peers")),
            // In the second one, nothing comes, and threads are blocked.
            (120, progress(6_000, 50, 100, None), speeds(None, "disk")),
            (180, progress(12_000, 110, 100, Some(110)), speeds(Some(100.0), "--maxdownload")),
        ] {
            assert_eq!(recent.add(at(second), &state), expected, "{second}");
        }
        let merging = Progress { phase: Phase::Merging, ..progress(12_000, 110, 100, None) };
        assert_eq!(recent.add(at(240), &merging), Speeds::default(), "another phase");
    }
}
