use crate::memory::prefetch;

use super::record::{Record, prefix};

/// The number of records that are prefetched ahead of the one that is written: a slot of mainnet
/// (11 MB) is larger than the processor's second-level cache.
const AHEAD: usize = 8;

/// The offset of a record, and the start of its txid.
#[derive(Clone, Copy, Default)]
struct Entry {
    prefix: u64,
    at: u32,
}

/// The sorted order of the records of one slot. Its buffers are reused for one slot after another.
#[derive(Default)]
pub(super) struct Order {
    unsorted: Vec<Entry>,
    sorted: Vec<Entry>,
    /// The index at which the next entry of each bucket goes.
    ends: Vec<u32>,
}

/// The error for an offset without a record, or one that does not fit in 32 bits.
pub(super) struct BadRecord;

/// A record at its position in the sorted order.
pub(super) struct SortedRecord {
    pub record: Record,
    /// Whether its key equals that of the previous record.
    pub is_repeated: bool,
}

impl Order {
    /// Removes all records.
    pub(super) fn clear(&mut self) {
        self.unsorted.clear();
    }

    /// Adds the records that fill `bytes[start..end]`, whose offsets must fit in 32 bits.
    pub(super) fn add(&mut self, bytes: &[u8], start: usize, end: usize) -> Result<(), BadRecord> {
        let bytes = &bytes[..end];
        let mut at = start;
        while at < end {
            let offset = u32::try_from(at).map_err(|_| BadRecord)?;
            let record = Record::at(bytes, at).ok_or(BadRecord)?;
            self.unsorted.push(Entry { prefix: prefix(bytes, at), at: offset });
            at = record.end;
        }
        Ok(())
    }

    /// Sorts the records by key. All txids must begin with the same `bits` bits.
    ///
    /// Txids are evenly distributed, so after distributing the records once, by the following bits,
    /// into as many buckets as there are records, hardly any comparison is left. If they are not
    /// (many outputs of one transaction, or txids that a miner chose), buckets are sorted by
    /// comparison.
    pub(super) fn sort(&mut self, bytes: &[u8], bits: u32) {
        let count = self.unsorted.len();
        let log2 = count.max(2).ilog2().min(24);
        let bucket = |entry: &Entry| (entry.prefix << bits >> (64 - log2)) as usize;
        self.ends.clear();
        self.ends.resize(1 << log2, 0);
        for entry in &self.unsorted {
            self.ends[bucket(entry)] += 1;
        }
        let mut sum = 0;
        for end in &mut self.ends {
            sum += std::mem::replace(end, sum);
        }
        self.sorted.clear();
        self.sorted.resize(count, Entry::default());
        for entry in &self.unsorted {
            let place = &mut self.ends[bucket(entry)];
            self.sorted[*place as usize] = *entry;
            *place += 1;
        }
        let mut start = 0;
        for end in &self.ends {
            let end = *end as usize;
            if end - start > 1 {
                self.sorted[start..end].sort_unstable_by(|a, b| {
                    a.prefix.cmp(&b.prefix).then_with(|| key(bytes, a).cmp(key(bytes, b)))
                });
            }
            start = end;
        }
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the `i`-th record in order.
    #[inline]
    pub(super) fn record(&self, bytes: &[u8], i: usize) -> SortedRecord {
        if let Some(ahead) = self.sorted.get(i + AHEAD) {
            let at = ahead.at as usize;
            prefetch(&bytes[at]);
            prefetch(&bytes[(at + 64).min(bytes.len() - 1)]);
        }
        let entry = &self.sorted[i];
        let is_repeated = i > 0 && {
            let before = &self.sorted[i - 1];
            before.prefix == entry.prefix && key(bytes, before) == key(bytes, entry)
        };
        SortedRecord { record: read(bytes, entry), is_repeated }
    }
}

fn read(bytes: &[u8], entry: &Entry) -> Record {
    Record::at(bytes, entry.at as usize).expect("a record that was added can be read again")
}

fn key<'a>(bytes: &'a [u8], entry: &Entry) -> &'a [u8] {
    read(bytes, entry).key(bytes)
}
