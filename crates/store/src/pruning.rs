//! Which block files may be deleted: Core's `FindFilesToPrune` and `FindFilesToPruneManual`. Whole
//! files go, by their highest block.

use super::{BLOCKFILE_CHUNK_SIZE, FileInfo, UNDOFILE_CHUNK_SIZE};

/// The number of blocks below the tip whose files always stay (Core's `MIN_BLOCKS_TO_KEEP`).
pub const MIN_BLOCKS_TO_KEEP: u32 = 288;
/// The fewest bytes that block files may be bounded by (Core's `MIN_DISK_SPACE_FOR_BLOCK_FILES`).
pub const PRUNE_TARGET_MIN: u64 = 550 << 20;

/// Bytes below the target at which files are deleted, since files grow by these chunks.
const SPARE_BYTES: u64 = (BLOCKFILE_CHUNK_SIZE + UNDOFILE_CHUNK_SIZE) as u64;
/// The size that Core reckons with for each block that is to come.
const BLOCK_BYTES: u64 = 1_000_000;
/// Blocks below the best block of an index of Core's at which files may go (Core's
/// `PRUNE_LOCK_BUFFER`, and the block itself).
const LOCK_BLOCKS: u32 = 11;

/// The height up to which blocks may be deleted where the tip is at `tip`; `None` for none.
/// `after` is the height that the tip must be above (Core's `PruneAfterHeight`), and `lock` that of
/// the lowest best block of the indexes that need blocks.
pub fn prunable_height(tip: u32, after: u32, lock: Option<u32>) -> Option<u32> {
    if tip <= after {
        return None;
    }
    let kept = tip.saturating_sub(MIN_BLOCKS_TO_KEEP);
    let locked = lock.map_or(u32::MAX, |height| height.saturating_sub(LOCK_BLOCKS).max(1));
    Some(kept.min(locked)).filter(|height| *height > 0)
}

/// Bytes that block and undo files have in use.
pub fn usage(infos: &[FileInfo]) -> u64 {
    infos.iter().map(bytes).sum()
}

/// The files that are to go, the lowest numbers first, so that block files have no more than
/// `target` bytes in use. All that may go does while `remaining` blocks are still to come that need
/// the room, so that the next time is far away. The last of `infos` is never among them.
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

/// The lowest height whose block is stored, where all blocks up to `tip` come in any order, and
/// those that would be deleted again are not stored at all. `prunable` is that of
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

/// All files whose blocks are at `height` or below, but for the last of `infos` and one that holds
/// genesis alone: to delete that one frees no room, and bitcoind would take the directory for a
/// pruned one.
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
            // Core keeps nothing below height 1 for an index that has not begun.
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
            // Blocks of 1 byte from height 501 on, and of 10 below.
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
        // 144 MiB each with their undo data.
        let infos: Vec<FileInfo> = (0..6).map(|n| info(128 * MIB, 100 * n + 1)).collect();
        let all = u64::from(144 * MIB) * 6;
        assert_eq!(usage(&infos), all);
        let target = all + SPARE_BYTES;
        assert_eq!(files_above_target(&infos, target + 1, 1000, 0), NONE);
        assert_eq!(files_above_target(&infos, target, 1000, 0), [0]);
        assert_eq!(files_above_target(&infos, target - u64::from(144 * MIB), 1000, 0), [0, 1]);
        assert_eq!(files_above_target(&infos, PRUNE_TARGET_MIN, 1000, 0), [0, 1, 2]);
        assert_eq!(files_above_target(&infos, PRUNE_TARGET_MIN, 101, 0), [0, 1]);
        // Many are still to come.
        assert_eq!(files_above_target(&infos, target, 1000, 200), [0, 1]);
        assert_eq!(files_above_target(&infos, target, 1000, 100_000), [0, 1, 2, 3, 4]);
        assert_eq!(files_above_target(&infos, target + 1, 1000, 100_000), NONE);
    }
}
