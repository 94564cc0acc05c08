//! The buckets of the last pass, which have the spent coins of neighbouring blocks, and the queue
//! from which workers take blocks.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apus_coins::prefetch;
use apus_disk::{PartBuffer, StoreError};
use apus_join::{BlockCoins, BlockRecord, Damaged, LateCoin, batches};
use apus_wire::Cursor;
use rayon::prelude::*;

use super::context::Context;
use super::pair::damaged_part;
use apus_node::fault::Fault;

/// Buckets in memory at a time, whole or cut: the current one, and the next.
const BUCKETS_IN_MEMORY: usize = 2;
/// How many coins ahead memory is prefetched: partitions write coins in no particular order.
const AHEAD: usize = 8;
/// How often a waiting thread checks whether it must end.
const WAIT: Duration = Duration::from_millis(20);

/// The spent coins of consecutive blocks.
pub struct Bucket {
    heights: Range<u32>,
    /// The bytes of the records, by piece of the part.
    pieces: Vec<Vec<u8>>,
    /// The facts on each block that the first pass kept.
    blocks: Vec<Option<FirstPass>>,
    /// The late coins of each block, in no particular order.
    late: Vec<Vec<Late>>,
}

/// The records of one piece of a bucket's part, with the heights of their blocks.
struct Piece {
    bytes: Vec<u8>,
    blocks: Vec<(u32, FirstPass)>,
    late: Vec<(u32, Late)>,
}

/// The facts on a block that the first pass kept.
#[derive(Clone)]
struct FirstPass {
    /// The keyed hash of the block, if it is read again.
    digest: Option<[u8; 16]>,
    piece: usize,
    /// The range of the list of coins in the piece's bytes.
    list: Range<usize>,
}

#[derive(Clone, Copy)]
struct Late {
    place: u32,
    piece: u32,
    start: u32,
    len: u32,
}

/// Calls `each` with every record of a piece and its bytes, which end with the list or the coin.
/// Skips the records of the sources in `dropped`.
fn for_each_record(
    context: &Context,
    dropped: &HashSet<u32>,
    piece: &[u8],
    mut each: impl FnMut(&BlockRecord, &[u8]) -> Result<(), Damaged>,
) -> Result<(), StoreError> {
    let read = batches(piece, 0..piece.len()).try_for_each(|batch| {
        let (source, records) = batch?;
        if dropped.contains(&source) {
            return Ok(());
        }
        let records = &piece[records];
        let mut cursor = Cursor::new(records);
        while cursor.remaining() > 0 {
            let start = cursor.position();
            let record = BlockRecord::read(&mut cursor)?;
            each(&record, &records[start..cursor.position()])?;
        }
        Ok(())
    });
    read.map_err(|damaged: Damaged| damaged_part(context.parts.path(), &damaged))
}

/// Returns the heights of a bucket, cut into several ranges if the bucket has more coins than may
/// be in memory at a time.
fn cut(
    context: &Context,
    dropped: &HashSet<u32>,
    bucket: usize,
) -> Result<VecDeque<Range<u32>>, StoreError> {
    let heights = context.layout.heights(bucket);
    let steps =
        context.plan.steps.iter().skip(context.plan.index(heights.start)).take(heights.len());
    let most = context.memory.bucket_bytes(steps.map(|step| step.weight).sum());
    let part = context.layout.first_bucket() + bucket;
    let bytes = context.parts.bytes(part);
    if bytes <= most {
        return Ok(VecDeque::from([heights]));
    }
    let mut sizes = vec![0; heights.len()];
    context.parts.for_each_piece(part, &mut PartBuffer::new(), |piece| {
        for_each_record(context, dropped, piece, |record, bytes| {
            let index = record.height().checked_sub(heights.start).ok_or(Damaged)?;
            *sizes.get_mut(index as usize).ok_or(Damaged)? += bytes.len() as u64;
            Ok(())
        })
    })?;
    let mut cuts: VecDeque<Range<u32>> = VecDeque::new();
    let mut last_bytes = 0;
    for (height, size) in heights.zip(sizes) {
        match cuts.back_mut() {
            Some(last) if last_bytes + size <= most => {
                last.end = height + 1;
                last_bytes += size;
            }
            _ => {
                cuts.push_back(height..height + 1);
                last_bytes = size;
            }
        }
    }
    let parts = cuts.len();
    tracing::debug!(target: "validation", bucket, parts, "a bucket is larger than its memory");
    Ok(cuts)
}

impl Piece {
    /// Reads the records of a piece for these heights; `index` is the piece's place in the bucket.
    fn read(
        context: &Context,
        dropped: &HashSet<u32>,
        heights: &Range<u32>,
        index: usize,
        piece: &[u8],
    ) -> Result<Self, StoreError> {
        let mut bytes = Vec::with_capacity(piece.len());
        let mut blocks = Vec::new();
        let mut late = Vec::new();
        for_each_record(context, dropped, piece, |record, record_bytes| {
            if !heights.contains(&record.height()) {
                return Ok(());
            }
            bytes.extend_from_slice(record_bytes);
            let end = bytes.len();
            match *record {
                BlockRecord::Block(BlockCoins { height, digest, list }) => {
                    let list = end - list.len()..end;
                    blocks.push((height, FirstPass { digest, piece: index, list }));
                }
                BlockRecord::Late(LateCoin { height, place, coin }) => {
                    let start = (end - coin.len()) as u32;
                    let len = coin.len() as u32;
                    late.push((height, Late { place, piece: index as u32, start, len }));
                }
            }
            Ok(())
        })?;
        // Of a bucket that is cut, few of a piece's records are for these heights.
        bytes.shrink_to_fit();
        Ok(Self { bytes, blocks, late })
    }
}

