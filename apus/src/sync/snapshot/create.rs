//! A snapshot of a synced directory's UTXO set, at its tip or at a height below.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::info::TemporaryDir;
use crate::coins::{
    Coin, CoinScan, SnapshotCoins, SnapshotHead, SurvivorWriter, Survivors, decode_coin_key,
    key_order,
};
use crate::disk::{Disk, File, StoreError};
use crate::hash::Hash;
use crate::sync::error::SyncError;
use crate::sync::options::Options;
use crate::sync::progress::{Observer, Phase, Progress};
use crate::sync::stored::{EndedEarly, StoredChain, UndoSearch, check_stop};
use crate::sync::{remedy, threads};
use crate::wire::OutPoint;

/// Parts of the UTXO set, by the first bits of the txids. On mainnet one has 11 MB, and each thread
/// has two of them in memory.
const PARTS: usize = Survivors::SLOTS_MAX;

/// How a snapshot was made.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotSummary {
    /// Height of the base block.
    pub height: u32,
    /// Hash of the base block, after which these coins are unspent.
    pub base: Hash,
    /// The number of coins.
    pub coins: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Wall clock time.
    pub elapsed: Duration,
    /// Whether somebody asked to stop before the end. No file was made then.
    pub interrupted: bool,
}

/// Makes a snapshot file of the UTXO set of a synced directory at `height`, by default its tip:
/// what Core's `dumptxoutset` writes, byte for byte. The directory is locked and read, not changed.
///
/// At a height below the tip there are the coins of blocks up to it that the chainstate has, and
/// those that the blocks above it have spent, which their undo data has.
///
/// Memory: `dbcache_bytes` for the coins of undo data, beyond which they go to a temporary file;
/// and two parts of 1,024 of the UTXO set for each thread. `out` must not exist; it is written with
/// `.incomplete` at the end of its name, and renamed.
///
/// # Errors
/// There is no chainstate; the height is above the tip; undo data that is needed is not stored;
/// there is such a file; or the disk fails.
pub fn create_snapshot(
    options: &Options,
    height: Option<u32>,
    out: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<SnapshotSummary, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        let pool = threads::pool(options.threads)?;
        let chain = StoredChain::open(options, &pool)?;
        let tip = chain.height();
        let height = height.unwrap_or(tip);
        if height > tip {
            return Err(SyncError::Input(format!(
                "the chainstate is at height {tip}: there is no UTXO set of height {height}"
            )));
        }
        let base = chain.blocks[height as usize].hash;
        let made = Disk::new().write_new(out, |file| {
            let spent = SpentAbove::find(&chain, options, height, &pool, observer, stop)?;
            let task = Task { chain: &chain, height, spent: spent.as_ref(), observer, stop };
            pool.install(|| {
                task.write(file, SnapshotHead { network: options.network.magic, base, coins: 0 })
            })
        });
        let (coins, bytes, interrupted) = match made {
            Ok((coins, bytes)) => (coins, bytes, false),
            Err(EndedEarly::Stopped) => (0, 0, true),
            Err(EndedEarly::Failed(error)) => return Err(error),
        };
        Ok(SnapshotSummary { height, base, coins, bytes, elapsed: started.elapsed(), interrupted })
    })
}

/// The coins of blocks up to a height that the blocks above it have spent.
struct SpentAbove {
    coins: Survivors,
    /// Removed after the coins' file.
    _dir: TemporaryDir,
}

impl SpentAbove {
    /// Reads the undo data of all blocks above `height`; `None` if that is the tip.
    fn find(
        chain: &StoredChain,
        options: &Options,
        height: u32,
        pool: &rayon::ThreadPool,
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Option<Self>, EndedEarly> {
        if height == chain.height() {
            return Ok(None);
        }
        chain.refuse_between_bip30_twins(height)?;
        let dir = TemporaryDir::new()?;
        let coins = Survivors::new(&Disk::new(), dir.path(), options.dbcache_bytes);
        let search = UndoSearch { chain, height, pool, observer, stop };
        let writers = search.for_each_spent(
            || SurvivorWriter::new(&coins),
            |writer, outpoint, coin| {
                Ok(writer.push(&outpoint.txid, outpoint.vout, &coin.parts())?)
            },
        )?;
        for mut writer in writers {
            writer.flush()?;
        }
        Ok(Some(Self { coins, _dir: dir }))
    }
}

/// The writing of a snapshot.
struct Task<'a> {
    chain: &'a StoredChain,
    height: u32,
    spent: Option<&'a SpentAbove>,
    observer: &'a dyn Observer,
    stop: &'a AtomicBool,
}

