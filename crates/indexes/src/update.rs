//! Builds indexes, or continues them up to the tip.

use std::path::PathBuf;

use apus_disk::Share;
use apus_hash::Hash;
use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_node::progress::{Phase, Progress, Watch};
use apus_store::IndexKind;

use super::block::StoredBlock;
use super::by_height::ByHeight;
use super::opened::{OpenIndex, Upkeep};
use super::pass::{Pass, batches};
use super::plan::{Plan, check_stored, stored};
use super::positions::{Places, SPEND_BYTES, Spends, TX_BYTES, Txs};
use super::sorting::{Entry, Other, Sorter};
use super::space;

/// What [`update()`] has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Indexed {
    /// Height of the tip.
    pub height: u32,
    /// Hash of the tip.
    pub best_block: Hash,
    /// Each index that did not end at the tip, with the number of blocks that it lacked.
    pub lacked: Vec<(IndexKind, u32)>,
    /// Whether the work was asked to stop. Filters and statistics are then complete up to the block
    /// reached, and the other indexes are as they were.
    pub interrupted: bool,
}

/// Builds the indexes `kinds` of the directory that `node` has open, or continues them, so that
/// they end at its tip. Blocks that were disconnected since are taken back, as Core does. One pass
/// over the blocks serves all of them.
///
/// # Errors
/// A block that is needed or its undo data is missing or damaged; the directory is pruned, and an
/// index names places in block files; an index is damaged; there is not enough space, or the disk
/// fails. The chainstate is not touched, and each index is as it was.
pub fn update(
    node: &Node,
    kinds: &[IndexKind],
    upkeep: Upkeep,
    watch: Watch,
) -> Result<Indexed, SyncError> {
    let tip = node.tree.node(node.tip());
    let (tip, best_block) = (tip.height, tip.hash);
    let mut plans = Vec::new();
    for kind in IndexKind::ALL.into_iter().filter(|kind| kinds.contains(kind)) {
        plans.extend(Plan::of(node, kind)?);
    }
    let lacked = |plan: &Plan| (plan.kind, (tip + 1).saturating_sub(plan.from));
    let lacked: Vec<_> = plans.iter().map(lacked).collect();
    let Some(from) = plans.iter().map(|plan| plan.from).min() else {
        return Ok(Indexed { height: tip, best_block, lacked, interrupted: false });
    };
    let on_chain = (from..=tip).filter_map(|height| node.ledger.active.at(height));
    let blocks: Vec<StoredBlock> = on_chain.map(|id| stored(node, id)).collect();
    plans.iter().try_for_each(|plan| check_stored(plan, &blocks))?;
    space::check(node, &plans, &blocks)?;
    let work = Work { node, blocks: &blocks, from, upkeep, watch };
    let interrupted = match work.run(&plans) {
        Err(SyncError::Stopped) => true,
        done => {
            done?;
            false
        }
    };
    Ok(Indexed { height: tip, best_block, lacked, interrupted })
}

/// The work on all indexes.
struct Work<'a> {
    node: &'a Node,
    /// The blocks of the active chain, the first at height `from`.
    blocks: &'a [StoredBlock],
    from: u32,
    upkeep: Upkeep,
    watch: Watch<'a>,
}

/// An index whose entries are sorted.
struct Sorted<'a, const N: usize> {
    index: OpenIndex<'a>,
    sorter: Sorter<N>,
}

