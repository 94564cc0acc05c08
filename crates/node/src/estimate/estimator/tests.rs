use super::*;
use crate::outcome::ThreadStates;
use crate::progress::Download;

/// Seconds between two reports.
const TICK: f64 = 0.1;

/// A simulated run: its plan, and for each stage how many times as long as planned it takes.
struct Run {
    stages: Vec<(Stage, f64)>,
    /// The speed at a second, as a share of the usual one.
    speed: Box<dyn Fn(f64) -> f64>,
    /// Bytes a second that peers send; `None` without peers.
    peers: Option<f64>,
}

/// What was told at one moment: the second, the share done and the range.
#[derive(Clone, Copy)]
struct Told {
    at: f64,
    fraction: f64,
    left: Left,
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

impl Run {
    fn new(stages: &[(Phase, f64, f64)]) -> Self {
        let stage = |(phase, planned, factor): &(Phase, f64, f64)| {
            (Stage::new(*phase, *planned, 0.0), *factor)
        };
        let stages = stages.iter().map(stage).collect();
        Self { stages, speed: Box::new(|_| 1.0), peers: None }
    }

    fn with_speed(self, speed: impl Fn(f64) -> f64 + 'static) -> Self {
        Self { speed: Box::new(speed), ..self }
    }

    /// Runs to the end, and returns what was told meanwhile, and the second of the end.
    fn told(&self) -> (Vec<Told>, f64) {
        let mut estimator = Estimator::default();
        let stages = self.stages.iter().map(|(stage, _)| *stage).collect();
        estimator.plan(&Plan { stages });
        let (mut now, mut all, mut seen) = (0.0, Vec::new(), 0);
        for (stage, factor) in &self.stages {
            let mut done = 0.0;
            while done < 1.0 {
                let speed = (self.speed)(now);
                done += TICK / (stage.seconds * factor) * speed;
                now += TICK;
                seen += 1;
                // What peers have sent is about as much as was done.
                let bytes = |share: f64| (share * 1e9) as u64;
                let download = self.peers.map(|share_waiting| Download {
                    bytes: bytes(done),
                    left: bytes(1.0 - done.min(1.0)),
                    waited: Duration::from_secs_f64(now * share_waiting),
                    ..Download::default()
                });
                let progress = Progress {
                    fraction: done.min(1.0),
                    bytes: bytes(done),
                    download: download.filter(|_| stage.downloads),
                    states: Some(ThreadStates { working: seen * 10, blocked: 0 }),
                    ..Progress::of(stage.phase)
                };
                let Estimate { fraction, left, passes, pass, .. } = estimator.add(now, &progress);
                let left = left.expect("a plan is known");
                assert!((0.0..1.0).contains(&fraction), "{fraction}");
                assert!(left.low <= left.median && left.median <= left.high, "{left:?}");
                assert_eq!(passes[pass].phase, stage.phase);
                let shares: f64 = passes.iter().map(|pass| pass.share).sum();
                assert!((shares - 1.0).abs() < 1e-6, "{shares}");
                all.push(Told { at: now, fraction, left });
            }
        }
        assert!(all.is_sorted_by_key(|told| told.fraction), "the bar never goes back");
        (all, now)
    }