impl Task<'_> {
    /// Writes head and coins; returns the number of coins and of bytes.
    fn write(&self, file: &File, head: SnapshotHead) -> Result<(u64, u64), EndedEarly> {
        let mut at = SnapshotHead::BYTES as u64;
        let mut coins = 0;
        let mut next = 0;
        let report = Progress { height: self.height, ..Progress::of(Phase::WritingSnapshot) }
            .share_to(self.observer);
        let mut next_batch = || {
            let count = rayon::current_num_threads().min(PARTS - next);
            let batch = next..next + count;
            next += count;
            report(next as f64 / PARTS as f64);
            check_stop(self.stop)?;
            batch
                .into_par_iter()
                .map(|part| self.serialise(part))
                .collect::<Result<Vec<_>, EndedEarly>>()
        };
        let mut batch = next_batch()?;
        while !batch.is_empty() {
            let mut write = || -> Result<(), StoreError> {
                for (bytes, count) in &batch {
                    file.write_all_at(bytes, at)?;
                    at += bytes.len() as u64;
                    coins += count;
                }
                Ok(())
            };
            let (written, next) = rayon::join(&mut write, &mut next_batch);
            written?;
            batch = next?;
        }
        file.write_all_at(&SnapshotHead { coins, ..head }.to_bytes(), 0)?;
        Ok((coins, at))
    }

    /// The coins of one part, in the order of their keys.
    fn serialise(&self, part: usize) -> Result<(Vec<u8>, u64), EndedEarly> {
        let (first, last) = txids_of(part);
        let mut kept =
            Kept { scan: self.chain.chainstate.scan_txids(&first, &last), height: self.height };
        let mut out = SnapshotCoins::default();
        let Some(spent) = self.spent else {
            while let Some((outpoint, coin)) = kept.next()? {
                out.push(&outpoint, &coin);
            }
            return Ok(out.finish());
        };
        let mut waiting = kept.next()?;
        let merge = |key: &[u8], value: &mut [u8]| {
            let spent = decode_coin_key(key).expect("keys are made of outpoints");
            while let Some((outpoint, coin)) = &waiting
                && key_order(outpoint, &spent).is_lt()
            {
                out.push(outpoint, coin);
                waiting = kept.next()?;
            }
            out.push_with(&spent, |bytes| bytes.extend_from_slice(value));
            Ok(())
        };
        let slots: Range<usize> = part..part + 1;
        spent
            .coins
            .for_each_in(slots, merge)
            .map_err(|error| SyncError::from(self.twice(error)))?;
        while let Some((outpoint, coin)) = waiting {
            out.push(&outpoint, &coin);
            waiting = kept.next()?;
        }
        Ok(out.finish())
    }

    /// The error of coins that could not be merged.
    fn twice(&self, error: crate::coins::WriteError) -> StoreError {
        match error {
            crate::coins::WriteError::Store(error) => error,
            crate::coins::WriteError::Twice(outpoint) => StoreError::new(
                self.chain.chainstate.dir(),
                format!("undo data and blocks do not agree: {outpoint} was spent twice"),
            ),
        }
    }
}

/// The coins of a scan that blocks up to a height have created.
struct Kept<'a> {
    scan: CoinScan<'a>,
    height: u32,
}

impl Kept<'_> {
    fn next(&mut self) -> Result<Option<(OutPoint, Coin)>, StoreError> {
        while let Some((outpoint, coin)) = self.scan.next_coin()? {
            if coin.height <= self.height {
                return Ok(Some((outpoint, coin)));
            }
        }
        Ok(None)
    }
}

/// The first and the last txid of a part.
fn txids_of(part: usize) -> (Hash, Hash) {
    let bits = PARTS.ilog2();
    let first = (part as u16) << (u16::BITS - bits);
    let last = first | u16::MAX >> bits;
    let (mut lowest, mut highest) = ([0; 32], [0xff; 32]);
    lowest[..2].copy_from_slice(&first.to_be_bytes());
    highest[..2].copy_from_slice(&last.to_be_bytes());
    (Hash(lowest), Hash(highest))
}
