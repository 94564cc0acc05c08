//! Disk space, checked before the work starts: the least that will be written to each file system
//! must fit.
//!
//! Three things are written: copies of those blocks of the best chain that only sources or peers
//! have, undo data for each block that is connected, and tables of coins. A UTXO set that is built
//! next to another takes about as much space as that one. How much undo data and how many coins
//! there will be is estimated from some of the blocks ([`Growth`]). Work that could fit is not
//! refused: if only the likely amount does not fit, the user is warned.

use std::fmt;
use std::path::{Path, PathBuf};

use apus_coins::Chainstate;
use apus_disk::{Disk, FileSystem, StoreError};
pub use apus_store::MIN_DISK_SPACE_BYTES;
use apus_store::{BLOCKFILE_CHUNK_SIZE, BlockFiles, DataDir, IndexKind, UNDOFILE_CHUNK_SIZE};

use super::growth::{Bytes, Growth};
use super::opened::Node;
use super::snapshot_chainstate::DIRECTORY;
use super::waiting::Waiting;
use apus_progress::words::size;

const MIB: u64 = 1 << 20;
/// Usual size of a join's temporary files, in tenths of a byte per byte of blocks, and the maximum.
/// Mainnet takes 2.4 to 2.7 by arithmetic (docs/budget.md), generated blocks of its shape took 2.5
/// with the default cache and 5 with 16 MiB, and blocks of tiny outputs that are not spent in the
/// same span 15.
const USUAL_SPILL_TENTHS: u64 = 3;
const BLOCKS_TO_SPILL_TENTHS: u64 = 15;
/// The share (one in ...) by which blocks that peers have may be smaller than expected.
const PEERS_SHARE: u64 = 5;
/// New tables are merged without the present ones if they have at most this share (one in ...) of
/// their bytes.
const MERGED_ALONE_SHARE: u64 = 8;
/// Bytes in the tables of indexes for a transaction, a spend, and a block.
const TX_ENTRY_BYTES: f64 = 51.0;
const SPEND_ENTRY_BYTES: f64 = 26.0;
const HEIGHT_ENTRY_BYTES: f64 = 260.0;
/// Bytes of a script in a filter: 21 bits.
const FILTER_BYTES: f64 = 2.7;
/// The usual number of outputs of a transaction.
const OUTPUTS_PER_TX: f64 = 2.6;
/// The name of a join's temporary files in messages.
const SPILL: &str = "temporary files";

/// The bytes that will be written.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Estimate {
    /// Blocks, each with its storage header.
    blocks: Bytes,
    undo: Bytes,
    /// Tables of coins, and the space needed while they are merged.
    coins: Bytes,
    /// Core's indexes that the options name.
    indexes: Bytes,
}

/// A directory to write to, and the file system that it is on.
struct Volume {
    path: PathBuf,
    device: u64,
    /// Free space in bytes.
    free: u64,
}

/// One kind of bytes that will be written.
#[derive(Clone, Copy, Debug)]
struct Part {
    bytes: u64,
    name: &'static str,
}

/// The bytes that must be free on a file system, those that will probably be needed, and the parts
/// that the former consist of.
struct Demand<'a> {
    volume: &'a Volume,
    needed: u64,
    likely: u64,
    parts: &'a [Part],
}

/// Checks, once all headers are known, that the least that a sync will write, in order or not, fits
/// on the disk; warns the user if the likely amount does not.
///
/// # Errors
/// It does not fit. Nothing was written yet.
pub fn check(node: &Node, in_order: bool) -> Result<(), StoreError> {
    let Estimate { blocks, undo, coins, indexes } = estimate(node, in_order);
    let volumes = (Volume::of(node.dir().blocks_path())?, Volume::of(node.chainstate().dir())?);
    let parts = [
        Part { bytes: blocks.least, name: "blocks" },
        Part { bytes: undo.least, name: "undo data" },
        Part {
            bytes: coins.least,
            name: if node.ledger().writes.new_set {
                "coins of the new UTXO set next to the present one"
            } else if in_order {
                "coins and their merging"
            } else {
                "coins"
            },
        },
        Part { bytes: indexes.least, name: "indexes" },
    ];
    let coins = Bytes { least: coins.least + indexes.least, likely: coins.likely + indexes.likely };
    let allocated = allocated(node.files());
    let demand = |volume, [blocks, undo, coins]: [Bytes; 3], parts| Demand {
        volume,
        needed: needed(blocks.least, undo.least, coins.least, allocated),
        likely: needed(blocks.likely, undo.likely, coins.likely, allocated),
        parts,
    };
    let none = Bytes::default();
    let (of_blocks, of_coins) = &volumes;
    let demands = if of_blocks.device == of_coins.device {
        let volume = if blocks.least + undo.least > 0 { of_blocks } else { of_coins };
        vec![demand(volume, [blocks, undo, coins], &parts[..])]
    } else {
        vec![
            demand(of_blocks, [blocks, undo, none], &parts[..2]),
            demand(of_coins, [none, none, coins], &parts[2..]),
        ]
    };
    for Demand { volume, needed, parts, .. } in &demands {
        if volume.free < *needed {
            let prunes = blocks.least > 0 && node.ledger().pruning.target().is_none();
            let remedy =
                if prunes { ", or store only the newest blocks with --prune=550" } else { "" };
            let what = too_small(volume.free, *needed, parts) + remedy;
            return Err(StoreError::full(&volume.path, what));
        }
    }
    for Demand { volume, likely, .. } in demands.iter().filter(|of| of.volume.free < of.likely) {
        tracing::warn!(
            "{}: {} MiB are free, but about {} MiB will probably be needed; if the disk fills up, \
             the work done until then is kept, and the same command continues",
            volume.path.display(),
            volume.free / MIB,
            likely.div_ceil(MIB)
        );
    }
    Ok(())
}

