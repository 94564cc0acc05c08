//! Tests in virtual time which peers a faster one replaces.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Candidates, PeerId, Runner, Slot, Trial};

const SLOTS: usize = 10;
const SECOND: Duration = Duration::from_secs(1);

/// A download from ten peers, one second after the other. A candidate is connected to at once, and
/// its speed is known after five seconds.
struct Download {
    candidates: Candidates,
    runners: BTreeMap<PeerId, Runner>,
    now: Duration,
    next: u64,
    /// The speeds of the peers that will be connected.
    coming: Box<dyn FnMut() -> Option<u64>>,
    trials: Vec<Trial>,
}

impl Download {
    fn new(speeds: [u64; SLOTS], coming: impl FnMut() -> Option<u64> + 'static) -> Self {
        let mut download = Self {
            candidates: Candidates::default(),
            runners: BTreeMap::new(),
            now: Duration::ZERO,
            next: 0,
            coming: Box::new(coming),
            trials: Vec::new(),
        };
        speeds.into_iter().for_each(|speed| download.connect(Slot::Any, Some(speed)));
        download
    }

    fn connect(&mut self, slot: Slot, speed: Option<u64>) {
        let id = PeerId(self.next);
        self.next += 1;
        self.runners.insert(id, Runner { id, slot, since: self.now, speed });
    }

    /// Lets time pass, while `waiting_bytes` of blocks wait to be validated.
    fn run(&mut self, time: Duration, waiting_bytes: Option<u64>) {
        let end = self.now + time;
        while self.now < end {
            self.now += SECOND;
            let now = self.now;
            let known = |runner: &Runner| runner.speed.filter(|_| now > runner.since + SECOND * 5);
            let runners: Vec<Runner> =
                self.runners.values().map(|it| Runner { speed: known(it), ..*it }).collect();
            let in_slots = runners.iter().filter(|runner| runner.slot != Slot::Candidate);
            let slots = (in_slots.count(), SLOTS);
            let trial = self.candidates.check(&runners, slots, waiting_bytes, now);
            match trial {
                Trial::Wait => continue,
                Trial::Connect => {
                    let speed = (self.coming)();
                    self.connect(Slot::Candidate, speed);
                }
                Trial::Keep(id) => self.give(id, Slot::Any),
                Trial::Replace(slow, id) => {
                    self.runners.remove(&slow);
                    self.give(id, Slot::Fast);
                }
                Trial::Drop(id) => drop(self.runners.remove(&id)),
            }
            self.trials.push(trial);
        }
    }

    fn give(&mut self, id: PeerId, slot: Slot) {
        self.runners.get_mut(&id).unwrap().slot = slot;
    }

    fn count(&self, slot: Slot) -> usize {
        self.runners.values().filter(|runner| runner.slot == slot).count()
    }
}

#[test]
fn a_peer_leaves_for_one_that_is_twice_as_fast() {
    let speeds = [9, 9, 9, 9, 9, 3, 9, 9, 9, 9].map(|speed| speed * 1000);
    for (speed, is_taken) in [(6000, true), (5999, false)] {
        let mut download = Download::new(speeds, move || Some(speed));
        download.run(SECOND * 179, Some(0));
        assert_eq!(download.trials, []);
        download.run(SECOND * 40, Some(0));
        let slow = PeerId(5);
        let candidate = PeerId(10);
        let outcome =
            if is_taken { Trial::Replace(slow, candidate) } else { Trial::Drop(candidate) };
        assert_eq!(download.trials, [Trial::Connect, outcome]);
        assert_eq!(download.runners.len(), SLOTS);
        assert_eq!(download.count(Slot::Fast), usize::from(is_taken));
    }
}

/// However many fast peers an attacker has, half of the slots are not given by speed.
#[test]
fn speed_wins_half_of_the_slots_at_most() {
    let mut download = Download::new([1000; SLOTS], {
        let mut speed = 1000;
        move || {
            speed *= 2;
            Some(speed)
        }
    });
    download.run(SECOND * 60 * 60, Some(0));
    assert_eq!(download.count(Slot::Fast), SLOTS / 2);
    assert_eq!(download.count(Slot::Any) + download.count(Slot::Fast), SLOTS);
    let first = download.runners.keys().filter(|id| id.0 < SLOTS as u64).count();
    assert_eq!(first, SLOTS / 2, "those that were there before");
    // Later ones replaced earlier ones of the other half.
    let replaced = download.trials.iter().filter(|trial| matches!(trial, Trial::Replace(..)));
    assert!(replaced.count() > SLOTS);
}

#[test]
fn nothing_is_tried_while_validation_is_the_limit() {
    let mut download = Download::new([1000; SLOTS], || Some(1_000_000));
    download.run(SECOND * 3600, Some(100 << 20));
    download.run(SECOND * 3600, None);
    assert_eq!(download.trials, []);
    // It is the limit for most of the time.
    for _ in 0..100 {
        download.run(SECOND * 20, Some(0));
        download.run(SECOND * 30, Some(100 << 20));
    }
    assert_eq!(download.trials, []);
    download.run(SECOND * 300, Some(0));
    assert_eq!(download.count(Slot::Fast), 1);
}

#[test]
fn a_candidate_that_shows_no_speed_is_dropped() {
    let mut download = Download::new([1000; SLOTS], || None);
    download.run(SECOND * 180, Some(0));
    download.run(SECOND * 119, Some(0));
    assert_eq!(download.trials, [Trial::Connect]);
    download.run(SECOND * 2, Some(0));
    assert_eq!(download.trials, [Trial::Connect, Trial::Drop(PeerId(10))]);
    // So is one whose trial the end of the download interrupts.
    download.run(SECOND * 100, Some(0));
    assert_eq!(download.trials.pop(), Some(Trial::Connect));
    download.run(SECOND, None);
    assert_eq!(download.trials.pop(), Some(Trial::Drop(PeerId(11))));
}

/// Most addresses do not work.
#[test]
fn another_is_tried_soon_if_no_connection_is_made() {
    let runner =
        |id| Runner { id: PeerId(id), slot: Slot::Any, since: Duration::ZERO, speed: Some(1000) };
    let runners: Vec<Runner> = (0..SLOTS as u64).map(runner).collect();
    let mut candidates = Candidates::default();
    let mut check = |second| candidates.check(&runners, (SLOTS, SLOTS), Some(0), SECOND * second);
    let due: Vec<u32> = (1..=220).filter(|second| check(*second) == Trial::Connect).collect();
    assert_eq!(due, [180, 195, 210]);
}

#[test]
fn a_free_slot_goes_to_the_candidate() {
    let mut download = Download::new([1000; SLOTS], || Some(10));
    download.run(SECOND * 181, Some(0));
    download.runners.remove(&PeerId(4));
    download.run(SECOND * 10, Some(0));
    assert_eq!(download.trials, [Trial::Connect, Trial::Keep(PeerId(10))]);
    // With a free slot, no candidate is tried.
    download.runners.remove(&PeerId(5));
    download.run(SECOND * 3600, Some(0));
    assert_eq!(download.trials.len(), 2);
}
