//! The wanted blocks, in lanes, and the state of each that was requested.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use apus_chain::BlockId;

use super::peer::PeerId;

/// The expected size of a block before any has arrived: the largest, so that memory is not promised
/// twice.
const BLOCK_BYTES_FIRST: u64 = 4_000_000;
/// The average size is that of about this many blocks.
const AVERAGE_BLOCKS: u64 = 16;

/// The wanted blocks.
pub struct Wanted {
    blocks: Arc<[BlockId]>,
    lanes: Vec<Lane>,
    /// The state of each block that was requested, until it and all before it in its lane are
    /// taken.
    states: HashMap<BlockId, Requested>,
    /// Bytes of blocks that have arrived and are not taken.
    arrived_bytes: u64,
    /// Blocks that were requested and have not arrived.
    in_flight: usize,
    /// The average size of a block, times [`AVERAGE_BLOCKS`].
    average: u64,
    /// The number of blocks that the average is of, of which one is assumed.
    averaged: u64,
}

/// Consecutive blocks that are taken in order.
struct Lane {
    /// Blocks not taken, by index; some after the first may be taken.
    rest: Range<usize>,
    /// Index of the first block that may not have been requested yet.
    next: usize,
    /// Number of blocks that were requested and are not taken.
    open: usize,
    is_read: bool,
}

/// A block that was requested.
struct Requested {
    lane: usize,
    index: usize,
    state: WantedState,
}

#[derive(PartialEq, Eq)]
enum WantedState {
    /// Requested from these peers, of which there is at least one.
    InFlight(Vec<PeerId>),
    /// Arrived from this peer, with this many bytes.
    Arrived(PeerId, u64),
    Taken,
}

/// A block of a lane.
#[derive(Clone, Copy)]
pub struct LanePlace {
    lane: usize,
    index: usize,
    /// The block.
    pub block: BlockId,
}

/// A block that a reader needs soon and that is in flight.
pub struct NeededSoon<'a> {
    /// The block.
    pub place: LanePlace,
    /// The peers that it was requested from.
    pub asked: &'a [PeerId],
    /// Whether it is the next of its lane.
    pub is_first: bool,
    /// Whether all blocks of its lane were requested.
    pub is_at_end: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            blocks: Arc::new([]),
            lanes: Vec::new(),
            states: HashMap::new(),
            arrived_bytes: 0,
            in_flight: 0,
            average: BLOCK_BYTES_FIRST * AVERAGE_BLOCKS,
            averaged: 1,
        }
    }
}

impl Wanted {
    /// Replaces the wanted blocks. Each lane is a range of `blocks`; lanes do not overlap.
    pub fn replace(
        &mut self,
        blocks: Arc<[BlockId]>,
        lanes: impl IntoIterator<Item = Range<usize>>,
    ) {
        self.blocks = blocks;
        let lane = |rest: Range<usize>| Lane { next: rest.start, rest, open: 0, is_read: false };
        self.lanes = lanes.into_iter().map(lane).collect();
        self.states.clear();
        (self.arrived_bytes, self.in_flight) = (0, 0);
    }

