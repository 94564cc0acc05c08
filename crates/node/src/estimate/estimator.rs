//! The estimate of a run, as a function of its plan and of what it reports.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::left::{Estimate, Left};
use super::plan::{Plan, Stage};
use super::recent::{Recent, Speeds};
use crate::bottleneck::{Bottleneck, Machine};
use crate::phase::Phase;
use crate::progress::Progress;

/// By how much the machine of docs/budget.md is usually faster than another one.
const SLOWER: f64 = 1.35;
/// The seconds of measuring that this counts for, and the present stage's own first seconds.
const UNSEEN: f64 = 3.0;
/// The standard deviation of the logarithm of a stage's time: of any, at least; before anything
/// was measured; and of stages to come once the machine is measured.
const DEVIATION_MIN: f64 = 0.12;
const DEVIATION_UNSEEN: f64 = 0.6;
const DEVIATION_TO_COME: f64 = 0.35;
/// A tenth of all values is below the mean minus this many standard deviations.
const TENTH: f64 = 1.2816;
/// Seconds without any work or arrival after which a run waits for peers.
const QUIET: f64 = 5.0;
/// The most seconds of a pause that the pace counts.
const PAUSE_MAX: f64 = 10.0;
/// A stage with at least this share of the plan's work comes before coins are written at the end.
const NEVER_LEFT_OUT: f64 = 0.05;
/// The largest share that is shown before a run is over.
const SHARE_MAX: f64 = 0.999;

/// Estimates how long a run takes, from its plan and its progress. It has no clock: the time is an
/// argument.
#[derive(Default)]
pub struct Estimator {
    stages: Vec<Stage>,
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
    /// Since when neither work was done nor anything came from peers.
    quiet: Quiet,
    recent: Recent,
    expected: Option<Left>,
    to_tip: Option<f64>,
}

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

/// What a run has shown, for its report.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Ran {
    /// The time that the work was expected to take when its stages became known.
    pub expected: Option<Left>,
    /// What held the run up most, and for how long.
    pub bottleneck: Option<(Bottleneck, Duration)>,
    /// The time until the tip was reached, for a run that then waited for new blocks.
    pub to_tip: Option<Duration>,
}

impl Estimator {
    /// Replaces the stages by those of a new plan, for the work from now on.
    pub fn plan(&mut self, plan: &Plan) {
        if !self.stages.is_empty() {
            self.before += self.done();
        }
        self.stages.clone_from(&plan.stages);
        (self.at, self.phase) = (None, None);
        if self.expected.is_none() && !plan.stages.is_empty() {
            self.expected = Some(Left::unmeasured(plan.work()));
        }
    }

    /// Takes note of the progress at second `now` of the run, and returns the estimate.
    pub fn add(&mut self, now: f64, progress: &Progress, machine: Machine) -> Estimate {
        let speeds = self.recent.add(now, progress, machine);
        let is_at_tip = matches!(progress.phase, Phase::Following | Phase::Serving);
        if progress.phase == Phase::Following {
            self.to_tip.get_or_insert(now);
        }
        let has_plan = !self.stages.is_empty();
        let is_new = self.phase != Some(progress.phase);
        let is_known = self.go_to(progress);
        let done = self.done();
        let waiting = self.listen(now, progress, is_new || done != self.fed.1);
        let waiting = waiting.filter(|_| !is_at_tip);
        if waiting.is_none() {
            let by_peers =
                matches!(speeds.bottleneck, Some(Bottleneck::Peers | Bottleneck::DownloadLimit));
            self.feed(now, done, by_peers);
        }
        let all = self.before + self.stages.iter().map(|stage| stage.work).sum::<f64>();
        let share = if self.to_tip.is_some() {
            Some(1.0)
        } else if has_plan {
            Some(((self.before + done) / all.max(1e-9)).min(SHARE_MAX))
        } else {
            Some(progress.fraction.clamp(0.0, 1.0)).filter(|share| *share > 0.0)
        };
        let speeds = if waiting.is_some() { Speeds::default() } else { speeds };
        let is_idle = waiting.is_some() || progress.phase.waits() || !is_known;
        let left = if is_idle { None } else { self.left(has_plan, progress) };
        let is_of_run = has_plan || self.to_tip.is_some();
        let download = speeds.download;
        let speed = speeds.bytes;
        let blocks = speeds.blocks;
        let bottleneck = match waiting {
            Some(_) => Some(Bottleneck::Peers),
            None => speeds.bottleneck.filter(|_| !is_at_tip),
        };
        Estimate { share, is_of_run, left, waiting, bottleneck, download, speed, blocks }
    }

    /// Returns what the run has shown.
    pub fn ran(&self) -> Ran {
        let held = Bottleneck::ALL.into_iter().zip(self.recent.held);
        let most = held.filter(|(_, time)| *time > 0.0).max_by(|(_, a), (_, b)| a.total_cmp(b));
        let duration = |seconds: f64| Duration::from_secs_f64(seconds.max(0.0));
        Ran {
            expected: self.expected,
            bottleneck: most.map(|(what, time)| (what, duration(time))),
            to_tip: self.to_tip.map(duration),
        }
    }

    /// Returns the work of the present plan that is done, in seconds of the machine of
    /// docs/budget.md. Without a plan, it is the share of the phase.
    fn done(&self) -> f64 {
        let Some((at, share)) = self.at else { return 0.0 };
        let before: f64 = self.stages[..at.min(self.stages.len())].iter().map(|it| it.work).sum();
        before + share * self.stages.get(at).map_or(1.0, |stage| stage.work)
    }

