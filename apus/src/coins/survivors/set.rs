use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memmap2::MmapMut;

use crate::disk::{Disk, StoreError};
use crate::hash::Hash;
use crate::wire::OutPoint;

use super::bits::SlotBits;
use super::partition::{self, Partition};
use super::saved::SavedSurvivors;
use super::sort::{Order, SortedRecord};
use super::spill::{PAGE_BYTES, Spill};
use crate::coins::chainstate::CoinWriter;

/// The division of txids in use: 64 partitions of 16 slots.
const BITS: SlotBits = SlotBits { partition: 6, slot: 4 };
/// Why the records of a slot in memory can be read.
const WRITTEN_HERE: &str = "a writer of this process encoded these records, below 4 GiB in a slot";
/// The largest share of the memory that a slot may have: offsets in it have 32 bits.
const SLOT_BYTES_MAX: usize = 1 << 30;

/// Coins that many threads gather in any order, and that are written in the order of their keys.
pub struct Survivors {
    bits: SlotBits,
    /// The bytes of memory for each slot, which are whole pages.
    slot_bytes: usize,
    partitions: Vec<Mutex<Partition>>,
    spill: Spill,
    totals: Mutex<Totals>,
    /// Whether a writer was dropped with coins that it had not flushed.
    lost: AtomicBool,
}

/// Sums over all coins that writers have flushed.
#[derive(Clone, Copy, Default)]
struct Totals {
    count: u64,
    amount: u64,
}

/// Why coins could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk is to blame.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This outpoint was pushed twice: the hints or blocks that the coins come from are to blame.
    #[error("the coin {0} was created twice")]
    Twice(OutPoint),
}

impl Survivors {
    /// No coins yet. They may take up to `memory_bytes_max` of memory, at least 4 MiB; each writer
    /// takes 4 MiB more. Coins without room go to a file in `dir`, which is made when it is first
    /// needed. Slots have equal shares of the memory but not equal numbers of coins: to keep all in
    /// memory takes a tenth more than their size.
    pub fn new(disk: &Disk, dir: &Path, memory_bytes_max: usize) -> Self {
        Self::with_bits(disk, dir, memory_bytes_max, BITS)
    }

    pub(crate) fn with_bits(disk: &Disk, dir: &Path, bytes_max: usize, bits: SlotBits) -> Self {
        Self::of(bits, bytes_max, Spill::new(disk, dir))
    }

    /// The coins that an earlier process saved with [`Survivors::save`]. What it wrote to the file
    /// later is cut off.
    ///
    /// # Errors
    /// The file in `dir` is missing or shorter than it was.
    pub fn resume(
        disk: &Disk,
        dir: &Path,
        memory_bytes_max: usize,
        saved: &SavedSurvivors,
    ) -> Result<Self, StoreError> {
        let spill = Spill::resume(disk, dir, saved.file_bytes)?;
        let mut survivors = Self::of(saved.bits, memory_bytes_max, spill);
        let mut extents = saved.extents.iter();
        for partition in &mut survivors.partitions {
            let partition = partition.get_mut().unwrap_or_else(PoisonError::into_inner);
            for (slot, extents) in partition.slots.iter_mut().zip(&mut extents) {
                slot.extents.clone_from(extents);
            }
        }
        survivors.totals = Mutex::new(Totals { count: saved.count, amount: saved.amount });
        Ok(survivors)
    }

    fn of(bits: SlotBits, bytes_max: usize, spill: Spill) -> Self {
        let pages = (bytes_max >> bits.total()) / PAGE_BYTES;
        let partition = |_| Mutex::new(Partition::new(1 << bits.slot));
        Self {
            bits,
            slot_bytes: (pages * PAGE_BYTES).clamp(PAGE_BYTES, SLOT_BYTES_MAX),
            partitions: (0..1 << bits.partition).map(partition).collect(),
            spill,
            totals: Mutex::default(),
            lost: AtomicBool::new(false),
        }
    }

    /// Writes all coins to the file and makes it durable. Returns what [`Survivors::resume`] needs
    /// to know. Writers must be flushed before, and must not push before this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// # Panics
    /// If a writer was dropped with coins that it had not flushed.
    pub fn save(&self) -> Result<SavedSurvivors, StoreError> {
        self.assert_none_lost();
        let mut extents = Vec::new();
        for partition in &self.partitions {
            let mut partition = lock(partition);
            for slot in 0..partition.slots.len() {
                partition.move_to_file(slot, self.slot_bytes, &self.spill)?;
                extents.push(partition.slots[slot].extents.clone());
            }
        }
        let file_bytes = self.spill.sync()?;
        let Totals { count, amount } = *lock(&self.totals);
        Ok(SavedSurvivors { bits: self.bits, count, amount, file_bytes, extents })
    }

    /// The number of coins that writers have flushed.
    pub fn count(&self) -> u64 {
        lock(&self.totals).count
    }

    /// The sum of the amounts of all flushed coins, in satoshi; `u64::MAX` if it is larger than
    /// that.
    pub fn amount(&self) -> u64 {
        lock(&self.totals).amount
    }

