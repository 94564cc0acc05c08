//! An index whose entries are sorted: they are collected over interruptions, and then written.

use apus_disk::{FileSystem, Share, StoreError};
use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_progress::{Phase, Progress, Watch};

use super::block::StoredBlock;
use super::opened::{OpenIndex, Upkeep};
use super::plan::{IndexPlan, stored};
use super::positions::SipKeys;
use super::saved::{SavedSort, WorkFiles, last_of};
use super::short_txs::BlockNumbers;
use super::sorting::{Entry, Other, Sorter};
use super::space;

/// An index whose entries, of `N` bytes, are being collected.
pub struct Sorted<'a, const N: usize> {
    pub index: OpenIndex<'a>,
    /// The entries so far.
    pub sorter: Sorter<N>,
    /// The keys of the hashes in the entries; zeros if they have none.
    pub keys: SipKeys,
    /// Height of the first block whose entries are not collected yet.
    pub from: u32,
    files: WorkFiles<'a>,
}

impl<'a, const N: usize> Sorted<'a, N> {
    /// Opens an index to which the entries of `blocks` will be added, from the first block of
    /// `plan` on, and continues the work of an interrupted run. Up to `memory` bytes of entries are
    /// in memory.
    pub fn open(
        plan: &'a IndexPlan,
        node: &'a Node,
        blocks: &[StoredBlock],
        memory: usize,
    ) -> Result<Self, SyncError> {
        let index = OpenIndex::new(plan, node.dir().disk())?;
        let disk = node.dir().disk();
        let files = WorkFiles::new(node.dir(), plan.kind);
        let keys = index.sip_keys()?;
        if let Some((height, saved)) = files.saved(node.tree(), node.ledger(), plan, keys)? {
            match Sorter::resume(disk, files.entries.clone(), &saved.parts, memory) {
                Ok(sorter) => {
                    let keys = saved.keys;
                    let from = height + 1;
                    return Ok(Self { index, sorter, keys, from, files });
                }
                Err(error) => tracing::warn!(target: "blockstorage", "{error}: begun again"),
            }
        }
        files.forget()?;
        if files.entries.exists() {
            disk.remove(&files.entries)?;
        }
        let keys = keys.map_or_else(|| index.new_sip_keys(), Ok)?;
        let entries = space::entries(plan, blocks);
        let threads = node.options().threads;
        let sorter = Sorter::new(disk, files.entries.clone(), entries, memory, threads);
        Ok(Self { index, sorter, keys, from: plan.from, files })
    }

    /// Makes the entries of all blocks up to `reached` durable, so that another run can continue.
    /// No thread may add entries meanwhile.
    pub fn save(&self, reached: &StoredBlock) -> Result<(), StoreError> {
        if reached.height < self.index.plan.from {
            return Ok(());
        }
        let last = last_of(self.index.plan);
        let parts = self.sorter.save()?;
        self.files.save(&SavedSort { last, reached: reached.hash, keys: self.keys, parts })
    }

    /// Sorts the entries, writes them together with `others`, and commits them. With the numbers of
    /// blocks, which are written too, all keys of `others` are before these.
    ///
    /// # Errors
    /// The disk fails, or `watch` asks to stop. If there is space for the index beside its entries,
    /// these are saved then.
    pub fn write(
        self,
        node: &Node,
        entry: &impl Entry<N>,
        others: Vec<Other>,
        numbers: Option<&BlockNumbers>,
        (upkeep, watch): (Upkeep, Watch),
    ) -> Result<(), SyncError> {
        let tree = node.tree();
        let ledger = node.ledger();
        let tip = ledger.active.height();
        let mut others = self.index.with_best_block(tree, &ledger.active, tip, others);
        if let Some(numbers) = numbers {
            numbers.write(&self.index.run, &others)?;
            others.clear();
        }
        let count = self.sorter.bytes() / N as u64;
        let tables = space::table_bytes(self.index.plan, count);
        let keeps = tables < FileSystem::of(&self.index.plan.path)?.free;
        if !keeps {
            self.files.forget()?;
        }
        let progress = Progress { height: tip.unwrap_or(0), ..Progress::of(Phase::WritingIndexes) };
        let report = progress.share_to(watch.observer);
        let share = Share::new(self.sorter.bytes(), &report);
        let run = &self.index.run;
        let pool = node.shared().pool;
        let written = self.sorter.write(entry, run, &others, pool, keeps, (watch, &share));
        match &written {
            Err(SyncError::Stopped) if keeps => self.save(&stored(tree, ledger, node.tip()))?,
            Err(SyncError::Stopped) => {
                self.sorter.discard()?;
                return Err(SyncError::Stopped);
            }
            Err(SyncError::Store(error)) if error.path == self.files.entries => {
                // Damaged entries do not serve another run.
                self.files.forget()?;
            }
            _ => {}
        }
        let written = written?;
        tracing::debug!(
            target: "blockstorage", "{}: {written} entries", self.index.plan.kind.name()
        );
        self.index.commit(node.shared().pool, upkeep)?;
        self.files.forget()?;
        Ok(self.sorter.discard()?)
    }
}
