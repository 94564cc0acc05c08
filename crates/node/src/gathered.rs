//! Coins that are gathered in any order, and read back in the order of the tables.

use apus_coins::{
    SnapshotFile, SnapshotReadError, SnapshotStats, SurvivorWriter, Survivors,
    snapshot_stats_sorted,
};
use apus_disk::{Caching, Disk, ShareWatch, StoreError};

use apus_host::temporary::TemporaryDir;

/// Bytes of coins that are sorted in memory; the others go to a temporary file.
const SORTING_BYTES_MAX: usize = 200 << 20;

/// Coins that were gathered in any order; those that do not fit in memory are in a temporary
/// directory.
pub struct Gathered {
    pub coins: Survivors,
    /// The temporary directory, removed after the file of the coins.
    _dir: TemporaryDir,
}

impl Gathered {
    /// Returns an empty set of coins that uses up to `memory` bytes of memory.
    pub fn new(memory: usize) -> Result<Self, StoreError> {
        let dir = TemporaryDir::new()?;
        let coins = Survivors::new(&Disk::new(), dir.path(), memory, Caching::Direct);
        Ok(Self { coins, _dir: dir })
    }

    /// Gathers all coins of a snapshot; `None` if it was stopped.
    pub fn of_file(
        file: &SnapshotFile,
        memory: usize,
        watch: ShareWatch,
    ) -> Result<Option<Self>, SnapshotReadError> {
        let gathered = Self::new(memory)?;
        let mut writer = SurvivorWriter::new(&gathered.coins);
        let mut pieces = file.pieces();
        while let Some(piece) = pieces.next_piece()? {
            piece.for_each(|outpoint, coin| -> Result<(), SnapshotReadError> {
                Ok(writer.push(&outpoint.txid, outpoint.vout, &coin.parts())?)
            })?;
            (watch.report)(pieces.share());
            if watch.is_stopped() {
                return Ok(None);
            }
        }
        writer.flush()?;
        drop(writer);
        Ok(Some(gathered))
    }
}

/// Counts and hashes the coins of a snapshot whose order is not Core's; `None` if it was stopped.
pub fn stats_by_sorting(
    file: &SnapshotFile,
    watch: ShareWatch,
) -> Result<Option<SnapshotStats>, SnapshotReadError> {
    match Gathered::of_file(file, SORTING_BYTES_MAX, watch)? {
        Some(gathered) => snapshot_stats_sorted(&gathered.coins, watch),
        None => Ok(None),
    }
}
