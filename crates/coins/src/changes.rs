use std::ops::Range;

use apus_wire::OutPoint;
use rayon::prelude::*;

use super::coin::{CoinParts, key_order};
use super::shard::Shard;
use super::shards::{SHARDS, Shards};

/// The approximate number of changes in a range of keys: few enough to stay in the processor's
/// cache while they are sorted and written.
const RANGE_CHANGES: usize = 8192;
/// The maximum number of ranges of keys: as many as the leading bits of a txid that are used can
/// distinguish.
const RANGES_MAX: usize = 1 << 16;

/// The changed entries of a cache as they were when a sync began, to be written to the tables. The
/// cache may be used and changed meanwhile.
///
/// [`Changes::end`] states that the tables hold them. If this is dropped without it, the entries
/// are changed ones as before, together with those that have changed since.
pub struct Changes<'a> {
    shards: &'a Shards,
    lists: Vec<List>,
    /// Binary logarithm of the number of ranges.
    range_log2: u32,
    /// The number of changes before each range, and then the total.
    before: Vec<usize>,
    ended: bool,
}

/// The slots of one shard's changed entries, range by range.
struct List {
    slots: Vec<u32>,
    /// The end of each range.
    ends: Vec<u32>,
}

/// Consecutive ranges of the changes.
pub struct Part<'a> {
    changes: &'a Changes<'a>,
    ranges: Range<usize>,
}

impl<'a> Changes<'a> {
    /// Takes the lists of changed entries of all shards; no other entry is touched.
    pub(super) fn begin(shards: &'a Shards) -> Self {
        shards.begin_sync();
        let count: usize = (0..SHARDS).map(|shard| shards.lock(shard).changed()).sum();
        let ranges = (count / RANGE_CHANGES).next_power_of_two().min(RANGES_MAX);
        let range_log2 = ranges.trailing_zeros();
        let lists: Vec<List> = (0..SHARDS)
            .into_par_iter()
            .map(|shard| List::take(&mut shards.lock(shard), range_log2))
            .collect();
        let mut before = vec![0];
        for range in 0..ranges {
            let changes: usize = lists.iter().map(|list| list.range(range).len()).sum();
            before.push(before[range] + changes);
        }
        Self { shards, lists, range_log2, before, ended: false }
    }

    /// Returns the number of changed entries.
    pub fn len(&self) -> usize {
        self.before[self.ranges()]
    }

    /// Returns whether no entry has changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all changes as one part.
    pub fn all(&self) -> Part<'_> {
        Part { changes: self, ranges: 0..self.ranges() }
    }

    /// Returns all changes as at most `parts` consecutive parts of about equal length, none of
    /// which is empty.
    pub fn split(&self, parts: usize) -> Vec<Part<'_>> {
        let step = self.len().div_ceil(parts.max(1)).max(1);
        let mut cuts = Vec::new();
        let mut start = 0;
        while start < self.ranges() {
            let enough = |before: &usize| *before < self.before[start] + step;
            let more = self.before[start + 1..].partition_point(enough);
            let end = self.ranges().min(start + 1 + more);
            if self.before[end] > self.before[start] {
                cuts.push(Part { changes: self, ranges: start..end });
            }
            start = end;
        }
        cuts
    }

    /// States that the tables hold the changes: their entries become clean, those of spent coins
    /// are dropped, and anything that has changed since is left to the next sync.
    pub fn end(mut self) {
        // The generation is raised first: coins read from the tables earlier are then refused, so
        // spent entries can be dropped.
        self.shards.raise_generation();
        self.settle(Shard::finish);
        self.ended = true;
    }

    fn settle(&self, act: impl Fn(&mut Shard, &[u32]) + Sync) {
        let lists = self.lists.par_iter().enumerate();
        lists.for_each(|(shard, list)| act(&mut self.shards.lock(shard), &list.slots));
    }

    fn ranges(&self) -> usize {
        1 << self.range_log2
    }
}

