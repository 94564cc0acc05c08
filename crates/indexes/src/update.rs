//! Builds indexes, or continues them up to the tip.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use apus_hash::Hash;
use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_progress::{Phase, Progress, Watch};
use apus_store::{IndexKind, TxIndexForm};

use super::block::StoredBlock;
use super::by_height::ByHeight;
use super::opened::{OpenIndex, Upkeep};
use super::pass::{Made, Pass, batch_len};
use super::plan::{IndexPlan, check_stored, stored};
use super::positions::{Places, SPEND_BYTES, Spends, TX_BYTES, Txs};
use super::reading::{IndexReach, reached};
use super::short_txs::{BlockNumbers, ShortTxs};
use super::sorted::Sorted;
use super::space;

/// The result of [`update()`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Indexed {
    /// Height of the tip.
    pub height: u32,
    /// Hash of the tip.
    pub best_block: Hash,
    /// Each index that did not end at the tip, with the number of blocks that it lacked.
    pub lacked: Vec<(IndexKind, u32)>,
    /// How far `txindex` reaches, if it was asked for and there is one.
    pub txindex: Vec<IndexReach>,
    /// Whether the work was asked to stop. Filters and statistics are then complete up to the block
    /// reached; the other indexes are as they were, and the next run continues with the entries
    /// that were collected for them.
    pub interrupted: bool,
}

/// Builds the indexes `kinds` of the directory that `node` has open, or continues them, so that
/// they end at its tip. Blocks that were disconnected since are taken back, as Core does. One pass
/// over the blocks serves all of them. `form` is that of the entries of `txindex` that end there;
/// without it that is the form that reaches highest, and for a new index the one of Core v31.
///
/// # Errors
/// A block that is needed or its undo data is missing or damaged; the directory is pruned, and an
/// index names places in block files; an index is damaged; there is not enough space, or the disk
/// fails. The chainstate is not touched, and each index is as it was.
pub fn update(
    node: &Node,
    kinds: &[IndexKind],
    form: Option<TxIndexForm>,
    upkeep: Upkeep,
    watch: Watch,
) -> Result<Indexed, SyncError> {
    let tree = node.tree();
    let ledger = node.ledger();
    let tip = tree.node(node.tip());
    let (tip, best_block) = (tip.height, tip.hash);
    let mut plans = Vec::new();
    for kind in IndexKind::ALL.into_iter().filter(|kind| kinds.contains(kind)) {
        plans.extend(IndexPlan::of(node, kind, form)?);
    }
    let lacked = |plan: &IndexPlan| (plan.kind, (tip + 1).saturating_sub(plan.from));
    let lacked: Vec<_> = plans.iter().map(lacked).collect();
    let indexed = |interrupted| -> Result<Indexed, SyncError> {
        let is_wanted = kinds.contains(&IndexKind::TxIndex);
        let txindex = if is_wanted { reached(node.dir(), tree, IndexKind::TxIndex)? } else { None };
        let txindex = txindex.unwrap_or_default();
        Ok(Indexed { height: tip, best_block, lacked, txindex, interrupted })
    };
    let Some(from) = plans.iter().map(|plan| plan.from).min() else { return indexed(false) };
    let on_chain = (from..=tip).filter_map(|height| ledger.active.at(height));
    let blocks: Vec<StoredBlock> = on_chain.map(|id| stored(tree, ledger, id)).collect();
    plans.iter().try_for_each(|plan| check_stored(plan, &blocks))?;
    space::check(node.dir(), &plans, &blocks)?;
    let work = IndexWork { node, blocks: &blocks, from, upkeep, watch };
    indexed(SyncError::unless_stopped(work.run(&plans))?.is_none())
}

/// The work on all indexes.
struct IndexWork<'a> {
    node: &'a Node,
    /// The blocks of the active chain, the first at height `from`.
    blocks: &'a [StoredBlock],
    from: u32,
    upkeep: Upkeep,
    watch: Watch<'a>,
}

/// The indexes whose entries are sorted, each if it is wanted.
struct BySort<'a> {
    txs: Option<Sorted<'a, TX_BYTES>>,
    short_txs: Option<Sorted<'a, SPEND_BYTES>>,
    spends: Option<Sorted<'a, SPEND_BYTES>>,
}

