//! Room on the disk, checked before the work starts: the least that will be written to each file
//! system must fit.
//!
//! Three things are written: copies of those blocks of the best chain that only the sources hold,
//! undo data for each block that is connected, and tables of coins; a UTXO set that is built next
//! to another takes about as much as that one. Nothing that would fit is refused: an amount that
//! is only likely leads to a warning.

use std::fmt;
use std::path::{Path, PathBuf};

use rustix::fs::{stat, statvfs};

use super::node::Node;
use super::options::AssumeValid;
use super::snapshot_chainstate::DIRECTORY;
use super::waiting::Waiting;
use super::words::size;
use crate::chain::BlockId;
use crate::disk::{Disk, StoreError};
use crate::store::{
    BLOCKFILE_CHUNK_SIZE, MIN_DISK_SPACE_BYTES, STORAGE_HEADER_BYTES, UNDO_DATA_DISK_OVERHEAD,
    UNDOFILE_CHUNK_SIZE,
};

const MIB: u64 = 1 << 20;
/// Bytes of blocks for each byte of their undo data, on mainnet.
const BLOCKS_TO_UNDO: u64 = 8;
/// Bytes of blocks for each byte of tables with the coins that they leave unspent, on mainnet.
const BLOCKS_TO_COINS: u64 = 60;
/// Most tenths of a byte in a join's temporary files for each byte of blocks. 4 to 7 are usual on
/// mainnet; blocks of tiny outputs that nobody spends in the same span of blocks came to 15.
const BLOCKS_TO_SPILL_TENTHS: u64 = 15;
/// The name of a join's temporary files in messages.
const SPILL: &str = "temporary files";

/// The bytes that will be written.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Estimate {
    /// Bytes of blocks, each with its storage header.
    blocks: u64,
    /// The least bytes of undo data.
    undo: u64,
    /// Bytes of undo data if it is as on mainnet.
    undo_likely: u64,
    /// The least bytes of tables.
    coins: u64,
    /// Bytes of tables if they are as large as the present ones, or as on mainnet.
    coins_likely: u64,
}

/// A directory to write in, and the file system that it is on.
struct Volume {
    path: PathBuf,
    device: u64,
    /// Free bytes.
    free: u64,
}

/// One kind of bytes that will be written.
#[derive(Clone, Copy, Debug)]
struct Part {
    bytes: u64,
    name: &'static str,
}

/// The bytes that a file system must have free, and the parts that they are made of.
struct Demand<'a> {
    volume: &'a Volume,
    bytes: u64,
    parts: &'a [Part],
}

/// Checks, once all headers are known, that the least that the work will write fits on the disk;
/// warns the user where the likely amount does not.
///
/// # Errors
/// It does not fit. Nothing was written yet.
pub(super) fn check(node: &Node) -> Result<(), StoreError> {
    let estimate = estimate(node);
    let blocks = Volume::of(node.dir.blocks_path())?;
    let coins = Volume::of(node.chainstate.dir())?;
    let least = [needed(&estimate, allocated(node)), estimate.coins];
    let parts = [
        Part { bytes: estimate.blocks, name: "blocks" },
        Part { bytes: estimate.undo, name: "undo data" },
        Part {
            bytes: estimate.coins,
            name: "coins of the set that is built next to the present one",
        },
    ];
    let is_one_volume = blocks.device == coins.device;
    let demands = match is_one_volume {
        true => {
            let volume = if least[0] > 0 { &blocks } else { &coins };
            vec![Demand { volume, bytes: least[0] + least[1], parts: &parts }]
        }
        false => vec![
            Demand { volume: &blocks, bytes: least[0], parts: &parts[..2] },
            Demand { volume: &coins, bytes: least[1], parts: &parts[2..] },
        ],
    };
    for Demand { volume, bytes, parts } in demands {
        if volume.free < bytes {
            return Err(StoreError::full(&volume.path, too_small(volume.free, bytes, parts)));
        }
    }
    let likely = [estimate.blocks + estimate.undo_likely, estimate.coins_likely];
    let likely = match is_one_volume {
        true => vec![(&blocks, likely[0] + likely[1])],
        false => vec![(&blocks, likely[0]), (&coins, likely[1])],
    };
    for (volume, likely) in likely.into_iter().filter(|(volume, likely)| volume.free < *likely) {
        tracing::warn!(
            "{}: {} MiB are free, and about {} MiB will probably be written; if the disk fills \
             up, the work done until then is kept, and the same command carries on",
            volume.path.display(),
            volume.free / MIB,
            likely.div_ceil(MIB)
        );
    }
    Ok(())
}

