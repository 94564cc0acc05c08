//! Which block files may be pruned: Core's `FindFilesToPrune` and `FindFilesToPruneManual`. A file
//! is pruned as a whole, once its highest block may be.

use super::{BLOCKFILE_CHUNK_SIZE, FileInfo, UNDOFILE_CHUNK_SIZE};

/// The number of blocks below the tip that are never pruned (Core's `MIN_BLOCKS_TO_KEEP`).
pub const MIN_BLOCKS_TO_KEEP: u32 = 288;
/// The smallest prune target in bytes (Core's `MIN_DISK_SPACE_FOR_BLOCK_FILES`).
pub const PRUNE_TARGET_MIN: u64 = 550 << 20;

/// Files are pruned this many bytes before the target is reached, since they grow by these chunks.
const SPARE_BYTES: u64 = (BLOCKFILE_CHUNK_SIZE + UNDOFILE_CHUNK_SIZE) as u64;
/// The size in bytes that Core assumes for each block yet to be downloaded.
const BLOCK_BYTES: u64 = 1_000_000;
/// The number of blocks that must be kept up to the best block of one of Core's indexes (Core's
/// `PRUNE_LOCK_BUFFER`, and the block itself).
const LOCK_BLOCKS: u32 = 11;

/// Returns the height up to which blocks may be pruned with the tip at height `tip`; `None` if no
/// block may be. The tip must be above the height `after` (Core's `PruneAfterHeight`); `lock` is
/// the height of the lowest best block of the indexes that need blocks.
pub fn prunable_height(tip: u32, after: u32, lock: Option<u32>) -> Option<u32> {
    if tip <= after {
        return None;
    }
    let kept = tip.saturating_sub(MIN_BLOCKS_TO_KEEP);
    let locked = lock.map_or(u32::MAX, |height| height.saturating_sub(LOCK_BLOCKS).max(1));
    Some(kept.min(locked)).filter(|height| *height > 0)
}

/// Returns the number of bytes used in blk and rev files.
pub fn usage(infos: &[FileInfo]) -> u64 {
    infos.iter().map(bytes).sum()
}

/// Returns the files to prune, the lowest numbers first, so that block files use no more than
/// `target` bytes. If `remaining` blocks are still to be downloaded, more files are pruned to make
/// space for them, so that pruning is rarely needed. The last of `infos` is never pruned.
pub fn files_above_target(
    infos: &[FileInfo],
    target: u64,
    prunable: u32,
    remaining: u32,
) -> Vec<u32> {
    let mut used = usage(infos);
    if used + SPARE_BYTES < target {
        return Vec::new();
    }
    let spare = SPARE_BYTES + BLOCK_BYTES * u64::from(remaining);
    let mut files = Vec::new();
    for number in files_up_to(infos, prunable) {
        if used + spare < target {
            break;
        }
        used -= bytes(&infos[number as usize]);
        files.push(number);
    }
    files
}

/// Returns the lowest height whose block is stored if all blocks up to `tip` arrive in any order,
/// and blocks that would be pruned again are not stored at all. `prunable` is the result of
/// [`prunable_height`], and `sizes` are the bytes of the blocks from the tip down to height 1.
pub fn stored_from(
    tip: u32,
    target: u64,
    prunable: u32,
    sizes: impl IntoIterator<Item = u64>,
) -> u32 {
    let mut room = target.saturating_sub(SPARE_BYTES);
    let mut fits = |bytes: u64| {
        let left = room.checked_sub(bytes);
        room = left.unwrap_or(0);
        left.is_some()
    };
    let fitting = sizes.into_iter().take_while(|bytes| fits(*bytes)).count() as u32;
    (tip + 1 - fitting).min(prunable + 1)
}

/// Returns all files whose blocks are at `height` or below, except the last of `infos` and a file
/// that holds only the genesis block: deleting that one frees no space, and bitcoind would consider
/// the directory pruned.
pub fn files_up_to(infos: &[FileInfo], height: u32) -> Vec<u32> {
    let old = infos.split_last().map_or(&[][..], |(_, old)| old);
    let may_go = |info: &FileInfo| info.size > 0 && (1..=height).contains(&info.height_last);
    (0..).zip(old).filter(|(_, info)| may_go(info)).map(|(number, _)| number).collect()
}

