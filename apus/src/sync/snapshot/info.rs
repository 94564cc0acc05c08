//! What a snapshot file holds.

use std::path::{Path, PathBuf};

use crate::coins::{
    SnapshotFile, SnapshotReadError, SnapshotStats, SurvivorWriter, Survivors, snapshot_stats,
    snapshot_stats_sorted,
};
use crate::disk::{Disk, StoreError};
use crate::hash::Hash;
use crate::sync::error::SyncError;
use crate::sync::progress::{Observer, Phase, Progress};
use crate::sync::threads;
use crate::wire::{AssumeutxoData, Chain, Network};

/// Bytes of coins that are sorted in memory; the others go to a temporary file.
const SORTING_BYTES_MAX: usize = 200 << 20;

/// What a snapshot file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Hash of the base block, after which its coins are unspent.
    pub base: Hash,
    /// The network whose magic bytes the head has; `None` if it is one that is not known.
    pub chain: Option<Chain>,
    /// The network's magic bytes.
    pub magic: [u8; 4],
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Sums over its coins.
    pub stats: SnapshotStats,
    /// Whether its coins are in the order in which Core writes them.
    pub is_sorted: bool,
    /// What Core's chain parameters list for the base block, if they do.
    pub listed: Option<AssumeutxoData>,
}

impl SnapshotInfo {
    /// Whether the hash of all coins is the one that Core's chain parameters list for the base
    /// block; `None` if they list none.
    pub fn is_as_listed(&self) -> Option<bool> {
        self.listed.map(|listed| listed.hash_serialized == self.stats.hash_serialized)
    }
}

/// Reads all of a snapshot file, whose coins are counted and hashed on `threads` threads. Coins
/// that are in another order than Core's are sorted first, with a temporary file.
///
/// # Errors
/// The file cannot be read, is not a snapshot, or is damaged.
pub fn snapshot_info(
    path: &Path,
    threads: usize,
    observer: &dyn Observer,
) -> Result<SnapshotInfo, SyncError> {
    let wrong = |error| of_read(path, error);
    let file = SnapshotFile::open(path).map_err(wrong)?;
    let report = Progress::of(Phase::ReadingSnapshot).share_to(observer);
    let pool = threads::pool(threads)?;
    let sorted = pool.install(|| snapshot_stats(&file, &report)).map_err(wrong)?;
    let stats = match sorted {
        Some(stats) => stats,
        None => pool.install(|| stats_by_sorting(&file, &report)).map_err(wrong)?,
    };
    let head = file.head();
    let networks = Chain::ALL.map(Network::new);
    let network = networks.iter().find(|network| network.magic == head.network);
    Ok(SnapshotInfo {
        base: head.base,
        chain: network.map(|network| network.chain),
        magic: head.network,
        bytes: file.bytes(),
        stats,
        is_sorted: sorted.is_some(),
        listed: network.and_then(|network| network.assumeutxo_at(&head.base)).copied(),
    })
}

/// A directory of the system's for temporary files, removed with all that is in it.
pub(super) struct TemporaryDir(PathBuf);

impl TemporaryDir {
    /// Makes a new directory that only its owner may enter.
    ///
    /// # Errors
    /// The system's directory for temporary files (`TMPDIR`) cannot be written.
    pub fn new() -> Result<Self, StoreError> {
        use std::os::unix::fs::DirBuilderExt;
        let parent = std::env::temp_dir();
        let mut name = [0; 8];
        getrandom::fill(&mut name)
            .map_err(|error| StoreError::new(&parent, format!("no randomness: {error}")))?;
        let path = parent.join(format!("apus-{:016x}", u64::from_le_bytes(name)));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| StoreError::io(&path, "make a temporary directory", error))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stats_by_sorting(
    file: &SnapshotFile,
    report: &(dyn Fn(f64) + Sync),
) -> Result<SnapshotStats, SnapshotReadError> {
    let dir = TemporaryDir::new()?;
    let survivors = Survivors::new(&Disk::new(), dir.path(), SORTING_BYTES_MAX);
    let mut writer = SurvivorWriter::new(&survivors);
    let mut pieces = file.pieces();
    while let Some(piece) = pieces.next_piece()? {
        piece.for_each(|outpoint, coin| -> Result<(), SnapshotReadError> {
            Ok(writer.push(&outpoint.txid, outpoint.vout, &coin.parts())?)
        })?;
        report(pieces.share());
    }
    writer.flush()?;
    drop(writer);
    let stats = snapshot_stats_sorted(&survivors, report)?;
    survivors.destroy()?;
    Ok(stats)
}

/// The error of a snapshot file that could not be read.
pub(super) fn of_read(path: &Path, error: SnapshotReadError) -> SyncError {
    match error {
        SnapshotReadError::Store(error) => error.into(),
        SnapshotReadError::Snapshot(error) => {
            SyncError::Snapshot { path: path.to_path_buf(), error }
        }
    }
}
