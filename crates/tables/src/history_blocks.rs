//! The blocks that a history is read from: those whose filters have one of the scripts, or all.

use std::ops::RangeInclusive;

use apus_disk::{Disk, Share};
use apus_indexes::{IndexReader, WantedScripts};
use apus_node::error::SyncError;
use apus_node::workers::for_each_on_pool;
use apus_progress::{Phase, Progress, Watch};
use apus_store::IndexKind;
use rayon::ThreadPool;

use apus_claims::stored::StoredChain;

/// The blocks that a history is read from.
#[derive(Default)]
pub(super) struct HistoryBlocks {
    /// The heights of blocks to read, ascending. They are stored.
    pub read: Vec<u32>,
    /// The heights of blocks to read that are pruned, ascending.
    pub pruned: Vec<u32>,
    /// Number of blocks whose filters were asked.
    pub filters: u32,
}

/// Whether a block has to be read.
enum Asked {
    /// Its filter has none of the scripts.
    None,
    /// Its filter has one, or seems to.
    Some,
    /// There is no filter.
    NoFilter,
}

/// Finds the blocks of a history.
pub(super) struct HistorySearch<'a> {
    pub chain: &'a StoredChain,
    /// The indexes of the directory.
    pub indexes: &'a IndexReader,
    pub scripts: &'a WantedScripts<'a>,
    pub pool: &'a ThreadPool,
    pub watch: Watch<'a>,
}

impl<'a> HistorySearch<'a> {
    /// Returns what reads the indexes in the directory of a network.
    pub fn indexes(directory: &std::path::Path) -> IndexReader {
        IndexReader::new(&Disk::new(), directory)
    }

    /// Returns the blocks of a range of heights that have to be read.
    ///
    /// # Errors
    /// A block is pruned and has no filter; the index cannot be read or is damaged; or the search
    /// is stopped.
    pub fn find(&self, heights: RangeInclusive<u32>) -> Result<HistoryBlocks, SyncError> {
        let mut found = HistoryBlocks::default();
        let mut unknown = None;
        for (height, asked) in self.ask(heights)? {
            let is_stored = self.chain.blocks[height as usize].pos.is_some();
            found.filters += u32::from(!matches!(asked, Asked::NoFilter));
            match asked {
                Asked::None => {}
                Asked::NoFilter if !is_stored => unknown = Some(height),
                Asked::Some if !is_stored => found.pruned.push(height),
                Asked::Some | Asked::NoFilter => found.read.push(height),
            }
        }
        match unknown {
            None => Ok(found),
            Some(height) => Err(self.pruned_without_filter(height)),
        }
    }

    /// Asks the filters of a range of heights. Returns the answers by height.
    fn ask(&self, heights: RangeInclusive<u32>) -> Result<Vec<(u32, Asked)>, SyncError> {
        let (start, stop) = heights.clone().into_inner();
        let has_index = self.indexes.find(IndexKind::BlockFilterIndex)?.is_some();
        if !has_index || !self.scripts.are_in_filters() {
            return Ok(heights.map(|height| (height, Asked::NoFilter)).collect());
        }
        let report = Progress { height: stop, ..Progress::of(Phase::ReadingFilters) };
        let report = report.share_to(self.watch.observer);
        let share = Share::new(u64::from(stop - start) + 1, &report);
        let ask = |answers: &mut Vec<(u32, Asked)>, height: u32| {
            let hash = &self.chain.blocks[height as usize].hash;
            let asked = match self.indexes.has_any(height, hash, self.scripts)? {
                Some(true) => Asked::Some,
                Some(false) => Asked::None,
                None => Asked::NoFilter,
            };
            answers.push((height, asked));
            share.add(1);
            Ok(())
        };
        let answers = for_each_on_pool(self.pool, heights, self.watch.stop, Vec::new, ask)?;
        let mut answers: Vec<_> = answers.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|(height, _)| *height);
        Ok(answers)
    }

    fn pruned_without_filter(&self, height: u32) -> SyncError {
        let why = if self.scripts.are_in_filters() {
            "blockfilterindex does not have its filter (`apus index` builds the index \
                 only before blocks are pruned)"
        } else {
            "filters do not have scripts that begin with OP_RETURN"
        };
        let instead = if height == self.chain.height() {
            "use a directory that holds it".to_string()
        } else {
            format!(
                "begin above it, with --start-height {}, or use a directory that holds it",
                height + 1
            )
        };
        SyncError::Input(format!(
            "block {height} is not stored here, since its file was pruned, and {why}, so whether \
             it matches is unknown: {instead}"
        ))
    }
}