impl Drop for Changes<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.settle(Shard::take_back);
        }
        self.shards.end_sync();
    }
}

impl List {
    fn take(shard: &mut Shard, range_log2: u32) -> Self {
        let range_of = |outpoint: &OutPoint| {
            let [a, b, ..] = outpoint.txid.0;
            u32::from(u16::from_be_bytes([a, b])) >> (u16::BITS - range_log2)
        };
        let mut taken: Vec<(u32, u32)> = Vec::with_capacity(shard.changed());
        shard.begin_writing(|slot, outpoint| taken.push((range_of(outpoint), slot)));
        let mut ends = vec![0u32; 1 << range_log2];
        taken.iter().for_each(|(range, _)| ends[*range as usize] += 1);
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        let mut slots = vec![0; taken.len()];
        for (range, slot) in taken {
            slots[ends[range as usize] as usize] = slot;
            ends[range as usize] += 1;
        }
        Self { slots, ends }
    }

    fn range(&self, range: usize) -> &[u32] {
        let start = if range == 0 { 0 } else { self.ends[range - 1] };
        &self.slots[start as usize..self.ends[range] as usize]
    }
}

impl Part<'_> {
    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.changes.before[self.ranges.end] - self.changes.before[self.ranges.start]
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Passes each change to `act`, in ascending key order: the outpoint, and the coin to write, or
    /// `None` if the tables must delete it. Entries are copied range by range, so that no shard is
    /// locked for long.
    ///
    /// # Errors
    /// The first error of `act`, after which it is not called again.
    pub fn try_for_each<E>(
        &self,
        mut act: impl FnMut(&OutPoint, Option<CoinParts>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut batch = Batch::default();
        for range in self.ranges.clone() {
            batch.clear();
            for (shard, list) in self.changes.lists.iter().enumerate() {
                let slots = list.range(range);
                if !slots.is_empty() {
                    self.changes
                        .shards
                        .lock(shard)
                        .copy(slots, |outpoint, coin| batch.push(outpoint, coin));
                }
            }
            batch.try_for_each(&mut act)?;
        }
        Ok(())
    }
}

/// Copies of the changes in one range.
#[derive(Default)]
struct Batch {
    changes: Vec<Change>,
    scripts: Vec<u8>,
    /// The first eight bytes of each txid, big-endian, with the index of the change.
    sorted: Vec<(u64, u32)>,
}

struct Change {
    outpoint: OutPoint,
    amount: u64,
    code: u32,
    /// The range of the script; `None` if the coin is deleted.
    script: Option<Range<u32>>,
}

impl Batch {
    fn clear(&mut self) {
        self.changes.clear();
        self.scripts.clear();
        self.sorted.clear();
    }

    fn push(&mut self, outpoint: &OutPoint, coin: Option<CoinParts>) {
        let [a, b, c, d, e, f, g, h, ..] = outpoint.txid.0;
        let prefix = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        self.sorted.push((prefix, self.changes.len() as u32));
        let (amount, code, script) = match coin {
            None => (0, 0, None),
            Some(coin) => {
                let start = self.scripts.len() as u32;
                self.scripts.extend_from_slice(coin.script);
                (coin.amount, coin.code, Some(start..self.scripts.len() as u32))
            }
        };
        self.changes.push(Change { outpoint: *outpoint, amount, code, script });
    }

    fn try_for_each<E>(
        &mut self,
        act: &mut impl FnMut(&OutPoint, Option<CoinParts>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { changes, scripts, sorted } = self;
        let outpoint = |index: u32| &changes[index as usize].outpoint;
        sorted.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| key_order(outpoint(a.1), outpoint(b.1)))
        });
        sorted.iter().try_for_each(|(_, index)| {
            let Change { outpoint, amount, code, script } = &changes[*index as usize];
            let coin = script.clone().map(|script| CoinParts {
                amount: *amount,
                code: *code,
                script: &scripts[script.start as usize..script.end as usize],
            });
            act(outpoint, coin)
        })
    }
}
