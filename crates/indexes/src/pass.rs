//! The pass over blocks and undo data that serves all indexes: in batches by height, and within a
//! batch on all threads.

use std::iter;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use apus_coins::Heights;
use apus_disk::{StoreError, lock};
use apus_node::error::SyncError;
use apus_node::workers::for_each_on_pool;
use apus_store::BlockFiles;
use apus_wire::Network;
use rayon::ThreadPool;

use super::block::{Buffers, StoredBlock, Wants};
use super::filters::filter_of;
use super::positions::{SPEND_BYTES, SipKeys, TX_BYTES, add_spends, add_txs};
use super::short_txs::add_short_txs;
use super::sorting::{SortBuffer, Sorter};
use super::statistics::Change;

/// The most transactions in a batch: with 200 blocks of today the threads end at about the same
/// time.
const BATCH_TXS: usize = 500_000;
/// The most blocks in a batch.
const BATCH_BLOCKS: usize = 8192;
/// Bytes of memory for each transaction of a batch: 10 of filters, of two batches, and less than a
/// tenth of the memory.
const BATCH_TX_BYTES: usize = 200;

/// The indexes to make. Each has the height of the first block that it needs.
pub struct Pass<'a> {
    /// The block files.
    pub files: &'a BlockFiles,
    pub network: &'a Network,
    /// The threads.
    pub pool: &'a ThreadPool,
    /// Where the entries of `txindex` go.
    pub txs: Option<(u32, &'a Sorter<TX_BYTES>)>,
    /// Where the entries of `txindex` in the form of Core v32 go.
    pub short_txs: Option<(u32, SipKeys, &'a Sorter<SPEND_BYTES>)>,
    /// Where the entries of `txospenderindex` go.
    pub spends: Option<(u32, SipKeys, &'a Sorter<SPEND_BYTES>)>,
    /// Whether filters are made.
    pub filters: Option<u32>,
    /// Whether statistics are made.
    pub statistics: Option<u32>,
}

/// The results from one block that are appended in order.
pub struct Made {
    pub filter: Option<Vec<u8>>,
    /// Its change of the statistics.
    pub change: Option<Change>,
}

/// The state of a thread.
struct Worker<'a> {
    buffers: Buffers,
    txs: Option<SortBuffer<'a, TX_BYTES>>,
    short_txs: Option<SortBuffer<'a, SPEND_BYTES>>,
    spends: Option<SortBuffer<'a, SPEND_BYTES>>,
    /// Its results, with the index of each block in the batch.
    made: Vec<(usize, Made)>,
}

/// Returns the number of the first blocks of `blocks` that are processed together. What they leave
/// in memory until it is written, and some 900 bytes for each block, is little of `memory`.
pub fn batch_len(blocks: &[StoredBlock], memory: usize) -> usize {
    let txs_max = (memory / BATCH_TX_BYTES).min(BATCH_TXS) as u64;
    let mut txs = 0;
    let is_full = |block: &StoredBlock| {
        txs += u64::from(block.tx_count);
        txs >= txs_max
    };
    let end = blocks.iter().position(is_full).map_or(blocks.len(), |last| last + 1);
    end.min(BATCH_BLOCKS)
}

impl Pass<'_> {
    /// Processes a batch of blocks, and returns what was made of each, in their order. One of the
    /// threads calls `first` before it processes blocks.
    pub fn batch(
        &self,
        blocks: &[StoredBlock],
        first: impl FnOnce() -> Result<(), StoreError> + Send,
    ) -> Result<Vec<Made>, SyncError> {
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_unstable_by_key(|index| blocks[*index].block);
        let first = Mutex::new(Some(first));
        let items = iter::once(None).chain(order.into_iter().map(Some));
        let new = || Worker {
            buffers: Buffers::default(),
            txs: self.txs.map(|(_, sorter)| sorter.buffer()),
            short_txs: self.short_txs.map(|(_, _, sorter)| sorter.buffer()),
            spends: self.spends.map(|(_, _, sorter)| sorter.buffer()),
            made: Vec::new(),
        };
        let work = |worker: &mut Worker, item: Option<usize>| {
            let first = || lock(&first).take();
            match item {
                Some(index) => self.block(worker, index, &blocks[index]),
                None => Ok(first().map_or(Ok(()), |first| first())?),
            }
        };
        // A batch is short, and what is saved must end between two blocks.
        let never = AtomicBool::new(false);
        let workers = for_each_on_pool(self.pool, items, &never, new, work)?;
        let mut all = Vec::with_capacity(blocks.len());
        for worker in workers {
            worker.txs.map_or(Ok(()), SortBuffer::finish)?;
            worker.short_txs.map_or(Ok(()), SortBuffer::finish)?;
            worker.spends.map_or(Ok(()), SortBuffer::finish)?;
            all.extend(worker.made);
        }
        all.sort_unstable_by_key(|(index, _)| *index);
        Ok(all.into_iter().map(|(_, made)| made).collect())
    }

    fn block(
        &self,
        worker: &mut Worker,
        index: usize,
        stored: &StoredBlock,
    ) -> Result<(), SyncError> {
        let is_wanted = |from: Option<u32>| from.is_some_and(|from| stored.height >= from);
        let filters = is_wanted(self.filters);
        let statistics = is_wanted(self.statistics);
        let Worker { buffers, txs, short_txs, spends, made } = worker;
        let tx_from = self.txs.map(|(from, _)| from);
        let tx_from = tx_from.or(self.short_txs.map(|(from, ..)| from));
        let wants = Wants {
            txids: statistics || is_wanted(tx_from),
            spent: match (statistics, filters) {
                (true, _) => Some(Heights::Needed),
                (false, true) => Some(Heights::Optional),
                (false, false) => None,
            },
        };
        let block = stored.read(self.files, wants, buffers)?;
        if let (Some((from, _)), Some(txs)) = (self.txs, txs)
            && stored.height >= from
        {
            add_txs(&block, txs);
            txs.check()?;
        }
        if let (Some((from, keys, _)), Some(txs)) = (self.short_txs, short_txs)
            && stored.height >= from
        {
            add_short_txs(&block, keys, txs);
            txs.check()?;
        }
        if let (Some((from, keys, _)), Some(spends)) = (self.spends, spends)
            && stored.height >= from
        {
            add_spends(&block, keys, spends);
            spends.check()?;
        }
        let filter = filters.then(|| filter_of(&block));
        let change = statistics.then(|| Change::of(&block, self.network));
        made.push((index, Made { filter, change }));
        Ok(())
    }
}
