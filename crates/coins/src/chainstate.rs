use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_disk::{Disk, OnShare, Share, ShareWatch, StoreError};
use apus_hash::Hash;
use apus_leveldb::layout::LEVEL_0_RUNS_MAX;
use apus_leveldb::{Db, Options, PendingTable, RunBuilder, RunKind, RunWriter};
use apus_store::Obfuscation;
use apus_store::layout::OBFUSCATION_KEY;
use apus_wire::OutPoint;
use rayon::prelude::*;

use super::changes::Changes;
use super::coin::{Coin, CoinParts, key_order, put_coin_key};
use super::coins_view::{BEST_BLOCK, CoinScan, CoinsView, Values};

/// The key of a record that exists while Core is in the middle of a flush, which takes several
/// batches; there is no best block then.
pub const HEAD_BLOCKS: &[u8] = b"H";
/// The first key of coins in the format of versions before 0.15; Core refuses a chainstate with
/// such keys.
const OLD_COINS: &[u8] = b"c";

/// The number of newest runs at which merging begins: twice as many as in LevelDB. A lookup checks
/// the filter of each, in a batch with others, which costs less than rewriting coins once more.
const NEWEST_RUNS_MAX: usize = 2 * LEVEL_0_RUNS_MAX;
/// The number of newest runs at which a write waits for the merge that is under way, so that
/// look-ups do not become slower and slower.
const NEWEST_RUNS_WAIT: usize = 3 * NEWEST_RUNS_MAX;
/// The minimum number of changes for each writing thread: for fewer, one more thread is not worth
/// one more table.
const WRITE_PART_COINS_MIN: usize = 50_000;
/// The number of changes that a thread writes between two progress reports.
const REPORT_CHANGES: u64 = 1 << 15;

type Result<T> = std::result::Result<T, StoreError>;

/// The UTXO set on disk in Bitcoin Core's format (`CCoinsViewDB`): coins, the best block, and the
/// obfuscation key, with which each value is XORed.
///
/// Reading takes no lock. A write becomes visible and durable as a whole, best block included, so
/// that Core's record of an unfinished flush (`H`) is never written.
pub struct Chainstate {
    db: Db,
    values: Values,
    /// Whether a best block was ever stored, so that there may be coins.
    begun: AtomicBool,
}

impl Chainstate {
    /// Opens the chainstate in the directory `dir`, whether Core or Apus wrote it. If there is none
    /// and `options` allow it, an empty one with a new obfuscation key is created.
    ///
    /// # Errors
    /// The chainstate is missing or damaged, Core was stopped in the middle of a flush, or the
    /// format is older than that of Bitcoin Core 0.15.
    pub fn open(disk: Disk, dir: &Path, options: Options) -> Result<Self> {
        let read_only = options.read_only;
        let options = Options { level_0_runs_max: NEWEST_RUNS_MAX, ..options };
        let db = Db::open(disk, dir, options)?;
        let record = db.get(OBFUSCATION_KEY)?;
        let obfuscation = match record.as_deref() {
            Some(record) => Obfuscation::from_record(record).ok_or_else(|| {
                StoreError::new(dir, "the obfuscation key is damaged: 8 bytes are expected")
            })?,
            None if !read_only && db.scan(b"", None)?.next_entry()?.is_none() => new_key(&db, dir)?,
            None => Obfuscation::default(),
        };
        let begun = AtomicBool::new(db.get(BEST_BLOCK)?.is_some());
        let chainstate = Self { db, values: Values { dir: dir.into(), obfuscation }, begun };
        chainstate.check_format()?;
        Ok(chainstate)
    }

    /// Opens the chainstate in the directory `dir` for reading alone.
    ///
    /// # Errors
    /// As for [`Chainstate::open`].
    pub fn open_read_only(disk: &Disk, dir: &Path) -> Result<Self> {
        Self::open(disk.clone(), dir, Options { read_only: true, ..Options::default() })
    }

    /// Deletes the chainstate in the directory `dir`, if there is one.
    pub fn destroy(disk: &Disk, dir: &Path) -> Result<()> {
        Db::destroy(disk, dir)
    }

    /// Replaces the chainstate in `dir` with the one in `from`, a directory on the same file
    /// system. Neither may be open. After a crash `dir` holds either one.
    pub fn adopt(disk: &Disk, dir: &Path, from: &Path) -> Result<()> {
        Db::adopt(disk, dir, from)
    }

    /// Returns the best block, for which the chainstate holds the UTXO set; `None` in an empty
    /// chainstate.
    pub fn best_block(&self) -> Result<Option<Hash>> {
        self.view().best_block()
    }

    /// Returns the UTXO set as it is now, which later writes do not change.
    pub fn view(&self) -> CoinsView {
        CoinsView { tables: self.db.snapshot(), values: self.values.clone() }
    }

    /// Returns whether nothing has ever been written, so that there are no coins to look up.
    pub fn is_empty(&self) -> bool {
        !self.begun.load(Relaxed)
    }

