//! The indexes with an entry for each height, while blocks are appended in order: filters and
//! statistics.

use apus_coins::Heights;
use apus_disk::{Disk, StoreError};
use apus_hash::MuHash;
use apus_node::error::SyncError;
use apus_node::shared::Shared;

use super::block::{Buffers, StoredBlock, Wants};
use super::filters::Filters;
use super::heights::entries_by_hash;
use super::opened::OpenIndex;
use super::pass::Made;
use super::plan::IndexPlan;
use super::sorting::Other;
use super::statistics::Change;
use super::totals::Statistics;

/// The indexes of filters and statistics, each if it is wanted, with the entries by hash of the
/// blocks that were disconnected.
pub struct ByHeight<'a> {
    filters: Option<(Filters<'a>, Vec<Other>)>,
    statistics: Option<(Statistics<'a>, Vec<Other>)>,
}

impl<'a> ByHeight<'a> {
    /// Continues both indexes after the last of their blocks on the active chain.
    pub fn open(
        shared: &Shared,
        disk: &Disk,
        filters: Option<&'a OpenIndex<'a>>,
        statistics: Option<&'a OpenIndex<'a>>,
    ) -> Result<Self, SyncError> {
        let by_hash =
            |index: &OpenIndex| entries_by_hash(&index.db, &index.plan.path, &index.plan.stale);
        let filters = match filters {
            None => None,
            Some(index) => {
                let OpenIndex { plan, db, run } = index;
                let database = (db, plan.path.as_path());
                let filters = Filters::after(plan.last.as_ref(), database, disk, run.writer())?;
                Some((filters, by_hash(index)?))
            }
        };
        let statistics = match statistics {
            None => None,
            Some(index) => {
                let OpenIndex { plan, db, run } = index;
                let database = (db, plan.path.as_path());
                let stale = stale_coins(shared, plan)?;
                let last = plan.last.as_ref();
                let statistics = Statistics::after(last, database, &stale, run.writer())?;
                Some((statistics, by_hash(index)?))
            }
        };
        Ok(Self { filters, statistics })
    }

    /// Appends what was made of the next blocks.
    pub fn append(&mut self, blocks: &[StoredBlock], made: Vec<Made>) -> Result<(), StoreError> {
        let mut changes = Vec::with_capacity(blocks.len());
        for (block, Made { filter, change }) in blocks.iter().zip(made) {
            if let Some((filters, _)) = &mut self.filters
                && let Some(filter) = filter
            {
                filters.append(block, &filter)?;
            }
            changes.extend(change.map(|change| (block, change)));
        }
        if let Some((filters, _)) = &mut self.filters {
            filters.write()?;
        }
        if let Some((statistics, _)) = &mut self.statistics {
            statistics.append(&changes)?;
        }
        Ok(())
    }

    /// Ends the entries by height. Returns the other entries of filters and of statistics, except
    /// the best block.
    pub fn finish(self) -> Result<[Option<Vec<Other>>; 2], StoreError> {
        let Self { filters, statistics } = self;
        let with = |ended: Vec<Other>, by_hash: Vec<Other>| [ended, by_hash].concat();
        Ok([
            filters.map(|(f, by_hash)| Ok(with(f.finish()?, by_hash))).transpose()?,
            statistics.map(|(s, by_hash)| Ok(with(s.finish()?, by_hash))).transpose()?,
        ])
    }
}

/// Returns what the disconnected blocks of an index changed in the UTXO set.
fn stale_coins(shared: &Shared, plan: &IndexPlan) -> Result<MuHash, SyncError> {
    let mut coins = MuHash::new();
    let mut buffers = Buffers::default();
    let wants = Wants { txids: true, spent: Some(Heights::Needed) };
    for stale in &plan.stale {
        let block = stale.read(shared.files, wants, &mut buffers)?;
        coins.combine(&Change::of(&block, shared.network).coins);
    }
    Ok(coins)
}