fn bytes(info: &FileInfo) -> u64 {
    u64::from(info.size) + u64::from(info.undo_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u32 = 1 << 20;

    const NONE: [u32; 0] = [];

    fn info(size: u32, height_last: u32) -> FileInfo {
        FileInfo { blocks: 1, size, undo_size: size / 8, height_last, ..FileInfo::default() }
    }

    #[test]
    fn the_last_blocks_and_those_of_indexes_stay() {
        for (tip, after, lock, expected) in [
            (1000, 1000, None, None),
            (1001, 1000, None, Some(713)),
            (289, 100, None, Some(1)),
            (288, 100, None, None),
            (5000, 1000, Some(4900), Some(4712)),
            (5000, 1000, Some(4723), Some(4712)),
            (5000, 1000, Some(4722), Some(4711)),
            // Core keeps no block below height 1 for an index that has not begun.
            (5000, 1000, Some(0), Some(1)),
        ] {
            assert_eq!(prunable_height(tip, after, lock), expected, "{tip} {after} {lock:?}");
        }
    }

    #[test]
    fn as_many_blocks_are_stored_as_fit_and_all_that_must_stay() {
        for (room, prunable, expected) in [
            (0, 712, 713),
            (288, 712, 713),
            (289, 712, 712),
            // Blocks of 1 byte from height 501 on, and of 10 bytes below.
            (300, 712, 701),
            (500, 712, 501),
            (509, 712, 501),
            (510, 712, 500),
            (5499, 712, 2),
            (5500, 712, 1),
            (u64::MAX - SPARE_BYTES, 712, 1),
            (500, 20, 21),
        ] {
            let sizes = (1..=1000).rev().map(|height| if height > 500 { 1 } else { 10 });
            let found = stored_from(1000, room + SPARE_BYTES, prunable, sizes);
            assert_eq!(found, expected, "{room} {prunable}");
        }
        assert_eq!(stored_from(1000, 0, 712, [1; 1000]), 713);
    }

    #[test]
    fn files_go_by_their_highest_block_and_never_the_last() {
        let infos = [info(8, 100), info(8, 300), FileInfo::default(), info(8, 200), info(8, 1)];
        assert_eq!(files_up_to(&infos, 99), NONE);
        assert_eq!(files_up_to(&infos, 100), [0]);
        assert_eq!(files_up_to(&infos, 200), [0, 3]);
        assert_eq!(files_up_to(&infos, 1000), [0, 1, 3]);
        let genesis = [info(8, 0), info(8, 1), info(8, 300)];
        assert_eq!([files_up_to(&genesis, 0), files_up_to(&genesis, 9)], [vec![], vec![1]]);
        assert_eq!(files_up_to(&[], 1000), NONE);
        assert_eq!(files_up_to(&infos[..1], 1000), NONE);
    }

    #[test]
    fn as_few_go_as_are_too_many() {
        // 144 MiB each, with their undo data.
        let infos: Vec<FileInfo> = (0..6).map(|n| info(128 * MIB, 100 * n + 1)).collect();
        let all = u64::from(144 * MIB) * 6;
        assert_eq!(usage(&infos), all);
        let target = all + SPARE_BYTES;
        assert_eq!(files_above_target(&infos, target + 1, 1000, 0), NONE);
        assert_eq!(files_above_target(&infos, target, 1000, 0), [0]);
        assert_eq!(files_above_target(&infos, target - u64::from(144 * MIB), 1000, 0), [0, 1]);
        assert_eq!(files_above_target(&infos, PRUNE_TARGET_MIN, 1000, 0), [0, 1, 2]);
        assert_eq!(files_above_target(&infos, PRUNE_TARGET_MIN, 101, 0), [0, 1]);
        // With many blocks still to be downloaded.
        assert_eq!(files_above_target(&infos, target, 1000, 200), [0, 1]);
        assert_eq!(files_above_target(&infos, target, 1000, 100_000), [0, 1, 2, 3, 4]);
        assert_eq!(files_above_target(&infos, target + 1, 1000, 100_000), NONE);
    }
}