impl Bucket {
    /// Reads the records of a bucket for these heights on all threads.
    fn load(
        context: &Context,
        dropped: &HashSet<u32>,
        bucket: usize,
        heights: Range<u32>,
    ) -> Result<Self, StoreError> {
        let in_part = context.parts.pieces(context.layout.first_bucket() + bucket);
        let read_piece = |buffer: &mut PartBuffer, index| {
            Piece::read(context, dropped, &heights, index, in_part.read(index, buffer)?)
        };
        let read_all = || {
            let indexes = (0..in_part.count()).into_par_iter();
            indexes.map_init(PartBuffer::new, read_piece).collect::<Result<Vec<_>, _>>()
        };
        let read = context.shared.pool.install(read_all)?;
        let mut pieces = Vec::with_capacity(read.len());
        let mut blocks = vec![None; heights.len()];
        let mut late = vec![Vec::new(); heights.len()];
        for piece in read {
            for (height, block) in piece.blocks {
                blocks[(height - heights.start) as usize] = Some(block);
            }
            for (height, coin) in piece.late {
                late[(height - heights.start) as usize].push(coin);
            }
            pieces.push(piece.bytes);
        }
        Ok(Self { heights, pieces, blocks, late })
    }

    /// Returns what the first pass kept of the block at `height`.
    pub fn block(&self, height: u32) -> Option<BlockCoins<'_>> {
        let index = height.checked_sub(self.heights.start)?;
        let FirstPass { digest, piece, list } = self.blocks.get(index as usize)?.as_ref()?;
        let list = &self.pieces[*piece][list.clone()];
        Some(BlockCoins { height, digest: *digest, list })
    }

    /// Returns the late coins of the block at `height` in the order of its inputs, each with the
    /// index of its input and the coin as the chainstate encodes it.
    pub fn late(&self, height: u32) -> impl Iterator<Item = (u32, &[u8])> {
        let mut late = self.late[(height - self.heights.start) as usize].clone();
        late.sort_unstable_by_key(|late| late.place);
        (0..late.len()).map(move |at| {
            if let Some(byte) = late.get(at + AHEAD).and_then(|ahead| self.coin(ahead).first()) {
                prefetch(byte);
            }
            (late[at].place, self.coin(&late[at]))
        })
    }

    /// Returns the bytes of a late coin.
    fn coin(&self, late: &Late) -> &[u8] {
        &self.pieces[late.piece as usize][late.start as usize..][..late.len as usize]
    }
}

/// The queue of blocks in order of height, each with the bucket of its coins.
pub struct BlockQueue<'a> {
    context: &'a Context<'a>,
    dropped: &'a HashSet<u32>,
    state: Mutex<QueueState>,
    changed: Condvar,
}

struct QueueState {
    /// The next block, by index among the steps.
    next: usize,
    /// `None` while a thread loads a bucket.
    loader: Option<Loader>,
    loaded: VecDeque<Arc<Bucket>>,
}

/// Loads the blocks of the last pass, bucket by bucket.
struct Loader {
    /// What is left of the bucket before `next_bucket`.
    cuts: VecDeque<Range<u32>>,
    next_bucket: usize,
}

impl Loader {
    /// Loads the next range of heights, and skips ranges that lie below the height `from`.
    fn load(
        &mut self,
        context: &Context,
        dropped: &HashSet<u32>,
        from: u32,
    ) -> Result<Bucket, StoreError> {
        if self.cuts.is_empty() {
            self.cuts = cut(context, dropped, self.next_bucket)?;
            self.next_bucket += 1;
        }
        while self.cuts.len() > 1 && self.cuts[0].end <= from {
            self.cuts.pop_front();
        }
        let next = self.cuts.pop_front().expect("a bucket has heights");
        Bucket::load(context, dropped, self.next_bucket - 1, next)
    }

    fn is_done(&self, buckets: usize) -> bool {
        self.cuts.is_empty() && self.next_bucket == buckets
    }
}

