//! Room on the disk, before the work starts: what will be written at least, for each file system.
//!
//! The blocks of the best chain of headers that only the sources hold are copied; each gets undo
//! data; a set that is built next to another one takes about as much as that. Nothing that would
//! fit is refused: what is only likely becomes a warning.

use std::path::{Path, PathBuf};

use rustix::fs::{stat, statvfs};

use super::node::Node;
use crate::chain::BlockId;
use crate::disk::{Disk, StoreError};
use crate::store::{
    BLOCKFILE_CHUNK_SIZE, MIN_DISK_SPACE_BYTES, STORAGE_HEADER_BYTES, UNDO_DATA_DISK_OVERHEAD,
    UNDOFILE_CHUNK_SIZE,
};

const MIB: u64 = 1 << 20;
/// Undo data takes an eighth of its blocks on mainnet, and coins a sixtieth of all blocks.
const UNDO_LIKELY: u64 = 8;
const COINS_LIKELY: u64 = 60;

/// What will be written.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Estimate {
    /// Bytes of blocks with what stands before each.
    blocks: u64,
    /// Bytes of undo data at least.
    undo: u64,
    /// Bytes of undo data if it is as on mainnet.
    undo_likely: u64,
    /// Bytes of tables at least.
    coins: u64,
    /// Bytes of tables if they are what they were, or as on mainnet.
    coins_likely: u64,
}

/// A directory to write in, and what there is of room.
struct Place {
    path: PathBuf,
    device: u64,
    free: u64,
}

/// Checks that what the work will write at least fits on the disk, once all headers are known.
///
/// # Errors
/// It does not fit. Nothing was written yet.
pub(super) fn check(node: &Node) -> Result<(), StoreError> {
    let estimate = estimate(node);
    let blocks = Place::of(node.dir.blocks_path())?;
    let coins = Place::of(node.chainstate.dir())?;
    let least = [needed(&estimate, allocated(node)), estimate.coins];
    let parts = [
        (estimate.blocks, "blocks"),
        (estimate.undo, "undo data"),
        (estimate.coins, "coins of the set that is built next to the present one"),
    ];
    // What goes to the one file system, and what goes to the other.
    let both = blocks.device == coins.device;
    let wishes = match both {
        true => {
            let place = if least[0] > 0 { &blocks } else { &coins };
            vec![(place, least[0] + least[1], &parts[..])]
        }
        false => vec![(&blocks, least[0], &parts[..2]), (&coins, least[1], &parts[2..])],
    };
    for (place, needed, parts) in wishes {
        if place.free < needed {
            return Err(StoreError::full(&place.path, too_small(place.free, needed, parts)));
        }
    }
    let likely = [estimate.blocks + estimate.undo_likely, estimate.coins_likely];
    let likely = match both {
        true => vec![(&blocks, likely[0] + likely[1])],
        false => vec![(&blocks, likely[0]), (&coins, likely[1])],
    };
    for (place, likely) in likely.into_iter().filter(|(place, likely)| place.free < *likely) {
        tracing::warn!(
            "{}: {} MiB are free, and what is to be written probably takes about {} MiB; what is \
             done before the disk is full is kept, and the same command carries on",
            place.path.display(),
            place.free / MIB,
            likely.div_ceil(MIB)
        );
    }
    Ok(())
}

fn too_small(free: u64, needed: u64, parts: &[(u64, &str)]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(bytes, what)| format!("{} MiB of {what}", bytes.div_ceil(MIB)))
        .collect();
    format!(
        "the disk is too small: at least {} MiB are needed here ({}, and what must stay free), and \
         {} MiB are free. Nothing was written: free some space, or give a directory on a larger \
         disk",
        needed.div_ceil(MIB),
        parts.join(", "),
        free / MIB
    )
}

impl Place {
    /// The file system of a directory, or of the nearest one above it that is there.
    fn of(path: &Path) -> Result<Self, StoreError> {
        let there = path.ancestors().find(|path| path.exists()).unwrap_or(path);
        let fail = |e: rustix::io::Errno| StoreError::io(there, "ask for free space", e.into());
        let (found, system) = (stat(there).map_err(fail)?, statvfs(there).map_err(fail)?);
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        Ok(Self { path: path.to_path_buf(), device: found.st_dev, free })
    }
}