/// The work left for the indexes by height; `None` for an index that is not wanted.
struct ByHeightPlans {
    filters: Option<IndexPlan>,
    statistics: Option<IndexPlan>,
}

/// How far the blocks were read.
struct Read {
    /// Index of the first block that was not read.
    end: usize,
    /// Whether the user asks to stop.
    is_stopped: bool,
}

impl IndexWork<'_> {
    fn run(&self, plans: &[IndexPlan]) -> Result<(), SyncError> {
        let of_kind = |kind| plans.iter().find(|plan| plan.kind == kind);
        let all_txs = of_kind(IndexKind::TxIndex);
        let in_form = |form| all_txs.filter(|plan| plan.form == form);
        let txs = in_form(TxIndexForm::Core31);
        let short_txs = in_form(TxIndexForm::Core32);
        let spends = of_kind(IndexKind::TxoSpenderIndex);
        let sorters = [all_txs, spends].iter().flatten().count();
        let memory = self.node.options().dbcache_bytes / sorters.max(1);
        let node = self.node;
        let blocks = self.blocks;
        let by_sort = BySort {
            txs: txs.map(|plan| Sorted::open(plan, node, blocks, memory)).transpose()?,
            short_txs: short_txs
                .map(|plan| Sorted::open(plan, node, blocks, memory))
                .transpose()?,
            spends: spends.map(|plan| Sorted::open(plan, node, blocks, memory)).transpose()?,
        };
        let by_height = ByHeightPlans {
            filters: of_kind(IndexKind::BlockFilterIndex).cloned(),
            statistics: of_kind(IndexKind::CoinStatsIndex).cloned(),
        };
        self.read(&by_sort, by_height)?;
        let BySort { txs, short_txs, spends } = by_sort;
        let written = match (txs, short_txs) {
            (Some(txs), _) => self.write_txs(txs),
            (None, Some(txs)) => self.write_short_txs(txs),
            (None, None) => Ok(()),
        };
        let Some(spends) = spends else { return written };
        if matches!(written, Err(SyncError::Stopped)) {
            blocks.last().map_or(Ok(()), |last| spends.save(last))?;
        }
        written?;
        let others = spends.index.spender_records(node.files(), spends.keys)?;
        spends.write(node, &Spends(&self.places()), others, None, self.how())
    }

    fn write_txs(&self, txs: Sorted<TX_BYTES>) -> Result<(), SyncError> {
        txs.write(self.node, &Txs(&self.places()), Vec::new(), None, self.how())
    }

    fn write_short_txs(&self, txs: Sorted<SPEND_BYTES>) -> Result<(), SyncError> {
        let OpenIndex { plan, db, .. } = &txs.index;
        let kept = plan.is_begun.then_some((db, plan.path.as_path()));
        let first = (plan.from - self.from) as usize;
        let numbers = BlockNumbers::of(kept, self.blocks.get(first..).unwrap_or_default())?;
        let records = numbers.records(txs.keys);
        txs.write(self.node, &ShortTxs(&numbers), records, Some(&numbers), self.how())
    }

    fn how(&self) -> (Upkeep, Watch<'_>) {
        (self.upkeep, self.watch)
    }

    /// Reads all blocks, and saves what was made of them now and then.
    fn read(&self, by_sort: &BySort, mut plans: ByHeightPlans) -> Result<(), SyncError> {
        let BySort { txs, short_txs, spends } = by_sort;
        let froms = [
            txs.as_ref().map(|txs| txs.from),
            short_txs.as_ref().map(|txs| txs.from),
            spends.as_ref().map(|spends| spends.from),
            plans.filters.as_ref().map(|plan| plan.from),
            plans.statistics.as_ref().map(|plan| plan.from),
        ];
        let from = froms.into_iter().flatten().min().unwrap_or(self.from);
        let mut next = self.blocks.len().min((from - self.from) as usize);
        let mut is_first = true;
        loop {
            let Read { end, is_stopped } = self.read_some(next, by_sort, &mut plans)?;
            let is_last = end == self.blocks.len();
            // An index that was read in one go is written without being saved.
            if let Some(reached) = self.blocks[..end].last()
                && (is_stopped || !is_last || !is_first)
            {
                txs.as_ref().map_or(Ok(()), |txs| txs.save(reached))?;
                short_txs.as_ref().map_or(Ok(()), |txs| txs.save(reached))?;
                spends.as_ref().map_or(Ok(()), |spends| spends.save(reached))?;
            }
            if is_stopped {
                return Err(SyncError::Stopped);
            }
            if is_last {
                return Ok(());
            }
            next = end;
            is_first = false;
        }
    }

    /// Reads blocks from the one with index `start` on, until it is time to save, and commits the
    /// indexes by height up to the last one that was read.
    fn read_some(
        &self,
        start: usize,
        by_sort: &BySort,
        plans: &mut ByHeightPlans,
    ) -> Result<Read, SyncError> {
        let BySort { txs, short_txs, spends } = by_sort;
        let shared = self.node.shared();
        let disk = self.node.dir().disk();
        let filters = OpenIndex::of(plans.filters.as_ref(), disk)?;
        let statistics = OpenIndex::of(plans.statistics.as_ref(), disk)?;
        let from = |index: &OpenIndex| index.plan.from;
        let pass = Pass {
            files: shared.files,
            network: shared.network,
            pool: shared.pool,
            txs: txs.as_ref().map(|txs| (txs.from, &txs.sorter)),
            short_txs: short_txs.as_ref().map(|txs| (txs.from, txs.keys, &txs.sorter)),
            spends: spends.as_ref().map(|spends| (spends.from, spends.keys, &spends.sorter)),
            filters: filters.as_ref().map(from),
            statistics: statistics.as_ref().map(from),
        };
        let mut by_height = ByHeight::open(&shared, disk, filters.as_ref(), statistics.as_ref())?;
        let read = self.read_batches(start, &pass, &mut by_height)?;
        let [of_filters, of_statistics] = by_height.finish()?;
        let reached = self.blocks[..read.end].last();
        let is_whole = read.end == self.blocks.len() && !read.is_stopped;
        let height = if is_whole { self.tip() } else { reached.map(|block| block.height) };
        let upkeep = if is_whole { self.upkeep } else { Upkeep::Follow };
        for (index, others) in [(filters, of_filters), (statistics, of_statistics)] {
            if let Some((index, others)) = index.zip(others) {
                index.commit_with(self.node, height, others, upkeep)?;
            }
        }
        for plan in [&mut plans.filters, &mut plans.statistics].into_iter().flatten() {
            reached.into_iter().for_each(|reached| plan.has_reached(*reached));
        }
        Ok(read)
    }

    /// Reads batches of blocks from the one with index `start` on, until it is time to save, and
    /// appends what is made of them to the indexes by height: that of one batch while the next one
    /// is read.
    fn read_batches(
        &self,
        start: usize,
        pass: &Pass,
        by_height: &mut ByHeight,
    ) -> Result<Read, SyncError> {
        let txs_of = |blocks: &[StoredBlock]| -> u64 {
            blocks.iter().map(|block| u64::from(block.tx_count)).sum()
        };
        let mut txs = txs_of(&self.blocks[..start]);
        let all = txs_of(self.blocks);
        let began = Instant::now();
        let options = self.node.options();
        let mut end = start;
        let mut last = None;
        let mut is_stopped = false;
        let mut append = |last: &mut Option<(&[StoredBlock], Vec<Made>)>| {
            last.take().map_or(Ok(()), |(batch, made)| by_height.append(batch, made))
        };
        while !is_stopped && end < self.blocks.len() {
            let rest = &self.blocks[end..];
            let batch = &rest[..batch_len(rest, options.dbcache_bytes)];
            last = Some((batch, pass.batch(batch, || append(&mut last))?));
            end += batch.len();
            txs += txs_of(batch);
            let height = batch.last().map_or(self.from, |block| block.height);
            self.watch.observer.observe(&Progress {
                height,
                blocks: u64::from(height + 1 - self.from),
                fraction: txs as f64 / all.max(1) as f64,
                ..Progress::of(Phase::ReadingForIndexes)
            });
            is_stopped = self.watch.stop.load(Relaxed);
            if began.elapsed() >= options.save_every {
                break;
            }
        }
        append(&mut last)?;
        Ok(Read { end, is_stopped })
    }

    /// Returns the height of the last block.
    fn tip(&self) -> Option<u32> {
        self.node.ledger().active.height()
    }

    fn places(&self) -> Places {
        let blocks = self.blocks.iter().map(StoredBlock::pos).collect();
        Places { from: self.from, blocks }
    }
}
