use std::sync::Arc;

use apus_disk::{Caching, Result, Share, ShareWatch, lock};
use rayon::prelude::*;

use super::cursor::Merged;
use super::db::Db;
use super::format::{Kind, LEVELS};
use super::inner::{Inner, TableChange};
use super::levels::{DueMerge, bottom_level, newest_runs, pick};
use super::run::{Output, at_level};
use super::version::{SortedRun, Version, split};

/// Newer entries count as few if their bytes are at most this fraction (one in ...) of the last
/// level. Rewriting that level for fewer would cost more than searching one more run in each
/// lookup.
const FEW_BYTES_SHARE: u64 = 8;

/// Approximate number of tables in each part of a merge; threads merge the parts in parallel.
const PART_TABLES: u64 = 3;
/// The least number of bytes in a part of a small merge, which has a part for each thread.
const PART_BYTES_MIN: u64 = 4 << 20;

impl Db {
    /// Merges the newest runs into one if there are too many, and returns whether it did. Readers
    /// and one writer may continue meanwhile.
    ///
    /// It merges all runs of level 0 and, going down, each level that is not larger than everything
    /// above it. So a level is rewritten only once as much new data has been added, an entry is
    /// rewritten about log2(runs written / [`Options::level_0_runs_max`]) times, and a lookup
    /// searches at most [`Options::level_0_runs_max`] + 6 runs.
    ///
    /// [`Options::level_0_runs_max`]: super::Options::level_0_runs_max
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub fn merge(&self) -> Result<bool> {
        self.merge_watched(ShareWatch::default())
    }

    /// Like [`Db::merge`], with progress and early stop. If stopped, it changes nothing and returns
    /// false.
    pub fn merge_watched(&self, watch: ShareWatch) -> Result<bool> {
        let _merging = lock(&self.inner.merging);
        self.inner.check_writable()?;
        let version = self.inner.current();
        match pick(&version, self.inner.options.level_0_runs_max) {
            None => Ok(false),
            Some(due) => merge_runs(&self.inner, &version, due, watch),
        }
    }

    /// Waits until no other thread merges, if level 0 has `runs` runs or more.
    pub fn wait_for_merge(&self, runs: usize) {
        if newest_runs(&self.inner.current()) >= runs {
            drop(lock(&self.inner.merging));
        }
    }

    /// Merges until LevelDB finds nothing to compact when it opens the database: everything into
    /// one level of tables, or, if there are few newer entries compared with one large level, only
    /// these into a level above it. A single run is not written again, but for its place in the
    /// manifest. Returns whether it finished; if stopped, it changes nothing.
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub fn settle(&self, watch: ShareWatch) -> Result<bool> {
        {
            let inner = &self.inner;
            let _merging = lock(&inner.merging);
            inner.check_writable()?;
            let version = inner.current();
            if let [run] = &version.runs[..] {
                return to_bottom(inner, run).map(|()| true);
            }
            if let Some(due) = due_above(&version) {
                return match &version.runs[..due.runs] {
                    [run] if run.level == due.level => Ok(true),
                    _ => merge_runs(inner, &version, due, watch),
                };
            }
        }
        self.merge_all_watched(watch)
    }

    /// Merges everything into one level of tables that do not overlap, without deleted keys, at a
    /// level where LevelDB finds nothing to compact.
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub fn merge_all(&self) -> Result<()> {
        self.merge_all_watched(ShareWatch::default()).map(|_| ())
    }

    /// Like [`Db::merge_all`], with progress and early stop; returns whether it finished.
    fn merge_all_watched(&self, watch: ShareWatch) -> Result<bool> {
        let inner = &self.inner;
        let _merging = lock(&inner.merging);
        inner.check_writable()?;
        let mut version = inner.current();
        if version.runs.len() > 1 || version.runs.iter().any(|run| run.level == 0) {
            let everything = DueMerge { runs: version.runs.len(), level: LEVELS - 1 };
            if !merge_runs(inner, &version, everything, watch)? {
                return Ok(false);
            }
            version = inner.current();
        }
        let Some(run) = version.runs.last() else { return Ok(true) };
        if version.runs.iter().any(|r| r.level > 0 && r.level != run.level) {
            return Ok(true);
        }
        to_bottom(inner, run).map(|()| true)
    }
}

/// Moves the tables of the only run to the level where LevelDB finds nothing to compact.
fn to_bottom(inner: &Inner, run: &SortedRun) -> Result<()> {
    let level = bottom_level(run.bytes());
    if run.level == level {
        return Ok(());
    }
    let added = at_level(level, run.tables.to_vec());
    let removed = run.level_tables().collect();
    inner.commit(&TableChange { removed, added, sequence: None }, || {})
}

/// Returns the merge of all runs above the last one, if it is worth it: they are small compared
/// with the last one, and fit into a level above it where LevelDB finds nothing to compact.
fn due_above(version: &Version) -> Option<DueMerge> {
    let (last, above) = version.runs.split_last()?;
    let bytes: u64 = above.iter().map(SortedRun::bytes).sum();
    let level = bottom_level(bytes);
    let is_settled = last.level == bottom_level(last.bytes());
    let is_few = bytes <= last.bytes() / FEW_BYTES_SHARE && level < last.level;
    (is_settled && is_few).then_some(DueMerge { runs: above.len(), level })
}

/// Merges the newest runs of `version` into one, as `due` says, and returns whether it did; if
/// stopped, it changes nothing.
fn merge_runs(
    inner: &Arc<Inner>,
    version: &Version,
    due: DueMerge,
    watch: ShareWatch,
) -> Result<bool> {
    let (runs, below) = version.runs.split_at(due.runs);
    // Without older runs below, deletions need not be kept.
    let forget = below.is_empty();
    let bytes: u64 = runs.iter().map(SortedRun::bytes).sum();
    let threads = rayon::current_num_threads() as u64;
    let parts = bytes / (PART_TABLES * inner.options.table_bytes_max).max(1) + 1;
    let parts = parts.max(threads.min(bytes / PART_BYTES_MIN));
    let cuts = split(runs, usize::try_from(parts).unwrap_or(usize::MAX))?;
    let output = Output::new(inner, Caching::PageCache);
    let share = Share::new(cuts.len() as u64 + 1, watch.report);
    (0..=cuts.len()).into_par_iter().try_for_each(|i| {
        let from = if i == 0 { &[][..] } else { &cuts[i - 1] };
        let to = cuts.get(i).map(Vec::as_slice);
        merge_part(&output, runs, (from, to), forget, &watch)?;
        if !watch.is_stopped() {
            share.add(1);
        }
        Ok(())
    })?;
    if watch.is_stopped() {
        return Ok(false);
    }
    output.sync()?;
    let removed = runs.iter().flat_map(SortedRun::level_tables).collect();
    let added = at_level(due.level, output.tables());
    inner.commit(&TableChange { removed, added, sequence: None }, || output.keep())?;
    Ok(true)
}

/// Merges the keys in a range of the runs, or only some of them if it is stopped.
fn merge_part(
    output: &Output,
    runs: &[SortedRun],
    (from, to): (&[u8], Option<&[u8]>),
    forget: bool,
    watch: &ShareWatch,
) -> Result<()> {
    let mut merged = Merged::new(runs);
    let mut writer = output.writer();
    merged.seek(from)?;
    while let Some(kind) = merged.next_newest()? {
        let key = merged.key();
        if to.is_some_and(|to| key >= to) || watch.is_stopped() {
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
