//! Simulated worlds: runs whose ends are known, and what was told meanwhile.

use super::*;
use crate::estimate::plan::{Costs, Task};
use crate::method::Method;
use crate::observer::Download;
use crate::outcome::ThreadStates;

/// Seconds between two reports.
const TICK: f64 = 0.1;

/// The events of a world in a tick.
#[derive(Clone, Copy)]
struct Weather {
    /// How fast work is done, as a share of the usual speed.
    speed: f64,
    /// Whether threads lack blocks that peers have.
    lacks: bool,
    /// Whether blocks come from peers.
    comes: bool,
    /// The share of the processors that this run uses, and of the time that programs wait for one.
    used: f64,
    pressure: f64,
}

const FINE: Weather = Weather { speed: 1.0, lacks: false, comes: true, used: 0.9, pressure: 0.2 };

/// A simulated run: its stages, and for each how many times as long as planned it takes.
struct World {
    stages: Vec<(Stage, f64)>,
    /// Whether the first stage downloads.
    downloads: bool,
    weather: Box<dyn Fn(f64) -> Weather>,
}

/// The estimate at one moment.
#[derive(Clone, Debug)]
struct Told {
    at: f64,
    estimate: Estimate,
}

impl Told {
    fn share(&self) -> f64 {
        self.estimate.share.expect("a plan is known")
    }

    /// Returns whether a run that ends after `left` seconds ends within the range.
    fn holds(&self, left: f64) -> bool {
        let range = self.estimate.left.expect("work is done");
        (range.low.as_secs_f64()..=range.high.as_secs_f64()).contains(&left)
    }
}

/// A run that was simulated to its end.
struct Past {
    told: Vec<Told>,
    end: f64,
    ran: Ran,
}

impl Past {
    fn at(&self, second: f64) -> &Told {
        self.told.iter().find(|told| told.at >= second).expect("it ran until then")
    }

    /// Returns whether the end was within the range at 10, 50 and 90 % of the time.
    fn hits(&self) -> [bool; 3] {
        [0.1, 0.5, 0.9].map(|share| {
            let then = self.at(share * self.end);
            then.holds(self.end - then.at)
        })
    }
}

impl World {
    fn new(stages: &[(Phase, f64, f64)]) -> Self {
        let stage =
            |(phase, work, factor): &(Phase, f64, f64)| (Stage::new(*phase, *work), *factor);
        let stages = stages.iter().map(stage).collect();
        Self { stages, downloads: false, weather: Box::new(|_| FINE) }
    }

    fn with(self, weather: impl Fn(f64) -> Weather + 'static) -> Self {
        Self { weather: Box::new(weather), ..self }
    }

    fn sent_by_peers(self) -> Self {
        Self { downloads: true, ..self }
    }

    fn run(&self) -> Past {
        let mut estimator = Estimator::default();
        estimator.plan(&RunPlan { stages: self.stages.iter().map(|(stage, _)| *stage).collect() });
        let mut now = 0.0;
        let mut told = Vec::new();
        let mut download = Download { peers: 1, ..Download::default() };
        let mut states = ThreadStates::default();
        let mut machine =
            Machine { cores: 4.0, pressure: Some(Duration::ZERO), ..Default::default() };
        for (number, (stage, factor)) in self.stages.iter().enumerate() {
            let mut done = 0.0;
            while done < 1.0 {
                let Weather { speed, lacks, comes, used, pressure } = (self.weather)(now);
                let seconds = |share: f64| Duration::from_secs_f64(share * TICK);
                let downloads = self.downloads && number == 0;
                now += TICK;
                done += TICK / (stage.work * factor) * speed;
                states.working += if lacks { 0 } else { 4 };
                machine.cpu += seconds(4.0 * used);
                machine.pressure = machine.pressure.map(|sum| sum + seconds(pressure));
                download.waited += seconds(if downloads && lacks { 1.0 } else { 0.0 });
                download.block_bytes += u64::from(downloads && comes) * 10_000;
                let progress = Progress {
                    fraction: done.min(1.0),
                    download: Some(download).filter(|_| self.downloads),
                    states: Some(states),
                    ..Progress::of(stage.phase)
                };
                let estimate = estimator.add(now, &progress, machine);
                if let Some(Left { low, median, high }) = estimate.left {
                    assert!(low <= median && median <= high, "{estimate:?}");
                }
                told.push(Told { at: now, estimate });
            }
        }
        let has_grown = |told: &[Told]| told.is_sorted_by(|a, b| a.share() <= b.share());
        assert!(has_grown(&told), "nothing new became known");
        Past { told, end: now, ran: estimator.ran() }
    }
}

