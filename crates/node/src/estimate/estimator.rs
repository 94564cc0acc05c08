//! The estimate of a run, as a function of its plan and of what it reports.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::left::{Estimate, Left, Pass};
use super::pace::{Pace, Uncertain};
use super::plan::{Plan, Stage};
use super::recent::{Recent, Speeds};
use crate::bottleneck::Bottleneck;
use crate::phase::Phase;
use crate::progress::Progress;

/// What is known of a machine before anything is measured, as the factor by which it takes longer
/// than the one of docs/budget.md: processors are rather slower, and bytes that the page cache
/// holds cost nothing.
const PROCESSOR: Uncertain = Uncertain { log: 0.3, variance: 0.5 };
const DISK: Uncertain = Uncertain { log: -1.2, variance: 1.0 };
/// Bytes a second of the disk of docs/budget.md.
const DISK_SPEED: f64 = 0.4e9;
/// The variance of a stage's factor next to that of the machine: the cost of each stage is known
/// only about.
const OF_STAGE: f64 = 0.09;
/// The variance of the time of a download at its present speed.
const OF_DOWNLOAD: f64 = 0.03;
/// How much the errors of all stages have in common.
const IN_COMMON: f64 = 0.5;
/// A stage that has not reported for this many seconds is over once a later one reports.
const SILENT: f64 = 1.0;
/// A stage with at least this share of the plan's time comes before coins are written at the end.
const SHARE_NEVER_LEFT_OUT: f64 = 0.05;
/// Seconds between two estimates in one phase; what is reported meanwhile gets the last one.
const EVERY: f64 = 0.1;
/// The largest share that is shown before a run is over.
const SHARE_MAX: f64 = 0.999;

/// Estimates how long a run takes, from its plan and its progress. It has no clock: the time is an
/// argument.
#[derive(Default)]
pub struct Estimator {
    parts: Vec<Part>,
    /// The phase that the plan does not have, while it lasts.
    other: Option<Part>,
    /// Index of the part that has reported last.
    at: usize,
    recent: Recent,
    /// What limits the speed, and since when.
    bottleneck: Option<(Bottleneck, f64)>,
    /// The largest share that was shown.
    shown: f64,
    /// The last estimate, with its second and its phase.
    last: Option<(f64, Phase, Estimate)>,
    /// What stages of earlier plans have shown of the machine.
    learned: Vec<Learned>,
}

/// A stage of the plan, and how far it is.
struct Part {
    stage: Stage,
    pace: Option<Pace>,
    is_over: bool,
    reported: f64,
    /// Seconds in which each resource was the bottleneck: peers, disk, and the processor.
    limited: [f64; 3],
}

/// What a stage has shown of the machine: the factors by which it took longer than expected.
#[derive(Clone, Copy)]
struct Learned {
    processor: Option<f64>,
    disk: Option<f64>,
    /// What held it up, as an index of [`Part::limited`].
    by: usize,
    variance: f64,
}

const PEERS: usize = 0;
const ON_DISK: usize = 1;
const ON_PROCESSOR: usize = 2;

impl Estimator {
    /// Replaces the stages by those of a new plan. What was learned of the machine stays.
    pub fn plan(&mut self, plan: &Plan) {
        let learned: Vec<Learned> = self.parts.iter().filter_map(Part::learned).collect();
        self.learned.extend(learned);
        self.parts = plan.stages.iter().map(|stage| Part::new(*stage)).collect();
        (self.other, self.at, self.last) = (None, 0, None);
    }

    /// Takes note of the progress at second `now` of the run, and returns the estimate.
    pub fn add(&mut self, now: f64, progress: &Progress) -> Estimate {
        match &self.last {
            // The end of a phase is never left out.
            Some((at, phase, estimate))
                if now < at + EVERY && *phase == progress.phase && progress.fraction < 1.0 =>
            {
                estimate.clone()
            }
            _ => {
                let estimate = self.estimate(now, progress);
                self.last = Some((now, progress.phase, estimate.clone()));
                estimate
            }
        }
    }

    fn estimate(&mut self, now: f64, progress: &Progress) -> Estimate {
        let speeds = self.recent.add(now, progress);
        self.bottleneck = match (self.bottleneck, speeds.bottleneck) {
            (Some((before, since)), Some(found)) if before == found => Some((before, since)),
            (_, found) => found.map(|found| (found, now)),
        };
        self.note(now, progress, speeds.bottleneck);
        let lefts = self.lefts(progress, speeds);
        let left =
            (!lefts.is_empty()).then(|| sum(lefts.iter().flatten().chain(&self.other_left())));
        let is_at_tip = matches!(progress.phase, Phase::Following | Phase::Serving);
        match left {
            _ if is_at_tip => self.shown = 1.0,
            Some(left) => {
                let spent = now + self.done_before();
                let share = spent / (spent + left.mean()).max(1e-9);
                self.shown = self.shown.max(share.min(SHARE_MAX));
            }
            None => {}
        }
        let left = left.filter(|_| !progress.phase.waits());
        let of_phase = match self.other {
            Some(_) => self.other_left(),
            None => lefts.get(self.at).copied().flatten(),
        };
        let since = self.bottleneck.map_or(now, |(_, since)| since);
        Estimate {
            fraction: self.shown,
            left: left.map(Left::of),
            left_of_phase: of_phase.filter(|_| !progress.phase.waits()).map(Left::of),
            passes: self.passes(&lefts),
            pass: self.at,
            bottleneck: self.bottleneck.map(|(what, _)| what),
            bottleneck_for: Duration::from_secs_f64((now - since).max(0.0)),
            download: speeds.download,
            speed: speeds.blocks,
        }
    }