/// A file system without the room that a join needs.
#[derive(Debug)]
pub(super) struct Lack {
    /// A directory on it that the join writes to.
    path: PathBuf,
    /// Bytes that must be free on it.
    pub needed: u64,
    free: u64,
    parts: Vec<Part>,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words())?;
        match self.parts.iter().any(|part| part.name == SPILL) {
            true => f.write_str("; --spilldir puts its temporary files on another disk"),
            false => Ok(()),
        }
    }
}

impl Lack {
    /// What is needed, and what there is.
    fn words(&self) -> String {
        let part = |part: &Part| format!("{} of {}", size(part.bytes), part.name);
        let parts: Vec<String> = self.parts.iter().map(part).collect();
        format!(
            "a join may need {} where {} is ({}), and {} are free there",
            size(self.needed),
            self.path.display(),
            parts.join(", "),
            size(self.free)
        )
    }

    /// The error for a join of a proof, which keeps nothing.
    pub fn into_error_of_proof(self) -> StoreError {
        let what = format!(
            "the disk is too small: some blocks have no undo data, and without it {}. Nothing was \
             written: name a directory on a larger disk with TMPDIR, or leave --full out, which \
             takes the blocks as valid",
            self.words()
        );
        StoreError::full(self.path, what)
    }

    /// The error for a join that was asked for.
    pub fn into_error(self) -> StoreError {
        let what = format!(
            "the disk is too small: {self}. Nothing was written: free some space, or sync with \
             --method=order, which makes no temporary files"
        );
        StoreError::full(self.path, what)
    }
}

/// Looks for a file system without the room that a join of these blocks may need: for copies of
/// blocks, for temporary files, of which those of an interrupted join are there already, for undo
/// data, and for tables next to the present ones. `None` if all have it.
///
/// # Errors
/// The system does not say how much is free.
pub(super) fn lack_for_join(node: &Node, joined: &Waiting) -> Result<Option<Lack>, StoreError> {
    let spill = node.options.spill_path();
    let disk = node.dir.disk();
    let names = disk.list(&spill).unwrap_or_default();
    let spilled: u64 = names.iter().filter_map(|name| disk.len(spill.join(name)).ok()).sum();
    let spill_bytes = spill_bytes(joined.bytes);
    let new_tables = joined.bytes / BLOCKS_TO_COINS;
    let tables = match node.tip() == node.tree.genesis() {
        true => new_tables,
        // The merge into one level writes all coins once more.
        false => node.chainstate.disk_bytes() + 2 * new_tables,
    };
    let part = |bytes, name| Part { bytes, name };
    let (blocks, coins) = (Volume::of(node.dir.blocks_path())?, Volume::of(node.chainstate.dir())?);
    Ok(lack(&[
        (Volume::of(&spill)?, vec![part(spill_bytes.saturating_sub(spilled), SPILL)]),
        (
            blocks,
            vec![
                part(joined.copied.saturating_sub(allocated(node)), "blocks"),
                part(joined.without_undo / BLOCKS_TO_UNDO, "undo data"),
            ],
        ),
        (coins, vec![part(tables, "tables")]),
    ]))
}

/// Checks that there is room for the tables of a snapshot of so many bytes as a second UTXO set,
/// and, if the blocks are to prove it, for the tables that they leave. Tables take about as much as
/// the file.
///
/// # Errors
/// There is no room. Nothing was written yet.
pub(super) fn check_for_snapshot(
    node: &Node,
    bytes: u64,
    is_proved: bool,
) -> Result<(), StoreError> {
    let part = |bytes, name| vec![Part { bytes, name }];
    let proved = if is_proved { bytes } else { 0 };
    // They are removed before others are written.
    let left_over = tables_bytes(node.dir.disk(), &node.dir.path().join(DIRECTORY));
    let loaded = bytes.saturating_sub(left_over);
    let demands = [
        (Volume::of(node.dir.path())?, part(loaded, "coins of the snapshot")),
        (Volume::of(node.chainstate.dir())?, part(proved, "coins that the blocks leave")),
    ];
    match lack(&demands) {
        None => Ok(()),
        Some(Lack { path, needed, free, parts }) => {
            Err(StoreError::full(path, too_small(free, needed, &parts)))
        }
    }
}

/// Looks for the room that a join of so many bytes of blocks usually needs which has all its files
/// in `directory`, and neither copies blocks nor writes undo data. `None` if there is enough. The
/// most that it may need is no reason to refuse it, since a disk that fills up costs no more than
/// the time until then, and nothing else proves the same.
///
/// # Errors
/// The system does not say how much is free.
pub(super) fn lack_for_proof(directory: &Path, blocks: u64) -> Result<Option<Lack>, StoreError> {
    let part = |bytes, name| Part { bytes, name };
    let parts =
        vec![part(usual_spill_bytes(blocks), SPILL), part(blocks / BLOCKS_TO_COINS, "tables")];
    Ok(lack(&[(Volume::of(directory)?, parts)]))
}

