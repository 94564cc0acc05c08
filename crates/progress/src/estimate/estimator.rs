//! The estimate of a run, as a function of its plan and of what it reports.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use super::left::{Estimate, Left, SLOWER};
use super::plan::{RunPlan, Stage};
use crate::bottleneck::{Bottleneck, Machine};
use crate::observer::{Download, Progress};
use crate::outcome::ThreadStates;
use crate::phase::Phase;

/// The seconds of measuring for which an earlier pace counts when a stage begins.
const UNSEEN: f64 = 3.0;
/// The factor by which the time that is left is wrong at most, in eight cases of ten.
const WITHIN: f64 = 1.38;
/// Seconds without any work or arrival after which a run waits for peers.
const QUIET: f64 = 5.0;
/// The most seconds of a pause that the pace counts.
const PAUSE_MAX: f64 = 60.0;
/// A stage with at least this share of the plan's work comes before coins are written at the end.
const NEVER_LEFT_OUT: f64 = 0.05;
/// The largest share that is shown before a run is over.
const SHARE_MAX: f64 = 0.999;

/// Seconds that speeds are computed from.
const WINDOW: f64 = 60.0;
/// Seconds from one sample to the next.
const SAMPLE_EVERY: f64 = 1.0;
/// Speeds are computed from at least this many seconds.
const SPAN_MIN: f64 = 0.5;

/// Estimates how long a run takes, from its plan and its progress. It has no clock: the time is an
/// argument.
#[derive(Default)]
pub struct Estimator {
    /// The stages of the plan or, without one, a single stage of unknown work for the phase.
    plan: RunPlan,
    has_plan: bool,
    /// Work of earlier plans of this run that is done.
    before: f64,
    /// Index of the stage that has reported last, and the share of it that is done; `None` before
    /// any has.
    at: Option<(usize, f64)>,
    /// The phase of the last report.
    phase: Option<Phase>,
    /// The pace of the present stage.
    pace: Pace,
    /// The pace of all stages, while they did not wait for peers.
    machine: Pace,
    /// The second and the work done when the paces were last fed.
    fed: (f64, f64),
    quiet: Quiet,
    /// Observations of the last minute of the phase.
    samples: VecDeque<Sample>,
    /// The second of the last report.
    now: f64,
    /// Seconds that each of [`Bottleneck::ALL`] has held the run up.
    held: [f64; Bottleneck::ALL.len()],
    expected: Option<Left>,
    to_tip: Option<f64>,
}

/// A time in which neither work was done nor anything came from peers.
#[derive(Clone, Copy, Default)]
struct Quiet {
    since: f64,
    /// When something last came from peers.
    arrived: f64,
    /// Bytes of blocks from peers by then.
    bytes: u64,
    /// The time that threads had waited for peers by `since`.
    waited: Duration,
}

/// Observations of a run, for its report.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Ran {
    /// The time that the work was expected to take when its stages became known.
    pub expected: Option<Left>,
    /// The bottleneck of most of the run, and for how long.
    pub bottleneck: Option<(Bottleneck, Duration)>,
    /// The time until the tip was reached, for a run that then waited for new blocks.
    pub to_tip: Option<Duration>,
}

impl Estimator {
    /// Replaces the stages by those of a new plan, for the work from now on.
    pub fn plan(&mut self, plan: &RunPlan) {
        if self.has_plan {
            self.before += self.done();
        }
        self.plan.clone_from(plan);
        self.has_plan = !plan.stages.is_empty();
        (self.at, self.phase) = (None, None);
        if self.has_plan && self.expected.is_none() {
            self.expected = Some(Left::unmeasured(plan.work()));
            self.machine = Pace::expected(SLOWER);
        }
    }

