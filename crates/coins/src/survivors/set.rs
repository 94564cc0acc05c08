use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use apus_disk::{Caching, Disk, PartBuffer, Parts, StoreError, lock};
use apus_hash::Hash;
use apus_wire::OutPoint;

use super::saved::SavedSurvivors;
use super::sort::{Order, SortedRecord};
use crate::chainstate::CoinWriter;
use crate::coin::decode_coin_key;
use crate::runs::{ChangeSink, SortedRuns};

const FILE_NAME: &str = "survivors.dat";
/// The number of leading txid bits that select the slot in which a coin is gathered.
const SLOT_BITS: u32 = 10;
/// Average size in bytes of a coin in a slot on mainnet.
const COIN_BYTES: u64 = 66;
/// The share (one in ...) of the memory for all coins that a slot may take while it is sorted,
/// however few coins an average slot has.
const SORT_SHARE: usize = 64;
/// The maximum number of bytes of a slot that are sorted at once: offsets have 32 bits, and one
/// piece of up to 1 GiB may be added.
const SORT_BYTES_MAX: usize = 1 << 30;

/// Coins that many threads gather in any order, and that are written in key order.
pub struct Survivors {
    bits: u32,
    /// The maximum memory in bytes for coins that are not in a file.
    memory_bytes_max: usize,
    slots: Parts,
    totals: Mutex<Totals>,
    /// Whether a writer was dropped with unflushed coins.
    lost: AtomicBool,
    /// The coins that are not written.
    left_out: OnceLock<LeftOut>,
}

/// Coins that were gathered and are not written.
struct LeftOut {
    outpoints: HashSet<OutPoint>,
    /// The number of them that were met.
    met: AtomicUsize,
}

/// The totals of all coins that writers have flushed.
#[derive(Clone, Copy, Default)]
struct Totals {
    count: u64,
    amount: u64,
}

/// The reason why coins could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk is to blame.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This outpoint was pushed twice: the hints or blocks from which the coins come are to blame.
    #[error("the coin {0} was created twice")]
    Twice(OutPoint),
}

impl Survivors {
    /// The maximum number of ranges of slots ([`Survivors::ranges`]).
    pub const SLOTS_MAX: usize = 1 << SLOT_BITS;

    /// Returns an empty set. Coins may take up to `memory_bytes_max` of memory, at least 4 MiB;
    /// each writer takes 4 MiB more. Coins that do not fit go to a file in `dir`, which is created
    /// when it is first needed, and is written as `caching` says. Slots have equal shares of the
    /// memory but not equal numbers of coins: keeping all coins in memory takes a tenth more than
    /// their size.
    pub fn new(disk: &Disk, dir: &Path, memory_bytes_max: usize, caching: Caching) -> Self {
        Self::with_bits(disk, dir, memory_bytes_max, caching, SLOT_BITS)
    }

    /// Like [`Survivors::new`], with 2^`bits` slots.
    pub fn with_bits(
        disk: &Disk,
        dir: &Path,
        bytes_max: usize,
        caching: Caching,
        bits: u32,
    ) -> Self {
        let slots = Parts::new(disk, file_in(dir), 1 << bits, bytes_max >> bits, caching);
        Self::of(bits, bytes_max, slots, Totals::default())
    }

    /// Returns the coins that an earlier process saved with [`Survivors::save`]. Anything that it
    /// wrote to the file later is cut off.
    ///
    /// # Errors
    /// The file in `dir` is missing or shorter than it was.
    pub fn resume(
        disk: &Disk,
        dir: &Path,
        memory_bytes_max: usize,
        caching: Caching,
        saved: &SavedSurvivors,
    ) -> Result<Self, StoreError> {
        let bits = saved.bits();
        let slots =
            Parts::resume(disk, file_in(dir), memory_bytes_max >> bits, &saved.slots, caching)?;
        let totals = Totals { count: saved.count, amount: saved.amount };
        Ok(Self::of(bits, memory_bytes_max, slots, totals))
    }

    fn of(bits: u32, memory_bytes_max: usize, slots: Parts, totals: Totals) -> Self {
        let totals = Mutex::new(totals);
        let lost = AtomicBool::new(false);
        Self { bits, memory_bytes_max, slots, totals, lost, left_out: OnceLock::new() }
    }

    /// Writes all coins to the file and makes it durable. Returns the locations for
    /// [`Survivors::resume`]. Writers must be flushed before, and must not push before this
    /// returns.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// # Panics
    /// A writer was dropped with unflushed coins.
    pub fn save(&self) -> Result<SavedSurvivors, StoreError> {
        self.assert_none_lost();
        let slots = self.slots.save()?;
        let Totals { count, amount } = *lock(&self.totals);
        Ok(SavedSurvivors { count, amount, slots })
    }