/// The bytes that the temporary files of a join usually come to, for so many bytes of blocks.
pub(super) fn usual_spill_bytes(blocks: u64) -> u64 {
    blocks / 2
}

/// The bytes that the temporary files of a join may come to, for so many bytes of blocks.
pub(super) fn spill_bytes(blocks: u64) -> u64 {
    (blocks / 10).saturating_mul(BLOCKS_TO_SPILL_TENTHS)
}

/// The first file system that has less room than all its parts need, and the space that Core and
/// Apus leave free.
fn lack(demands: &[(Volume, Vec<Part>)]) -> Option<Lack> {
    demands.iter().find_map(|(volume, _)| {
        let here = demands.iter().filter(|(other, _)| other.device == volume.device);
        let parts = here.flat_map(|(_, parts)| parts).filter(|part| part.bytes > 0).copied();
        let parts: Vec<Part> = parts.collect();
        let needed = parts.iter().fold(MIN_DISK_SPACE_BYTES, |sum, p| sum.saturating_add(p.bytes));
        let Volume { path, free, .. } = volume;
        let is_short = !parts.is_empty() && *free < needed;
        is_short.then(|| Lack { path: path.clone(), needed, free: *free, parts })
    })
}

/// The message about a disk that is too small.
fn too_small(free: u64, needed: u64, parts: &[Part]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .filter(|part| part.bytes > 0)
        .map(|part| format!("{} MiB of {}", part.bytes.div_ceil(MIB), part.name))
        .collect();
    format!(
        "the disk is too small: at least {} MiB are needed here ({}, and the space that must stay \
         free), and {} MiB are free. Nothing was written: free some space, or give a directory on \
         a larger disk",
        needed.div_ceil(MIB),
        parts.join(", "),
        free / MIB
    )
}

impl Volume {
    /// The file system of a directory, or of the nearest directory above it that exists.
    fn of(path: &Path) -> Result<Self, StoreError> {
        let there = path.ancestors().find(|path| path.exists()).unwrap_or(path);
        let fail = |e: rustix::io::Errno| StoreError::io(there, "ask for free space", e.into());
        let (found, system) = (stat(there).map_err(fail)?, statvfs(there).map_err(fail)?);
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        Ok(Self { path: path.to_path_buf(), device: found.st_dev, free })
    }
}

/// The bytes that will be written to reach the best header, or the height to stop at.
fn estimate(node: &Node) -> Estimate {
    let best = node.tree.best_header();
    let top = node.options.stop_at_height.unwrap_or(u32::MAX).min(node.tree.node(best).height);
    let Some(top) = node.tree.ancestor(best, top) else { return Estimate::default() };
    let (mut estimate, mut all) = (Estimate::default(), 0);
    let is_new = |id: &BlockId| !node.ledger.active.contains(&node.tree, *id);
    for id in node.tree.ancestors(top).take_while(|id| *id != node.tree.genesis()) {
        let entry = node.record(id);
        let stored = entry.block_pos().is_some();
        // Those of the active chain that are not stored are pruned.
        let place = node.sources.place(id).filter(|_| !stored && is_new(&id));
        if let Some(place) = place {
            estimate.blocks += u64::from(place.len) + u64::from(STORAGE_HEADER_BYTES);
        }
        // A block that is neither stored nor in a source is not connected, nor are its descendants.
        let is_known = stored || place.is_some();
        let in_order = !node.options.has_claim();
        if is_known && in_order && is_new(&id) && entry.undo_pos().is_none() {
            estimate.undo += u64::from(UNDO_DATA_DISK_OVERHEAD) + 1;
        }
        all += place.map_or(0, |place| u64::from(place.len));
    }
    // A SwiftSync that checks everything deletes at its end.
    let stores_all = node.options.has_claim() && node.options.assumevalid == AssumeValid::Nothing;
    if let Some(target) = node.ledger.pruning.target().filter(|_| !stores_all) {
        estimate.blocks = estimate.blocks.min(target);
        estimate.undo = estimate.undo.min(target);
    }
    estimate.undo_likely = estimate.undo.max(match node.options.has_claim() {
        false => estimate.blocks / BLOCKS_TO_UNDO,
        true => 0,
    });
    estimate.coins_likely = all / BLOCKS_TO_COINS;
    let present = node.dir.chainstate_path();
    if node.chainstate.dir() != present {
        // The new set is one level of tables; the present tables may also hold spent coins.
        let present = tables_bytes(node.dir.disk(), &present);
        let done = node.chainstate.disk_bytes();
        let reaches = node.options.stop_at_height.is_none() && !node.options.allow_shrink;
        estimate.coins = if reaches { (present / 2).saturating_sub(done) } else { 0 };
        estimate.coins_likely = estimate.coins_likely.max(present.saturating_sub(done));
    }
    estimate
}

