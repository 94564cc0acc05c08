use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;

use crate::disk::{Disk, OnShare, Share, StoreError};
use crate::hash::Hash;
use crate::leveldb::{Cursor as TableCursor, Db, Options, RunBuilder, RunWriter, Snapshot};
use crate::store::{Obfuscation, layout::OBFUSCATION_KEY};
use crate::wire::{Cursor, OutPoint};

use super::changes::Changes;
use super::coin::{Coin, CoinParts, decode_coin_key, key_order, put_coin_key};

/// The key of the best block.
pub const BEST_BLOCK: &[u8] = b"B";
/// Present while Core is amid a flush that takes several batches; there is no best block then.
pub const HEAD_BLOCKS: &[u8] = b"H";
/// Coins lie from here to before [`COINS_END`].
const COINS: &[u8] = b"C";
const COINS_END: &[u8] = b"D";
/// Records of versions before 0.15 start here; Core refuses a chainstate with any.
const OLD_COINS: &[u8] = b"c";
/// Bytes of a coin's key up to the output's index.
const TXID_END: usize = 33;

/// Changes below which a further thread is not worth a further table.
const WRITE_PART_COINS_MIN: usize = 50_000;
/// Changes that a thread writes between two reports of the share done.
const REPORT_CHANGES: u64 = 1 << 15;

type Result<T> = std::result::Result<T, StoreError>;

/// The UTXO set on disk as Bitcoin Core keeps it (`CCoinsViewDB`): coins, best block, and the
/// obfuscation key that is XORed over every value.
///
/// Reading needs no lock. A write becomes visible and durable as a whole, best block included, so
/// that Core's mark of a half-done flush (`H`) is never written.
pub struct Chainstate {
    db: Db,
    dir: PathBuf,
    obfuscation: Obfuscation,
    /// Whether there ever was a best block, and so perhaps a coin.
    begun: AtomicBool,
}

impl Chainstate {
    /// Opens the chainstate in the directory `dir`, Core's or ours; where `options` allow it, makes
    /// an empty one with an obfuscation key of its own.
    ///
    /// An error if Core was cut off amid a flush, or if the format is older than 0.15.
    pub fn open(disk: Disk, dir: &Path, options: Options) -> Result<Self> {
        let read_only = options.read_only;
        let db = Db::open(disk, dir, options)?;
        let record = db.get(OBFUSCATION_KEY)?;
        let obfuscation = match record.as_deref() {
            Some(record) => Obfuscation::from_record(record)
                .ok_or_else(|| StoreError::new(dir, "the obfuscation key is not of 8 bytes"))?,
            None if !read_only && db.scan(b"", None)?.next_entry()?.is_none() => new_key(&db, dir)?,
            None => Obfuscation::default(),
        };
        let begun = AtomicBool::new(db.get(BEST_BLOCK)?.is_some());
        let chainstate = Self { db, dir: dir.to_path_buf(), obfuscation, begun };
        chainstate.check_format()?;
        Ok(chainstate)
    }

    /// Removes the chainstate in the directory `dir`, if there is one.
    pub fn destroy(disk: &Disk, dir: &Path) -> Result<()> {
        Db::destroy(disk, dir)
    }

    /// Puts the chainstate in `from`, a directory on the same file system, in the place of the one
    /// in `dir`. Nobody may have either open. After a crash `dir` holds the one or the other.
    pub fn adopt(disk: &Disk, dir: &Path, from: &Path) -> Result<()> {
        Db::adopt(disk, dir, from)
    }

    /// The block up to which the coins are right, `None` in an empty chainstate.
    pub fn best_block(&self) -> Result<Option<Hash>> {
        let Some(mut value) = self.db.get(BEST_BLOCK)? else { return Ok(None) };
        self.obfuscation.apply(&mut value, 0);
        match <[u8; 32]>::try_from(&value[..]) {
            Ok(hash) => Ok(Some(Hash(hash))),
            Err(_) => Err(StoreError::new(&self.dir, "the best block is not of 32 bytes")),
        }
    }

    /// Whether nothing was ever written, so that looking for coins is in vain.
    pub fn is_empty(&self) -> bool {
        !self.begun.load(Relaxed)
    }

    /// The coin under `outpoint`.
    pub fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>> {
        let mut key = Vec::new();
        put_coin_key(&mut key, outpoint);
        let read = |value: &[u8]| self.decode(outpoint, value, &mut Vec::new());
        self.db.get_with(&key, read)?.transpose()
    }

