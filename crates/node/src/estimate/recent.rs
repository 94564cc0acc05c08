//! What was seen lately, for speeds and the bottleneck, and what held the whole run up.

use std::collections::VecDeque;

use crate::bottleneck::{Bottleneck, Machine, Seen};
use crate::outcome::ThreadStates;
use crate::progress::{Download, Phase, Progress};

/// Seconds that speeds are computed from.
const WINDOW: f64 = 60.0;
/// Seconds from one sample to the next.
const SAMPLE_EVERY: f64 = 1.0;
/// Speeds are computed from at least this many seconds.
const SPAN_MIN: f64 = 0.5;

/// What was seen in the last minute of a phase, and in the run.
#[derive(Default)]
pub struct Recent {
    phase: Option<Phase>,
    samples: VecDeque<Sample>,
    /// The last sample that [`Recent::held`] counts.
    counted: Option<Sample>,
    /// Seconds that each of [`Bottleneck::ALL`] has held the run up.
    pub held: [f64; Bottleneck::ALL.len()],
}

#[derive(Clone, Copy)]
struct Sample {
    at: f64,
    bytes: u64,
    blocks: u64,
    download: Download,
    states: ThreadStates,
    machine: Machine,
}

/// What was computed from the last minute; `None` where nothing was seen.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Speeds {
    /// Bytes a second that have come from peers.
    pub download: Option<f64>,
    /// Bytes of blocks processed a second.
    pub bytes: Option<f64>,
    /// Blocks processed a second.
    pub blocks: Option<f64>,
    /// What limits the speed.
    pub bottleneck: Option<Bottleneck>,
}

impl Recent {
    /// Takes note of the progress at second `now`, and returns the speeds of the last minute.
    pub fn add(&mut self, now: f64, progress: &Progress, machine: Machine) -> Speeds {
        let before = self.samples.back();
        let download = progress.download;
        let states = progress.states;
        let sample = Sample {
            at: now,
            bytes: progress.bytes,
            blocks: progress.blocks,
            // Both count on from phase to phase.
            download: download.or(before.map(|it| it.download)).unwrap_or_default(),
            states: states.or(before.map(|it| it.states)).unwrap_or_default(),
            machine,
        };
        self.count(progress.phase, sample);
        if self.phase != Some(progress.phase) {
            (self.phase, self.samples) = (Some(progress.phase), VecDeque::new());
        }
        if self.samples.back().is_none_or(|last| now >= last.at + SAMPLE_EVERY) {
            self.samples.push_back(sample);
        }
        while self.samples.get(1).is_some_and(|next| next.at + WINDOW <= now) {
            self.samples.pop_front();
        }
        self.samples.front().map_or_else(Speeds::default, |first| sample.since(first))
    }

    /// Counts the time since the last sample for what held it up.
    fn count(&mut self, phase: Phase, sample: Sample) {
        let Some(last) = self.counted else {
            self.counted = Some(sample);
            return;
        };
        let was = self.phase.unwrap_or(phase);
        let elapsed = sample.at - last.at;
        if was == phase && elapsed < SAMPLE_EVERY {
            return;
        }
        let found = match was {
            Phase::Following | Phase::Serving => None,
            _ if was.waits() || was == Phase::DownloadingHeaders => Some(Bottleneck::Peers),
            _ => match sample.since(&last).bottleneck {
                Some(found) => Some(found),
                None => return,
            },
        };
        if let Some(found) = found {
            self.held[found as usize] += elapsed;
        }
        self.counted = Some(sample);
    }
}

impl Sample {
    fn since(&self, first: &Self) -> Speeds {
        let elapsed = self.at - first.at;
        if elapsed < SPAN_MIN {
            return Speeds::default();
        }
        let speed = |now: u64, before: u64| {
            let count = now.saturating_sub(before);
            (count > 0).then_some(count as f64 / elapsed)
        };
        let download = speed(self.download.bytes, first.download.bytes);
        let machine = self.machine;
        let before = first.machine;
        let pressure = machine.pressure.zip(before.pressure);
        let seen = Seen {
            elapsed,
            waited: self.download.waited.saturating_sub(first.download.waited),
            states: self.states.since(first.states),
            machine: Machine {
                cpu: machine.cpu.saturating_sub(before.cpu),
                pressure: pressure.map(|(now, before)| now.saturating_sub(before)),
                ..machine
            },
        };
        let bottleneck = seen.bottleneck().map(|bottleneck| match bottleneck {
            Bottleneck::Peers if self.download.is_at_limit(download.unwrap_or(0.0)) => {
                Bottleneck::DownloadLimit
            }
            bottleneck => bottleneck,
        });
        let bytes = speed(self.bytes, first.bytes);
        let blocks = speed(self.blocks, first.blocks);
        Speeds { download, bytes, blocks, bottleneck }
    }
}