/// A file system without enough space for a join.
#[derive(Debug)]
pub struct Lack {
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
        if self.parts.iter().any(|part| part.name == SPILL) {
            f.write_str("; --spilldir puts its temporary files on another disk")
        } else {
            Ok(())
        }
    }
}

impl Lack {
    /// Returns what is needed, and what is free, in words.
    fn words(&self) -> String {
        let part = |part: &Part| format!("{} of {}", size(part.bytes), part.name);
        let parts: Vec<String> = self.parts.iter().map(part).collect();
        format!(
            "a join may need {} on the disk of {} ({}), but {} are free there",
            size(self.needed),
            self.path.display(),
            parts.join(", "),
            size(self.free)
        )
    }

    /// Returns the error for a join of a proof, which keeps nothing.
    pub fn into_error_of_proof(self) -> StoreError {
        let what = format!(
            "the disk is too small: some blocks have no undo data, and without it {}. Nothing was \
             written: name a directory on a larger disk with TMPDIR, or leave out --full to take \
             the blocks as valid",
            self.words()
        );
        StoreError::full(self.path, what)
    }

    /// Returns the error for a join that was asked for.
    pub fn into_error(self) -> StoreError {
        let what = format!(
            "the disk is too small: {self}. Nothing was written: free some space, or sync with \
             --method=order, which makes no temporary files"
        );
        StoreError::full(self.path, what)
    }
}

/// Looks for a file system without the space that a join of these blocks may need: for copies of
/// blocks; for temporary files, without those that an interrupted join has left; for undo data; and
/// for tables next to the present ones. `None` if all have enough.
///
/// The system does not report how much is free.
pub fn lack_for_join(node: &Node, joined: &Waiting) -> Result<Option<Lack>, StoreError> {
    let spill = node.options().spill_path();
    let disk = node.dir().disk();
    let names = disk.list(&spill).unwrap_or_default();
    let spilled: u64 = names.iter().filter_map(|name| disk.len(spill.join(name)).ok()).sum();
    let spill_bytes = spill_bytes(joined.bytes);
    let new_tables = node.forecast().growth.tables(joined.bytes).likely;
    let tables = if node.tip() == node.tree().genesis() {
        new_tables
    } else {
        node.chainstate().disk_bytes() + 2 * new_tables
    };
    let part = |bytes, name| Part { bytes, name };
    let blocks = Volume::of(node.dir().blocks_path())?;
    let coins = Volume::of(node.chainstate().dir())?;
    Ok(lack(&[
        (Volume::of(&spill)?, vec![part(spill_bytes.saturating_sub(spilled), SPILL)]),
        (
            blocks,
            vec![
                part(joined.copied.saturating_sub(allocated(node.files())), "blocks"),
                part(node.forecast().growth.undo(joined.without_undo).likely, "undo data"),
            ],
        ),
        (coins, vec![part(tables, "tables")]),
    ]))
}

/// Checks that there is space for the tables of a snapshot of `bytes` bytes as a second UTXO set,
/// and, if the blocks are to prove it, for the tables of the coins that they leave. Tables take
/// about as much space as the file.
///
/// # Errors
/// There is not enough space. Nothing was written yet.
pub fn check_for_snapshot(
    dir: &DataDir,
    chainstate: &Chainstate,
    bytes: u64,
    is_proved: bool,
) -> Result<(), StoreError> {
    let part = |bytes, name| vec![Part { bytes, name }];
    let proved = if is_proved { bytes } else { 0 };
    // Tables left over are removed before others are written.
    let left_over = tables_bytes(dir.disk(), &dir.path().join(DIRECTORY));
    let loaded = bytes.saturating_sub(left_over);
    let demands = [
        (Volume::of(dir.path())?, part(loaded, "coins of the snapshot")),
        (Volume::of(chainstate.dir())?, part(proved, "coins that the blocks leave")),
    ];
    match lack(&demands) {
        None => Ok(()),
        Some(Lack { path, needed, free, parts }) => {
            Err(StoreError::full(path, too_small(free, needed, &parts)))
        }
    }
}