    /// The coins under many outpoints, in the order given, looked up in the order of the tables:
    /// the more at once, the less for each.
    pub fn get_many(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<Coin>>> {
        let mut order: Vec<usize> = (0..outpoints.len()).collect();
        if !outpoints.is_sorted_by(|a, b| key_order(a, b).is_le()) {
            order.sort_unstable_by(|a, b| key_order(&outpoints[*a], &outpoints[*b]));
        }
        let (mut bytes, mut ends) = (Vec::with_capacity(35 * order.len()), vec![0]);
        for i in &order {
            put_coin_key(&mut bytes, &outpoints[*i]);
            ends.push(bytes.len());
        }
        let keys: Vec<&[u8]> = ends.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        let mut coins = vec![None; outpoints.len()];
        let (mut error, mut scratch) = (None, Vec::new());
        self.db.get_many(&keys, |i, value| {
            let i = order[i];
            match self.decode(&outpoints[i], value, &mut scratch) {
                Ok(coin) => coins[i] = Some(coin),
                Err(e) => error = Some(e),
            }
        })?;
        error.map_or(Ok(coins), Err)
    }

    /// Writes the changes of a cache and the block they lead to, all or nothing.
    pub fn write(&self, changes: &Changes, best_block: &Hash) -> Result<()> {
        self.write_reporting(changes, best_block, &|_| {})
    }

    /// [`Chainstate::write`], which reports the share done.
    pub fn write_reporting(
        &self,
        changes: &Changes,
        best_block: &Hash,
        report: OnShare,
    ) -> Result<()> {
        let run = self.db.new_run()?;
        let threads_max = changes.len() / WRITE_PART_COINS_MIN;
        let parts = changes.split(threads_max.clamp(1, 2 * rayon::current_num_threads()));
        if parts.is_empty() {
            self.write_head(&run, &[], best_block)?;
        }
        let share = Share::new(changes.len() as u64, report);
        parts.into_par_iter().enumerate().try_for_each(|(index, part)| {
            let mut unreported = 0;
            let mut writer = self.writer(&run);
            if index == 0 {
                writer.put_head(&[], best_block)?;
            }
            for (outpoint, coin) in part {
                match coin {
                    Some(coin) => writer.put(outpoint, &coin)?,
                    None => writer.delete(outpoint)?,
                }
                unreported += 1;
                if unreported == REPORT_CHANGES {
                    share.add(std::mem::take(&mut unreported));
                }
            }
            writer.finish()?;
            share.add(unreported);
            Ok(())
        })?;
        run.commit()?;
        self.begun.store(true, Relaxed);
        Ok(())
    }

    /// Starts replacing the whole UTXO set by one that comes sorted; readers see the old one until
    /// [`Bulk::commit`].
    pub fn bulk(&self) -> Result<Bulk<'_>> {
        Ok(Bulk { chainstate: self, run: self.db.bulk()? })
    }

    /// Cuts the UTXO set, as it is now, into at most `parts` scans of about equal size, ascending.
    /// The outputs of one transaction are all in the same.
    pub fn scans(&self, parts: usize) -> Result<Vec<CoinScan<'_>>> {
        let snapshot = self.db.snapshot();
        let mut cuts = vec![COINS.to_vec()];
        for mut key in snapshot.split(parts)? {
            key.truncate(TXID_END);
            if key.len() == TXID_END && key.starts_with(COINS) && cuts.last() != Some(&key) {
                cuts.push(key);
            }
        }
        cuts.push(COINS_END.to_vec());
        let scan = |cut: &[Vec<u8>]| CoinScan {
            chainstate: self,
            snapshot: snapshot.clone(),
            from: cut[0].clone(),
            to: cut[1].clone(),
            cursor: None,
            scratch: Vec::new(),
        };
        Ok(cuts.windows(2).map(scan).collect())
    }

    /// Merges some runs if there are too many, beside readers and one writer; whether it did.
    pub fn merge(&self) -> Result<bool> {
        self.db.merge()
    }

    /// Whether [`Chainstate::merge`] has something to do.
    pub fn merge_pending(&self) -> bool {
        self.db.merge_pending()
    }

    /// Merges everything into one level, as it is to be handed over.
    pub fn merge_all(&self) -> Result<()> {
        self.db.merge_all()
    }

    /// [`Chainstate::merge_all`], which reports the share done.
    pub fn merge_all_reporting(&self, report: OnShare) -> Result<()> {
        self.db.merge_all_reporting(report)
    }

    /// Bytes of all tables.
    pub fn disk_bytes(&self) -> u64 {
        self.db.stats().bytes()
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn check_format(&self) -> Result<()> {
        if self.db.get(HEAD_BLOCKS)?.is_some() {
            let what = "Bitcoin Core was stopped in the middle of a flush: start it once, so that \
                        it ends the flush, or build the chainstate anew with `apus reindex`";
            return Err(StoreError::new(&self.dir, what));
        }
        if self.db.scan(OLD_COINS, None)?.next_entry()?.is_some() {
            let what = "the chainstate has a format older than Bitcoin Core 0.15; build it anew \
                        with `apus reindex`";
            return Err(StoreError::new(&self.dir, what));
        }
        Ok(())
    }

    fn decode(&self, outpoint: &OutPoint, value: &[u8], scratch: &mut Vec<u8>) -> Result<Coin> {
        scratch.clear();
        scratch.extend_from_slice(value);
        self.obfuscation.apply(scratch, 0);
        Coin::decode(&mut Cursor::new(scratch))
            .map_err(|e| StoreError::new(&self.dir, format!("the coin {outpoint} is broken: {e}")))
    }

    fn writer<'a>(&'a self, run: &'a RunBuilder) -> CoinWriter<'a> {
        let (key, value) = (Vec::new(), Vec::new());
        CoinWriter { run: run.writer(), obfuscation: &self.obfuscation, key, value }
    }

    /// As [`CoinWriter::put_head`], as a part of the run.
    fn write_head(&self, run: &RunBuilder, obfuscation: &[u8], best_block: &Hash) -> Result<()> {
        let mut writer = self.writer(run);
        writer.put_head(obfuscation, best_block)?;
        writer.finish()
    }
}

