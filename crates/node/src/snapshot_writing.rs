//! Writes snapshot files, from a UTXO set and from coins that were gathered in any order.

use std::path::Path;

use apus_coins::{
    Coin, CoinScan, CoinsView, SnapshotCoins, SnapshotHead, Survivors, WriteError, decode_coin_key,
    key_order,
};
use apus_disk::{Disk, File, StoreError};
use apus_hash::Hash;
use apus_progress::{Phase, Progress, Watch};
use apus_wire::OutPoint;
use rayon::ThreadPool;
use rayon::prelude::*;

use super::error::SyncError;
use super::gathered::Gathered;
use super::workers::check_stop;

/// Number of parts of the UTXO set, by the first bits of the txids. On mainnet a part has 11 MB,
/// and each thread has two of them in memory.
const PARTS: usize = Survivors::SLOTS_MAX;

/// The numbers of coins and bytes that were written.
#[derive(Clone, Copy, Default)]
pub struct Written {
    pub coins: u64,
    pub bytes: u64,
}

/// Makes a snapshot file of a UTXO set whose best block is `base`, at `height`, on the threads of
/// `pool`. The chainstate may be written meanwhile. Returns the number of coins. `out` must not
/// exist: the file is written with `.incomplete` at the end of its name, and then renamed.
///
/// # Errors
/// `out` exists, a table is damaged, or the disk fails; or somebody asks to stop.
pub fn create_snapshot_of_view(
    coins: &CoinsView,
    (base, height): (Hash, u32),
    network: [u8; 4],
    out: &Path,
    (pool, watch): (&ThreadPool, Watch),
) -> Result<u64, SyncError> {
    let writing = SnapshotWriting { base, height, dir: coins.dir(), watch };
    let source = SnapshotSource { coins: Some(coins), more: None };
    let write = |file: &File| pool.install(|| writing.write(file, network, &source));
    Ok(Disk::new().write_new(out, write)?.coins)
}

/// The source of a snapshot's coins.
pub struct SnapshotSource<'a> {
    /// The chainstate, whose coins of blocks up to the height belong to the snapshot; `None` if
    /// none do.
    pub coins: Option<&'a CoinsView>,
    /// Coins that belong to it besides.
    pub more: Option<&'a Gathered>,
}

/// The writing of a snapshot's file.
pub struct SnapshotWriting<'a> {
    pub base: Hash,
    pub height: u32,
    /// The directory of the chainstate, for errors.
    pub dir: &'a Path,
    pub watch: Watch<'a>,
}

impl SnapshotWriting<'_> {
    /// Writes the head and the coins.
    pub fn write(
        &self,
        file: &File,
        network: [u8; 4],
        source: &SnapshotSource,
    ) -> Result<Written, SyncError> {
        let mut written = Written { coins: 0, bytes: SnapshotHead::BYTES as u64 };
        let begun = Progress { height: self.height, ..Progress::of(Phase::WritingSnapshot) };
        let report = begun.share_to(self.watch.observer);
        let mut next = 0;
        let mut next_batch = || {
            let count = rayon::current_num_threads().min(PARTS - next);
            let batch = next..next + count;
            next += count;
            report(next as f64 / PARTS as f64);
            check_stop(self.watch.stop)?;
            let parts = batch.into_par_iter().map(|part| self.serialise(part, source));
            parts.collect::<Result<Vec<_>, SyncError>>()
        };
        let mut batch = next_batch()?;
        while !batch.is_empty() {
            let mut write = || -> Result<(), StoreError> {
                for (bytes, coins) in &batch {
                    file.write_all_at(bytes, written.bytes)?;
                    written.bytes += bytes.len() as u64;
                    written.coins += coins;
                }
                Ok(())
            };
            let (done, next) = rayon::join(&mut write, &mut next_batch);
            done?;
            batch = next?;
        }
        let head = SnapshotHead { network, base: self.base, coins: written.coins };
        file.write_all_at(&head.to_bytes(), 0)?;
        Ok(written)
    }

    /// Returns the serialised coins of one part, in the order of their keys, and their number.
    fn serialise(&self, part: usize, source: &SnapshotSource) -> Result<(Vec<u8>, u64), SyncError> {
        let (first, last) = txids_of(part);
        let scan = source.coins.map(|coins| coins.scan_txids(&first, &last));
        let mut kept = Kept { scan, height: self.height };
        let mut waiting = kept.next()?;
        let mut out = SnapshotCoins::default();
        if let Some(more) = source.more {
            let merge = |key: &[u8], value: &mut [u8]| {
                let outpoint = decode_coin_key(key).expect("keys are made of outpoints");
                while let Some((before, coin)) = &waiting
                    && key_order(before, &outpoint).is_lt()
                {
                    out.push(before, coin);
                    waiting = kept.next()?;
                }
                out.push_with(&outpoint, |bytes| bytes.extend_from_slice(value));
                Ok(())
            };
            more.coins.for_each_in(part..part + 1, merge).map_err(|error| self.unsorted(error))?;
        }
        while let Some((outpoint, coin)) = waiting {
            out.push(&outpoint, &coin);
            waiting = kept.next()?;
        }
        Ok(out.finish())
    }

    /// Returns the error for gathered coins that could not be read.
    fn unsorted(&self, error: WriteError) -> StoreError {
        match error {
            WriteError::Store(error) => error,
            WriteError::Twice(outpoint) => StoreError::new(
                self.dir,
                format!("blocks and undo data do not agree: the coin {outpoint} is there twice"),
            ),
        }
    }
}

/// The coins of a scan that blocks up to a height have created.
struct Kept {
    scan: Option<CoinScan>,
    height: u32,
}

impl Kept {
    fn next(&mut self) -> Result<Option<(OutPoint, Coin)>, StoreError> {
        let Some(scan) = &mut self.scan else { return Ok(None) };
        while let Some((outpoint, coin)) = scan.next_coin()? {
            if coin.height <= self.height {
                return Ok(Some((outpoint, coin)));
            }
        }
        Ok(None)
    }
}

/// Returns the first and the last txid of a part.
fn txids_of(part: usize) -> (Hash, Hash) {
    let bits = PARTS.ilog2();
    let first = (part as u16) << (u16::BITS - bits);
    let last = first | u16::MAX >> bits;
    let mut lowest = [0; 32];
    let mut highest = [0xff; 32];
    lowest[..2].copy_from_slice(&first.to_be_bytes());
    highest[..2].copy_from_slice(&last.to_be_bytes());
    (Hash(lowest), Hash(highest))
}
