//! Chooses the peer that each block is requested from: a pure function of events and time. The
//! download runs at the sum of what the peers can send, and no peer, whether silent, slow or lying,
//! takes away more than a few seconds.
//!
//! The wanted blocks are divided into *lanes*, in each of which they are taken in order or nearly
//! so: one lane for validation in order, one for each span of a join. Blocks that arrive early wait
//! to be taken; [`Limits::bytes_max`] bounds these and those in flight.
//!
//! - A peer is asked for as much as it sends in a short time, at least one block, and at most a
//!   quarter of what may wait.
//! - It is asked for the block that is needed when it can have sent it: a slow peer gets one that
//!   is further ahead.
//! - If readers have waited for a late block, another peer is asked for it too. The first answer
//!   counts, and no peer is dropped for that.
//! - A peer is dropped for silence and for lies, and not because its line is slow.
//! - Inbound peers are asked only for blocks that no outbound peer has.
//!
//! Near the tip ([`Schedule::follow`]) each lane is a branch, and bandwidth counts less than
//! time: another peer is asked after a fraction of a second in which nothing comes, then twice as
//! many, so that a block is here as soon as any of the peers that have it sends it.
//!
//! Nothing here knows sockets, clocks or the bytes of blocks.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};

#[cfg(test)]
use super::near_tip;
use super::near_tip::{Branches, BranchesFrom};
use super::peer::{Has, Peer, PeerId, Typical};
use super::wanted::{LanePlace, NeededSoon, Wanted};

/// The speed that is assumed while that of no peer is known.
const SPEED_FIRST: f64 = 1_000_000.0;
/// Another peer is asked for a late block if this many bytes have waited to be taken for
/// [`PATIENCE`] and a number of round trips of the peer that is late; at once if nothing else can
/// be asked for.
const WAITING_BYTES: u64 = 32 << 20;
const PATIENCE: Duration = Duration::from_secs(3);
const PATIENCE_ROUND_TRIPS: u32 = 10;
/// One byte in this many may be requested a second time while other blocks can be requested, and at
/// most [`ALLOWANCE_MAX`] at once.
const ALLOWANCE_SHARE: u64 = 40;
const ALLOWANCE_MAX: u64 = 64 << 20;
/// Another peer is asked for the block that a lane waits for if it can send it this much earlier.
const EARLIER_BY: Duration = Duration::from_secs(1);
/// Blocks of a lane that are looked at, to see whether they are late.
const LOOKED_AT: usize = 64;
/// The most blocks of a lane ahead of what is taken that may be requested: a peer may have none of
/// them, which must not take long to find out.
const AHEAD_BLOCKS_MAX: u64 = 16_384;
/// The time without a byte after which a peer is silent, and what is added for a round trip, so
/// that outages of a slow line are no silence.
const SILENCE: Duration = Duration::from_secs(20);
const SILENCE_ROUND_TRIPS: u32 = 60;
/// The factor by which peers may be silent for longer if all are: it may be our own line.
const ALL_SILENT_FACTOR: u32 = 3;
/// Near the tip, other peers are asked for a block this long, and a round trip of at most this
/// long, after the last one was.
const NEAR_STEP: Duration = Duration::from_millis(250);
/// The most of half the time that a block takes at the best speed known, which is waited instead if
/// that is longer.
const NEAR_STEP_MAX: Duration = Duration::from_secs(8);
/// The time for which a peer may send a block near the tip at a speed that promises it soon.
const NEAR_PROMISE: Duration = Duration::from_secs(1);
/// The most blocks of its own chain that a peer may lack.
const REFUSED_MAX: usize = 16;

/// Limits of a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of blocks that have arrived and are not taken, together with those requested.
    pub bytes_max: u64,
    /// Core's `nPowTargetSpacing`: the unit of the time limit for one block.
    pub block_interval: Duration,
}

