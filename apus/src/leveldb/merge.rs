use std::sync::{Arc, PoisonError};

use rayon::prelude::*;

use super::cursor::Merged;
use super::db::{Db, Inner};
use super::format::{Kind, LEVELS, Result, user_key};
use super::run::Output;
use super::table::{Table, TableCursor};
use super::version::{SortedRun, Version};
use crate::disk::{OnShare, Share};

/// Runs of level 0 from which on a merge is due (LevelDB's `kL0_CompactionTrigger` tables).
pub const LEVEL_0_RUNS_MAX: usize = 4;
/// A merge is cut into parts of about this many tables, for threads to work on.
const PART_TABLES: u64 = 3;

impl Db {
    /// Whether [`Db::merge`] has something to do.
    pub fn merge_pending(&self) -> bool {
        pick(&self.inner.current()).is_some()
    }

    /// Merges some runs, if there are too many; whether it did. Readers and one writer carry on.
    ///
    /// Merged are all runs of level 0 and, going down, each level that is not larger than what is
    /// above it. So a level is rewritten only when as much again has come, an entry is rewritten
    /// about log2(runs written / 4) times, and a lookup meets at most 4 + 6 runs.
    pub fn merge(&self) -> Result<bool> {
        let _merging = self.inner.merging.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.check_writable()?;
        let version = self.inner.current();
        match pick(&version) {
            None => Ok(false),
            Some((count, level)) => {
                merge_runs(&self.inner, &version, count, level, &|_| {}).map(|_| true)
            }
        }
    }

    /// Merges everything into one level of tables that do not overlap, without deleted keys, at
    /// the level where LevelDB lets it rest.
    pub fn merge_all(&self) -> Result<()> {
        self.merge_all_reporting(&|_| {})
    }

    /// [`Db::merge_all`], which reports the share done.
    pub fn merge_all_reporting(&self, report: OnShare) -> Result<()> {
        let inner = &self.inner;
        let _merging = inner.merging.lock().unwrap_or_else(PoisonError::into_inner);
        inner.check_writable()?;
        let mut version = inner.current();
        if version.runs.len() > 1 || version.runs.iter().any(|run| run.level == 0) {
            merge_runs(inner, &version, version.runs.len(), LEVELS - 1, report)?;
            version = inner.current();
        }
        let Some(run) = version.runs.last() else { return Ok(()) };
        let level = bottom_level(run.bytes());
        if run.level == level || version.runs.iter().any(|r| r.level > 0 && r.level != run.level) {
            return Ok(());
        }
        let moved = |level: usize| run.tables.iter().map(|t| (level, t.clone())).collect();
        let out: Vec<_> = moved(run.level);
        inner.commit(&out, moved(level), None, || {})
    }
}

/// The level where a database of one level and this many bytes belongs.
///
/// LevelDB compacts a level whose tables exceed its limit: 10 MiB for level 1, ten times as much
/// for each one below (`MaxBytesForLevel`), nothing for the last (`VersionSet::Finalize` gives it
/// no score). So the data goes to the first level that holds it with a tenth to spare: LevelDB
/// finds nothing to do when it opens the database. The last level would be as quiet, but then up
/// to 11 GB of newer entries could gather above before anything is merged into it. When the level
/// outgrows its limit later, nothing lies below, and LevelDB moves tables down by a manifest
/// record each, without rewriting them (`IsTrivialMove`).
pub(super) fn bottom_level(bytes: u64) -> usize {
    let mut limit = 10u64 << 20;
    for level in 1..LEVELS - 1 {
        if bytes <= limit / 10 * 9 {
            return level;
        }
        limit *= 10;
    }
    LEVELS - 1
}

/// How many of the newest runs to merge, and to which level; `None` if nothing is due.
fn pick(version: &Version) -> Option<(usize, usize)> {
    let runs = &version.runs;
    let mut count = runs.iter().take_while(|run| run.level == 0).count();
    if count < LEVEL_0_RUNS_MAX {
        return None;
    }
    let mut bytes: u64 = runs[..count].iter().map(SortedRun::bytes).sum();
    while let Some(run) = runs.get(count) {
        let room_above = run.level > 1;
        if room_above && run.bytes() > bytes {
            break;
        }
        bytes += run.bytes();
        count += 1;
    }
    let level = runs.get(count).map_or(LEVELS - 1, |run| run.level - 1);
    Some((count, level))
}

/// Merges the `count` newest runs of `version` into one at `level`.
fn merge_runs(
    inner: &Arc<Inner>,
    version: &Version,
    count: usize,
    level: usize,
    report: OnShare,
) -> Result<()> {
    let (runs, below) = version.runs.split_at(count);
    // Nothing older lies below: what is deleted need not be remembered.
    let forget = below.is_empty();
    let bytes: u64 = runs.iter().map(SortedRun::bytes).sum();
    let parts = bytes / (PART_TABLES * inner.options.table_bytes_max).max(1) + 1;
    let cuts = split(runs, usize::try_from(parts).unwrap_or(usize::MAX))?;
    let output = Output::new(inner, false);
    let share = Share::new(cuts.len() as u64 + 1, report);
    (0..=cuts.len()).into_par_iter().try_for_each(|i| {
        let from = if i == 0 { &[][..] } else { &cuts[i - 1] };
        merge_part(&output, runs, from, cuts.get(i).map(Vec::as_slice), forget)?;
        share.add(1);
        Ok(())
    })?;
    let tables_of = |run: &SortedRun| {
        let level = run.level;
        run.tables.iter().map(|t| (level, t.clone())).collect::<Vec<_>>()
    };
    let out: Vec<_> = runs.iter().flat_map(tables_of).collect();
    let new = output.tables()?.into_iter().map(|table| (level, table)).collect();
    inner.commit(&out, new, None, || output.keep())
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

/// At most `parts - 1` ascending user keys that cut `runs` into parts of about equal size.
pub(super) fn split(runs: &[SortedRun], parts: usize) -> Result<Vec<Vec<u8>>> {
    if parts < 2 {
        return Ok(Vec::new());
    }
    let tables: Vec<&Arc<Table>> = runs.iter().flat_map(|run| run.tables.iter()).collect();
    let mut keys: Vec<(Vec<u8>, u64)> = Vec::new();
    if tables.len() >= 8 * parts {
        keys.extend(tables.iter().map(|table| (table.last().to_vec(), table.bytes)));
    } else {
        for table in &tables {
            let mut cursor = TableCursor::default();
            let mut found = cursor.seek_first(table)?;
            while found {
                keys.push((user_key(cursor.index_key()).to_vec(), 1));
                found = cursor.advance_block(table)?;
            }
        }
    }
    keys.sort_unstable();
    let total: u64 = keys.iter().map(|(_, weight)| weight).sum();
    let (mut seen, mut cuts) = (0, Vec::new());
    for (key, weight) in keys {
        seen += weight;
        let due = seen as u128 * parts as u128 / u128::from(total.max(1));
        if due > cuts.len() as u128 && cuts.len() + 1 < parts && cuts.last() != Some(&key) {
            cuts.push(key);
        }
    }
    Ok(cuts)
}
