use super::format::LEVELS;
use super::version::{SortedRun, Version};

/// Runs of level 0 from which on a merge is due (LevelDB's `kL0_CompactionTrigger` tables).
pub const LEVEL_0_RUNS_MAX: usize = 4;

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

/// A merge of the newest runs into one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DueMerge {
    /// How many of the newest runs are merged.
    pub runs: usize,
    /// The level of the run that they become.
    pub level: usize,
}

/// The merge that is due; `None` if none is.
pub(super) fn pick(version: &Version) -> Option<DueMerge> {
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
    Some(DueMerge { runs: count, level })
}
