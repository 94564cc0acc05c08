use std::collections::BTreeMap;
use std::time::Duration;

use apus_net::{Candidates, PeerId, Runner, Schedule, Slot, Trial};

/// Time from one check to the next, as in `apus-peers`.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Which peer has which slot, and when a candidate for one is tried.
#[derive(Default)]
pub struct Slots {
    candidates: Candidates,
    peers: BTreeMap<PeerId, (Slot, Duration)>,
    looked: Duration,
}

impl Slots {
    /// Records a new connection.
    pub fn connected(&mut self, id: PeerId, slot: Slot, now: Duration) {
        self.peers.insert(id, (slot, now));
    }

    /// Records the end of a connection. Returns the slot that the peer had.
    pub fn remove(&mut self, id: PeerId) -> Option<Slot> {
        self.peers.remove(&id).map(|(slot, _)| slot)
    }

    /// Gives a slot to a candidate.
    pub fn give(&mut self, id: PeerId, slot: Slot) {
        self.peers.entry(id).and_modify(|peer| peer.0 = slot);
    }

    pub fn is_time(&mut self, now: Duration) -> bool {
        let is_time = now >= self.looked + LOOK_EVERY;
        if is_time {
            self.looked = now;
        }
        is_time
    }

    /// Returns what to do with the candidate, or whether to connect to one.
    pub fn check(&mut self, schedule: &Schedule, slots: usize, now: Duration) -> Trial {
        let runner = |(id, (slot, since)): (&PeerId, &(Slot, Duration))| Runner {
            id: *id,
            slot: *slot,
            since: *since,
            speed: schedule.speed(*id),
        };
        let runners: Vec<Runner> = self.peers.iter().map(runner).collect();
        let waiting_bytes = (!schedule.is_done()).then(|| schedule.waiting_bytes());
        let in_slots = runners.iter().filter(|runner| runner.slot != Slot::Candidate);
        let taken = in_slots.count();
        self.candidates.check(&runners, (taken, slots), waiting_bytes, now)
    }
}
