//! Chooses the peer that each block is requested from: a pure function of events and time.
//!
//! The wanted blocks are divided into *lanes*, in each of which they are taken in order or nearly
//! so: one lane for validation in order, one for each span of a join. Blocks that arrive early wait
//! in memory, which [`Limits::bytes_max`] bounds; it is divided evenly among the lanes that are
//! being read. A peer is asked for as many blocks as it sends in [`IN_FLIGHT_TIME`], so faster
//! peers get more.
//!
//! A peer that holds up a lane while another could help is dropped, as is one far slower than the
//! median; its blocks are requested from others. Nothing here knows sockets, clocks or the bytes of
//! blocks.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};

/// The number of a connection, which is never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u64);

/// The time for which a peer is asked for blocks ahead.
const IN_FLIGHT_TIME: Duration = Duration::from_secs(2);
/// The fewest blocks in flight from a peer that has more to send.
const IN_FLIGHT_MIN: usize = 4;
/// Blocks in flight from a peer whose speed is not known yet: Core's
/// `MAX_BLOCKS_IN_TRANSIT_PER_PEER`.
const IN_FLIGHT_FIRST: usize = 16;
/// The most blocks in flight from a peer.
const IN_FLIGHT_MAX: usize = 256;
/// The expected size of a block before any has arrived: the largest, so that memory is not promised
/// twice.
const BLOCK_BYTES_FIRST: u64 = 4_000_000;
/// One block counts for 1 / 2^`AVERAGE_SHIFT` in the average size.
const AVERAGE_SHIFT: u32 = 4;

/// The time for which a peer may hold up a lane (Core's `BLOCK_STALLING_TIMEOUT_DEFAULT`).
const STALLING_TIMEOUT_FIRST: Duration = Duration::from_secs(2);
/// The longest stalling timeout: it doubles whenever a peer is dropped for stalling (Core's
/// `BLOCK_STALLING_TIMEOUT_MAX`).
const STALLING_TIMEOUT_MAX: Duration = Duration::from_secs(64);
/// A peer that holds up only the end of a lane is slow, and not stalling, if it sends at least this
/// many bytes in the stalling timeout.
const PROGRESS_BYTES: u64 = 16 << 10;
/// How long a peer is measured before its speed decides how many blocks it is asked for.
const SPEED_TIME_FIRST: Duration = Duration::from_millis(100);
/// How long a peer is measured before it is compared with others.
const SPEED_TIME: Duration = Duration::from_secs(20);
/// Peers slower than the median by more than this factor are dropped.
const SLOW_FACTOR: u64 = 10;
/// The fewest peers of known speed needed for a median.
const MEDIAN_PEERS: usize = 3;

/// The most blocks of its own chain that a peer may lack.
const REFUSED_MAX: usize = 16;

/// The depth to which a peer that prunes has blocks: Core's `NODE_NETWORK_LIMITED_MIN_BLOCKS`,
/// minus two for blocks that may come meanwhile.
const LIMITED_DEPTH: u32 = 288 - 2;

/// Limits of a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of blocks that have arrived and are not taken, together with those requested.
    pub bytes_max: u64,
    /// Core's `nPowTargetSpacing`: the unit of the time limit for one block.
    pub block_interval: Duration,
}

/// Which blocks a peer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Has {
    /// The best block that it is known to have.
    pub best: BlockId,
    /// Whether it has only the last blocks (BIP159).
    pub is_limited: bool,
}

/// Why a peer must be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// It holds up the download.
    #[error("it holds up the download")]
    Stalling,
    /// It does not send a block that it was asked for.
    #[error("it does not send a block that it was asked for")]
    BlockTimeout,
    /// It does not have the blocks of its own chain.
    #[error("it does not have the blocks of its own chain")]
    Refuses,
    /// It is far slower than the others.
    #[error("it sends {speed} bytes a second; the median is {median}")]
    Slow {
        /// The peer's bytes a second.
        speed: u64,
        /// The median bytes a second of all peers.
        median: u64,
    },
}

/// The outcome of a block's arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// It was requested, and waits to be taken.
    Wanted,
    /// It was requested, but is not kept: it is no longer expected from this peer, or memory has no
    /// room.
    Late,
    /// This peer was not asked for it.
    NotAsked,
}

