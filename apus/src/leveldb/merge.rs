use std::sync::{Arc, PoisonError};

use rayon::prelude::*;

use super::cursor::Merged;
use super::db::Db;
use super::format::{Kind, LEVELS};
use super::inner::{Inner, TableChange};
use super::levels::{DueMerge, bottom_level, pick};
use super::run::{Output, at_level};
use super::version::{SortedRun, Version, split};
use crate::disk::{Caching, OnShare, Result, Share};

/// Newer entries are few if they have at most this share (one in ...) of the bytes of the last
/// level. Rewriting that for fewer would cost more than look-ups in one more run do.
const FEW_BYTES_SHARE: u64 = 8;

/// Number of tables in each of the parts, roughly, that a merge is cut into for threads.
const PART_TABLES: u64 = 3;

impl Db {
    /// Whether a merge is due, which [`Db::merge`] would do.
    pub fn merge_pending(&self) -> bool {
        pick(&self.inner.current(), self.inner.options.level_0_runs_max).is_some()
    }

    /// Merges the newest runs into one, if there are too many, and returns whether it did. Readers
    /// and one writer carry on meanwhile.
    ///
    /// The runs merged are all those of level 0 and, going down, each level that is not larger than
    /// everything above it. So a level is rewritten only when as much data again has come, an entry
    /// is rewritten about log2(runs written / [`Options::level_0_runs_max`]) times, and a lookup
    /// searches at most so many runs and 6 more.
    ///
    /// [`Options::level_0_runs_max`]: super::Options::level_0_runs_max
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub fn merge(&self) -> Result<bool> {
        let _merging = self.inner.merging.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.check_writable()?;
        let version = self.inner.current();
        match pick(&version, self.inner.options.level_0_runs_max) {
            None => Ok(false),
            Some(due) => merge_runs(&self.inner, &version, due, &|_| {}).map(|()| true),
        }
    }

    /// Merges until LevelDB finds nothing to compact when it opens the database: everything into
    /// one level of tables, or, where newer entries are few next to one large level, these alone
    /// into a level above it.
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub fn settle_reporting(&self, report: OnShare) -> Result<()> {
        {
            let inner = &self.inner;
            let _merging = inner.merging.lock().unwrap_or_else(PoisonError::into_inner);
            inner.check_writable()?;
            let version = inner.current();
            if let Some(due) = due_above(&version) {
                return match &version.runs[..due.runs] {
                    [] => Ok(()),
                    [run] if run.level == due.level => Ok(()),
                    _ => merge_runs(inner, &version, due, report),
                };
            }
        }
        self.merge_all_reporting(report)
    }

    /// Merges everything into one level of tables that do not overlap, without deleted keys, placed
    /// where LevelDB finds nothing to compact.
    ///
    /// # Panics
    /// The database was opened for reading only.
    #[cfg(any(test, feature = "internals"))]
    pub fn merge_all(&self) -> Result<()> {
        self.merge_all_reporting(&|_| {})
    }

    /// [`Db::merge_all`] that reports how much of the work is done.
    pub fn merge_all_reporting(&self, report: OnShare) -> Result<()> {
        let inner = &self.inner;
        let _merging = inner.merging.lock().unwrap_or_else(PoisonError::into_inner);
        inner.check_writable()?;
        let mut version = inner.current();
        if version.runs.len() > 1 || version.runs.iter().any(|run| run.level == 0) {
            let everything = DueMerge { runs: version.runs.len(), level: LEVELS - 1 };
            merge_runs(inner, &version, everything, report)?;
            version = inner.current();
        }
        let Some(run) = version.runs.last() else { return Ok(()) };
        let level = bottom_level(run.bytes());
        if run.level == level || version.runs.iter().any(|r| r.level > 0 && r.level != run.level) {
            return Ok(());
        }
        let added = at_level(level, run.tables.to_vec());
        let removed = run.level_tables().collect();
        inner.commit(&TableChange { removed, added, sequence: None }, || {})
    }
}

/// The run that all runs above the last one are to become, if that is worth it: they are few next
/// to the last one, and fit into a level above it where LevelDB finds nothing to compact.
fn due_above(version: &Version) -> Option<DueMerge> {
    let (last, above) = version.runs.split_last()?;
    let bytes: u64 = above.iter().map(SortedRun::bytes).sum();
    let level = bottom_level(bytes);
    let is_settled = last.level == bottom_level(last.bytes());
    let is_few = bytes <= last.bytes() / FEW_BYTES_SHARE && level < last.level;
    (is_settled && is_few).then_some(DueMerge { runs: above.len(), level })
}

/// Merges the newest runs of `version` into one, as `due` says.
fn merge_runs(inner: &Arc<Inner>, version: &Version, due: DueMerge, report: OnShare) -> Result<()> {
    let (runs, below) = version.runs.split_at(due.runs);
    // Without older runs below, deleted keys need not be remembered.
    let forget = below.is_empty();
    let bytes: u64 = runs.iter().map(SortedRun::bytes).sum();
    let parts = bytes / (PART_TABLES * inner.options.table_bytes_max).max(1) + 1;
    let cuts = split(runs, usize::try_from(parts).unwrap_or(usize::MAX))?;
    let output = Output::new(inner, Caching::PageCache);
    let share = Share::new(cuts.len() as u64 + 1, report);
    (0..=cuts.len()).into_par_iter().try_for_each(|i| {
        let from = if i == 0 { &[][..] } else { &cuts[i - 1] };
        merge_part(&output, runs, from, cuts.get(i).map(Vec::as_slice), forget)?;
        share.add(1);
        Ok(())
    })?;
    output.sync()?;
    let removed = runs.iter().flat_map(SortedRun::level_tables).collect();
    let added = at_level(due.level, output.tables());
    inner.commit(&TableChange { removed, added, sequence: None }, || output.keep())
}

fn merge_part(
    output: &Output,
    runs: &[SortedRun],
    from: &[u8],
    to: Option<&[u8]>,
    forget: bool,
) -> Result<()> {
    let mut merged = Merged::new(runs);
    let mut writer = output.writer();
    merged.seek(from)?;
    while let Some(kind) = merged.next_newest()? {
        let key = merged.key();
        if to.is_some_and(|to| key >= to) {
            break;
        }
        match kind {
            Kind::Put => writer.add(key, merged.sequence(), Some(merged.value()?))?,
            Kind::Delete if forget => {}
            Kind::Delete => writer.add(key, merged.sequence(), None)?,
        }
    }
    writer.finish()
}
