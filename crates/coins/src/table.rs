use super::memory::{large_vec, prefetch};
use super::slab::NONE;

/// A hash table of slot numbers, designed for batches: the memory that a lookup will touch can be
/// prefetched, so that the cache misses of a whole batch overlap. A lookup that waits for memory
/// takes about 400 ns, which is most of the time of connecting a block.
///
/// The table uses open addressing with linear probing. A removal moves later buckets back, so that
/// there are no tombstones. A bucket holds 32 bits of the hash, which almost always identify its
/// entry without reading its slot.
#[derive(Default)]
pub struct Table {
    buckets: Vec<Bucket>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Bucket {
    hash: u32,
    slot: u32,
}

const EMPTY: Bucket = Bucket { hash: 0, slot: NONE };
const BUCKETS_MIN: usize = 16;

impl Table {
    /// Removes all entries and keeps their memory.
    pub fn clear(&mut self) {
        self.buckets.fill(EMPTY);
        self.len = 0;
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    /// Returns all slots, in no particular order.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        self.buckets.iter().map(|bucket| bucket.slot).filter(|slot| *slot != NONE)
    }

    /// Prefetches the bucket where a lookup of `hash` starts.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if !self.buckets.is_empty() {
            prefetch(&self.buckets[self.home(hash as u32)]);
        }
    }

    /// Returns the first slot whose bucket has the same bits of `hash`: almost always the right
    /// one, if it is in the table.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<u32> {
        self.find(hash, |_| true)
    }

    /// Returns the slot with this hash for which `is_it` returns true.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.position(hash as u32, is_it).map(|at| self.buckets[at].slot)
    }

    /// Adds a slot, which must not be in the table yet.
    #[inline]
    pub fn insert(&mut self, hash: u64, slot: u32) {
        if (self.len + 1) * 5 > self.buckets.len() * 4 {
            self.grow();
        }
        self.put(Bucket { hash: hash as u32, slot });
        self.len += 1;
    }

    /// Removes a slot, if it is in the table.
    pub fn remove(&mut self, hash: u64, slot: u32) {
        let Some(mut hole) = self.position(hash as u32, |found| found == slot) else { return };
        let mut at = hole;
        loop {
            at = self.after(at);
            let bucket = self.buckets[at];
            if bucket.slot == NONE {
                break;
            }
            // The bucket may move back into the hole unless its home comes after the hole.
            if self.distance(self.home(bucket.hash), at) >= self.distance(hole, at) {
                self.buckets[hole] = bucket;
                hole = at;
            }
        }
        self.buckets[hole] = EMPTY;
        self.len -= 1;
    }

    #[inline]
    fn position(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let bucket = self.buckets[at];
            if bucket.slot == NONE {
                return None;
            }
            if bucket.hash == hash && is_it(bucket.slot) {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    /// Returns the bucket where the search for a hash starts. The hash is scaled to the number of
    /// buckets, which need not be a power of two.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    /// Returns the number of steps from one bucket to another, wrapping at the end.
    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.buckets.len() - from }
    }

    fn put(&mut self, bucket: Bucket) {
        let mut at = self.home(bucket.hash);
        while self.buckets[at].slot != NONE {
            at = self.after(at);
        }
        self.buckets[at] = bucket;
    }

    /// Enlarges the table by half. It is 53 to 80 % full, so an entry takes 10 to 15 bytes here.
    fn grow(&mut self) {
        let size = (self.buckets.len() * 3 / 2).max(BUCKETS_MIN);
        let mut buckets = large_vec(size);
        buckets.resize(size, EMPTY);
        let old = std::mem::replace(&mut self.buckets, buckets);
        old.into_iter().filter(|bucket| bucket.slot != NONE).for_each(|bucket| self.put(bucket));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn it_agrees_with_a_map_under_crowded_hashes() {
        let mut table = Table::default();
        let mut map = HashMap::new();
        let mut random = 1u64;
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let slot = (random >> 40) as u32 % 500;
            // There are few different hashes, so runs are long and wrap around the end.
            let hash = u64::from(slot % 37).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if let std::collections::hash_map::Entry::Vacant(e) = map.entry(slot) {
                assert_eq!(table.find(hash, |found| found == slot), None);
                table.insert(hash, slot);
                e.insert(hash);
            } else {
                assert_eq!(table.find(hash, |found| found == slot), Some(slot));
                table.remove(hash, slot);
                map.remove(&slot);
            }
            assert_eq!(table.len(), map.len());
        }
        let mut slots: Vec<u32> = table.slots().collect();
        slots.sort_unstable();
        let mut expected: Vec<u32> = map.keys().copied().collect();
        expected.sort_unstable();
        assert_eq!(slots, expected);
    }
}
