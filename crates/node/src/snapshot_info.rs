//! Reads and describes snapshot files.

use std::path::Path;

use apus_coins::{SnapshotFile, SnapshotStats, snapshot_stats};
use apus_disk::ShareWatch;
use apus_hash::Hash;
use apus_host::threads;
use apus_progress::{Phase, Progress, Watch};
use apus_wire::{AssumeutxoData, Chain, Network};

use super::error::{SyncError, of_read};
use super::gathered::stats_by_sorting;

/// The description of a snapshot file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Hash of the base block, after which the file's coins are unspent.
    pub base: Hash,
    /// The network whose magic bytes the head has; `None` if the network is unknown.
    pub chain: Option<Chain>,
    /// The magic bytes in the head.
    pub magic: [u8; 4],
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Counts, sums and hash of the coins.
    pub stats: SnapshotStats,
    /// Whether the coins are in the order in which Core writes them.
    pub is_sorted: bool,
    /// The entry for the base block in Core's chain parameters, if there is one.
    pub listed: Option<AssumeutxoData>,
}

impl SnapshotInfo {
    /// Returns whether the hash of all coins is the one that Core's chain parameters list for the
    /// base block; `None` if they list none.
    pub fn is_as_listed(&self) -> Option<bool> {
        self.listed.map(|listed| listed.hash_serialized == self.stats.hash_serialized)
    }
}

/// Reads a whole snapshot file, and counts and hashes its coins on `threads` threads. Coins in
/// another order than Core's are sorted first, with a temporary file. Returns `None` if `stop`
/// became true before the end.
pub fn snapshot_info(
    path: &Path,
    threads: usize,
    watch: Watch,
) -> Result<Option<SnapshotInfo>, SyncError> {
    let wrong = |error| of_read(path, error);
    let file = SnapshotFile::open(path).map_err(wrong)?;
    let report = Progress::of(Phase::ReadingSnapshot).share_to(watch.observer);
    let pool = threads::pool(threads)?;
    let mut pieces = file.pieces();
    let watch = ShareWatch { report: &report, stop: watch.stop };
    let next_piece = || {
        let piece = pieces.next_piece()?;
        report(pieces.share());
        Ok(piece.filter(|_| pieces.is_sorted() && !watch.is_stopped()))
    };
    let mut stats = Some(pool.install(|| snapshot_stats(next_piece)).map_err(wrong)?);
    let is_sorted = pieces.is_sorted();
    if !is_sorted {
        stats = pool.install(|| stats_by_sorting(&file, watch)).map_err(wrong)?;
    }
    let Some(stats) = stats.filter(|_| !watch.is_stopped()) else { return Ok(None) };
    let head = file.head();
    let networks = Chain::ALL.map(Network::new);
    let network = networks.iter().find(|network| network.magic == head.network);
    Ok(Some(SnapshotInfo {
        base: head.base,
        chain: network.map(|network| network.chain),
        magic: head.network,
        bytes: file.bytes(),
        stats,
        is_sorted,
        listed: network.and_then(|network| network.assumeutxo_at(&head.base)).copied(),
    }))
}