    /// Takes note of the progress at second `now` of the run, and returns the estimate.
    pub fn add(&mut self, now: f64, progress: &Progress, machine: Machine) -> Estimate {
        let phase = progress.phase;
        let mut recent = self.look_back(now, progress, machine);
        let is_new = self.phase != Some(phase);
        let is_known = self.go_to(progress);
        let done = self.done();
        let waiting = self.listen(now, progress, is_new || done != self.fed.1);
        let is_at_tip = matches!(phase, Phase::Following | Phase::Serving);
        let waiting = if is_at_tip { None } else { waiting };
        if phase == Phase::Following {
            self.to_tip.get_or_insert(now);
        }
        let waits = waiting.is_some() || phase.waits() || phase == Phase::DownloadingHeaders;
        if is_at_tip {
            recent.bottleneck = None;
        } else if waits {
            recent.bottleneck = Some(Bottleneck::Peers);
        }
        if let Some(bottleneck) = recent.bottleneck {
            self.held[bottleneck as usize] += now - self.now;
        }
        self.now = now;
        // What is left is not in the plan, which ends with the blocks that are there.
        let share = if phase == Phase::WaitingForBlocks {
            None
        } else if self.to_tip.is_some() {
            Some(1.0)
        } else if self.has_plan {
            let all = self.before + self.plan.work();
            Some(((self.before + done) / all.max(1e-9)).min(SHARE_MAX))
        } else {
            Some(done).filter(|share| *share > 0.0)
        };
        let is_of_run = self.has_plan || self.to_tip.is_some();
        if waiting.is_some() {
            // Neither the pace nor the speeds count this time.
            self.fed.0 = now;
            self.samples.clear();
        } else {
            self.feed(now, done, recent.bottleneck);
        }
        let is_idle = waiting.is_some() || phase.waits() || !is_known;
        let left = if is_idle { None } else { self.left() };
        Estimate { share, is_of_run, left, waiting, ..recent }
    }

    /// Returns what the run has shown.
    pub fn ran(&self) -> Ran {
        let held = Bottleneck::ALL.into_iter().zip(self.held);
        let most = held.filter(|(_, time)| *time > 0.0).max_by(|(_, a), (_, b)| a.total_cmp(b));
        Ran {
            expected: self.expected,
            bottleneck: most.map(|(what, time)| (what, Duration::from_secs_f64(time))),
            to_tip: self.to_tip.map(Duration::from_secs_f64),
        }
    }

    /// Returns the work of the present plan that is done, in seconds of the machine of
    /// docs/budget.md. Without a plan, it is the share of the phase.
    fn done(&self) -> f64 {
        let Some((at, share)) = self.at else { return 0.0 };
        let before: f64 = self.plan.stages[..at].iter().map(|stage| stage.work).sum();
        before + share * self.plan.stages[at].work
    }

    /// Takes note of what was counted by second `now`. Returns the speeds and the bottleneck of the
    /// last minute of the phase, and nothing else.
    fn look_back(&mut self, now: f64, progress: &Progress, machine: Machine) -> Estimate {
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
        if self.phase != Some(progress.phase) {
            self.samples.clear();
        }
        if self.samples.back().is_none_or(|last| now >= last.at + SAMPLE_EVERY) {
            self.samples.push_back(sample);
        }
        while self.samples.get(1).is_some_and(|next| next.at + WINDOW <= now) {
            self.samples.pop_front();
        }
        self.samples.front().map_or_else(Estimate::default, |first| sample.since(first))
    }

    /// Takes note of the stage and its share. Returns whether the plan has it.
    fn go_to(&mut self, progress: &Progress) -> bool {
        let is_new = self.phase.replace(progress.phase) != Some(progress.phase);
        if is_new && !self.has_plan {
            self.plan.stages = vec![Stage::new(progress.phase, 1.0)];
            self.at = None;
        }
        let Some(found) = self.find(progress.phase) else { return false };
        let is_same = self.at.is_some_and(|(at, _)| at == found);
        let share = if progress.fraction > 0.0 { progress.fraction.min(1.0) } else { 0.0 };
        self.at = Some((found, share));
        if !is_same {
            let expected = self.machine.factor().filter(|_| self.has_plan);
            self.pace = expected.map_or_else(Pace::default, Pace::expected);
            self.fed.1 = self.done();
        }
        true
    }

    /// Returns the index of the stage that reports this phase; `None` if the plan has none.
    fn find(&self, phase: Phase) -> Option<usize> {
        let at = self.at.map_or(0, |(at, _)| at);
        let (past, ahead) = self.plan.stages.split_at(at);
        let is_of = |stage: &Stage| stage.phase == phase;
        let Some(found) = ahead.iter().position(is_of) else { return past.iter().rposition(is_of) };
        // Coins may be written, and a few blocks connected, before the stages that do much of it.
        let may_be_early =
            matches!(phase, Phase::WritingCoins | Phase::Connecting | Phase::Merging);
        let is_large = |stage: &Stage| stage.work > NEVER_LEFT_OUT * self.plan.work();
        let mut passed = ahead[..found].iter().skip(usize::from(self.at.is_some()));
        (!(may_be_early && passed.any(is_large))).then_some(at + found)
    }