    /// Returns the number of coins that writers have flushed.
    pub fn count(&self) -> u64 {
        lock(&self.totals).count
    }

    /// Returns the sum of the amounts of all flushed coins in satoshis, or `u64::MAX` if it is
    /// larger than that.
    pub fn amount(&self) -> u64 {
        lock(&self.totals).amount
    }

    /// Leaves these coins, each with its amount, out of what is written from now on. They must have
    /// been pushed once and flushed.
    ///
    /// # Panics
    /// This was called before.
    pub fn leave_out(&self, coins: &[(OutPoint, u64)]) {
        let outpoints = coins.iter().map(|(outpoint, _)| *outpoint).collect();
        let left_out = LeftOut { outpoints, met: AtomicUsize::new(0) };
        assert!(self.left_out.set(left_out).is_ok(), "coins are left out once");
        let mut totals = lock(&self.totals);
        totals.count -= coins.len() as u64;
        for (_, amount) in coins {
            totals.amount = totals.amount.saturating_sub(*amount);
        }
    }

    /// Returns whether all coins to be left out were met while coins were written.
    pub fn has_left_out_all(&self) -> bool {
        self.left_out
            .get()
            .is_none_or(|left| left.met.load(Ordering::Relaxed) == left.outpoints.len())
    }

    /// Divides the slots into about `parts`, at most 1024, consecutive ranges of about equal size,
    /// each to be written by one thread.
    pub fn ranges(&self, parts: usize) -> Vec<Range<usize>> {
        let sizes: Vec<u64> = (0..self.slots()).map(|slot| self.slots.bytes(slot)).collect();
        let total = u128::from(sizes.iter().sum::<u64>().max(1));
        let mut ranges = Vec::new();
        let mut start = 0;
        let mut seen = 0u128;
        for (i, bytes) in sizes.iter().enumerate() {
            seen += u128::from(*bytes);
            // Each cut is within half a slot of its ideal place.
            let due = (2 * seen + u128::from(*bytes)) * parts as u128 / (2 * total);
            let is_last = i + 1 == sizes.len();
            if is_last || (due > ranges.len() as u128 && ranges.len() + 1 < parts) {
                ranges.push(start..i + 1);
                start = i + 1;
            }
        }
        ranges
    }

    /// Sorts the slots of `range` one after another, writes them to `writer` and frees their
    /// memory. The file is kept until [`Survivors::destroy`], so that a process that ends before
    /// the commit can be resumed from the last save.
    ///
    /// # Errors
    /// The disk fails, or the same outpoint was pushed twice.
    ///
    /// # Panics
    /// A writer was dropped with unflushed coins.
    pub fn write_range(
        &self,
        range: Range<usize>,
        writer: &mut CoinWriter,
    ) -> Result<(), WriteError> {
        self.for_each_in(range, |key, value| writer.put_raw(key, value))
    }