impl Work<'_> {
    fn run(&self, plans: &[Plan]) -> Result<(), SyncError> {
        let of_kind = |kind| plans.iter().find(|plan| plan.kind == kind);
        let open = |kind| of_kind(kind).map(|plan| OpenIndex::new(plan, self.node)).transpose();
        let (txs, spends) = (of_kind(IndexKind::TxIndex), of_kind(IndexKind::TxoSpenderIndex));
        let sorters = [txs, spends].iter().flatten().count();
        let txs = txs.map(|plan| self.sorted::<TX_BYTES>(plan, sorters)).transpose()?;
        let spends = spends.map(|plan| self.sorted::<SPEND_BYTES>(plan, sorters)).transpose()?;
        let keys = spends.as_ref().map(|sorted| sorted.index.sip_keys()).transpose()?;
        let filters = open(IndexKind::BlockFilterIndex)?;
        let statistics = open(IndexKind::CoinStatsIndex)?;
        let from = |index: &OpenIndex| index.plan.from;
        let pass = Pass {
            files: &self.node.files,
            network: &self.node.options.network,
            pool: &self.node.pool,
            stop: self.watch.stop,
            txs: txs.as_ref().map(|txs| (from(&txs.index), &txs.sorter)),
            spends: spends
                .as_ref()
                .zip(keys)
                .map(|(spends, keys)| (from(&spends.index), keys, &spends.sorter)),
            filters: filters.as_ref().map(from),
            statistics: statistics.as_ref().map(from),
        };
        let mut by_height = ByHeight::open(self.node, filters.as_ref(), statistics.as_ref())?;
        let read = self.read(&pass, &mut by_height);
        let is_stopped = matches!(read, Err(SyncError::Stopped));
        let reached = if is_stopped { by_height.reached() } else { read.map(|()| self.tip())? };
        let [of_filters, of_statistics] = by_height.finish()?;
        for (index, others) in [(filters, of_filters), (statistics, of_statistics)] {
            if let Some((index, others)) = index.zip(others) {
                index.commit_with(self.node, reached, others, self.upkeep)?;
            }
        }
        if is_stopped {
            txs.map_or(Ok(()), |txs| txs.sorter.discard())?;
            spends.map_or(Ok(()), |spends| spends.sorter.discard())?;
            return Err(SyncError::Stopped);
        }
        let places = self.places();
        if let Some(txs) = txs {
            self.write(txs, &Txs(&places), Vec::new())?;
        }
        if let Some((spends, keys)) = spends.zip(keys) {
            let others = spends.index.spender_records(self.node, keys)?;
            self.write(spends, &Spends(&places), others)?;
        }
        Ok(())
    }

    /// Returns the height of the last block.
    fn tip(&self) -> Option<u32> {
        self.node.ledger.active.height()
    }

    /// Opens an index whose entries are sorted, one of `sorters`.
    fn sorted<'a, const N: usize>(
        &self,
        plan: &'a Plan,
        sorters: usize,
    ) -> Result<Sorted<'a, N>, SyncError> {
        let index = OpenIndex::new(plan, self.node)?;
        let appended = self.blocks.iter().filter(|block| block.height >= plan.from);
        let txs = appended.map(|block| u64::from(block.tx_count)).sum();
        let entries = space::entries(plan.kind, txs);
        let options = &self.node.options;
        let memory = options.dbcache_bytes / sorters;
        let (disk, path) = (self.node.dir.disk(), self.sort_file(plan.kind));
        if path.exists() {
            disk.remove(&path)?;
        }
        let sorter = Sorter::new(disk, path, entries, memory, options.threads);
        Ok(Sorted { index, sorter })
    }

    /// Returns the path of the temporary file for entries that do not fit in memory.
    fn sort_file(&self, kind: IndexKind) -> PathBuf {
        self.node.dir.path().join("indexes").join(format!("apus-{}.sort", kind.name()))
    }

    /// Reads all blocks, and appends what is made of them to the indexes by height.
    fn read(&self, pass: &Pass, by_height: &mut ByHeight) -> Result<(), SyncError> {
        let total: u64 = self.blocks.iter().map(|block| u64::from(block.tx_count)).sum();
        let mut txs = 0;
        for range in batches(self.blocks) {
            let batch = &self.blocks[range];
            by_height.append(batch, pass.batch(batch)?)?;
            txs += batch.iter().map(|block| u64::from(block.tx_count)).sum::<u64>();
            let height = batch.last().map_or(self.from, |block| block.height);
            self.watch.observer.observe(&Progress {
                height,
                blocks: u64::from(height + 1 - self.from),
                fraction: txs as f64 / total.max(1) as f64,
                ..Progress::of(Phase::ReadingForIndexes)
            });
        }
        Ok(())
    }

    /// Returns the places of all blocks.
    fn places(&self) -> Places {
        let blocks = self.blocks.iter().map(StoredBlock::pos).collect();
        Places { from: self.from, blocks }
    }

    /// Sorts the entries of an index, writes them together with `others`, and commits them.
    fn write<const N: usize>(
        &self,
        sorted: Sorted<'_, N>,
        entry: &impl Entry<N>,
        others: Vec<Other>,
    ) -> Result<(), SyncError> {
        let Sorted { index, sorter } = sorted;
        let height = self.tip().unwrap_or(0);
        let progress = Progress { height, ..Progress::of(Phase::WritingIndexes) };
        let report = progress.share_to(self.watch.observer);
        let share = Share::new(sorter.bytes(), &report);
        let others = index.with_best_block(self.node, self.tip(), others);
        let written =
            sorter.write(entry, &index.run, &others, &self.node.pool, (self.watch, &share))?;
        tracing::debug!(target: "blockstorage", "{}: {written} entries", index.plan.kind.name());
        Ok(index.commit(self.node, self.upkeep)?)
    }
}