    /// Takes note of how far the stage is that the progress is about.
    fn note(&mut self, now: f64, progress: &Progress, bottleneck: Option<Bottleneck>) {
        let Some(at) = self.find(progress.phase) else {
            let other = self.other.take().filter(|other| other.stage.phase == progress.phase);
            let new = || Part::new(Stage::new(progress.phase, 0.0, 0.0));
            self.other.insert(other.unwrap_or_else(new)).add(now, progress.fraction, bottleneck);
            return;
        };
        (self.other, self.at) = (None, at);
        for part in &mut self.parts[..at] {
            part.is_over |= now - part.reported >= SILENT || part.pace.is_none();
        }
        // A run may go back, as a join does that ends below a damaged block.
        for part in &mut self.parts[at..] {
            part.is_over = false;
        }
        self.parts[at].add(now, progress.fraction, bottleneck);
    }

    /// Returns the index of the stage that reports this phase; `None` if the plan has none, or only
    /// one that is not to come yet.
    fn find(&self, phase: Phase) -> Option<usize> {
        let is_of = |at: &usize| self.parts[*at].stage.phase == phase;
        let found = (0..self.parts.len()).find(|at| is_of(at) && !self.parts[*at].is_over);
        let found = found.or_else(|| {
            (0..=self.at.min(self.parts.len())).rev().find(|at| *at < self.parts.len() && is_of(at))
        })?;
        // Coins may be written, and a few blocks connected, before the stages that do much of it.
        if !matches!(phase, Phase::WritingCoins | Phase::Connecting) {
            return Some(found);
        }
        let all: f64 = self.parts.iter().map(|part| part.stage.seconds).sum();
        let is_large = |part: &Part| part.stage.seconds > SHARE_NEVER_LEFT_OUT * all;
        let is_to_come = |part: &Part| part.pace.is_none() && !part.is_over && is_large(part);
        (!self.parts[..found].iter().any(is_to_come)).then_some(found)
    }

    /// Returns the seconds that are left of each stage, `None` for one that is over. Empty if there
    /// is no plan yet.
    fn lefts(&self, progress: &Progress, speeds: Speeds) -> Vec<Option<Uncertain>> {
        let machine = self.machine();
        let left = |part: &Part| (!part.is_over).then(|| part.left(machine, progress, speeds));
        self.parts.iter().map(|part| left(part).flatten()).collect()
    }

    /// Returns the seconds that are left of a phase that the plan does not have.
    fn other_left(&self) -> Option<Uncertain> {
        let pace = self.other.as_ref()?.pace.as_ref()?;
        let share = 1.0 - pace.done;
        (share > 0.0).then(|| pace.whole())?.map(|whole| whole.times(share))
    }

    /// Returns the stages, with their shares of the time.
    fn passes(&self, lefts: &[Option<Uncertain>]) -> Arc<[Pass]> {
        let time = |(part, left): (&Part, &Option<Uncertain>)| {
            let spent = part.pace.as_ref().map_or(0.0, Pace::seconds);
            (part.stage.phase, spent + left.map_or(0.0, Uncertain::mean))
        };
        let times: Vec<(Phase, f64)> = self.parts.iter().zip(lefts).map(time).collect();
        let all = times.iter().map(|(_, time)| time).sum::<f64>().max(1e-9);
        times.into_iter().map(|(phase, time)| Pass { phase, share: time / all }).collect()
    }

    /// Returns what is known of the machine: by which factor its processors and its disk take
    /// longer than those of docs/budget.md.
    fn machine(&self) -> (Uncertain, Uncertain) {
        let (mut processor, mut disk) = (PROCESSOR, DISK);
        let (mut processor_max, mut disk_max) = (f64::INFINITY, f64::INFINITY);
        let now = self.parts.iter().filter_map(Part::learned);
        for Learned { processor: of_processor, disk: of_disk, by, variance } in
            self.learned.iter().copied().chain(now)
        {
            let known = |log| Uncertain { log, variance: variance + OF_STAGE };
            // What did not hold a stage up was at least as fast.
            match of_processor {
                Some(log) if by == ON_PROCESSOR => processor = processor.with(known(log)),
                Some(log) => processor_max = processor_max.min(log),
                None => {}
            }
            match of_disk {
                Some(log) if by == ON_DISK => disk = disk.with(known(log)),
                Some(log) => disk_max = disk_max.min(log),
                None => {}
            }
        }
        processor.log = processor.log.min(processor_max);
        disk.log = disk.log.min(disk_max);
        (processor, disk)
    }