    /// Takes note of the stage and its share. Returns whether the plan has it.
    fn go_to(&mut self, progress: &Progress) -> bool {
        let is_new = self.phase.replace(progress.phase) != Some(progress.phase);
        let share = Some(progress.fraction).filter(|share| share.is_finite());
        let share = share.unwrap_or(0.0).clamp(0.0, 1.0);
        let found = if self.stages.is_empty() { Some(0) } else { self.find(progress.phase) };
        let Some(found) = found else { return false };
        let is_new = match self.at {
            Some((at, _)) => at != found || is_new && self.stages.is_empty(),
            None => true,
        };
        self.at = Some((found, share));
        if is_new {
            (self.pace, self.fed.1) = (Pace::default(), self.done());
        }
        true
    }

    /// Returns the index of the stage that reports this phase; `None` if the plan has none.
    fn find(&self, phase: Phase) -> Option<usize> {
        let is_of = |at: &usize| self.stages[*at].phase == phase;
        let at = self.at.map_or(0, |(at, _)| at);
        let ahead = (at..self.stages.len()).find(is_of);
        let found = ahead.or_else(|| (0..at).rev().find(is_of))?;
        // Coins may be written, and a few blocks connected, before the stages that do much of it.
        let may_be_early =
            matches!(phase, Phase::WritingCoins | Phase::Connecting | Phase::Merging);
        let all: f64 = self.stages.iter().map(|stage| stage.work).sum();
        let first = self.at.map_or(0, |(at, _)| at + 1);
        let leaves_out = |stage: &Stage| stage.work > NEVER_LEFT_OUT * all;
        let is_early = may_be_early
            && self.stages.get(first..found).is_some_and(|all| all.iter().any(leaves_out));
        (!is_early).then_some(found)
    }

    /// Returns how long nothing has come from peers, if all work waits for them.
    fn listen(&mut self, now: f64, progress: &Progress, has_moved: bool) -> Option<Duration> {
        let download = progress.download.unwrap_or_default();
        let quiet = &mut self.quiet;
        let is_header = progress.phase == Phase::DownloadingHeaders && has_moved;
        let has_come = is_header || download.block_bytes > quiet.bytes;
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

    /// Takes note of the work that is done at second `now`.
    fn feed(&mut self, now: f64, done: f64, by_peers: bool) {
        let seconds = (now - self.fed.0).clamp(0.0, PAUSE_MAX);
        let work = done - self.fed.1;
        self.fed = (now, done);
        self.pace.feed(seconds, work.max(0.0));
        if !by_peers {
            let stage = self.at.and_then(|(at, _)| self.stages.get(at));
            let own = stage.map_or(0.0, |stage| stage.own / stage.work.max(1e-9));
            self.machine.feed(seconds, own * work.max(0.0));
        }
    }

    /// Returns the time that is left: of the present stage by its own pace, of later ones by what
    /// is known of the machine.
    fn left(&self, has_plan: bool, progress: &Progress) -> Option<Left> {
        let (at, share) = self.at?;
        if !has_plan {
            let factor = self.pace.factor()?;
            let deviation = self.pace.deviation();
            let left = (1.0 - share) * factor;
            return (progress.fraction > 0.0).then(|| Left::of(range(left, deviation)));
        }
        let known = |pace: &Pace, otherwise: f64| {
            let weight = pace.total / (pace.total + UNSEEN);
            let own = pace.factor().map_or(0.0, |factor| weight * (factor / otherwise).ln());
            (otherwise * own.exp(), weight)
        };
        let (machine, measured) = known(&self.machine, SLOWER);
        let deviation = DEVIATION_UNSEEN + (DEVIATION_TO_COME - DEVIATION_UNSEEN) * measured;
        let (factor, _) = known(&self.pace, machine);
        let now = self.stages[at].work * (1.0 - share);
        let later: f64 = self.stages[at + 1..].iter().map(|stage| stage.work).sum();
        let now = range(now * factor, self.pace.deviation());
        let later = range(later * machine, deviation);
        Some(Left::of([0, 1, 2].map(|at| now[at] + later[at])))
    }
}

/// Returns the range of this many seconds whose logarithm has a standard deviation.
fn range(seconds: f64, deviation: f64) -> [f64; 3] {
    let factor = (TENTH * deviation).exp();
    [seconds / factor, seconds, seconds * factor]
}

/// How fast work is done; the last part of it counts most.
#[derive(Clone, Copy, Default)]
struct Pace {
    /// Seconds, and the work done in them, each less the longer ago it was.
    long: (f64, f64),
    /// The same, forgotten four times as fast.
    short: (f64, f64),
    /// By how much the two differ: the mean square of the logarithm.
    varies: f64,
    /// All seconds.
    total: f64,
}

impl Pace {
    fn feed(&mut self, seconds: f64, work: f64) {
        let half = (0.3 * self.total).clamp(6.0, 900.0);
        let keep = 0.5f64.powf(seconds / half);
        let add = |(time, done): (f64, f64), keep: f64| (time * keep + seconds, done * keep + work);
        (self.long, self.short) = (add(self.long, keep), add(self.short, keep.powi(4)));
        self.total += seconds;
        if self.short.1 > 0.0 {
            let differs = (self.short.0 / self.short.1 * self.long.1 / self.long.0).ln().abs();
            self.varies = self.varies * keep + differs.min(3.0).powi(2) * (1.0 - keep);
        }
    }

    /// Returns seconds for each unit of work; `None` before any was done.
    fn factor(&self) -> Option<f64> {
        (self.long.1 > 0.0 && self.long.0 > 0.0).then(|| self.long.0 / self.long.1)
    }

    /// Returns the standard deviation of the logarithm of that, for the work to come.
    fn deviation(&self) -> f64 {
        let unseen = DEVIATION_UNSEEN.powi(2) * UNSEEN / (UNSEEN + self.total);
        (DEVIATION_MIN.powi(2) + self.varies + unseen).sqrt()
    }
}