    /// Returns how long nothing has come from peers, if all work waits for them.
    fn listen(&mut self, now: f64, progress: &Progress, has_moved: bool) -> Option<Duration> {
        let download = progress.download.unwrap_or_default();
        let quiet = &mut self.quiet;
        let has_come = download.block_bytes > quiet.bytes
            || has_moved && progress.phase == Phase::DownloadingHeaders;
        if has_come {
            (quiet.arrived, quiet.bytes) = (now, download.block_bytes);
        }
        if has_come || has_moved {
            (quiet.since, quiet.waited) = (now, download.waited);
        }
        let span = now - quiet.since;
        let waited = download.waited.saturating_sub(quiet.waited).as_secs_f64();
        let is_held = progress.phase.waits() || waited > 0.8 * span;
        (span >= QUIET && is_held).then(|| Duration::from_secs_f64(now - quiet.arrived))
    }

    /// Takes note of the work that is done at second `now`, and of what limited it.
    fn feed(&mut self, now: f64, done: f64, limit: Option<Bottleneck>) {
        // If peers turn out to be waited for, a pause does not count.
        if done == self.fed.1 {
            return;
        }
        let work = (done - self.fed.1).max(0.0);
        let seconds = (now - self.fed.0).clamp(0.0, PAUSE_MAX);
        self.fed = (now, done);
        self.pace.feed(seconds, work);
        if !matches!(limit, Some(Bottleneck::Peers | Bottleneck::DownloadLimit)) {
            let stage = self.at.map(|(at, _)| self.plan.stages[at]);
            let own = stage.map_or(0.0, |stage| stage.own / stage.work.max(1e-9));
            self.machine.feed(seconds, own * work);
        }
    }

    /// Returns the time that is left: of the present stage by its own pace, of later ones by what
    /// is known of the machine. `None` if nothing is known of either.
    fn left(&self) -> Option<Left> {
        let (at, share) = self.at?;
        let now = self.plan.stages[at].work * (1.0 - share) * self.pace.factor()?;
        let later: f64 = self.plan.stages[at + 1..].iter().map(|stage| stage.work).sum();
        Some(Left::of(now + later * self.machine.factor().unwrap_or_default(), WITHIN))
    }
}

/// How fast work is done; the last part of it counts most.
#[derive(Clone, Copy, Default)]
struct Pace {
    /// Seconds, and the work done in them, each less the longer ago it was.
    seconds: f64,
    work: f64,
    /// All seconds.
    measured: f64,
}

impl Pace {
    /// Returns the pace of work that begins, and is expected to take `factor` seconds a unit.
    fn expected(factor: f64) -> Self {
        Self { seconds: UNSEEN, work: UNSEEN / factor, measured: 0.0 }
    }

    fn feed(&mut self, seconds: f64, work: f64) {
        let half = (0.3 * self.measured).clamp(6.0, 900.0);
        let keep = 0.5f64.powf(seconds / half);
        self.seconds = self.seconds * keep + seconds;
        self.work = self.work * keep + work;
        self.measured += seconds;
    }

    /// Returns seconds for each unit of work; `None` before any was done.
    fn factor(&self) -> Option<f64> {
        (self.work > 0.0).then(|| self.seconds / self.work)
    }
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

impl Sample {
    fn since(&self, first: &Self) -> Estimate {
        let elapsed = self.at - first.at;
        if elapsed < SPAN_MIN {
            return Estimate::default();
        }
        let speed = |now: u64, before: u64| {
            let count = now.saturating_sub(before);
            (count > 0).then_some(count as f64 / elapsed)
        };
        let download = speed(self.download.bytes, first.download.bytes);
        let waited = self.download.waited.saturating_sub(first.download.waited);
        let states = self.states.since(first.states);
        let used = self.machine.since(first.machine);
        let is_at_limit = self.download.is_at_limit(download.unwrap_or(0.0));
        let bottleneck = match Bottleneck::seen(elapsed, waited, states, used) {
            Some(Bottleneck::Peers) if is_at_limit => Some(Bottleneck::DownloadLimit),
            bottleneck => bottleneck,
        };
        Estimate {
            download,
            speed: speed(self.bytes, first.bytes),
            blocks: speed(self.blocks, first.blocks),
            bottleneck,
            ..Estimate::default()
        }
    }
}