/// The wanted blocks, and which peer is asked for which.
pub struct Schedule {
    limits: Limits,
    blocks: Arc<[BlockId]>,
    lanes: Vec<Lane>,
    /// The state of each block that was requested, until it and all before it in its lane are
    /// taken.
    states: HashMap<BlockId, State>,
    peers: BTreeMap<PeerId, Peer>,
    /// Bytes of blocks that have arrived and are not taken.
    arrived_bytes: u64,
    /// The average size of a block, times 2^[`AVERAGE_SHIFT`].
    average: u64,
    stalling_timeout: Duration,
}

/// Consecutive blocks that are taken in order.
struct Lane {
    /// Blocks not taken, by index; some after the first may be taken.
    rest: Range<usize>,
    /// Index of the first block that may not have been requested yet.
    next: usize,
    is_read: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Requested from a peer.
    InFlight(PeerId),
    /// Arrived, with this many bytes.
    Arrived(u64),
    Taken,
}

struct Peer {
    has: Has,
    /// Requested blocks, in order, and the time of each request.
    in_flight: VecDeque<(BlockId, Duration)>,
    /// Blocks that are no longer expected from this peer and may still come.
    released: Vec<BlockId>,
    /// Blocks that it did not send, or for which it sent other bytes.
    refused: HashSet<BlockId>,
    /// When the peer became busy, or when its last block arrived.
    busy_since: Duration,
    /// When it began to hold up a lane.
    stalling_since: Option<Duration>,
    /// Bytes that came and the time that they took, in the current measurement.
    measured: (u64, Duration),
    /// Bytes a second.
    speed: Option<u64>,
    /// Whether the speed was measured for [`SPEED_TIME`].
    is_settled: bool,
    /// Bytes of all its messages, complete or not, and the time, when it had last sent
    /// [`PROGRESS_BYTES`] more.
    heard: (u64, Duration),
}

