//! Peers that are asked for addresses alone (Core's `ADDR_FETCH`).

use std::collections::BTreeMap;
use std::time::Duration;

use apus_net::{PeerId, Target};

/// The most seeds at a time, so that silent ones delay no other connection.
const SEEDS_MAX: usize = 8;
/// The time after which one that has sent no addresses is left (Core's
/// `10 * AVG_ADDRESS_BROADCAST_INTERVAL`).
const SEED_TIME: Duration = Duration::from_secs(5 * 60);

/// Which of them are still to be asked, and which are connected.
#[derive(Default)]
pub(super) struct Seeds {
    left: Vec<Target>,
    /// When the handshake was complete.
    open: BTreeMap<PeerId, Duration>,
}

impl Seeds {
    /// Replaces the seeds that are still to be asked.
    pub fn ask(&mut self, targets: Vec<Target>) {
        self.left = targets;
    }

    /// Returns one to connect to, while there are `count` connections to others.
    pub fn next(&mut self, count: usize) -> Option<Target> {
        if count < SEEDS_MAX { self.left.pop() } else { None }
    }

    /// Records that the handshake is complete.
    pub fn worked(&mut self, id: PeerId, now: Duration) {
        self.open.insert(id, now);
    }

    /// Records that a connection is closed.
    pub fn closed(&mut self, id: PeerId) {
        self.open.remove(&id);
    }

    /// Returns the seeds that have sent no addresses for too long.
    pub fn old(&self, now: Duration) -> Vec<PeerId> {
        let is_old = |(_, since): &(&PeerId, &Duration)| now > **since + SEED_TIME;
        self.open.iter().filter(is_old).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_asked_at_a_time_and_left_if_they_send_nothing() {
        let mut seeds = Seeds::default();
        let target = |number: u8| Target::parse(&format!("9.9.9.{number}"), 8333).unwrap();
        seeds.ask((0..3).map(target).collect());
        assert_eq!(seeds.next(SEEDS_MAX), None);
        assert_eq!(seeds.next(1), Some(target(2)));
        seeds.worked(PeerId(1), Duration::from_secs(1));
        seeds.worked(PeerId(2), Duration::from_secs(9));
        assert!(seeds.old(Duration::from_secs(301)).is_empty());
        assert_eq!(seeds.old(Duration::from_secs(302)), [PeerId(1)]);
        seeds.closed(PeerId(1));
        assert!(seeds.old(Duration::from_secs(302)).is_empty());
    }
}
