//! When runs are merged, and at which level the merged run is placed.

use super::format::LEVELS;
use super::version::{SortedRun, Version};

/// Number of runs in level 0 at which a merge is due (LevelDB's `kL0_CompactionTrigger`, which
/// counts tables).
pub const LEVEL_0_RUNS_MAX: usize = 4;

/// Returns the level for a database that has one level of this many bytes.
///
/// LevelDB compacts a level whose tables exceed a limit: 10 MiB for level 1, and ten times as much
/// for each deeper level (`MaxBytesForLevel`); the last level has no limit (`VersionSet::Finalize`
/// gives it no score). So the data goes to the first level that holds it with a tenth to spare,
/// where LevelDB finds nothing to do when it opens the database. In the last level it would find
/// nothing to do either, but up to 11 GB of newer entries could gather above before anything is
/// merged into it. If the level outgrows its limit later, all levels below it are empty, and
/// LevelDB moves tables down with a manifest record for each, without rewriting them
/// (`IsTrivialMove`).
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
    /// Number of newest runs to merge.
    pub runs: usize,
    /// The level of the merged run.
    pub level: usize,
}

/// Returns the number of runs in level 0.
pub(super) fn newest_runs(version: &Version) -> usize {
    version.runs.iter().take_while(|run| run.level == 0).count()
}

/// Returns the merge that is due once there are `runs_max` runs in level 0; `None` if none is.
pub(super) fn pick(version: &Version, runs_max: usize) -> Option<DueMerge> {
    let runs = &version.runs;
    let mut count = newest_runs(version);
    if count < runs_max {
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