impl Schedule {
    /// Creates a schedule without peers and wanted blocks.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            blocks: Arc::new([]),
            lanes: Vec::new(),
            states: HashMap::new(),
            peers: BTreeMap::new(),
            arrived_bytes: 0,
            average: BLOCK_BYTES_FIRST << AVERAGE_SHIFT,
            stalling_timeout: STALLING_TIMEOUT_FIRST,
        }
    }

    /// Replaces the wanted blocks. Each lane is a range of `blocks`; lanes do not overlap. Blocks
    /// in flight are forgotten, and may still come.
    pub fn want(&mut self, blocks: Arc<[BlockId]>, lanes: impl IntoIterator<Item = Range<usize>>) {
        self.blocks = blocks;
        let lane = |rest: Range<usize>| Lane { next: rest.start, rest, is_read: false };
        self.lanes = lanes.into_iter().map(lane).collect();
        self.states.clear();
        self.arrived_bytes = 0;
        for peer in self.peers.values_mut() {
            peer.released.extend(peer.in_flight.drain(..).map(|(block, _)| block));
            peer.stalling_since = None;
        }
    }

    /// Adds a peer, or updates which blocks it has.
    pub fn set_peer(&mut self, id: PeerId, has: Has) {
        let new = || Peer {
            has,
            in_flight: VecDeque::new(),
            released: Vec::new(),
            refused: HashSet::new(),
            busy_since: Duration::ZERO,
            stalling_since: None,
            measured: (0, Duration::ZERO),
            speed: None,
            is_settled: false,
            heard: (0, Duration::ZERO),
        };
        self.peers.entry(id).or_insert_with(new).has = has;
    }

    /// Removes a peer. Its blocks are requested from others.
    pub fn remove_peer(&mut self, id: PeerId) {
        let Some(peer) = self.peers.remove(&id) else { return };
        for (block, _) in peer.in_flight {
            self.states.remove(&block);
            self.ask_again(block);
        }
    }

    /// Returns the bytes a second that a peer sends, if known.
    pub fn speed(&self, id: PeerId) -> Option<u64> {
        self.peers.get(&id)?.speed
    }

    /// Records how many bytes have come from a peer in all, in messages complete or not.
    pub fn heard(&mut self, id: PeerId, bytes: u64, now: Duration) {
        if let Some(peer) = self.peers.get_mut(&id)
            && bytes >= peer.heard.0 + PROGRESS_BYTES
        {
            peer.heard = (bytes, now);
        }
    }

    /// Returns which blocks each peer has.
    pub fn having(&self) -> impl Iterator<Item = Has> + '_ {
        self.peers.values().map(|peer| peer.has)
    }

    /// Returns a block that a reader waits for and that no peer has.
    pub fn missing(&self, tree: &Tree) -> Option<BlockId> {
        let read = self.lanes.iter().filter(|lane| lane.is_read);
        let mut first = read.filter_map(|lane| self.blocks[lane.rest.clone()].first().copied());
        first.find(|block| {
            let has = |peer: &Peer| peer.has.has(tree, *block) && !peer.refused.contains(block);
            !self.peers.values().any(has) && !self.states.contains_key(block)
        })
    }

    /// Returns whether all wanted blocks are taken.
    pub fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| lane.rest.is_empty())
    }

    /// Returns the bytes of blocks that have arrived and wait to be taken.
    pub fn waiting_bytes(&self) -> u64 {
        self.arrived_bytes
    }

    /// Records that a reader waits for the next block of `lane`.
    pub fn read(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.is_read = true;
        }
    }

    /// Records that `block` of lane `lane` was taken, and found valid.
    pub fn taken(&mut self, lane: usize, block: BlockId) {
        // The lane may be one that was wanted before; its block may be wanted again.
        let Some(lane) = self.lanes.get_mut(lane) else { return };
        if let Some(State::Arrived(bytes)) = self.states.insert(block, State::Taken) {
            self.arrived_bytes -= bytes;
        }
        lane.is_read = true;
        while let Some(first) = self.blocks[lane.rest.clone()].first()
            && self.states.get(first) == Some(&State::Taken)
        {
            self.states.remove(first);
            lane.rest.start += 1;
        }
        lane.next = lane.next.max(lane.rest.start);
        lane.is_read &= !lane.rest.is_empty();
    }

    /// Records that the peer `id` sent `block`, of this many bytes.
    pub fn arrived(&mut self, id: PeerId, block: BlockId, bytes: u64, now: Duration) -> Arrival {
        let Some(peer) = self.peers.get_mut(&id) else { return Arrival::NotAsked };
        let Some(at) = peer.in_flight.iter().position(|(asked, _)| *asked == block) else {
            let released = peer.released.iter().position(|asked| *asked == block);
            released.map(|at| peer.released.swap_remove(at));
            return if released.is_some() { Arrival::Late } else { Arrival::NotAsked };
        };
        let asked = peer.in_flight.remove(at).map_or(now, |(_, asked)| asked);
        peer.measure(bytes, asked, now);
        peer.stalling_since = None;
        // It is larger than expected: it is requested again when its turn comes.
        if self.arrived_bytes + bytes > 2 * self.limits.bytes_max && !self.is_first(block) {
            self.states.remove(&block);
            self.ask_again(block);
            return Arrival::Late;
        }
        self.average = self.average - (self.average >> AVERAGE_SHIFT) + bytes;
        self.arrived_bytes += bytes;
        self.states.insert(block, State::Arrived(bytes));
        self.stalling_timeout = (self.stalling_timeout * 85 / 100).max(STALLING_TIMEOUT_FIRST);
        Arrival::Wanted
    }

    /// Records that the peer `id` does not have `block`, or sent other bytes for it. The block is
    /// requested from another peer that has it, if there is one.
    pub fn refused(&mut self, id: PeerId, block: BlockId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.refused.insert(block);
            peer.stalling_since = None;
            if let Some(at) = peer.in_flight.iter().position(|(asked, _)| *asked == block) {
                peer.in_flight.remove(at);
            }
        }
        if let Some(State::Arrived(bytes)) = self.states.remove(&block) {
            self.arrived_bytes -= bytes;
        }
        self.ask_again(block);
    }

    /// Like [`Schedule::refused`], but only if the peer was asked for `block`.
    pub fn refused_by(&mut self, id: PeerId, block: BlockId) {
        let asked = |peer: &Peer| peer.in_flight.iter().any(|(asked, _)| *asked == block);
        if self.peers.get(&id).is_some_and(asked) {
            self.refused(id, block);
        }
    }

    /// Returns whether `block` is the next of its lane.
    fn is_first(&self, block: BlockId) -> bool {
        self.lanes.iter().any(|lane| self.blocks[lane.rest.clone()].first() == Some(&block))
    }

    /// Makes the lane of `block` consider it again.
    fn ask_again(&mut self, block: BlockId) {
        for lane in &mut self.lanes {
            let asked = lane.rest.start..lane.next;
            if let Some(at) = self.blocks[asked.clone()].iter().position(|id| *id == block) {
                lane.next = asked.start + at;
            }
        }
    }

    /// Returns the blocks to request from peers now.
    pub fn requests(&mut self, tree: &Tree, now: Duration) -> Vec<(PeerId, Vec<BlockId>)> {
        let mut requests: BTreeMap<PeerId, Vec<BlockId>> = BTreeMap::new();
        while let Some((block, peer)) = self.next_request(tree) {
            let state = self.peers.get_mut(&peer).expect("a peer was chosen");
            if state.in_flight.is_empty() {
                state.busy_since = now;
            }
            state.in_flight.push_back((block, now));
            self.states.insert(block, State::InFlight(peer));
            requests.entry(peer).or_default().push(block);
        }
        requests.into_iter().collect()
    }

    fn average_bytes(&self) -> u64 {
        (self.average >> AVERAGE_SHIFT).max(1)
    }

    /// Returns whether memory allows for another block.
    fn has_room(&self) -> bool {
        let in_flight: usize = self.peers.values().map(|peer| peer.in_flight.len()).sum();
        let expected = (in_flight as u64 + 1) * self.average_bytes();
        self.arrived_bytes + expected <= self.limits.bytes_max
    }

    /// Returns the next block to request, and the peer to request it from.
    fn next_request(&mut self, tree: &Tree) -> Option<(BlockId, PeerId)> {
        // The block that a reader waits for may always be requested.
        let has_room = self.has_room();
        let mut lanes: Vec<usize> = (0..self.lanes.len()).collect();
        let ahead = |lane: &Lane| lane.next - lane.rest.start;
        lanes.sort_by_key(|at| (!self.lanes[*at].is_read, ahead(&self.lanes[*at])));
        for at in lanes {
            let lane = &self.lanes[at];
            for index in lane.next..lane.rest.end {
                let is_first = index == self.lanes[at].rest.start;
                if !has_room && !is_first {
                    break;
                }
                let block = self.blocks[index];
                if self.states.contains_key(&block) {
                    self.lanes[at].next = index + 1;
                    continue;
                }
                let Some(peer) = self.choose(tree, block) else { break };
                self.lanes[at].next = index + 1;
                return Some((block, peer));
            }
        }
        None
    }

    /// Returns the peer that has `block`, has not refused it, and has the most room for another
    /// request.
    fn choose(&self, tree: &Tree, block: BlockId) -> Option<PeerId> {
        let average = self.average_bytes();
        let having = self.peers.iter().filter(|(_, peer)| peer.has.has(tree, block));
        let with_room = having.filter(|(_, peer)| {
            !peer.refused.contains(&block) && peer.in_flight.len() < peer.in_flight_max(average)
        });
        let busy = |(_, peer): &(&PeerId, &Peer)| {
            peer.in_flight.len() * 1024 / peer.in_flight_max(average)
        };
        with_room.min_by_key(busy).map(|(id, _)| *id)
    }

    /// Returns the peers to drop, and why.
    pub fn tick(&mut self, tree: &Tree, now: Duration) -> Vec<(PeerId, Fault)> {
        let mut faults = self.timeouts(now);
        faults.extend(self.stalling(tree, now));
        faults.extend(self.slow());
        let refuses = self.peers.iter().filter(|(_, peer)| peer.refused.len() > REFUSED_MAX);
        faults.extend(refuses.map(|(id, _)| (*id, Fault::Refuses)));
        faults.sort_by_key(|(peer, _)| *peer);
        faults.dedup_by_key(|(peer, _)| *peer);
        faults
    }

    /// Returns the peers that exceed Core's time limit for one block: a block interval, and half of
    /// one for each other peer that sends blocks.
    fn timeouts(&self, now: Duration) -> Vec<(PeerId, Fault)> {
        let sending = self.peers.values().filter(|peer| !peer.in_flight.is_empty()).count();
        let others = sending.saturating_sub(1) as u32;
        let limit = self.limits.block_interval + self.limits.block_interval / 2 * others;
        let late = |peer: &Peer| !peer.in_flight.is_empty() && now > peer.busy_since + limit;
        let late = self.peers.iter().filter(|(_, peer)| late(peer));
        late.map(|(id, _)| (*id, Fault::BlockTimeout)).collect()
    }

    /// Returns the peers for whose block a lane waits, if another peer has that block too, while
    /// memory has no room for other blocks or all blocks of the lane are requested. At the end of a
    /// lane, a peer is tolerated as long as it sends bytes: if our line is slow, other peers would
    /// be slow, too.
    fn stalling(&mut self, tree: &Tree, now: Duration) -> Vec<(PeerId, Fault)> {
        // Blocks that are only requested may still come in time.
        let is_full = self.arrived_bytes > self.limits.bytes_max / 2;
        let mut waited_for = Vec::new();
        for lane in self.lanes.iter().filter(|lane| lane.is_read) {
            let Some(first) = self.blocks[lane.rest.clone()].first() else { continue };
            let Some(State::InFlight(by)) = self.states.get(first) else { continue };
            let is_at_end = lane.next == lane.rest.end;
            let elsewhere = |(id, peer): (&PeerId, &Peer)| id != by && peer.has.has(tree, *first);
            if (is_full || is_at_end) && self.peers.iter().any(elsewhere) {
                waited_for.push(*by);
            }
        }
        let mut faults = Vec::new();
        for (id, peer) in &mut self.peers {
            if !waited_for.contains(id) {
                peer.stalling_since = None;
                continue;
            }
            let since = *peer.stalling_since.get_or_insert(now);
            let since = if is_full { since } else { since.max(peer.heard.1) };
            if now > since + self.stalling_timeout {
                faults.push((*id, Fault::Stalling));
            }
        }
        if !faults.is_empty() {
            self.stalling_timeout = (self.stalling_timeout * 2).min(STALLING_TIMEOUT_MAX);
        }
        faults
    }

    fn slow(&self) -> Vec<(PeerId, Fault)> {
        let settled = self.peers.values().filter_map(Peer::settled_speed);
        let mut speeds: Vec<u64> = settled.collect();
        if speeds.len() < MEDIAN_PEERS {
            return Vec::new();
        }
        speeds.sort_unstable();
        let median = speeds[speeds.len() / 2];
        let slow = self.peers.iter().filter_map(|(id, peer)| {
            let speed = peer.settled_speed().filter(|speed| *speed < median / SLOW_FACTOR)?;
            Some((*id, Fault::Slow { speed, median }))
        });
        slow.collect()
    }
}