/// Why a peer must be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// It sends nothing of the blocks that it was asked for.
    #[error("it has sent nothing of the blocks that it was asked for in {} s", .0.as_secs())]
    Silent(Duration),
    /// It does not send a block that it was asked for.
    #[error("it does not send a block that it was asked for")]
    BlockTimeout,
    /// It does not have the blocks of its own chain.
    #[error("it does not have the blocks of its own chain")]
    Refuses,
}

/// The outcome of a block's arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// It was requested, and waits to be taken.
    Wanted,
    /// It was requested, but is not kept: it is here already, it is no longer expected from this
    /// peer, or there is no room.
    Late,
    /// This peer was not asked for it.
    NotAsked,
}

/// The wanted blocks, and which peer is asked for which.
pub struct Schedule {
    limits: Limits,
    wanted: Wanted,
    peers: BTreeMap<PeerId, Peer>,
    /// Bytes that may be requested a second time though other blocks could be requested.
    allowance: u64,
    /// Since when more than [`WAITING_BYTES`] wait to be taken.
    waiting_since: Option<Duration>,
    /// What the branches near the tip follow from whose blocks are wanted; `None` if others are.
    near_tip: Option<BranchesFrom>,
}

impl Schedule {
    /// Creates a schedule without peers and wanted blocks.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            wanted: Wanted::default(),
            peers: BTreeMap::new(),
            allowance: ALLOWANCE_MAX,
            waiting_since: None,
            near_tip: None,
        }
    }

    /// Replaces the wanted blocks. Each lane is a range of `blocks`; lanes do not overlap. Blocks
    /// in flight are forgotten, and may still come.
    pub fn want(&mut self, blocks: Arc<[BlockId]>, lanes: impl IntoIterator<Item = Range<usize>>) {
        self.near_tip = None;
        self.wanted.replace(blocks, lanes);
        self.peers.values_mut().for_each(Peer::release_all);
    }

    /// Wants the blocks of all branches with more work than `tip`, up to height `top`, in any
    /// order. Those in flight that were wanted before are still expected.
    pub fn follow(&mut self, tree: &Tree, tip: BlockId, top: u32) {
        let having: Vec<Has> = self.having().collect();
        let from = BranchesFrom { tree: tree.version(), tip, top, having };
        if self.near_tip.as_ref() == Some(&from) {
            return;
        }
        let Branches { blocks, lanes } = Branches::above(tree, tip, &from.having, top);
        self.near_tip = Some(from);
        for block in self.wanted.exchange(Arc::from(blocks), lanes) {
            self.peers.values_mut().for_each(|peer| peer.release(block));
        }
    }

    /// Returns whether a wanted block that has not arrived may still come from a peer.
    pub fn awaits_any(&self, tree: &Tree) -> bool {
        let has = |block| self.peers.values().any(|peer| peer.can_send(tree, block));
        self.wanted.awaited().any(has)
    }

    /// Changes [`Limits::bytes_max`].
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        self.limits.bytes_max = bytes_max;
    }

    /// Adds a peer, or updates which blocks it has.
    pub fn set_peer(&mut self, id: PeerId, has: Has) {
        self.peers.entry(id).or_insert_with(|| Peer::new(has)).has = has;
    }

    /// Removes a peer. Its blocks are requested from others.
    pub fn remove_peer(&mut self, id: PeerId) {
        let Some(peer) = self.peers.remove(&id) else { return };
        peer.in_flight().for_each(|block| self.wanted.released(id, block));
    }

    /// Returns the bytes a second that a peer sends, if known.
    pub fn speed(&self, id: PeerId) -> Option<u64> {
        self.peers.get(&id)?.line.settled_speed()
    }

    /// Returns the blocks that are requested from a peer and have not come.
    pub fn in_flight(&self, id: PeerId) -> Vec<BlockId> {
        self.peers.get(&id).map_or_else(Vec::new, |peer| peer.in_flight().collect())
    }

    /// Records how many bytes of blocks have come from a peer in all, complete or not.
    pub fn heard(&mut self, id: PeerId, bytes: u64, now: Duration) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.line.heard(bytes, now);
        }
    }

    /// Returns when a byte of a block last came, or an idle peer was asked.
    pub(super) fn progress(&self) -> Duration {
        self.peers.values().map(|peer| peer.line.progress()).max().unwrap_or_default()
    }

    /// Records that a peer sent this many bytes that look like a block and are none.
    pub(super) fn useless(&mut self, id: PeerId, bytes: u64) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.line.useless(bytes);
        }
    }

    /// Records that this many of the bytes heard of a peer are of something else than blocks.
    pub(super) fn heard_other(&mut self, id: PeerId, bytes: u64) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.line.other(bytes);
        }
    }

    /// Returns which blocks each peer has.
    pub fn having(&self) -> impl Iterator<Item = Has> + '_ {
        self.peers.values().map(|peer| peer.has)
    }

    /// Returns a block that a reader waits for and that no peer has.
    pub fn missing(&self, tree: &Tree) -> Option<BlockId> {
        let has = |block| self.peers.values().any(|peer| peer.can_send(tree, block));
        self.wanted.not_requested().find(|block| !has(*block))
    }

    /// Returns whether an outbound peer has a chain without `block` that reaches as far as the one
    /// below it: the block may be one that exists only as a header.
    pub(super) fn is_disputed(&self, tree: &Tree, block: BlockId) -> bool {
        let node = tree.node(block);
        let below = node.prev.map(|prev| tree.node(prev).work);
        let is_other = |best| tree.ancestor(best, node.height) != Some(block);
        let mut outbound = self.having().filter(|has| !has.is_inbound);
        outbound.any(|has| Some(tree.node(has.best).work) >= below && is_other(has.best))
    }

    /// Panics unless the invariants 2 to 4 of docs/peers.md hold.
    #[cfg(test)]
    pub(super) fn assert_right(&self, tree: &Tree, now: Duration) {
        let Some(from) = &self.near_tip else { return };
        // The branch of one peer each time.
        let number = now.as_millis() as usize % from.having.len().max(1);
        if let Some(has) = from.having.get(number).filter(|has| !has.is_inbound)
            && let Some(first) = near_tip::first_missing(tree, from, *has)
        {
            assert!(self.wanted.is_wanted(first), "a branch is not wanted");
        }
        let (inbound, outbound): (Vec<&Peer>, Vec<&Peer>) =
            self.peers.values().partition(|peer| peer.has.is_inbound);
        let idle: Vec<&&Peer> = outbound.iter().filter(|peer| !peer.owes()).collect();
        if idle.is_empty() || self.wanted.expected_bytes() > self.limits.bytes_max {
            return;
        }
        let of = |peers: &[&Peer]| -> HashSet<BlockId> {
            peers.iter().flat_map(|peer| peer.in_flight()).collect()
        };
        let by_inbound = of(&inbound);
        let by_outbound = of(&outbound);
        for block in self.wanted.awaited().filter(|block| !by_outbound.contains(block)) {
            let is_possible = idle.iter().any(|peer| peer.can_send(tree, block));
            let asked = if by_inbound.contains(&block) { "an inbound peer" } else { "no peer" };
            assert!(!is_possible, "an outbound peer is idle, and {asked} was asked for its block");
        }
    }

    /// Returns the wanted blocks from a height on that have not arrived.
    pub fn awaited_from<'a>(
        &'a self,
        tree: &'a Tree,
        height: u32,
    ) -> impl Iterator<Item = BlockId> + 'a {
        self.wanted.awaited().filter(move |block| tree.height(*block) >= height)
    }

    /// Returns the first block that a reader waits for and that has not arrived.
    pub fn first_awaited(&self) -> Option<BlockId> {
        self.wanted.first_awaited()
    }

    /// Returns whether all wanted blocks are taken.
    pub fn is_done(&self) -> bool {
        self.wanted.is_done()
    }

    /// Returns the bytes of blocks that have arrived and wait to be taken.
    pub fn waiting_bytes(&self) -> u64 {
        self.wanted.arrived_bytes()
    }

    /// Records that a reader waits for the next block of `lane`.
    pub fn read(&mut self, lane: usize) {
        self.wanted.read(lane);
    }

    /// Records that `block` of lane `lane` was taken, and found valid.
    pub fn taken(&mut self, lane: usize, block: BlockId) {
        self.wanted.taken(lane, block);
    }

    /// Records that the first block of `lane`, which was not requested, is not wanted any more.
    pub(super) fn leave_out(&mut self, lane: usize, block: BlockId) {
        self.wanted.leave_out(lane, block);
    }

    /// Records that the peer `id` sent `block`, of this many bytes.
    pub fn arrived(&mut self, id: PeerId, block: BlockId, bytes: u64, now: Duration) -> Arrival {
        let Some(peer) = self.peers.get_mut(&id) else { return Arrival::NotAsked };
        match peer.came(block, bytes, now) {
            Some(true) => {}
            Some(false) => return Arrival::Late,
            None => return Arrival::NotAsked,
        }
        // It is larger than expected: it is requested again when its turn comes.
        let is_too_large = self.waiting_bytes() + bytes > 2 * self.limits.bytes_max;
        if is_too_large && !self.wanted.is_first(block) {
            self.wanted.released(id, block);
            return Arrival::Late;
        }
        let Some(asked) = self.wanted.arrived(id, block, bytes) else { return Arrival::Late };
        self.allowance = (self.allowance + bytes / ALLOWANCE_SHARE).min(ALLOWANCE_MAX);
        // It may still come from others that were asked.
        for other in asked {
            if let Some(peer) = self.peers.get_mut(&other) {
                peer.release(block);
            }
        }
        Arrival::Wanted
    }

    /// Records that the peer `id` does not have `block`, or sent other bytes for it. The block is
    /// requested from another peer that has it, if there is one.
    pub fn refused(&mut self, id: PeerId, block: BlockId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.refused.insert(block);
            if peer.forget(block) {
                self.wanted.released(id, block);
                return;
            }
        }
        self.wanted.is_other(id, block);
    }

    /// Like [`Schedule::refused`], but only if the peer was asked for `block`.
    pub fn refused_by(&mut self, id: PeerId, block: BlockId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.in_flight().any(|asked| asked == block) {
            self.refused(id, block);
        } else {
            // It was asked for, and another peer was faster.
            peer.forget(block);
        }
    }

    /// Returns the blocks to request from peers now.
    pub fn requests(&mut self, tree: &Tree, now: Duration) -> Vec<(PeerId, Vec<BlockId>)> {
        let mut requests: BTreeMap<PeerId, Vec<BlockId>> = BTreeMap::new();
        let mut request = |this: &mut Self, id: PeerId, place: LanePlace| {
            let typical = this.typical();
            let peer = this.peers.get_mut(&id).expect("a peer was chosen");
            peer.request(place.block, typical, now);
            this.wanted.requested(id, place);
            requests.entry(id).or_default().push(place.block);
        };
        let mut exhausted = HashSet::new();
        for is_inbound in [false, true] {
            while let Some((id, finish)) = self.next_peer(is_inbound, &exhausted, now) {
                if is_inbound && self.near_tip.is_none() && self.is_elsewhere(tree) {
                    break;
                }
                match self.next_block(tree, id, finish, now) {
                    Some(place) => request(self, id, place),
                    None => {
                        exhausted.insert(id);
                    }
                }
            }
        }
        let is_near = self.near_tip.is_some();
        let late = if is_near { self.late_near_tip(tree, now) } else { self.late(tree, now) };
        for (place, count) in late {
            for _ in 0..count {
                let Some(id) = self.other_peer(tree, place.block, now) else { break };
                if !is_near {
                    self.allowance = self.allowance.saturating_sub(self.wanted.average_bytes());
                }
                request(self, id, place);
            }
        }
        requests.into_iter().collect()
    }

    /// Returns the average size of a block, and the median speed of the peers whose speed is known.
    fn typical(&self) -> Typical {
        let mut speeds: Vec<f64> =
            self.peers.values().filter_map(|peer| peer.line.speed()).collect();
        speeds.sort_by(f64::total_cmp);
        let speed = speeds.get(speeds.len() / 2).copied().unwrap_or(SPEED_FIRST);
        Typical { block_bytes: self.wanted.average_bytes(), speed }
    }

    /// Returns the peer that can send another block soonest, and in what time, if any may be asked.
    fn next_peer(
        &self,
        is_inbound: bool,
        exhausted: &HashSet<PeerId>,
        now: Duration,
    ) -> Option<(PeerId, Duration)> {
        let typical = self.typical();
        let quarter = self.limits.bytes_max / 4;
        let with_room = self.peers.iter().filter(|(id, peer)| {
            peer.has.is_inbound == is_inbound
                && !exhausted.contains(id)
                && peer.has_room(typical, quarter, now)
        });
        let timed = with_room.map(|(id, peer)| (*id, peer.finish(typical)));
        timed.min_by_key(|(_, finish)| *finish)
    }

    /// Returns the block that a peer is to be asked for, if it can send one in `finish`.
    fn next_block(
        &mut self,
        tree: &Tree,
        id: PeerId,
        finish: Duration,
        now: Duration,
    ) -> Option<LanePlace> {
        let before = self.blocks_before(finish, now);
        let has_room = self.wanted.expected_bytes() <= self.limits.bytes_max;
        let ahead = self.limits.bytes_max / self.wanted.average_bytes();
        let ahead = ahead.min(AHEAD_BLOCKS_MAX) as usize;
        let peer = &self.peers[&id];
        let is_last_resort = self.near_tip.is_some() && peer.has.is_inbound;
        let outbound: Vec<&Peer> = if is_last_resort {
            self.peers.values().filter(|other| !other.has.is_inbound).collect()
        } else {
            Vec::new()
        };
        let fits = |block| {
            peer.can_send(tree, block) && !outbound.iter().any(|other| other.can_send(tree, block))
        };
        self.wanted.choose((before, ahead), has_room, fits)
    }

    /// Returns how many more blocks faster peers can send in `time`, so that a peer that needs this
    /// time for one are given blocks after these.
    fn blocks_before(&self, time: Duration, now: Duration) -> usize {
        let typical = self.typical();
        let fast = self.peers.values().filter(|peer| !peer.has.is_inbound && !peer.is_quiet(now));
        let count = |peer: &Peer| {
            let Some(left) = time.checked_sub(peer.finish(typical)) else { return 0.0 };
            let speed = peer.line.speed().unwrap_or(typical.speed);
            left.as_secs_f64() * speed / typical.block_bytes as f64
        };
        fast.map(count).sum::<f64>() as usize
    }

    /// Returns whether outbound peers have the next block of every lane that is not requested.
    fn is_elsewhere(&self, tree: &Tree) -> bool {
        let outbound = || self.peers.values().filter(|peer| !peer.has.is_inbound);
        let mut next = self.wanted.next_of_lanes();
        next.all(|block| outbound().any(|peer| peer.can_send(tree, block)))
    }

    /// Returns the blocks near the tip for which others must be asked, and how many.
    fn late_near_tip(&self, tree: &Tree, now: Duration) -> Vec<(LanePlace, usize)> {
        let mut late = Vec::new();
        for needed in self.wanted.needed_soon(LOOKED_AT) {
            let peers = needed.asked.iter().filter_map(|id| self.peers.get(id));
            let asked: Vec<(Duration, u64, &Peer)> = peers
                .filter_map(|peer| {
                    peer.state_of(needed.place.block).map(|(at, got)| (at, got, peer))
                })
                .collect();
            // An inbound peer does not delay an outbound one.
            let is_inbound = asked.iter().all(|(.., peer)| peer.has.is_inbound);
            if is_inbound && self.has_idle_outbound(tree, needed.place.block) {
                late.push((needed.place, 1));
                continue;
            }
            let last = asked.iter().map(|(at, ..)| *at).max().unwrap_or(now);
            let trips = asked.iter().map(|(.., peer)| peer.line.measured_round_trip()).max();
            let step = NEAR_STEP + trips.unwrap_or_default().min(NEAR_STEP);
            let is_promised = asked.iter().any(|(at, got, _)| self.promises(*got, now - *at));
            if now >= last + step.max(self.near_step_of_line()) && !is_promised {
                late.push((needed.place, needed.asked.len()));
            }
        }
        late
    }

    fn has_idle_outbound(&self, tree: &Tree, block: BlockId) -> bool {
        let outbound = self.peers.values().filter(|peer| !peer.has.is_inbound);
        outbound.filter(|peer| !peer.owes()).any(|peer| peer.can_send(tree, block))
    }

    /// Returns half the time that a block takes at the best speed known. It is nothing while an
    /// outbound peer's speed is not known, which may be better.
    fn near_step_of_line(&self) -> Duration {
        let outbound = self.peers.values().filter(|peer| !peer.has.is_inbound);
        let speeds: Option<Vec<f64>> = outbound.map(|peer| peer.line.speed()).collect();
        let best = speeds.unwrap_or_default().into_iter().fold(0.0, f64::max);
        if best > 0.0 {
            let seconds = self.wanted.average_bytes() as f64 / best / 2.0;
            Duration::from_secs_f64(seconds.min(NEAR_STEP_MAX.as_secs_f64()))
        } else {
            Duration::ZERO
        }
    }

    /// Returns whether a block will be here soon, if `got` bytes of it have come in `time`.
    fn promises(&self, got: u64, time: Duration) -> bool {
        let left = self.wanted.average_bytes().saturating_sub(got) as f64;
        let seconds = time.as_secs_f64();
        let limit = NEAR_PROMISE.max(self.near_step_of_line() * 4);
        got > 0
            && time < limit
            && left * seconds / got as f64 <= NEAR_PROMISE.as_secs_f64().max(seconds)
    }

    /// Returns the blocks that are needed soon, and that all peers that were asked for them keep us
    /// waiting for, each to be requested from one more.
    fn late(&mut self, tree: &Tree, now: Duration) -> Vec<(LanePlace, usize)> {
        if self.waiting_bytes() <= WAITING_BYTES {
            self.waiting_since = None;
        } else {
            self.waiting_since.get_or_insert(now);
        }
        let waited = self.waiting_since.and_then(|since| now.checked_sub(since + PATIENCE));
        // Soon nothing else may be asked for.
        let is_full = self.waiting_bytes() > self.limits.bytes_max / 4 * 3;
        let mut allowed = self.allowance / self.wanted.average_bytes();
        let mut late = Vec::new();
        for needed in self.wanted.needed_soon(LOOKED_AT) {
            // An idle peer has nothing else to send.
            let is_idle = needed.is_first && self.has_idle_outbound(tree, needed.place.block);
            let is_urgent = is_full || needed.is_at_end || is_idle;
            let waited = waited.filter(|_| allowed > 0);
            if (is_urgent || waited.is_some()) && self.is_late(&needed, is_urgent, waited, now) {
                allowed = allowed.saturating_sub(1);
                late.push((needed.place, 1));
            }
        }
        late
    }

    /// Returns whether all peers that were asked for a block are late by their own speed or, if it
    /// is the next of its lane, much slower than another would be. Readers have `waited`.
    fn is_late(
        &self,
        needed: &NeededSoon,
        is_urgent: bool,
        waited: Option<Duration>,
        now: Duration,
    ) -> bool {
        let typical = self.typical();
        let block = needed.place.block;
        needed.asked.iter().all(|id| {
            let Some(peer) = self.peers.get(id) else { return true };
            // A peer with a long round trip is given more time.
            let patience = peer.line.round_trip() * PATIENCE_ROUND_TRIPS;
            let is_time = is_urgent || waited.is_some_and(|waited| waited > patience);
            if is_time && peer.is_late(block, now) {
                return true;
            }
            let Some(left) = peer.time_left(block, typical, now).filter(|_| needed.is_first) else {
                return false;
            };
            let others = self.peers.iter().filter(|(other, _)| *other != id);
            let outbound = others.filter(|(_, other)| !other.has.is_inbound);
            // Peers that send a byte a second must not make an unknown one look as slow.
            let hopeful = Typical { speed: typical.speed.max(SPEED_FIRST), ..typical };
            let best = outbound.map(|(_, other)| other.finish(hopeful)).min();
            best.is_some_and(|best| left > best + EARLIER_BY)
        })
    }

    /// Returns another peer to request a block from that was requested already.
    fn other_peer(&self, tree: &Tree, block: BlockId, now: Duration) -> Option<PeerId> {
        let typical = self.typical();
        let others = self.peers.iter().filter(|(_, peer)| {
            let is_asked = peer.in_flight().any(|asked| asked == block);
            !is_asked && !peer.is_quiet(now) && peer.can_send(tree, block)
        });
        let best = others.min_by_key(|(_, peer)| (peer.has.is_inbound, peer.finish(typical)));
        best.map(|(id, _)| *id)
    }

    /// Returns the peers to drop, and why.
    pub fn tick(&mut self, now: Duration) -> Vec<(PeerId, Fault)> {
        let mut faults = self.timeouts(now);
        faults.extend(self.silent(now));
        let refuses = self.peers.iter().filter(|(_, peer)| peer.refused.len() > REFUSED_MAX);
        faults.extend(refuses.map(|(id, _)| (*id, Fault::Refuses)));
        faults.sort_by_key(|(peer, _)| *peer);
        faults.dedup_by_key(|(peer, _)| *peer);
        faults
    }

    /// Returns the peers that exceed Core's time limit for one block: a block interval, and half of
    /// one for each other peer that sends blocks.
    fn timeouts(&self, now: Duration) -> Vec<(PeerId, Fault)> {
        // A block that another peer has sent meanwhile is still expected from this one.
        let busy = || self.peers.iter().filter(|(_, peer)| peer.owes());
        let others = busy().count().saturating_sub(1) as u32;
        let limit = self.limits.block_interval + self.limits.block_interval / 2 * others;
        let late = busy().filter(|(_, peer)| now > peer.busy_since + limit);
        late.map(|(id, _)| (*id, Fault::BlockTimeout)).collect()
    }

    /// Returns the peers that send nothing of what they were asked for.
    fn silent(&self, now: Duration) -> Vec<(PeerId, Fault)> {
        let owing = || self.peers.iter().filter(|(_, peer)| peer.owes());
        let since = |peer: &Peer| now.saturating_sub(peer.line.progress());
        // A lone peer stays: there is no other to ask.
        if self.peers.len() < 2 {
            return Vec::new();
        }
        // The debt of a single peer says nothing about our line.
        let are_all = owing().nth(1).is_some() && owing().all(|(_, peer)| since(peer) > SILENCE);
        let factor = if are_all { ALL_SILENT_FACTOR } else { 1 };
        let silent = owing().filter(|(_, peer)| {
            let round_trips = peer.line.measured_round_trip() * SILENCE_ROUND_TRIPS;
            since(peer) > (SILENCE + round_trips) * factor
        });
        silent.map(|(id, peer)| (*id, Fault::Silent(since(peer)))).collect()
    }
}
