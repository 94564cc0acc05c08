use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use apus_chain::BlockId;
use apus_net::Schedule;

use super::spec::Method;

/// Spans of a join that are read at a time, and blocks of each.
const SPANS_AT_ONCE: usize = 4;
const SPAN_BLOCKS: usize = 500;

/// The blocks that wait to be taken, and the workers that take them.
pub struct Reader {
    blocks: Vec<BlockId>,
    lanes: Vec<Range<usize>>,
    /// The next block of each lane, by index.
    next: Vec<usize>,
    in_order: bool,
    here: HashSet<BlockId>,
    arrived: VecDeque<BlockId>,
    workers: Vec<Worker>,
    lanes_left: VecDeque<usize>,
    /// Seconds that one worker takes for a byte.
    seconds_per_byte: f64,
}

#[derive(Clone, Copy, Default)]
struct Worker {
    lane: Option<usize>,
    /// The block at work, and when it is done.
    busy: Option<(BlockId, Duration)>,
}

impl Reader {
    /// Creates the reader of a method. `validation` is the bytes a second of all workers together.
    pub fn new(method: Method, blocks: &[BlockId], validation: u64) -> Self {
        let one = std::iter::once(0..blocks.len());
        let lanes: Vec<Range<usize>> = match method {
            Method::InOrder | Method::SwiftSync => one.collect(),
            Method::Join => (0..blocks.len())
                .step_by(SPAN_BLOCKS)
                .map(|first| first..(first + SPAN_BLOCKS).min(blocks.len()))
                .collect(),
        };
        let workers = if method == Method::Join { SPANS_AT_ONCE } else { 1 };
        Self {
            blocks: blocks.to_vec(),
            next: lanes.iter().map(|lane| lane.start).collect(),
            lanes_left: (0..lanes.len()).collect(),
            lanes,
            in_order: method != Method::SwiftSync,
            here: HashSet::new(),
            arrived: VecDeque::new(),
            workers: vec![Worker::default(); workers],
            seconds_per_byte: workers as f64 / validation as f64,
        }
    }

    /// Returns the lanes, as ranges of the blocks.
    pub fn lanes(&self) -> Vec<Range<usize>> {
        self.lanes.clone()
    }

    /// Takes a block that has arrived.
    pub fn arrive(&mut self, block: BlockId) {
        self.here.insert(block);
        self.arrived.push_back(block);
    }

    /// Returns when the next block at work is done.
    pub fn next_done(&self) -> Option<Duration> {
        self.workers.iter().filter_map(|worker| Some(worker.busy?.1)).min()
    }

    /// Finishes blocks that are done, and begins others. Returns the blocks that are done.
    pub fn work(
        &mut self,
        schedule: &mut Schedule,
        now: Duration,
        bytes: impl Fn(BlockId) -> u64,
    ) -> Vec<BlockId> {
        let mut done = Vec::new();
        for at in 0..self.workers.len() {
            let mut worker = self.workers[at];
            if let Some((block, until)) = worker.busy {
                if until > now {
                    continue;
                }
                worker.busy = None;
                schedule.taken(worker.lane.unwrap_or(0), block);
                done.push(block);
            }
            if worker.lane.is_none_or(|lane| self.next[lane] == self.lanes[lane].end) {
                worker.lane = self.lanes_left.pop_front();
            }
            if let Some(lane) = worker.lane {
                let next = if self.in_order {
                    Some(self.blocks[self.next[lane]]).filter(|id| self.here.remove(id))
                } else {
                    self.arrived.pop_front()
                };
                match next {
                    Some(block) => {
                        self.next[lane] += 1;
                        let seconds = bytes(block) as f64 * self.seconds_per_byte;
                        worker.busy = Some((block, now + Duration::from_secs_f64(seconds)));
                    }
                    None => schedule.read(lane),
                }
            }
            self.workers[at] = worker;
        }
        done
    }
}