impl Has {
    /// Returns whether the peer has `block`.
    pub fn has(&self, tree: &Tree, block: BlockId) -> bool {
        let (height, best) = (tree.node(block).height, tree.node(self.best).height);
        let is_kept = !self.is_limited || best.saturating_sub(height) < LIMITED_DEPTH;
        is_kept && tree.ancestor(self.best, height) == Some(block)
    }
}

impl Peer {
    /// Returns the most blocks in flight from the peer, for this average size of a block.
    fn in_flight_max(&self, average: u64) -> usize {
        let Some(speed) = self.speed else { return IN_FLIGHT_FIRST };
        let blocks = speed.saturating_mul(IN_FLIGHT_TIME.as_secs()) / average;
        (blocks as usize).clamp(IN_FLIGHT_MIN, IN_FLIGHT_MAX)
    }

    /// Records the arrival of bytes that were requested at `asked`.
    fn measure(&mut self, bytes: u64, asked: Duration, now: Duration) {
        let begun = self.busy_since.max(asked);
        self.busy_since = now;
        self.measured.0 += bytes;
        self.measured.1 += now.saturating_sub(begun);
        let (bytes, time) = self.measured;
        let millis = time.as_millis() as u64;
        if time >= SPEED_TIME || (!self.is_settled && time >= SPEED_TIME_FIRST) {
            self.speed = Some(bytes * 1000 / millis);
        }
        if time >= SPEED_TIME {
            self.is_settled = true;
            self.measured = (bytes / 2, time / 2);
        }
    }

    fn settled_speed(&self) -> Option<u64> {
        self.speed.filter(|_| self.is_settled)
    }
}