/// Bytes of all tables in a directory; 0 if the directory cannot be read.
fn tables_bytes(disk: &Disk, directory: &Path) -> u64 {
    let names = disk.list(directory).unwrap_or_default();
    let tables = names.iter().filter(|name| name.ends_with(".ldb") || name.ends_with(".sst"));
    tables.filter_map(|name| disk.len(directory.join(name)).ok()).sum()
}

/// Bytes that are already allocated in the last block file for further blocks.
fn allocated(node: &Node) -> u64 {
    let chunk = u64::from(BLOCKFILE_CHUNK_SIZE);
    let size = node.files.infos().last().map_or(0, |info| u64::from(info.size));
    size.next_multiple_of(chunk) - size
}

/// The bytes that must be free for blocks and undo data: those for which no room is allocated yet
/// (blocks beyond `allocated`, undo data beyond one chunk), and those that Core and Apus leave free
/// whenever they allocate more.
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
    fn only_bytes_beyond_the_allocated_room_must_be_free() {
        let estimate = Estimate { blocks: 20 * MIB, undo: 2 * MIB, ..Estimate::default() };
        assert_eq!(needed(&estimate, 0), 71 * MIB);
        assert_eq!(needed(&estimate, 16 * MIB), 55 * MIB);
        assert_eq!(needed(&estimate, 20 * MIB), 0);
        assert_eq!(needed(&Estimate::default(), 0), 0);
    }

    #[test]
    fn a_join_needs_room_on_each_file_system_that_it_writes_to() {
        const GB: u64 = 1_000_000_000;
        let volume = |path: &str, device, free| Volume { path: path.into(), device, free };
        let part = |gigabytes, name| Part { bytes: gigabytes * GB, name };
        let demands = |spill: Volume, blocks: Volume, coins: Volume| {
            [
                (spill, vec![part(100, SPILL)]),
                (blocks, vec![part(0, "blocks"), part(10, "undo data")]),
                (coins, vec![part(5, "tables")]),
            ]
        };
        let reserve = MIN_DISK_SPACE_BYTES;
        let enough = |gigabytes| gigabytes * GB + reserve;
        let (s, b, c) = ("/s", "/b", "/c");
        // One file system for all, two, and three; each with just enough and with a byte less.
        for (devices, free, short) in [
            ([1, 1, 1], [enough(115); 3], [s, s, s]),
            ([1, 2, 2], [enough(100), enough(15), enough(15)], [s, b, b]),
            ([1, 2, 3], [enough(100), enough(10), enough(5)], [s, b, c]),
        ] {
            let at = |free: [u64; 3]| {
                let [x, y, z] = devices;
                lack(&demands(volume(s, x, free[0]), volume(b, y, free[1]), volume(c, z, free[2])))
            };
            assert!(at(free).is_none(), "{devices:?}");
            for (number, path) in short.into_iter().enumerate() {
                let same = |other: usize| u64::from(devices[other] == devices[number]);
                let less = [free[0] - same(0), free[1] - same(1), free[2] - same(2)];
                assert_eq!(at(less).expect("too little").path, PathBuf::from(path), "{devices:?}");
            }
        }
        // Nothing is asked of a file system that nothing is written to.
        assert!(lack(&[(volume(s, 1, 0), vec![part(0, "blocks")])]).is_none());
        let full = volume(s, 1, 60 * GB);
        let lack = lack(&[(full, vec![part(100, SPILL), part(0, "blocks")])]).unwrap();
        assert_eq!(
            lack.to_string(),
            "a join may need 100 GB where /s is (100 GB of temporary files), and 60 GB are free \
             there; --spilldir puts its temporary files on another disk"
        );
        let error = lack.into_error();
        assert!(error.to_string().contains("--method=order"), "{error}");
        let lack = super::lack(&[(volume(c, 1, 0), vec![part(1, "tables")])]).unwrap();
        assert!(!lack.to_string().contains("--spilldir"), "{lack}");
        assert_eq!(error.source.map(|e| e.kind()), Some(std::io::ErrorKind::StorageFull));
    }

    #[test]
    fn a_disk_that_is_too_small_is_described() {
        let blocks = Part { bytes: 30 * MIB, name: "blocks" };
        let parts = [blocks, Part { bytes: 0, name: "coins" }];
        let text = too_small(70 * MIB, 100 * MIB + 1, &parts);
        assert!(text.contains("at least 101 MiB") && text.contains("30 MiB of blocks"), "{text}");
        assert!(text.contains("70 MiB are free") && !text.contains("coins"), "{text}");
    }
}