    /// Returns the coin with this outpoint.
    pub fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>> {
        let mut key = Vec::new();
        put_coin_key(&mut key, outpoint);
        let read = |value: &[u8]| self.values.coin(outpoint, value, &mut Vec::new());
        self.db.get_with(&key, read)?.transpose()
    }

    /// Returns the coins with these outpoints, in the order given. They are looked up in the order
    /// of the tables; the more there are, the less time each one takes.
    pub fn get_many(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<Coin>>> {
        let mut order: Vec<usize> = (0..outpoints.len()).collect();
        if !outpoints.is_sorted_by(|a, b| key_order(a, b).is_le()) {
            order.sort_unstable_by(|a, b| key_order(&outpoints[*a], &outpoints[*b]));
        }
        let mut bytes = Vec::with_capacity(35 * order.len());
        let mut ends = vec![0];
        for i in &order {
            put_coin_key(&mut bytes, &outpoints[*i]);
            ends.push(bytes.len());
        }
        let keys: Vec<&[u8]> = ends.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        let mut coins = vec![None; outpoints.len()];
        let mut error = None;
        let mut scratch = Vec::new();
        self.db.get_many(&keys, |i, value| {
            let i = order[i];
            match self.values.coin(&outpoints[i], value, &mut scratch) {
                Ok(coin) => coins[i] = Some(coin),
                Err(e) => error = Some(e),
            }
        })?;
        error.map_or(Ok(coins), Err)
    }

    /// Writes the changes of a cache and the block after which they hold, all or nothing.
    pub fn write(&self, changes: &Changes, best_block: &Hash) -> Result<()> {
        self.write_reporting(changes, best_block, &|_| {})
    }

    /// Like [`Chainstate::write`], with progress reports.
    pub fn write_reporting(
        &self,
        changes: &Changes,
        best_block: &Hash,
        report: OnShare,
    ) -> Result<()> {
        self.db.wait_for_merge(NEWEST_RUNS_WAIT);
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
            part.try_for_each(|outpoint, coin| {
                match coin {
                    Some(coin) => writer.put(outpoint, &coin)?,
                    None => writer.delete(outpoint)?,
                }
                unreported += 1;
                if unreported == REPORT_CHANGES {
                    share.add(std::mem::take(&mut unreported));
                }
                Ok(())
            })?;
            writer.finish()?;
            share.add(unreported);
            Ok(())
        })?;
        run.commit()?;
        self.begun.store(true, Relaxed);
        Ok(())
    }

    /// Starts to replace the whole UTXO set with another, which is written in order. Readers see
    /// the old one until [`Bulk::commit`].
    pub fn bulk(&self) -> Result<Bulk<'_>> {
        Ok(Bulk { chainstate: self, run: self.db.bulk()?, kind: RunKind::Replaces })
    }

    /// Resumes a [`Chainstate::bulk`], or a run that adds and deletes coins of the UTXO set and
    /// that readers do not see either until [`Bulk::commit`]. Its finished tables are `tables`,
    /// which [`Options::keep`] named when the chainstate was opened; a run without any begins.
    ///
    /// # Errors
    /// A table is missing or is not the one that was written, or the chainstate has changed since.
    pub fn resume(&self, kind: RunKind, tables: &[PendingTable]) -> Result<Bulk<'_>> {
        Ok(Bulk { chainstate: self, run: self.db.resume_run(kind, tables)?, kind })
    }

    /// Removes tables that [`Bulk::finished`] has returned and with which no [`Bulk`] will be
    /// resumed. Missing tables are skipped.
    pub fn remove_pending(&self, tables: &[PendingTable]) -> Result<()> {
        self.db.remove_pending(tables)
    }

    /// Divides the current UTXO set into at most `parts` consecutive scans of about equal size. All
    /// outputs of a transaction are in the same scan.
    pub fn scans(&self, parts: usize) -> Result<Vec<CoinScan>> {
        self.view().scans(parts)
    }

    /// Returns a scan of the coins of all transactions from `first` to `last`.
    pub fn scan_txids(&self, first: &Hash, last: &Hash) -> CoinScan {
        self.view().scan_txids(first, last)
    }

    /// Merges some runs of tables if there are too many, and returns whether it did. Readers and
    /// one writer may continue meanwhile. If stopped, it changes nothing.
    pub fn merge(&self, watch: ShareWatch) -> Result<bool> {
        self.db.merge_watched(watch)
    }

    /// Merges all runs into one level.
    pub fn merge_all(&self) -> Result<()> {
        self.db.merge_all()
    }

    /// Merges runs until Bitcoin Core finds nothing to compact: all into one level, or a few newer
    /// changes into a level above a large one. Returns whether it finished; if stopped, it changes
    /// nothing.
    pub fn settle(&self, watch: ShareWatch) -> Result<bool> {
        self.db.settle(watch)
    }

    /// Returns the size of all tables in bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.db.stats().bytes()
    }

    /// Returns the directory of the chainstate.
    pub fn dir(&self) -> &Path {
        &self.values.dir
    }

    fn check_format(&self) -> Result<()> {
        if self.db.get(HEAD_BLOCKS)?.is_some() {
            let what = "Bitcoin Core was stopped in the middle of a flush: start it once \
                        to complete the flush, or rebuild the chainstate with `apus reindex`";
            return Err(StoreError::new(&self.values.dir, what));
        }
        if self.db.scan(OLD_COINS, None)?.next_entry()?.is_some() {
            let what = "the chainstate's format is older than Bitcoin Core 0.15: rebuild it with \
                        `apus reindex`";
            return Err(StoreError::new(&self.values.dir, what));
        }
        Ok(())
    }

    fn writer<'a>(&'a self, run: &'a RunBuilder) -> CoinWriter<'a> {
        let key = Vec::new();
        let value = Vec::new();
        CoinWriter { run: run.writer(), obfuscation: &self.values.obfuscation, key, value }
    }

    /// Writes the records before all coins as a part of the run; see [`CoinWriter::put_head`].
    fn write_head(&self, run: &RunBuilder, obfuscation: &[u8], best_block: &Hash) -> Result<()> {
        let mut writer = self.writer(run);
        writer.put_head(obfuscation, best_block)?;
        writer.finish()
    }
}