/// Looks for the space that a join of `blocks` bytes of blocks usually needs if all its files are
/// in `directory`, and it neither copies blocks nor writes undo data. `None` if there is enough.
/// The maximum is not required, since a disk that fills up costs only the time until then, and
/// nothing else proves the same.
///
/// The system does not report how much is free.
pub fn lack_for_proof(directory: &Path, blocks: u64) -> Result<Option<Lack>, StoreError> {
    let part = |bytes, name| Part { bytes, name };
    let tables = Growth::default().tables(blocks).likely;
    let parts = vec![part(usual_spill_bytes(blocks), SPILL), part(tables, "tables")];
    Ok(lack(&[(Volume::of(directory)?, parts)]))
}

/// Returns the usual size in bytes of a join's temporary files, for `blocks` bytes of blocks.
pub fn usual_spill_bytes(blocks: u64) -> u64 {
    (blocks / 10).saturating_mul(USUAL_SPILL_TENTHS)
}

/// Returns the maximum size in bytes of a join's temporary files, for `blocks` bytes of blocks.
pub fn spill_bytes(blocks: u64) -> u64 {
    (blocks / 10).saturating_mul(BLOCKS_TO_SPILL_TENTHS)
}

/// Returns the first file system with less space than all its parts need, and the space that Core
/// and Apus leave free.
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

/// Returns the message about a disk that is too small.
fn too_small(free: u64, needed: u64, parts: &[Part]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .filter(|part| part.bytes > 0)
        .map(|part| format!("{} MiB of {}", part.bytes.div_ceil(MIB), part.name))
        .collect();
    format!(
        "the disk is too small: at least about {} MiB are needed here ({}, and the space that \
         must stay free), but {} MiB are free: free some space, or give a directory on a larger \
         disk",
        needed.div_ceil(MIB),
        parts.join(", "),
        free / MIB
    )
}

impl Volume {
    /// Returns the file system of a directory, or of its nearest ancestor that exists.
    fn of(path: &Path) -> Result<Self, StoreError> {
        let FileSystem { device, free } = FileSystem::of(path)?;
        Ok(Self { path: path.to_path_buf(), device, free })
    }
}

/// Estimates the bytes that will be written to reach the best chain's last block, or the height to
/// stop at.
fn estimate(node: &Node, in_order: bool) -> Estimate {
    let Some(waiting) = Waiting::of(node) else { return Estimate::default() };
    let of_peers = waiting.from_peers / PEERS_SHARE;
    let mut blocks = Bytes { least: waiting.copied - of_peers, likely: waiting.copied };
    let leaves_out_undo = node.options().leaves_out_undo();
    let mut undo = if leaves_out_undo {
        Bytes::default()
    } else {
        node.forecast().growth.undo(waiting.without_undo)
    };
    // A SwiftSync that checks everything prunes at its end.
    let stores_all = node.options().swiftsync.has_claim() && !leaves_out_undo;
    if let Some(target) = node.ledger().pruning.target().filter(|_| !stores_all) {
        (blocks, undo) = (blocks.map(|of| of.min(target)), undo.map(|of| of.min(target)));
    }
    let coins = coins(node, node.forecast().growth.tables(waiting.bytes));
    let merged = |new| if in_order { merged(node.chainstate().disk_bytes(), new) } else { 0 };
    let counts = node.forecast().growth.inputs_and_outputs(waiting.bytes);
    let indexes = indexes(&node.options().indexes, waiting.last - waiting.first + 1, counts);
    Estimate { blocks, undo, coins: coins.map(|new| new + merged(new)), indexes }
}

/// Estimates the bytes of these indexes from the numbers of inputs and outputs.
fn indexes(kinds: &[IndexKind], blocks: u32, [inputs, outputs]: [f64; 2]) -> Bytes {
    let bytes = |kind: &IndexKind| match kind {
        IndexKind::TxIndex => TX_ENTRY_BYTES * outputs / OUTPUTS_PER_TX,
        IndexKind::TxoSpenderIndex => SPEND_ENTRY_BYTES * inputs,
        IndexKind::BlockFilterIndex => FILTER_BYTES * (inputs + outputs),
        IndexKind::CoinStatsIndex => HEIGHT_ENTRY_BYTES * f64::from(blocks),
    };
    let likely = kinds.iter().map(bytes).sum::<f64>() as u64;
    Bytes { least: likely / 2, likely }
}

