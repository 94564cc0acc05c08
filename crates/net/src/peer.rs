//! A peer as the schedule sees it: which blocks it has, which it was asked for, and its line.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use apus_chain::{BlockId, Tree};

use super::line::Line;

/// The number of a connection, which is never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u64);

/// The time, in addition to two round trips, for which a peer is asked for blocks ahead. In one
/// round trip, TCP's slow start doubles what a peer sends.
const AHEAD: Duration = Duration::from_millis(800);
/// Bytes that a peer is asked for at first.
const FIRST_BYTES: u64 = 4_000_000;
/// The most blocks in flight from a peer.
const IN_FLIGHT_MAX: usize = 256;
/// A block is late this long after the peer should have sent it by its own speed, or half as long
/// after that as it should have taken.
const LATE_AFTER: Duration = Duration::from_millis(500);
/// The depth to which a peer that prunes has blocks: Core's `NODE_NETWORK_LIMITED_MIN_BLOCKS`,
/// minus two for blocks that may come meanwhile.
const LIMITED_DEPTH: u32 = 288 - 2;

/// Which blocks a peer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Has {
    /// The best block that it is known to have.
    pub best: BlockId,
    /// Whether it has only the last blocks (BIP159).
    pub is_limited: bool,
    /// Whether the peer opened the connection, so that it is asked only for what others lack.
    pub is_inbound: bool,
}

impl Has {
    /// Returns whether the peer has `block`.
    pub fn has(&self, tree: &Tree, block: BlockId) -> bool {
        let height = tree.height(block);
        let best = tree.height(self.best);
        let is_kept = !self.is_limited || best.saturating_sub(height) < LIMITED_DEPTH;
        is_kept && tree.ancestor(self.best, height) == Some(block)
    }
}

/// A peer as the schedule sees it.
pub struct Peer {
    /// Which blocks it has.
    pub has: Has,
    /// Blocks that it did not send, or for which it sent other bytes.
    pub refused: HashSet<BlockId>,
    /// When the peer became busy, or when its last block arrived.
    pub busy_since: Duration,
    /// Its speed, and when it sent something.
    pub line: Line,
    /// Requested blocks, in order.
    in_flight: VecDeque<InFlight>,
    /// Blocks that are no longer expected from this peer and may still come.
    released: Vec<BlockId>,
}

/// A block requested from one peer.
struct InFlight {
    block: BlockId,
    asked: Duration,
    /// When it should be here, by the peer's speed when it was asked.
    due: Duration,
}

/// Sizes and speeds that hold for all peers.
#[derive(Clone, Copy)]
pub struct Typical {
    /// The average size of a block in bytes.
    pub block_bytes: u64,
    /// The bytes a second of a peer whose speed is not known.
    pub speed: f64,
}

impl Peer {
    /// Creates a peer that was asked for nothing.
    pub fn new(has: Has) -> Self {
        Self {
            has,
            refused: HashSet::new(),
            busy_since: Duration::ZERO,
            line: Line::default(),
            in_flight: VecDeque::new(),
            released: Vec::new(),
        }
    }

    /// Returns whether the peer has `block`, and has not refused it.
    pub fn can_send(&self, tree: &Tree, block: BlockId) -> bool {
        self.has.has(tree, block) && !self.refused.contains(&block)
    }