/// A new UTXO set, or changes to the present one, that take effect when they are committed. If this
/// is dropped uncommitted, nothing changes, except that tables returned by [`Bulk::finished`] are
/// kept.
pub struct Bulk<'a> {
    chainstate: &'a Chainstate,
    run: RunBuilder,
    kind: RunKind,
}

impl Bulk<'_> {
    /// Returns a writer for one part of the outpoints. Other writers may write other parts at the
    /// same time.
    pub fn writer(&self) -> CoinWriter<'_> {
        self.chainstate.writer(&self.run)
    }

    /// Makes the tables of all finished writers durable, and returns them, so that another process
    /// can resume the work ([`Chainstate::resume`]). They are kept from now on; opening the
    /// chainstate removes them unless [`Options::keep`] names them.
    pub fn finished(&self) -> Result<Vec<PendingTable>> {
        self.run.finished()
    }

    /// Makes the tables of all finished writers durable, so that the commit has less to wait for.
    /// Other threads may write meanwhile.
    pub fn sync(&self) -> Result<()> {
        self.run.sync()
    }

    /// Suspends the work, without a change to the chainstate. The tables of all finished writers
    /// are kept and returned, as by [`Bulk::finished`].
    pub fn suspend(self) -> Result<Vec<PendingTable>> {
        self.run.suspend()
    }

    /// Removes the tables of all writers that have ended; nothing can be committed after that.
    pub fn remove(&self) {
        self.run.remove();
    }

    /// Abandons the work, and removes all of its tables.
    pub fn discard(self) {
        self.run.discard();
    }

    /// Makes the written coins take effect. The UTXO set of the chainstate is then the one after
    /// the block `best_block`.
    pub fn commit(self, best_block: &Hash) -> Result<()> {
        let record = self.chainstate.values.obfuscation.to_record();
        let record = match self.kind {
            RunKind::Replaces => &record[..],
            RunKind::Adds => &[],
        };
        self.chainstate.write_head(&self.run, record, best_block)?;
        self.run.commit()?;
        self.chainstate.begun.store(true, Relaxed);
        Ok(())
    }
}

/// Writes coins, which must be passed in the order of [`key_order`].
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

    /// Writes a coin given by its key in the chainstate and its [`Coin::encode`]d form. Nothing is
    /// copied: `coin` is obfuscated in place.
    #[inline]
    pub fn put_raw(&mut self, key: &[u8], coin: &mut [u8]) -> Result<()> {
        self.obfuscation.apply(coin, 0);
        self.run.put(key, coin)
    }

    /// Deletes a coin, which has no effect in a [`Chainstate::bulk`].
    pub fn delete(&mut self, outpoint: &OutPoint) -> Result<()> {
        self.key.clear();
        put_coin_key(&mut self.key, outpoint);
        self.run.delete(&self.key)
    }

    /// Deletes a coin given by its key in the chainstate.
    pub fn delete_raw(&mut self, key: &[u8]) -> Result<()> {
        self.run.delete(key)
    }

    /// Ends the part. The whole can be committed only after every part has ended.
    pub fn finish(self) -> Result<()> {
        self.run.finish()
    }

    /// Writes the records that come before all coins: the obfuscation key, unless it is empty, and
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
}

/// Creates a random obfuscation key for a new database and writes it, as Core does before anything
/// else.
fn new_key(db: &Db, dir: &Path) -> Result<Obfuscation> {
    let mut key = [0; Obfuscation::KEY_SIZE];
    getrandom::fill(&mut key).map_err(|e| {
        StoreError::new(dir, format!("cannot get random bytes for an obfuscation key: {e}"))
    })?;
    let obfuscation = Obfuscation::new(key);
    db.apply([(OBFUSCATION_KEY, Some(obfuscation.to_record()))])?;
    Ok(obfuscation)
}