/// A join on a machine that takes this many times as long, and each stage as much longer again.
fn join(machine: f64, stages: [f64; 4]) -> World {
    use Phase::{Connecting, JoinChecking, JoinMatching, JoinReading};
    let phases = [JoinReading, JoinMatching, JoinChecking, Connecting];
    let planned = phases.into_iter().zip([20.0, 8.0, 30.0, 4.0]).zip(stages);
    let all: Vec<_> = planned.map(|((phase, work), of)| (phase, work, machine * of)).collect();
    World::new(&all)
}

/// A generator of numbers that look random, from 0 to 1.
fn random(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn a_steady_join_ends_within_the_range_and_its_share_is_that_of_the_work() {
    for machine in [0.6, 1.0, 3.0] {
        for stages in [[1.0; 4], [1.0, 1.2, 0.8, 1.1]] {
            let past = join(machine, stages).run();
            assert_eq!(past.hits(), [true; 3], "{machine} {stages:?}");
            for told in &past.told {
                let by_time = told.at / past.end;
                assert!((told.share() - by_time).abs() < 0.12, "{} of {by_time}", told.share());
            }
            let ran = past.ran;
            assert_eq!(ran.bottleneck.map(|(what, _)| what), Some(Bottleneck::Processor));
            assert_eq!(ran.to_tip, None);
        }
    }
}

#[test]
fn eight_of_ten_random_joins_end_within_the_range() {
    let mut seed = 7;
    let mut hits = [0; 3];
    let runs = 100;
    for _ in 0..runs {
        let mut around = |spread: f64| ((random(&mut seed) - 0.5) * 2.0 * spread).exp();
        let machine = 1.5 * around(0.7);
        let of_stages = [around(0.4), around(0.4), around(0.4), around(0.4)];
        let period = 3.0 + 10.0 * around(0.5);
        let depth = 0.6 * around(0.4).min(1.2);
        let past = join(machine, of_stages).with(move |now| {
            let slower = depth * (0.5 + 0.5 * (now / period * std::f64::consts::TAU).sin());
            Weather { speed: 1.0 - slower, ..FINE }
        });
        for (count, hit) in hits.iter_mut().zip(past.run().hits()) {
            *count += u32::from(hit);
        }
    }
    assert!(hits.iter().all(|hits| *hits >= runs * 8 / 10), "{hits:?} of {runs}");
}

/// The weather of a peer that sends as fast as the work goes until it stops for a while.
fn stops(from: f64, to: f64) -> impl Fn(f64) -> Weather {
    move |now| match now {
        _ if now < from || now >= to => FINE,
        // What has arrived is soon done.
        _ if now < from + 1.0 => Weather { comes: false, ..FINE },
        _ => Weather { speed: 0.0, lacks: true, comes: false, used: 0.02, ..FINE },
    }
}

#[test]
fn when_a_peer_stops_the_share_freezes_and_no_time_is_told() {
    let past = join(1.5, [1.0; 4]).sent_by_peers().with(stops(12.0, 132.0)).run();
    let frozen = past.at(13.1).share();
    assert!((0.1..0.2).contains(&frozen), "{frozen}");
    for told in past.told.iter().filter(|told| (18.5..131.9).contains(&told.at)) {
        let Estimate { left, waiting, bottleneck, .. } = told.estimate;
        assert!((told.share() - frozen).abs() < 1e-3, "{told:?}");
        assert_eq!((left, bottleneck), (None, Some(Bottleneck::Peers)), "{told:?}");
        // Since the last block, not since the work ended or somebody looked.
        let silent = waiting.unwrap().as_secs_f64();
        assert!((silent - (told.at - 12.0)).abs() < 0.3, "{told:?}");
    }
    // Once it sends again, the time is as before, and soon within the range.
    for after in [145.0, 160.0, 180.0, 200.0] {
        let told = past.at(after);
        assert_eq!(told.estimate.waiting, None);
        assert!(told.holds(past.end - told.at), "{told:?}, {}", past.end);
    }
    assert_eq!(past.ran.bottleneck.unwrap().0, Bottleneck::Peers);
    assert!((110.0..125.0).contains(&past.ran.bottleneck.unwrap().1.as_secs_f64()));
}

#[test]
fn blocks_that_trickle_in_are_no_stall() {
    // Every 3 s a block, which is done at once.
    let trickle = |now: f64| match now % 3.0 {
        0.0..0.2 => Weather { lacks: true, ..FINE },
        _ => Weather { speed: 0.0, lacks: true, comes: false, used: 0.02, ..FINE },
    };
    let world = World::new(&[(Phase::SwiftSync, 10.0, 1.0)]).sent_by_peers().with(trickle);
    let past = world.run();
    assert!(past.told.iter().all(|told| told.estimate.waiting.is_none()));
    let [_, half, end] = past.hits();
    assert!(half && end);
    assert_eq!(past.ran.bottleneck.unwrap().0, Bottleneck::Peers);
}

#[test]
fn slow_peers_say_nothing_of_the_machine() {
    let slow = |now: f64| match now {
        ..160.0 => Weather { lacks: true, used: 0.1, ..FINE },
        _ => FINE,
    };
    let past = join(1.0, [8.0, 1.0, 1.0, 1.0]).sent_by_peers().with(slow).run();
    let told = past.at(80.0);
    assert!(told.holds(past.end - 80.0), "{told:?}, {}", past.end);
    assert_eq!(told.estimate.bottleneck, Some(Bottleneck::Peers));
}

#[test]
fn a_run_that_only_looks_for_peers_says_so() {
    let mut estimator = Estimator::default();
    let mut add = |now: f64, progress: &Progress| {
        estimator.add(now, progress, Machine { cores: 4.0, ..Machine::default() })
    };
    for tenth in 0..410 {
        let now = f64::from(tenth) / 10.0;
        let Estimate { share, left, waiting, .. } = add(now, &Progress::of(Phase::FindingPeers));
        assert_eq!((share, left), (None, None));
        let expected = (now >= 5.0).then_some(now);
        assert_eq!(waiting.map(|time| time.as_secs_f64()), expected);
    }
    let (what, time) = estimator.ran().bottleneck.unwrap();
    assert_eq!((what, time.as_secs() / 2), (Bottleneck::Peers, 20));
}

#[test]
fn time_at_the_tip_is_no_time_of_the_run() {
    let mut estimator = Estimator::default();
    let stages = vec![Stage::new(Phase::Connecting, 1.0)];
    estimator.plan(&RunPlan { stages });
    for tenth in 0..400 {
        let now = f64::from(tenth) / 10.0;
        let (phase, fraction) =
            if tenth < 10 { (Phase::Connecting, now) } else { (Phase::Following, 0.0) };
        let progress = Progress { fraction, ..Progress::of(phase) };
        let Estimate { share, left, waiting, bottleneck, .. } =
            estimator.add(now, &progress, Machine::default());
        if tenth >= 10 {
            assert_eq!((share, left, waiting, bottleneck), (Some(1.0), None, None, None));
        }
    }
    let ran = estimator.ran();
    assert_eq!((ran.bottleneck, ran.to_tip), (None, Some(Duration::from_secs(1))));
    assert!(ran.expected.unwrap().low < Duration::from_secs(1));
    // A tip far below the best header is not that of the chain.
    let lags = estimator.add(40.0, &Progress::of(Phase::WaitingForBlocks), Machine::default());
    assert_eq!((lags.share, lags.left), (None, None), "what is left is not known");
}

#[test]
fn a_sync_in_order_of_growing_blocks_is_measured_by_their_bytes() {
    // 1,000 blocks, the last one a hundred times as large as the first.
    let bytes = |block: u32| 1.0 + 0.1 * f64::from(block);
    let all: f64 = (0..1_000).map(bytes).sum();
    let mut estimator = Estimator::default();
    estimator.plan(&RunPlan { stages: vec![Stage::new(Phase::Connecting, 60.0)] });
    let mut done = 0.0;
    let mut told = Vec::new();
    for block in 0..1_000 {
        done += bytes(block);
        let now = 100.0 * done / all;
        let fraction = done / all;
        let progress = Progress { fraction, height: block, ..Progress::of(Phase::Connecting) };
        let estimate = estimator.add(now, &progress, Machine::default());
        told.push(Told { at: now, estimate });
    }
    let past = Past { told, end: 100.0, ran: estimator.ran() };
    assert_eq!(past.hits(), [true; 3]);
    assert!((past.at(50.0).share() - 0.5).abs() < 0.01);
}

#[test]
fn the_share_falls_when_more_work_becomes_known() {
    let mut estimator = Estimator::default();
    let add = |estimator: &mut Estimator, now: f64, phase, fraction| {
        let progress = Progress { fraction, ..Progress::of(phase) };
        estimator.add(now, &progress, Machine::default())
    };
    // Headers come: their share is that of the phase.
    for second in 0..10 {
        let share = f64::from(second) / 10.0;
        let headers = add(&mut estimator, share, Phase::DownloadingHeaders, share);
        assert_eq!((headers.share.unwrap_or(0.0), headers.of_run()), (share, None));
    }
    let plan = |work| RunPlan { stages: vec![Stage::new(Phase::Connecting, work)] };
    estimator.plan(&plan(30.0));
    let half = add(&mut estimator, 20.0, Phase::Connecting, 0.5);
    assert_eq!(half.of_run(), Some(0.5));
    let all = add(&mut estimator, 30.0, Phase::Connecting, 1.0);
    assert_eq!(all.of_run(), Some(0.999), "a run is not over before it says so");
    // Meanwhile there are headers of three times as many blocks.
    estimator.plan(&plan(90.0));
    assert_eq!(add(&mut estimator, 31.0, Phase::Connecting, 0.0).of_run(), Some(0.25));
    assert_eq!(add(&mut estimator, 60.0, Phase::Connecting, 0.5).of_run(), Some(0.625));
    // Beside the plan, nothing is known of the time.
    let beside = add(&mut estimator, 70.0, Phase::Disconnecting, 0.5);
    assert_eq!((beside.of_run(), beside.left), (Some(0.625), None));
}

#[test]
fn other_programs_that_hold_the_processor_are_named_and_lengthen_the_run() {
    let busy = |now: f64| match now {
        20.0..90.0 => Weather { speed: 0.06, used: 0.06, pressure: 0.98, ..FINE },
        _ => FINE,
    };
    let past = join(1.0, [1.0; 4]).with(busy).run();
    let median = |at| past.at(at).estimate.left.unwrap().median.as_secs_f64();
    assert!(median(85.0) > 3.0 * median(19.0), "{} {}", median(19.0), median(85.0));
    assert_eq!(past.at(85.0).estimate.bottleneck, Some(Bottleneck::OtherPrograms));
    assert_eq!(past.at(19.0).estimate.bottleneck, Some(Bottleneck::Processor));
    assert_eq!(past.ran.bottleneck.unwrap().0, Bottleneck::OtherPrograms);
    // Its own threads, more than there are processors, are no other programs.
    let own = |_| Weather { pressure: 0.98, ..FINE };
    let past = join(1.0, [1.0; 4]).with(own).run();
    assert_eq!(past.ran.bottleneck.unwrap().0, Bottleneck::Processor);
    // Other programs come and go.
    let gusty = |now: f64| Weather { speed: if now % 7.0 < 3.0 { 0.4 } else { 1.0 }, ..FINE };
    assert_eq!(join(1.0, [1.0; 4]).with(gusty).run().hits(), [true; 3]);
}

#[test]
fn work_of_earlier_runs_counts_as_done() {
    let mut estimator = Estimator::default();
    let stage = |phase| Stage::new(phase, 50.0);
    let stages = vec![stage(Phase::JoinReading), stage(Phase::JoinChecking)];
    estimator.plan(&RunPlan { stages });
    let checking = Progress { fraction: 0.5, ..Progress::of(Phase::JoinChecking) };
    assert_eq!(estimator.add(1.0, &checking, Machine::default()).share, Some(0.75));
    // Coins may be written before the stages that come before most of them.
    let mut estimator = Estimator::default();
    let stages = vec![stage(Phase::JoinReading), stage(Phase::WritingCoins)];
    estimator.plan(&RunPlan { stages });
    let early = Progress { fraction: 1.0, ..Progress::of(Phase::WritingCoins) };
    assert_eq!(estimator.add(1.0, &early, Machine::default()).share, Some(0.0));
}

#[test]
fn work_without_a_plan_is_measured_phase_by_phase() {
    let mut estimator = Estimator::default();
    let mut told = Vec::new();
    for phase in [Phase::ReadingUndo, Phase::MakingHints] {
        for tenth in 1..=400 {
            let fraction = f64::from(tenth) / 400.0;
            let progress = Progress { fraction, ..Progress::of(phase) };
            let now = told.len() as f64 / 10.0;
            let estimate = estimator.add(now, &progress, Machine::default());
            assert!(!estimate.is_of_run);
            told.push(Told { at: now, estimate });
        }
    }
    for (at, left) in [(20.0, 20.0), (30.0, 10.0), (60.0, 20.0)] {
        let then = told.iter().find(|told| told.at >= at).unwrap();
        assert!(then.holds(left), "{then:?}");
    }
}

#[test]
fn a_download_that_is_faster_than_expected_says_nothing_of_later_stages() {
    let task = Task { bytes: 2.5e9, from_peers: 2.5e9, ..Task::default() };
    let stages = task.stages(Method::InOrder, &Costs::new(3_000.0, 2));
    // By the bytes a hundred seconds, of which the processor works some.
    assert!((stages[0].work - 100.0).abs() < 1.0 && stages[0].own < 30.0, "{stages:?}");
    let first = stages[0];
    let later = Stage::new(Phase::Merging, 10.0);
    let mut estimator = Estimator::default();
    estimator.plan(&RunPlan { stages: vec![first, later] });
    let mut left = None;
    for tenth in 0..200 {
        let now = f64::from(tenth) / 10.0;
        let fraction = f64::from(tenth) / 200.0;
        let progress = Progress { fraction, ..Progress::of(Phase::Connecting) };
        left = estimator.add(now, &progress, Machine::default()).left;
    }
    let expected = 10.0 * 20.0 / first.own;
    let left = left.unwrap();
    let range = left.low.as_secs_f64()..=left.high.as_secs_f64();
    assert!(range.contains(&expected), "{left:?}, not {expected}");
}

#[test]
fn odd_reports_do_no_harm() {
    for phase in [Phase::Merging, Phase::JoinChecking, Phase::Headers, Phase::JoinReading] {
        let mut estimator = Estimator::default();
        let stages = vec![
            Stage::new(Phase::JoinReading, 0.0),
            Stage::new(Phase::JoinChecking, 1e21),
            Stage::new(Phase::Merging, 1e-9),
        ];
        estimator.plan(&RunPlan { stages });
        for (now, fraction) in [(5.0, f64::NAN), (4.0, -1.0), (4.0, 7.0), (9.0, 0.5), (9.0, 0.1)] {
            let progress = Progress { fraction, ..Progress::of(phase) };
            let estimate = estimator.add(now, &progress, Machine::default());
            assert!((0.0..=1.0).contains(&estimate.share.unwrap_or(0.0)), "{estimate:?}");
        }
    }
}