/// Estimates the bytes of tables of coins if blocks add `new` bytes.
fn coins(node: &Node, new: Bytes) -> Bytes {
    let done = node.chainstate().disk_bytes();
    let mut coins = new;
    if node.ledger().writes.new_set {
        // The new set is one level of tables; the present tables may also hold spent coins.
        let present = tables_bytes(node.dir().disk(), &node.dir().chainstate_path());
        let reaches = node.options().stop_at_height.is_none() && !node.options().allow_shrink;
        let least = if reaches { (present / 2).saturating_sub(done) } else { 0 };
        coins.least = coins.least.max(least);
        coins.likely = coins.likely.max(present.saturating_sub(done));
    }
    coins
}

/// Returns the bytes that merging writes for `new` bytes of tables next to `present` ones, before
/// the merged tables are removed.
fn merged(present: u64, new: u64) -> u64 {
    if new <= present / MERGED_ALONE_SHARE { new } else { present + new }
}

/// Returns the bytes of all tables in a directory; 0 if the directory cannot be read.
fn tables_bytes(disk: &Disk, directory: &Path) -> u64 {
    let names = disk.list(directory).unwrap_or_default();
    let tables = names.iter().filter(|name| name.ends_with(".ldb") || name.ends_with(".sst"));
    tables.filter_map(|name| disk.len(directory.join(name)).ok()).sum()
}

/// Returns the bytes that are already allocated in the last block file for further blocks.
fn allocated(files: &BlockFiles) -> u64 {
    let chunk = u64::from(BLOCKFILE_CHUNK_SIZE);
    let size = files.infos().last().map_or(0, |info| u64::from(info.size));
    size.next_multiple_of(chunk) - size
}

/// Returns the bytes that must be free for these bytes of blocks, undo data and coins. Blocks count
/// beyond `allocated`, undo data beyond one chunk. If these need more, coins may take the space
/// that Core and Apus leave free whenever they allocate, and at least that much must be free.
fn needed(blocks: u64, undo: u64, coins: u64, allocated: u64) -> u64 {
    let undo = undo.saturating_sub(u64::from(UNDOFILE_CHUNK_SIZE));
    let more = blocks.saturating_sub(allocated) + undo;
    more + coins.max(if more > 0 { MIN_DISK_SPACE_BYTES } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_asked_for_the_indexes_that_are_named() {
        let counts = [3e9, 3.4e9];
        assert_eq!(indexes(&[], 1_000_000, counts), Bytes::default());
        let Bytes { least, likely } = indexes(&IndexKind::ALL, 1_000_000, counts);
        assert!(least < likely && (100..250).contains(&(likely / 1_000_000_000)), "{likely}");
    }

    #[test]
    fn only_bytes_beyond_the_allocated_room_must_be_free() {
        let needed = |blocks: u64, undo: u64, coins: u64, allocated: u64| {
            super::needed(blocks * MIB, undo * MIB, coins * MIB, allocated * MIB) / MIB
        };
        assert_eq!(needed(20, 2, 0, 0), 71);
        assert_eq!(needed(20, 2, 0, 16), 55);
        assert_eq!(needed(20, 2, 0, 20), 51);
        assert_eq!(needed(20, 1, 0, 20), 0);
        assert_eq!(needed(0, 0, 0, 0), 0);
        // Coins are written to the space that stays free, and beyond it.
        assert_eq!(needed(20, 2, 40, 0), 71);
        assert_eq!(needed(20, 2, 70, 0), 91);
        assert_eq!(needed(0, 0, 70, 0), 70);
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
        let s = "/s";
        let b = "/b";
        let c = "/c";
        // One, two and three file systems, each with just enough space and with a byte less.
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
        // A file system that nothing is written to needs no space.
        assert!(lack(&[(volume(s, 1, 0), vec![part(0, "blocks")])]).is_none());
        let full = volume(s, 1, 60 * GB);
        let lack = lack(&[(full, vec![part(100, SPILL), part(0, "blocks")])]).unwrap();
        assert_eq!(
            lack.to_string(),
            "a join may need 100 GB on the disk of /s (100 GB of temporary files), but 60 GB are \
             free there; --spilldir puts its temporary files on another disk"
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
        assert!(
            text.contains("at least about 101 MiB") && text.contains("30 MiB of blocks"),
            "{text}"
        );
        assert!(text.contains("70 MiB are free") && !text.contains("coins"), "{text}");
    }
}