    /// Returns whether the end was within the range that was told at 10, 50 and 90 % of the time.
    fn hits(&self) -> [bool; 3] {
        let (told, end) = self.told();
        [0.1, 0.5, 0.9].map(|share| {
            let then = told.iter().find(|told| told.at >= share * end).expect("it ran until then");
            let left = end - then.at;
            (seconds(then.left.low)..=seconds(then.left.high)).contains(&left)
        })
    }
}

/// A join, on a machine that takes this many times as long, and each stage as much longer again.
fn join(machine: f64, stages: [f64; 4]) -> Run {
    use Phase::{Connecting, JoinChecking, JoinMatching, JoinReading};
    let phases = [JoinReading, JoinMatching, JoinChecking, Connecting];
    let planned = [20.0, 8.0, 30.0, 4.0];
    let all: Vec<_> = phases
        .into_iter()
        .zip(planned)
        .zip(stages)
        .map(|((phase, seconds), of_stage)| (phase, seconds, machine * of_stage))
        .collect();
    Run::new(&all)
}

/// A generator of numbers that look random, from 0 to 1.
fn random(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn steady_runs_end_within_the_range() {
    for machine in [0.5, 1.0, 3.0] {
        assert_eq!(join(machine, [1.0; 4]).hits(), [true; 3], "{machine}");
        assert_eq!(join(machine, [1.0, 1.2, 0.8, 1.1]).hits(), [true; 3], "{machine}");
    }
}

#[test]
fn the_later_stages_count_from_the_first_moment() {
    // The first stage is a third of the run.
    let (told, end) = join(1.0, [1.0; 4]).told();
    let first = told.iter().find(|told| told.at >= 15.0).unwrap();
    assert!(seconds(first.left.median) > 0.7 * (end - first.at), "{:?} of {end}", first.left);
    assert!((0.15..0.35).contains(&first.fraction), "{}", first.fraction);
    let last = told.last().unwrap();
    assert!(seconds(last.left.high) < 2.0, "{:?}", last.left);
}

#[test]
fn a_run_that_slows_down_is_noticed() {
    let slowing = join(1.0, [1.0; 4]).with_speed(|now| if now < 25.0 { 1.0 } else { 0.4 });
    let [_, middle, end] = slowing.hits();
    assert!(middle && end);
    // Other programs come and go.
    let busy = join(1.0, [1.0; 4]).with_speed(|now| if now % 7.0 < 3.0 { 0.4 } else { 1.0 });
    assert_eq!(busy.hits(), [true; 3]);
}

#[test]
fn a_stall_lengthens_the_estimate_and_widens_it() {
    let stalled = join(1.0, [1.0; 4]).with_speed(|now| match now {
        10.0..40.0 => 1e-9,
        _ => 1.0,
    });
    let (told, _) = stalled.told();
    let at = |second: f64| told.iter().find(|told| told.at >= second).unwrap().left;
    let (before, after) = (at(9.9), at(39.0));
    assert!(after.median > before.median, "{before:?} {after:?}");
    let width = |left: Left| seconds(left.high) / seconds(left.low).max(0.1);
    assert!(width(after) > 1.3 * width(before), "{before:?} {after:?}");
}

#[test]
fn peers_that_are_slow_say_nothing_of_the_processor() {
    let mut run = join(1.0, [8.0, 1.0, 1.0, 1.0]);
    run.stages[0].0.downloads = true;
    run.peers = Some(0.9);
    let (told, end) = run.told();
    let middle = told.iter().find(|told| told.at >= 80.0).unwrap();
    // What comes after the download is not expected to be eight times as slow as planned, too.
    let left = end - middle.at;
    assert!(seconds(middle.left.median) < 2.0 * left, "{:?}, not {left}", middle.left);
    assert!(seconds(middle.left.high) > left, "{:?}, not {left}", middle.left);
}

#[test]
fn eight_of_ten_random_runs_end_within_the_range() {
    let mut seed = 7;
    let mut hits = [0; 3];
    let runs = 100;
    for _ in 0..runs {
        let mut around = |spread: f64| ((random(&mut seed) - 0.5) * 2.0 * spread).exp();
        let machine = 1.5 * around(0.7);
        let of_stages = [around(0.4), around(0.4), around(0.4), around(0.4)];
        let (period, depth) = (3.0 + 10.0 * around(0.5), 0.6 * around(0.4).min(1.2));
        let run = join(machine, of_stages);
        let run = run.with_speed(move |now| {
            1.0 - depth * (0.5 + 0.5 * (now / period * std::f64::consts::TAU).sin())
        });
        for (count, hit) in hits.iter_mut().zip(run.hits()) {
            *count += u32::from(hit);
        }
    }
    assert!(hits.iter().all(|hits| *hits >= runs * 8 / 10), "{hits:?} of {runs}");
}

#[test]
fn phases_beside_the_plan_lengthen_the_run() {
    let mut estimator = Estimator::default();
    let stages = vec![Stage::new(Phase::Connecting, 10.0, 0.0)];
    let at = |estimator: &mut Estimator, now: f64, phase, fraction| {
        estimator.add(now, &Progress { fraction, ..Progress::of(phase) })
    };
    let unknown = at(&mut estimator, 0.0, Phase::Headers, 0.1);
    assert_eq!((unknown.left, unknown.fraction), (None, 0.0));
    estimator.plan(&Plan { stages });
    let before = at(&mut estimator, 1.0, Phase::Headers, 0.2).left.unwrap();
    assert!(seconds(before.high) > 10.0, "{before:?}");
    assert_eq!(at(&mut estimator, 2.0, Phase::FindingPeers, 0.0).left, None);
    let mut left = before;
    for second in 3..6 {
        let share = f64::from(second) / 100.0;
        let now = at(&mut estimator, f64::from(second), Phase::Disconnecting, share);
        left = now.left.unwrap();
        assert!(now.left_of_phase.is_some() || second == 3);
    }
    assert!(seconds(left.median) > 60.0, "{left:?}");
    let tip = at(&mut estimator, 9.0, Phase::Following, 0.0);
    assert_eq!((tip.left, tip.fraction), (None, 1.0));
}

#[test]
fn work_of_earlier_runs_counts_as_done() {
    let mut estimator = Estimator::default();
    let stage = |phase, seconds| Stage::new(phase, seconds, 0.0);
    let stages = vec![stage(Phase::JoinReading, 50.0), stage(Phase::JoinChecking, 50.0)];
    estimator.plan(&Plan { stages });
    let checking = Progress { fraction: 0.5, ..Progress::of(Phase::JoinChecking) };
    let estimate = estimator.add(1.0, &checking);
    assert!((0.6..0.9).contains(&estimate.fraction), "{estimate:?}");
    assert_eq!(estimate.pass, 1);
}

#[test]
fn odd_reports_do_no_harm() {
    let mut estimator = Estimator::default();
    for phase in [Phase::Merging, Phase::JoinChecking, Phase::Headers, Phase::JoinReading] {
        let stages = vec![
            Stage::new(Phase::JoinReading, 0.0, 0.0),
            Stage::new(Phase::JoinChecking, 1e-12, 1e30),
            Stage::new(Phase::Merging, 0.0, 1.0),
        ];
        estimator.plan(&Plan { stages });
        for (now, fraction) in [(5.0, f64::NAN), (4.0, -1.0), (4.0, 7.0), (9.0, 0.5), (9.0, 0.1)] {
            let estimate = estimator.add(now, &Progress { fraction, ..Progress::of(phase) });
            assert!((0.0..=1.0).contains(&estimate.fraction), "{estimate:?}");
            assert!(estimate.passes.iter().all(|pass| pass.share.is_finite()), "{estimate:?}");
        }
    }
}
