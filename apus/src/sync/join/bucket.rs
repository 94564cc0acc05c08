//! The spent coins of neighbouring blocks in memory, for the last pass, and the queue that threads
//! take blocks from.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fault::Fault;
use super::job::Job;
use super::pair::damaged_part;
use crate::coins::prefetch;
use crate::disk::{PartBuffer, StoreError};
use crate::join::{BlockCoins, BlockRecord, Damaged, LateCoin, for_each_batch};
use crate::wire::Cursor;

/// Buckets in memory at a time: one that is worked on, and the next.
const BUCKETS_IN_MEMORY: usize = 2;
/// How many coins ahead of the one that is read memory is asked for: partitions have met them in no
/// order.
const AHEAD: usize = 8;
/// How often a thread that waits looks at whether all are to end.
const WAIT: Duration = Duration::from_millis(20);

/// The spent coins of consecutive blocks.
pub(super) struct Bucket {
    heights: Range<u32>,
    bytes: Vec<u8>,
    /// What the first pass left of each block: the hash and where the list is.
    blocks: Vec<Option<(Option<[u8; 16]>, Range<usize>)>>,
    /// In the order of heights and places.
    late: Vec<Late>,
}

#[derive(Clone, Copy)]
struct Late {
    height: u32,
    place: u32,
    start: usize,
    len: u32,
}

impl Bucket {
    /// Reads a bucket. Records of the sources in `dropped` do not count.
    fn load(job: &Job, bucket: usize, dropped: &HashSet<u32>) -> Result<Self, StoreError> {
        let mut bytes = Vec::new();
        let part = job.layout.first_bucket() + bucket;
        bytes.reserve_exact(job.parts.bytes(part) as usize);
        job.parts.for_each_piece(part, &mut PartBuffer::new(), |piece| {
            bytes.extend_from_slice(piece);
            Ok::<(), StoreError>(())
        })?;
        let heights = job.layout.heights(bucket);
        let blocks = vec![None; heights.len()];
        let mut bucket = Self { heights, bytes, blocks, late: Vec::new() };
        bucket.index(dropped).map_err(|damaged| damaged_part(job.parts.path(), &damaged))?;
        Ok(bucket)
    }

    fn index(&mut self, dropped: &HashSet<u32>) -> Result<(), Damaged> {
        let Self { heights, bytes, blocks, late } = self;
        // A record's offset from its slice.
        let offset = |slice: &[u8]| slice.as_ptr() as usize - bytes.as_ptr() as usize;
        for_each_batch(bytes, 0..bytes.len(), |source, records| {
            if dropped.contains(&source) {
                return Ok(());
            }
            let mut cursor = Cursor::new(&bytes[records]);
            while cursor.remaining() > 0 {
                match BlockRecord::read(&mut cursor)? {
                    BlockRecord::Block(BlockCoins { height, digest, list }) => {
                        let index = height.checked_sub(heights.start).ok_or(Damaged)?;
                        let block = blocks.get_mut(index as usize).ok_or(Damaged)?;
                        let start = offset(list);
                        *block = Some((digest, start..start + list.len()));
                    }
                    BlockRecord::Late(LateCoin { height, place, coin }) => {
                        let (start, len) = (offset(coin), coin.len() as u32);
                        late.push(Late { height, place, start, len });
                    }
                }
            }
            Ok::<(), Damaged>(())
        })?;
        late.sort_unstable_by_key(|late| (late.height, late.place));
        Ok(())
    }

    /// What the first pass left of the block at `height`.
    pub fn block(&self, height: u32) -> Option<BlockCoins<'_>> {
        let index = height.checked_sub(self.heights.start)?;
        let (digest, list) = self.blocks.get(index as usize)?.as_ref()?;
        Some(BlockCoins { height, digest: *digest, list: &self.bytes[list.clone()] })
    }

    /// The coins of the block at `height` that partitions have met, in the order of its inputs:
    /// the place of each, and the coin in the form of the chainstate.
    pub fn late(&self, height: u32) -> impl Iterator<Item = (u32, &[u8])> {
        let first = self.late.partition_point(|late| late.height < height);
        let late = self.late[first..].iter().take_while(move |late| late.height == height);
        late.enumerate().map(move |(at, late)| {
            if let Some(ahead) = self.late.get(first + at + AHEAD) {
                prefetch(&self.bytes[ahead.start]);
            }
            (late.place, &self.bytes[late.start..][..late.len as usize])
        })
    }
}

/// Blocks in order of height, each with the bucket that its coins are in.
pub(super) struct BlockQueue<'a> {
    job: &'a Job<'a>,
    dropped: &'a HashSet<u32>,
    state: Mutex<QueueState>,
    changed: Condvar,
}

struct QueueState {
    /// The next block, by index among the steps.
    next: usize,
    next_bucket: usize,
    is_loading: bool,
    loaded: VecDeque<Arc<Bucket>>,
}

impl<'a> BlockQueue<'a> {
    /// The blocks from `next` on, by index among the steps.
    pub fn new(job: &'a Job<'a>, dropped: &'a HashSet<u32>, next: usize) -> Self {
        let next_bucket = job.layout.bucket_of(job.plan.height(next));
        let state = QueueState { next, next_bucket, is_loading: false, loaded: VecDeque::new() };
        Self { job, dropped, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The next block, by index among the steps; `None` if there is none, a lower one was refused,
    /// or `halt` was raised.
    pub fn take(&self, halt: &AtomicBool) -> Result<Option<(usize, Arc<Bucket>)>, Fault> {
        let (job, plan) = (self.job, self.job.plan);
        let mut state = self.lock();
        loop {
            let height = plan.height(state.next);
            if state.next == plan.steps.len() || job.is_refused(height) || halt.load(Relaxed) {
                return Ok(None);
            }
            if state.loaded.front().is_some_and(|bucket| bucket.heights.end <= height) {
                state.loaded.pop_front();
            }
            let more = state.next_bucket < job.layout.buckets();
            if more && !state.is_loading && state.loaded.len() < BUCKETS_IN_MEMORY {
                let bucket = state.next_bucket;
                state.next_bucket += 1;
                state.is_loading = true;
                drop(state);
                let loaded = Bucket::load(job, bucket, self.dropped);
                state = self.lock();
                state.is_loading = false;
                self.changed.notify_all();
                state.loaded.push_back(Arc::new(loaded?));
                continue;
            }
            if let Some(bucket) = state.loaded.front() {
                let taken = (state.next, Arc::clone(bucket));
                state.next += 1;
                return Ok(Some(taken));
            }
            let waited = self.changed.wait_timeout(state, WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