impl<'a> BlockQueue<'a> {
    /// Creates a queue of the blocks from `next` on, by index among the steps.
    pub fn new(context: &'a Context<'a>, dropped: &'a HashSet<u32>, next: usize) -> Self {
        let next_bucket = context.layout.bucket_of(context.plan.height(next));
        let loader = Some(Loader { cuts: VecDeque::new(), next_bucket });
        let state = QueueState { next, loader, loaded: VecDeque::new() };
        Self { context, dropped, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Returns the next block, by index among the steps, and its bucket; `None` if no block is
    /// left, it or a lower block was refused, or `halt` was raised.
    pub fn take(&self, halt: &AtomicBool) -> Result<Option<(usize, Arc<Bucket>)>, Fault> {
        let context = self.context;
        let plan = self.context.plan;
        let mut state = self.lock();
        loop {
            let height = plan.height(state.next);
            if state.next == plan.steps.len() || context.is_refused(height) || halt.load(Relaxed) {
                return Ok(None);
            }
            if state.loaded.front().is_some_and(|bucket| bucket.heights.end <= height) {
                state.loaded.pop_front();
            }
            let has_room = state.loaded.len() < BUCKETS_IN_MEMORY;
            let buckets = context.layout.buckets();
            let loads = |loader: &mut Loader| has_room && !loader.is_done(buckets);
            if let Some(mut loader) = state.loader.take_if(loads) {
                drop(state);
                let loaded = loader.load(context, self.dropped, height);
                state = self.lock();
                state.loader = Some(loader);
                self.changed.notify_all();
                state.loaded.push_back(Arc::new(loaded?));
                continue;
            }
            // If loading this block's bucket has failed, the front bucket may be of later blocks.
            let front = state.loaded.front();
            if let Some(bucket) = front.filter(|bucket| bucket.heights.contains(&height)) {
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

#[cfg(test)]
mod tests {
    use apus_disk::{Caching, Disk, Parts};
    use apus_hash::HashKey;
    use apus_join::{Layout, Memory, put_block_coins, put_late_coin};
    use apus_node::Run;
    use apus_node::block::step::Step;
    use apus_node::opened::Coins;
    use apus_node::options::Options;
    use apus_node::sources::BlockOrigin;
    use apus_wire::{Chain, Network};

    use super::*;
    use crate::join::plan::JoinPlan;
    use crate::unfinished::open_node;

    const BLOCKS: u32 = 10;
    /// Bytes of the early coins that a block spends, and of each of its three late coins.
    const EARLY: usize = 60_000;
    const LATE: usize = 10_000;

    /// Appends what the earlier passes leave of [`BLOCKS`] blocks, in batches of one record.
    fn append_records(parts: &Parts, bucket: usize) {
        let append = |source: u32, put: &dyn Fn(&mut Vec<u8>)| {
            let mut batch = Vec::new();
            put(&mut batch);
            let head = [source, batch.len() as u32].map(u32::to_le_bytes).concat();
            parts.append(bucket, &[head, batch].concat()).unwrap();
        };
        for height in (1..=BLOCKS).rev() {
            for place in [7, 2, 5] {
                let coin = vec![height as u8; LATE];
                append(2, &|out| put_late_coin(out, height, place, 4, &coin));
                // A source that was given up.
                append(9, &|out| put_late_coin(out, height, place + 1, 4, &coin));
            }
            let list = vec![height as u8; EARLY];
            let coins = BlockCoins { height, digest: Some([height as u8; 16]), list: &list };
            append(1, &|out| put_block_coins(out, &coins));
        }
    }

    #[test]
    fn coins_that_exceed_memory_come_a_few_blocks_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let options = Options::new(place.path().join("data"), Network::new(Chain::Regtest));
        let mut node = open_node(&Run::new(&options), Coins::InPlace).unwrap();
        let id = node.tree().genesis();
        let mut plan = JoinPlan::new(&node, id);
        plan.steps = vec![Step { id, place: BlockOrigin::Peers, weight: 1_000 }; BLOCKS as usize];
        let memory = Memory { bytes: 1 << 20, workers: 2 };
        let layout = Layout::new(1, &[1_000; BLOCKS as usize], memory);
        assert_eq!(layout.buckets(), 1);
        let spill = place.path().join("spill");
        let parts = Parts::new(&Disk::new(), spill, layout.parts(), 4096, Caching::PageCache);
        append_records(&parts, layout.first_bucket());
        let (shared, _) = node.split();
        let hash_key = HashKey::new([4; 32]);
        let context = Context::new(&shared, &plan, &layout, memory, &parts, &hash_key);
        let dropped = HashSet::from([9]);
        let halt = AtomicBool::new(false);
        let queue = BlockQueue::new(&context, &dropped, 0);
        let mut taken = 0;
        let mut largest = 0;
        while let Ok(Some((index, bucket))) = queue.take(&halt) {
            let height = index as u32 + 1;
            let block = bucket.block(height).unwrap();
            assert!(
                block.digest == Some([height as u8; 16]) && block.list == vec![height as u8; EARLY]
            );
            let late: Vec<u32> = bucket.late(height).map(|(place, _)| place).collect();
            assert_eq!(late, [2, 5, 7]);
            assert!(bucket.late(height).all(|(_, coin)| coin[1..] == vec![height as u8; LATE]));
            taken += 1;
            largest = largest.max(bucket.pieces.iter().map(Vec::len).sum());
        }
        assert_eq!(taken, BLOCKS);
        // The coins of one block leave no room for those of a second one.
        assert!(largest < EARLY + 4 * LATE, "{largest} bytes at a time");
    }
}