/// What is to be written to reach the best header, or the height to stop at.
fn estimate(node: &Node) -> Estimate {
    let best = node.tree.best_header();
    let top = node.options.stop_at_height.unwrap_or(u32::MAX).min(node.tree.node(best).height);
    let Some(top) = node.tree.ancestor(best, top) else { return Estimate::default() };
    let (mut estimate, mut all) = (Estimate::default(), 0);
    let is_new = |id: &BlockId| !node.ledger.active.contains(&node.tree, *id);
    for id in node.tree.ancestors(top).take_while(|id| *id != node.tree.genesis()) {
        let entry = node.entry(id);
        let stored = entry.block_pos().is_some();
        let place = node.sources.place(id).filter(|_| !stored);
        if let Some(place) = place {
            estimate.blocks += u64::from(place.len) + u64::from(STORAGE_HEADER_BYTES);
        }
        // A block that is nowhere is not connected, nor is what builds on it.
        let is_known = stored || place.is_some();
        let in_order = node.options.hints.is_none();
        if is_known && in_order && is_new(&id) && entry.undo_pos().is_none() {
            estimate.undo += u64::from(UNDO_DATA_DISK_OVERHEAD) + 1;
        }
        all += place.map_or(0, |place| u64::from(place.len));
    }
    estimate.undo_likely = estimate.undo.max(match node.options.hints {
        None => estimate.blocks / UNDO_LIKELY,
        Some(_) => 0,
    });
    estimate.coins_likely = all / COINS_LIKELY;
    let present = node.dir.chainstate_path();
    if node.chainstate.dir() != present {
        // The same coins as one level of tables: those of LevelDB may hold some that are spent.
        let present = tables_bytes(node.dir.disk(), &present);
        let done = node.chainstate.disk_bytes();
        let reaches = node.options.stop_at_height.is_none() && !node.options.allow_shrink;
        estimate.coins = if reaches { (present / 2).saturating_sub(done) } else { 0 };
        estimate.coins_likely = estimate.coins_likely.max(present.saturating_sub(done));
    }
    estimate
}

/// Bytes of the tables in a directory; 0 where it cannot be read.
fn tables_bytes(disk: &Disk, directory: &Path) -> u64 {
    let names = disk.list(directory).unwrap_or_default();
    let tables = names.iter().filter(|name| name.ends_with(".ldb") || name.ends_with(".sst"));
    tables.filter_map(|name| disk.len(directory.join(name)).ok()).sum()
}

/// Bytes that the last block file has reserved for blocks to come.
fn allocated(node: &Node) -> u64 {
    let chunk = u64::from(BLOCKFILE_CHUNK_SIZE);
    let size = node.files.infos().last().map_or(0, |info| u64::from(info.size));
    size.next_multiple_of(chunk) - size
}

/// What must be free for blocks and undo data: what goes beyond the room that is `allocated`
/// already (of undo data up to one chunk), and what Core and Apus leave free whenever they
/// allocate more.
fn needed(estimate: &Estimate, allocated: u64) -> u64 {
    match estimate.blocks.checked_sub(allocated) {
        Some(more) if more > 0 => {
            let undo = estimate.undo.saturating_sub(u64::from(UNDOFILE_CHUNK_SIZE));
            more + undo + MIN_DISK_SPACE_BYTES
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_beyond_the_room_allocated_is_needed() {
        let estimate = Estimate { blocks: 20 * MIB, undo: 2 * MIB, ..Estimate::default() };
        assert_eq!(needed(&estimate, 0), 71 * MIB);
        assert_eq!(needed(&estimate, 16 * MIB), 55 * MIB);
        assert_eq!(needed(&estimate, 20 * MIB), 0);
        assert_eq!(needed(&Estimate::default(), 0), 0);
    }

    #[test]
    fn a_disk_that_is_too_small_is_described() {
        let text = too_small(70 * MIB, 100 * MIB + 1, &[(30 * MIB, "blocks"), (0, "coins")]);
        assert!(text.contains("at least 101 MiB") && text.contains("30 MiB of blocks"), "{text}");
        assert!(text.contains("70 MiB are free") && !text.contains("coins"), "{text}");
    }
}