    /// Replaces the wanted blocks and keeps the state of those that are still wanted; a reader
    /// waits for each lane. Returns the blocks in flight that are not wanted any more.
    pub fn exchange(&mut self, blocks: Arc<[BlockId]>, lanes: Vec<Range<usize>>) -> Vec<BlockId> {
        let before = std::mem::take(&mut self.states);
        self.replace(blocks, lanes);
        let mut left: HashMap<BlockId, Requested> = before;
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            lane.is_read = true;
            for index in lane.rest.clone() {
                let Some(requested) = left.remove(&self.blocks[index]) else { continue };
                match requested.state {
                    WantedState::InFlight(_) => self.in_flight += 1,
                    WantedState::Arrived(_, bytes) => self.arrived_bytes += bytes,
                    WantedState::Taken => continue,
                }
                lane.open += 1;
                self.states.insert(self.blocks[index], Requested { lane: at, index, ..requested });
            }
        }
        let in_flight =
            left.into_iter().filter(|(_, it)| matches!(it.state, WantedState::InFlight(_)));
        in_flight.map(|(block, _)| block).collect()
    }

    /// Returns the next block of the first lane that is read, if it has not arrived.
    pub fn first_awaited(&self) -> Option<BlockId> {
        let lane = self.lanes.iter().find(|lane| lane.is_read && !lane.rest.is_empty())?;
        let first = self.blocks[lane.rest.start];
        self.awaited().next().filter(|block| *block == first)
    }

    #[cfg(test)]
    pub(super) fn is_wanted(&self, block: BlockId) -> bool {
        let mut rest = self.lanes.iter().flat_map(|lane| &self.blocks[lane.rest.clone()]);
        rest.any(|wanted| *wanted == block)
    }

    /// Returns the wanted blocks that have not arrived.
    pub fn awaited(&self) -> impl Iterator<Item = BlockId> + '_ {
        let rest = self.lanes.iter().flat_map(|lane| &self.blocks[lane.rest.clone()]);
        let is_here = |block: &BlockId| match self.states.get(block) {
            Some(requested) => !matches!(requested.state, WantedState::InFlight(_)),
            None => false,
        };
        rest.copied().filter(move |block| !is_here(block))
    }

    /// Returns whether all blocks are taken.
    pub fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| lane.rest.is_empty())
    }

    /// Returns the bytes of blocks that have arrived and wait to be taken.
    pub fn arrived_bytes(&self) -> u64 {
        self.arrived_bytes
    }

    /// Returns the bytes of blocks that have arrived, of those in flight, and of one more.
    pub fn expected_bytes(&self) -> u64 {
        self.arrived_bytes + (self.in_flight as u64 + 1) * self.average_bytes()
    }

    /// Returns the average size of a block.
    pub fn average_bytes(&self) -> u64 {
        (self.average / AVERAGE_BLOCKS).max(1)
    }

    /// Records that a reader waits for the next block of `lane`.
    pub fn read(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.is_read = true;
        }
    }

    /// Records that `block` of this lane was taken.
    pub fn taken(&mut self, lane_number: usize, block: BlockId) {
        // The lane may be one that was wanted before; its block may be wanted again.
        let Some(lane) = self.lanes.get_mut(lane_number) else { return };
        if let Some(requested) = self.states.get_mut(&block)
            && let WantedState::Arrived(_, bytes) = requested.state
        {
            requested.state = WantedState::Taken;
            self.arrived_bytes -= bytes;
            lane.open -= 1;
        }
        lane.is_read = true;
        self.pass_taken(lane_number);
    }

    /// Records that `block`, which was not requested, is not wanted any more, if it is the first of
    /// its lane.
    pub fn leave_out(&mut self, lane_number: usize, block: BlockId) {
        let Some(lane) = self.lanes.get_mut(lane_number) else { return };
        let first = self.blocks[lane.rest.clone()].first();
        if first == Some(&block) && !self.states.contains_key(&block) {
            lane.rest.start += 1;
            self.pass_taken(lane_number);
        }
    }

    /// Passes the first blocks of a lane that are taken.
    fn pass_taken(&mut self, lane_number: usize) {
        let lane = &mut self.lanes[lane_number];
        while let Some(first) = self.blocks[lane.rest.clone()].first()
            && self.states.get(first).is_some_and(|requested| requested.state == WantedState::Taken)
        {
            self.states.remove(first);
            lane.rest.start += 1;
        }
        lane.next = lane.next.max(lane.rest.start);
        lane.is_read &= !lane.rest.is_empty();
    }

    /// Records the request of a block from the peer `id`.
    pub fn requested(&mut self, id: PeerId, place: LanePlace) {
        if let Some(Requested { state: WantedState::InFlight(asked), .. }) =
            self.states.get_mut(&place.block)
        {
            asked.push(id);
            return;
        }
        let LanePlace { lane, index, block } = place;
        let state = WantedState::InFlight(vec![id]);
        self.states.insert(block, Requested { lane, index, state });
        self.lanes[lane].open += 1;
        self.in_flight += 1;
    }

    /// Records the arrival of a block. Returns the peers that were asked for it; `None` if it is
    /// not in flight.
    pub fn arrived(&mut self, id: PeerId, block: BlockId, bytes: u64) -> Option<Vec<PeerId>> {
        let requested = self.states.get_mut(&block)?;
        let WantedState::InFlight(asked) = &mut requested.state else { return None };
        let asked = std::mem::take(asked);
        requested.state = WantedState::Arrived(id, bytes);
        self.in_flight -= 1;
        let sum = self.average * self.averaged + bytes * AVERAGE_BLOCKS;
        self.average = sum / (self.averaged + 1);
        self.averaged = (self.averaged + 1).min(AVERAGE_BLOCKS - 1);
        self.arrived_bytes += bytes;
        Some(asked)
    }

    /// Records that a block is not expected from the peer `id` any more. If no other was asked for
    /// it, its lane considers it again.
    pub fn released(&mut self, id: PeerId, block: BlockId) {
        let Some(requested) = self.states.get_mut(&block) else { return };
        if let WantedState::InFlight(asked) = &mut requested.state {
            asked.retain(|peer| *peer != id);
            if asked.is_empty() {
                self.in_flight -= 1;
                self.forget(block);
            }
        }
    }

    /// Records that the bytes that the peer `id` sent are not those of `block`.
    pub fn is_other(&mut self, id: PeerId, block: BlockId) {
        if let Some(requested) = self.states.get(&block)
            && let WantedState::Arrived(from, bytes) = requested.state
            && from == id
        {
            self.arrived_bytes -= bytes;
            self.forget(block);
        }
    }

    /// Makes the lane of a block consider it again.
    fn forget(&mut self, block: BlockId) {
        if let Some(Requested { lane, index, .. }) = self.states.remove(&block) {
            let lane = &mut self.lanes[lane];
            lane.next = lane.next.min(index);
            lane.open -= 1;
        }
    }

    /// Returns whether `block` is the next of its lane.
    pub fn is_first(&self, block: BlockId) -> bool {
        let requested = self.states.get(&block);
        requested.is_some_and(|it| self.lanes[it.lane].rest.start == it.index)
    }

    /// Returns the blocks that readers wait for and that were not requested.
    pub fn not_requested(&self) -> impl Iterator<Item = BlockId> + '_ {
        let read = self.lanes.iter().filter(|lane| lane.is_read);
        let first = read.filter_map(|lane| self.blocks[lane.rest.clone()].first().copied());
        first.filter(|block| !self.states.contains_key(block))
    }

    /// Returns the next block of each lane that may not have been requested yet.
    pub fn next_of_lanes(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.lanes.iter().filter_map(|lane| self.blocks[lane.next..lane.rest.end].first().copied())
    }

    /// Returns a block to request: one that `fits`, after about `skipped` others that have not been
    /// requested, and at most `ahead` blocks ahead of what is taken. Lanes that are read come
    /// first. Without `has_room`, only the next block of a lane may be requested.
    pub fn choose(
        &mut self,
        (skipped, ahead): (usize, usize),
        has_room: bool,
        fits: impl Fn(BlockId) -> bool,
    ) -> Option<LanePlace> {
        let mut lanes: Vec<usize> = (0..self.lanes.len()).collect();
        lanes.sort_by_key(|at| (!self.lanes[*at].is_read, self.lanes[*at].open));
        let read = self.lanes.iter().filter(|lane| lane.is_read).count().max(1);
        for at in lanes {
            let lane = &mut self.lanes[at];
            while lane.next < lane.rest.end && self.states.contains_key(&self.blocks[lane.next]) {
                lane.next += 1;
            }
            let lane = &self.lanes[at];
            let room = (ahead / read).saturating_sub(lane.open);
            let end = if has_room { lane.next.saturating_add(room) } else { 0 };
            let end = end.max(lane.rest.start + 1).min(lane.rest.end);
            let from = lane.next.saturating_add(skipped / read).min(end);
            let is_right = |index: &usize| {
                let block = self.blocks[*index];
                !self.states.contains_key(&block) && fits(block)
            };
            let up = (from..end).find(is_right);
            if let Some(index) = up.or_else(|| (lane.next..from).rev().find(is_right)) {
                return Some(LanePlace { lane: at, index, block: self.blocks[index] });
            }
        }
        None
    }

    /// Returns those of the next `count` blocks of each lane that is read that are in flight.
    pub fn needed_soon(&self, count: usize) -> impl Iterator<Item = NeededSoon<'_>> {
        let read = self.lanes.iter().enumerate().filter(|(_, lane)| lane.is_read);
        read.flat_map(move |(at, lane)| {
            let end = lane.rest.end.min(lane.rest.start + count);
            (lane.rest.start..end).filter_map(move |index| {
                let block = self.blocks[index];
                let WantedState::InFlight(asked) = &self.states.get(&block)?.state else {
                    return None;
                };
                Some(NeededSoon {
                    place: LanePlace { lane: at, index, block },
                    asked,
                    is_first: index == lane.rest.start,
                    is_at_end: lane.next == lane.rest.end,
                })
            })
        })
    }
}