    /// Returns the seconds that the work of earlier runs would take, which this one found done.
    fn done_before(&self) -> f64 {
        let machine = self.machine();
        let before = |part: &Part| {
            let first = match &part.pace {
                Some(pace) => pace.first,
                None if part.is_over => 1.0,
                None => 0.0,
            };
            part.expected(machine).map_or(0.0, |all| all.mean() * first)
        };
        self.parts.iter().map(before).sum()
    }
}

/// Returns the time that this share of a run with these stages takes, if nothing is known of the
/// machine; `None` without a stage.
pub fn expected(plan: &Plan, share: f64) -> Option<Left> {
    let parts = plan.stages.iter().map(|stage| Part::new(*stage).expected((PROCESSOR, DISK)));
    let parts: Vec<Uncertain> = parts.flatten().collect();
    (!parts.is_empty() && share > 0.0).then(|| Left::of(sum(parts.iter()).times(share)))
}

impl Part {
    fn new(stage: Stage) -> Self {
        Self { stage, pace: None, is_over: false, reported: 0.0, limited: [0.0; 3] }
    }

    fn add(&mut self, now: f64, done: f64, bottleneck: Option<Bottleneck>) {
        let done = if done.is_finite() { done.clamp(0.0, 1.0) } else { 0.0 };
        let by = match bottleneck {
            Some(Bottleneck::Peers | Bottleneck::DownloadLimit) => PEERS,
            Some(Bottleneck::Disk) => ON_DISK,
            Some(Bottleneck::Processor) | None => ON_PROCESSOR,
        };
        match &mut self.pace {
            Some(pace) => {
                self.limited[by] += (now - self.reported).max(0.0);
                pace.add(now, done);
            }
            None => self.pace = Some(Pace::new(now, done)),
        }
        self.reported = self.reported.max(now);
    }

    /// Returns what held this stage up most of its time.
    fn limited_by(&self) -> usize {
        let most = self.limited.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
        most.map_or(ON_PROCESSOR, |(by, _)| by)
    }

    /// Returns what the time that this stage took says of the machine.
    fn learned(&self) -> Option<Learned> {
        let whole = self.pace.as_ref()?.whole()?;
        let factor = |expected: f64| (expected > 0.0).then(|| whole.log - expected.ln());
        Some(Learned {
            processor: factor(self.stage.seconds),
            disk: factor(self.stage.disk_bytes / DISK_SPEED),
            by: self.limited_by(),
            variance: whole.variance,
        })
    }

    /// Returns the seconds that the whole stage is expected to take on this machine.
    fn expected(&self, (processor, disk): (Uncertain, Uncertain)) -> Option<Uncertain> {
        let of = |factor: Uncertain, seconds: f64| (seconds > 0.0).then(|| factor.times(seconds));
        let processor = of(processor, self.stage.seconds);
        let disk = of(disk, self.stage.disk_bytes / DISK_SPEED);
        let expected = match (processor, disk) {
            (Some(one), Some(other)) if other.log > one.log => other,
            (Some(one), _) => one,
            (None, other) => other?,
        };
        Some(Uncertain { variance: expected.variance + OF_STAGE, ..expected })
    }

    /// Returns the seconds that are left of this stage.
    fn left(
        &self,
        machine: (Uncertain, Uncertain),
        progress: &Progress,
        speeds: Speeds,
    ) -> Option<Uncertain> {
        let expected = self.expected(machine);
        let Some(pace) = &self.pace else { return expected };
        let share = 1.0 - pace.done;
        if share <= 0.0 {
            return None;
        }
        let is_now = progress.phase == self.stage.phase;
        let by_peers =
            matches!(speeds.bottleneck, Some(Bottleneck::Peers | Bottleneck::DownloadLimit));
        let download = progress.download.filter(|_| is_now && by_peers && self.stage.downloads);
        if let (Some(download), Some(speed)) = (download, speeds.download)
            && download.left > 0
        {
            let variance = pace.whole().map_or(OF_DOWNLOAD, |whole| whole.variance);
            let left = Uncertain {
                log: (download.left as f64 / speed).max(1e-3).ln(),
                variance: variance.max(OF_DOWNLOAD),
            };
            let others = expected.map(|expected| expected.times(share));
            return Some(others.filter(|others| others.log > left.log).unwrap_or(left));
        }
        let whole = match (pace.whole(), expected) {
            (Some(measured), Some(expected)) => measured.with(expected),
            (measured, expected) => measured.or(expected)?,
        };
        Some(whole.times(share))
    }
}

/// Returns the sum of uncertain numbers, whose errors have something in common.
fn sum<'a>(numbers: impl Iterator<Item = &'a Uncertain>) -> Uncertain {
    let (mut mean, mut squares, mut deviations) = (0.0, 0.0, 0.0);
    for number in numbers {
        mean += number.mean();
        squares += number.deviation().powi(2);
        deviations += number.deviation();
    }
    let mean = f64::max(mean, 1e-3);
    let variance = (1.0 - IN_COMMON) * squares + IN_COMMON * deviations * deviations;
    let variance = (variance / mean / mean).ln_1p();
    Uncertain { log: mean.ln() - variance / 2.0, variance }
}