    /// Sorts the slots of `range` one after another, calls `each` with the chainstate key and the
    /// value before obfuscation of every coin, in order, and frees the memory of the slots.
    ///
    /// # Errors
    /// The disk fails, the same outpoint was pushed twice, or `each` fails.
    ///
    /// # Panics
    /// A writer was dropped with unflushed coins.
    pub fn for_each_in(
        &self,
        range: Range<usize>,
        mut each: impl FnMut(&[u8], &mut [u8]) -> Result<(), StoreError>,
    ) -> Result<(), WriteError> {
        self.assert_none_lost();
        let left_out = self.left_out.get();
        let mut each = |key: &[u8], value: &mut [u8]| match left_out {
            Some(left) if decode_coin_key(key).is_ok_and(|at| left.outpoints.contains(&at)) => {
                left.met.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            _ => each(key, value),
        };
        let mut order = Order::default();
        let mut buffer = PartBuffer::new();
        let bytes_max = self.sort_bytes_max();
        for slot in range {
            if self.slots.bytes(slot) <= bytes_max as u64 {
                self.slots.with_part(slot, &mut buffer, |records, pieces| {
                    self.visit_slot(records, pieces, &mut order, &mut each)
                })??
            } else {
                self.visit_in_runs(slot, bytes_max, &mut order, &mut buffer, &mut each)?;
            }
            self.slots.forget(slot);
        }
        Ok(())
    }

    /// Deletes the file.
    pub fn destroy(self) -> Result<(), StoreError> {
        self.slots.destroy()
    }

    /// Returns the maximum number of bytes of a slot that are sorted at once. With evenly
    /// distributed txids no slot has that many, but a miner can choose txids.
    fn sort_bytes_max(&self) -> usize {
        let average = self.count() * COIN_BYTES / self.slots() as u64;
        let twice = usize::try_from(2 * average).unwrap_or(usize::MAX);
        twice.max(self.memory_bytes_max / SORT_SHARE).min(SORT_BYTES_MAX)
    }

    /// Visits the records of a slot that is too large to be sorted at once: sorts as many at a time
    /// as fit in `bytes_max`, and merges these runs.
    fn visit_in_runs(
        &self,
        slot: usize,
        bytes_max: usize,
        order: &mut Order,
        buffer: &mut PartBuffer,
        each: &mut impl FnMut(&[u8], &mut [u8]) -> Result<(), StoreError>,
    ) -> Result<(), WriteError> {
        let mut runs = SortedRuns::new(&self.slots.path().with_extension(slot.to_string()));
        let mut add_run = |bytes: &mut Vec<u8>| -> Result<(), WriteError> {
            runs.begin()?;
            let all = 0..bytes.len();
            let mut put = |key: &[u8], value: &mut [u8]| runs.put(key, value);
            self.visit_slot(bytes, std::slice::from_ref(&all), order, &mut put)?;
            bytes.clear();
            Ok(())
        };
        let mut bytes = Vec::new();
        self.slots.for_each_piece(slot, buffer, |piece| {
            if bytes.len() + piece.len() > bytes_max && !bytes.is_empty() {
                add_run(&mut bytes)?;
            }
            bytes.extend_from_slice(piece);
            Ok::<(), WriteError>(())
        })?;
        add_run(&mut bytes)?;
        drop(bytes);
        let mut sink = Distinct { before: Vec::new(), repeated: None, each };
        runs.merge(&mut sink)?;
        sink.repeated.map_or(Ok(()), |outpoint| Err(WriteError::Twice(outpoint)))
    }

    /// Sorts and visits the records in `pieces` of `bytes`, which are those of one slot.
    fn visit_slot(
        &self,
        bytes: &mut [u8],
        pieces: &[Range<usize>],
        order: &mut Order,
        each: &mut impl FnMut(&[u8], &mut [u8]) -> Result<(), StoreError>,
    ) -> Result<(), WriteError> {
        order.clear();
        for piece in pieces {
            order.add(bytes, piece.start, piece.end).map_err(|_| self.unreadable())?;
        }
        order.sort(bytes, self.bits);
        for i in 0..order.len() {
            let SortedRecord { record, is_repeated } = order.record(bytes, i);
            if is_repeated && let Some(outpoint) = record.outpoint(bytes) {
                return Err(WriteError::Twice(outpoint));
            }
            let (key, value) = record.parts(bytes);
            each(key, value)?;
        }
        Ok(())
    }

    /// Returns the error for bytes that were read from the file as they were written but do not
    /// contain records.
    fn unreadable(&self) -> StoreError {
        let what = "the coins gathered here cannot be read: delete the file and run again";
        StoreError::new(self.slots.path(), what)
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.parts()
    }

    /// Returns the slot for the coins of a transaction.
    #[inline]
    pub(super) fn slot(&self, txid: &Hash) -> usize {
        let head = u16::from_be_bytes([txid.0[0], txid.0[1]]);
        usize::from(head) >> (u16::BITS - self.bits)
    }

    /// Appends whole records to a slot.
    pub(super) fn append(&self, slot: usize, records: &[u8]) -> Result<(), StoreError> {
        self.slots.append(slot, records)
    }

    /// Adds coins that a writer has flushed, and the sum of their amounts, to the totals.
    pub(super) fn count_flushed(&self, count: u64, amount: u64) {
        let mut totals = lock(&self.totals);
        totals.count += count;
        totals.amount = totals.amount.saturating_add(amount);
    }

    /// Notes that a writer was dropped with unflushed coins.
    pub(super) fn note_lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Panics if a writer was dropped with unflushed coins; after that the whole set must be
    /// abandoned.
    fn assert_none_lost(&self) {
        assert!(!self.lost.load(Ordering::Acquire), "a writer of survivors was dropped unflushed");
    }
}

/// Passes on sorted coins, except those whose key equals the previous one.
struct Distinct<'a, F> {
    /// The key of the previous coin.
    before: Vec<u8>,
    /// An outpoint that occurred twice.
    repeated: Option<OutPoint>,
    each: &'a mut F,
}

impl<F: FnMut(&[u8], &mut [u8]) -> Result<(), StoreError>> ChangeSink for Distinct<'_, F> {
    fn put(&mut self, key: &[u8], coin: &mut [u8]) -> Result<(), StoreError> {
        if self.before == key {
            self.repeated = self.repeated.or(decode_coin_key(key).ok());
            return Ok(());
        }
        self.before.clear();
        self.before.extend_from_slice(key);
        (self.each)(key, coin)
    }

    fn delete(&mut self, _: &[u8]) -> Result<(), StoreError> {
        unreachable!("coins are gathered and never deleted")
    }
}

fn file_in(dir: &Path) -> PathBuf {
    dir.join(FILE_NAME)
}