    /// Returns whether any block is expected.
    pub fn is_busy(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Returns whether a block may still come.
    pub fn owes(&self) -> bool {
        self.is_busy() || !self.released.is_empty()
    }

    /// Returns whether nothing has come for a while, though a block is to come.
    pub fn is_quiet(&self, now: Duration) -> bool {
        self.owes() && self.line.is_quiet(now)
    }

    /// Records a request.
    pub fn request(&mut self, block: BlockId, typical: Typical, now: Duration) {
        let due = now + self.finish(typical);
        if !self.is_busy() {
            self.busy_since = now;
        }
        if !self.owes() {
            self.line.begin(now);
        }
        self.in_flight.push_back(InFlight { block, asked: now, due });
    }

    /// Records that a block came. Returns whether it was expected; `None` if it was not requested.
    pub fn came(&mut self, block: BlockId, bytes: u64, now: Duration) -> Option<bool> {
        let is_expected = match self.in_flight.iter().position(|it| it.block == block) {
            Some(at) => {
                self.in_flight.remove(at);
                self.busy_since = now;
                true
            }
            None => {
                let at = self.released.iter().position(|released| *released == block)?;
                self.released.swap_remove(at);
                false
            }
        };
        // What is no longer expected was requested long ago.
        let next = self.in_flight.front().map(|request| request.asked);
        self.line.arrived(bytes, next.or(self.owes().then_some(Duration::ZERO)), now);
        Some(is_expected)
    }

    /// Records that a block is no longer expected, and may still come.
    pub fn release(&mut self, block: BlockId) {
        if let Some(at) = self.in_flight.iter().position(|request| request.block == block) {
            self.in_flight.remove(at);
            self.released.push(block);
        }
    }

    /// Records that no block is expected any more; all may still come.
    pub fn release_all(&mut self) {
        self.released.extend(self.in_flight.drain(..).map(|request| request.block));
    }

    /// Records that a block will not come. Returns whether it was expected.
    pub fn forget(&mut self, block: BlockId) -> bool {
        self.released.retain(|released| *released != block);
        let before = self.in_flight.len();
        self.in_flight.retain(|request| request.block != block);
        self.in_flight.len() < before
    }

    /// Returns the blocks that are expected.
    pub fn in_flight(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.in_flight.iter().map(|request| request.block)
    }

    /// Returns the bytes that are still to come.
    fn remaining(&self, block_bytes: u64) -> u64 {
        let blocks = (self.in_flight.len() + self.released.len()) as u64;
        (blocks * block_bytes).saturating_sub(self.line.partial().min(block_bytes))
    }

    /// Returns the time for this many bytes, and a round trip.
    fn time_for(&self, bytes: u64, typical: Typical) -> Duration {
        let speed = self.line.speed().unwrap_or(typical.speed).max(1.0);
        self.line.round_trip() + Duration::from_secs_f64((bytes as f64 / speed).min(1e6))
    }

    /// Returns the time until another block would be here, if it were requested now.
    pub fn finish(&self, typical: Typical) -> Duration {
        self.time_for(self.remaining(typical.block_bytes) + typical.block_bytes, typical)
    }

    /// Returns whether the peer may be asked for another block. At most `bytes_max` bytes may be in
    /// flight, or one block.
    pub fn has_room(&self, typical: Typical, bytes_max: u64, now: Duration) -> bool {
        if !self.owes() {
            return true;
        }
        if self.in_flight.len() >= IN_FLIGHT_MAX || self.is_quiet(now) {
            return false;
        }
        let remaining = self.remaining(typical.block_bytes);
        let ahead = match self.line.rising_speed() {
            Some(speed) => ((self.line.round_trip() * 2 + AHEAD).as_secs_f64() * speed) as u64,
            None => FIRST_BYTES,
        };
        remaining < ahead && remaining + typical.block_bytes <= bytes_max
    }

    /// Returns whether a block should be here by the peer's own speed.
    pub fn is_late(&self, block: BlockId, now: Duration) -> bool {
        let Some(request) = self.in_flight.iter().find(|request| request.block == block) else {
            return true;
        };
        let slack = LATE_AFTER.max((request.due - request.asked) / 2);
        now > request.due + slack || self.is_quiet(now)
    }

    /// Returns when an expected block was requested, and the bytes of it that have come.
    pub fn state_of(&self, block: BlockId) -> Option<(Duration, u64)> {
        let at = self.in_flight.iter().position(|request| request.block == block)?;
        let is_next = at == 0 && self.released.is_empty();
        Some((self.in_flight[at].asked, if is_next { self.line.partial() } else { 0 }))
    }

    /// Returns the time that an expected block still needs, if it was requested a while ago.
    pub fn time_left(&self, block: BlockId, typical: Typical, now: Duration) -> Option<Duration> {
        let at = self.in_flight.iter().position(|request| request.block == block)?;
        let is_new = now <= self.in_flight[at].asked + LATE_AFTER;
        let bytes = (at as u64 + 1) * typical.block_bytes;
        (!is_new).then(|| self.time_for(bytes, typical))
    }
}
