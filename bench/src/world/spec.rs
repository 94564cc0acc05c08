use std::time::Duration;

use apus_testchain::Rng;

/// How a peer behaves, apart from the speed of its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behaviour {
    /// Sends what it is asked for.
    Honest,
    /// Sends nothing any more after this many bytes of blocks.
    SilentAfter(u64),
    /// Closes the connection after this many bytes of blocks. It can be connected to again.
    ClosesAfter(u64),
    /// Says that it has all blocks, and sends other messages in their place, at its full speed.
    Junk,
    /// Answers a request for headers after 4.9 s, with headers that are known already.
    DripsHeaders,
}

/// Times without data: a lossy line, or a peer that does something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outages {
    /// The mean time from the end of one to the start of the next.
    pub every: Duration,
    /// The mean length of one.
    pub lasts: Duration,
}

/// A peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerSpec {
    /// Bytes a second that its line carries.
    pub rate: u64,
    /// Time from a request to the first byte of the answer.
    pub round_trip: Duration,
    /// Its behaviour.
    pub behaviour: Behaviour,
    /// Whether it connected to us.
    pub inbound: bool,
    /// When it sends nothing for a while.
    pub outages: Option<Outages>,
    /// When it connects.
    pub from: Duration,
}

/// In which order blocks are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// By height.
    InOrder,
    /// By height in each of several spans at a time.
    Join,
    /// As they come.
    SwiftSync,
}

/// A world.
#[derive(Clone, Debug)]
pub struct WorldSpec {
    /// What the world shows.
    pub name: &'static str,
    /// Seed of everything that is random.
    pub seed: u64,
    /// Bytes a second that our line carries.
    pub downlink: u64,
    /// Bytes a second that are validated.
    pub validation: u64,
    /// Bytes of a block; the real ones vary from half to one and a half times of it.
    pub block_bytes: u64,
    /// In which order blocks are taken.
    pub method: Method,
    /// The first peers. When one is lost, another one like it connects a second later.
    pub peers: Vec<PeerSpec>,
    /// Peers that candidates for the slots of the first ones are chosen from; empty for no
    /// candidates.
    pub pool: Vec<PeerSpec>,
    /// How long the world is watched, from the first request of a block on.
    pub time: Duration,
}

impl PeerSpec {
    pub fn honest(rate: u64, round_trip_millis: u64) -> Self {
        Self {
            rate,
            round_trip: Duration::from_millis(round_trip_millis),
            behaviour: Behaviour::Honest,
            inbound: false,
            outages: None,
            from: Duration::ZERO,
        }
    }
}

impl WorldSpec {
    pub fn size(&self, height: usize) -> u64 {
        let mean = self.block_bytes;
        Rng::new(self.seed, height as u64).between(mean / 2, mean * 3 / 2)
    }
}