    /// Divides the partitions into about `parts`, at most 64, consecutive ranges of about equal
    /// size, each of which is for one thread to write.
    pub fn ranges(&self, parts: usize) -> Vec<Range<usize>> {
        let sizes: Vec<u64> = self.partitions.iter().map(|p| lock(p).bytes()).collect();
        let total = u128::from(sizes.iter().sum::<u64>().max(1));
        let (mut ranges, mut start, mut seen) = (Vec::new(), 0, 0u128);
        for (i, bytes) in sizes.iter().enumerate() {
            seen += u128::from(*bytes);
            // Each cut is made within half a partition of its ideal place.
            let due = (2 * seen + u128::from(*bytes)) * parts as u128 / (2 * total);
            let is_last = i + 1 == sizes.len();
            if is_last || (due > ranges.len() as u128 && ranges.len() + 1 < parts) {
                ranges.push(start..i + 1);
                start = i + 1;
            }
        }
        ranges
    }

    /// Sorts the partitions of `range` one after the other, writes them to `writer` and frees their
    /// memory. The file stays until [`Survivors::destroy`], so that a process that ends before the
    /// commit can be resumed from what was saved.
    ///
    /// # Errors
    /// The disk fails, or the same outpoint was pushed twice.
    ///
    /// # Panics
    /// If a writer was dropped with coins that it had not flushed.
    pub fn write_range(
        &self,
        range: Range<usize>,
        writer: &mut CoinWriter,
    ) -> Result<(), WriteError> {
        self.assert_none_lost();
        let (mut order, mut memory) = (Order::default(), None);
        for partition in &self.partitions[range] {
            let mut partition = lock(partition);
            for slot in 0..partition.slots.len() {
                if partition.slots[slot].extents.is_empty() {
                    let records = partition.held(slot, self.slot_bytes);
                    order.clear();
                    order.add(records, 0, records.len()).expect(WRITTEN_HERE);
                    self.write_slot(records, &mut order, writer)?;
                } else {
                    let records = self.gather(&mut partition, slot, &mut order, &mut memory)?;
                    self.write_slot(records, &mut order, writer)?;
                }
            }
            partition.free();
        }
        Ok(())
    }

    /// Deletes the file.
    pub fn destroy(self) -> Result<(), StoreError> {
        let (disk, dir) = (self.spill.disk().clone(), self.spill.dir().to_path_buf());
        drop(self);
        Spill::remove(&disk, &dir)
    }

    /// Copies all records of a slot, from the file and from memory, to `memory`, and adds them to
    /// `order`.
    fn gather<'a>(
        &self,
        partition: &mut Partition,
        slot: usize,
        order: &mut Order,
        memory: &'a mut Option<MmapMut>,
    ) -> Result<&'a mut [u8], StoreError> {
        let held = partition.held(slot, self.slot_bytes).len();
        let extents = std::mem::take(&mut partition.slots[slot].extents);
        let bytes = held + extents.iter().map(|extent| extent.pages_bytes()).sum::<usize>();
        if memory.as_ref().is_none_or(|memory| memory.len() < bytes) {
            *memory = None;
            let room = (bytes + bytes / 4).next_multiple_of(PAGE_BYTES);
            *memory = Some(partition::map(room, &self.spill)?);
        }
        let records = &mut memory.as_mut().expect("mapped above")[..bytes];
        order.clear();
        let mut at = 0;
        for extent in &extents {
            self.spill.read(extent, &mut records[at..at + extent.pages_bytes()])?;
            let end = at + extent.bytes as usize;
            order.add(records, at, end).map_err(|_| self.spill.damaged(extent.offset))?;
            at += extent.pages_bytes();
        }
        records[at..].copy_from_slice(partition.held(slot, self.slot_bytes));
        order.add(records, at, bytes).expect(WRITTEN_HERE);
        Ok(records)
    }

    fn write_slot(
        &self,
        records: &mut [u8],
        order: &mut Order,
        writer: &mut CoinWriter,
    ) -> Result<(), WriteError> {
        order.sort(records, self.bits.total());
        for i in 0..order.len() {
            let SortedRecord { record, is_repeated } = order.record(records, i);
            if is_repeated && let Some(outpoint) = record.outpoint(records) {
                return Err(WriteError::Twice(outpoint));
            }
            let (key, value) = record.parts(records);
            writer.put_raw(key, value)?;
        }
        Ok(())
    }

    /// The number of slots in all partitions together.
    pub(super) fn slots(&self) -> usize {
        1 << (self.bits.total())
    }

    /// The slot for a transaction's coins, counted over all partitions.
    #[inline]
    pub(super) fn slot(&self, txid: &Hash) -> usize {
        let head = u16::from_be_bytes([txid.0[0], txid.0[1]]);
        usize::from(head) >> (u16::BITS - self.bits.total())
    }

    /// Appends whole records to a slot, which is counted over all partitions.
    pub(super) fn append(&self, slot: usize, records: &[u8]) -> Result<(), StoreError> {
        let (partition, slot) = (slot >> self.bits.slot, slot & ((1 << self.bits.slot) - 1));
        lock(&self.partitions[partition]).append(slot, records, self.slot_bytes, &self.spill)
    }

    /// Adds coins that a writer has flushed, and the sum of their amounts, to the totals.
    pub(super) fn count_flushed(&self, count: u64, amount: u64) {
        let mut totals = lock(&self.totals);
        totals.count += count;
        totals.amount = totals.amount.saturating_add(amount);
    }

    /// Notes that a writer was dropped with coins that it had not flushed.
    pub(super) fn note_lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Panics if a writer was dropped with coins that it had not flushed: whoever drops one must
    /// give up on the whole.
    fn assert_none_lost(&self) {
        assert!(!self.lost.load(Ordering::Acquire), "a writer of survivors was dropped unflushed");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