/// A UTXO set that is being written to take the place of the present one; dropped, nothing
/// happened.
pub struct Bulk<'a> {
    chainstate: &'a Chainstate,
    run: RunBuilder,
}

impl Bulk<'_> {
    /// A writer for one part of the outpoints; others may write others' parts at the same time.
    pub fn writer(&self) -> CoinWriter<'_> {
        self.chainstate.writer(&self.run)
    }

    /// Makes the new UTXO set, right up to `best_block`, the chainstate's.
    pub fn commit(self, best_block: &Hash) -> Result<()> {
        let record = self.chainstate.obfuscation.to_record();
        self.chainstate.write_head(&self.run, &record, best_block)?;
        self.run.commit()?;
        self.chainstate.begun.store(true, Relaxed);
        Ok(())
    }
}

/// Writes coins in the order of [`key_order`].
pub struct CoinWriter<'a> {
    run: RunWriter<'a>,
    obfuscation: &'a Obfuscation,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl CoinWriter<'_> {
    /// Writes a coin.
    #[inline]
    pub fn put(&mut self, outpoint: &OutPoint, coin: &CoinParts) -> Result<()> {
        self.value.clear();
        coin.encode(&mut self.value);
        self.put_value(outpoint)
    }

    /// Writes a coin by its key in the chainstate and the form of [`Coin::encode`], which is left
    /// obfuscated: nothing is copied on the way.
    #[inline]
    pub fn put_raw(&mut self, key: &[u8], coin: &mut [u8]) -> Result<()> {
        self.obfuscation.apply(coin, 0);
        self.run.put(key, coin)
    }

    /// Ends the part; without this the whole cannot be committed.
    pub fn finish(self) -> Result<()> {
        self.run.finish()
    }

    /// Writes what comes before all coins: the record of the obfuscation key, if one is given, and
    /// the best block.
    fn put_head(&mut self, obfuscation: &[u8], best_block: &Hash) -> Result<()> {
        if !obfuscation.is_empty() {
            self.run.put(OBFUSCATION_KEY, obfuscation)?;
        }
        let mut value = best_block.0;
        self.obfuscation.apply(&mut value, 0);
        self.run.put(BEST_BLOCK, &value)
    }

    fn put_value(&mut self, outpoint: &OutPoint) -> Result<()> {
        self.key.clear();
        put_coin_key(&mut self.key, outpoint);
        self.obfuscation.apply(&mut self.value, 0);
        self.run.put(&self.key, &self.value)
    }

    fn delete(&mut self, outpoint: &OutPoint) -> Result<()> {
        self.key.clear();
        put_coin_key(&mut self.key, outpoint);
        self.run.delete(&self.key)
    }
}

/// Walks one part of the UTXO set in the order of [`key_order`].
pub struct CoinScan<'a> {
    chainstate: &'a Chainstate,
    snapshot: Snapshot,
    from: Vec<u8>,
    to: Vec<u8>,
    cursor: Option<TableCursor>,
    scratch: Vec<u8>,
}

impl CoinScan<'_> {
    /// The next coin, the first one at the first call; `None` behind the last.
    pub fn next_coin(&mut self) -> Result<Option<(OutPoint, Coin)>> {
        let cursor = match &mut self.cursor {
            Some(cursor) => cursor,
            None => self.cursor.insert(self.snapshot.scan(&self.from, Some(&self.to))?),
        };
        let Some((key, value)) = cursor.next_entry()? else { return Ok(None) };
        let outpoint = decode_coin_key(key).map_err(|e| {
            let what = format!("the key {key:02x?} is broken: {e}");
            StoreError::new(&self.chainstate.dir, what)
        })?;
        let coin = self.chainstate.decode(&outpoint, value, &mut self.scratch)?;
        Ok(Some((outpoint, coin)))
    }
}

/// Draws the key of a new database and writes it, as Core does before anything else.
fn new_key(db: &Db, dir: &Path) -> Result<Obfuscation> {
    let mut key = [0; Obfuscation::KEY_SIZE];
    getrandom::fill(&mut key)
        .map_err(|e| StoreError::new(dir, format!("no randomness for a key: {e}")))?;
    let obfuscation = Obfuscation::new(key);
    db.apply([(OBFUSCATION_KEY, Some(obfuscation.to_record()))])?;
    Ok(obfuscation)
}
