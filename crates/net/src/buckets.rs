//! A table of addresses in buckets (Core's `vvNew` and `vvTried`). A secret key decides where an
//! address belongs, so that others cannot choose what it displaces.

use std::collections::BTreeMap;

use super::group::Place;
use super::random::Random;

/// Addresses in a bucket (Core's `ADDRMAN_BUCKET_SIZE`).
pub const BUCKET_SIZE: u64 = 64;

/// Where an address is in a table: the bucket, and the position in it.
pub type Slot = (u16, u8);

/// A table of addresses.
pub struct Buckets {
    buckets: Vec<BTreeMap<u8, Place>>,
    len: usize,
}

impl Buckets {
    /// Creates a table with this many empty buckets.
    pub fn new(count: usize) -> Self {
        Self { buckets: vec![BTreeMap::new(); count], len: 0 }
    }

    /// Returns the number of addresses.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the address in `slot`.
    pub fn get(&self, slot: Slot) -> Option<Place> {
        self.buckets[usize::from(slot.0)].get(&slot.1).copied()
    }

    /// Puts an address into `slot`, which is empty.
    pub fn put(&mut self, slot: Slot, place: Place) {
        let old = self.buckets[usize::from(slot.0)].insert(slot.1, place);
        debug_assert!(old.is_none(), "the slot is empty");
        self.len += 1;
    }

    /// Empties `slot`.
    pub fn clear(&mut self, slot: Slot) {
        if self.buckets[usize::from(slot.0)].remove(&slot.1).is_some() {
            self.len -= 1;
        }
    }

    /// Returns the buckets that are not empty.
    pub fn filled(&self) -> Filled<'_> {
        Filled(self.buckets.iter().filter(|bucket| !bucket.is_empty()).collect())
    }
}

/// The buckets of a table that are not empty.
pub struct Filled<'a>(Vec<&'a BTreeMap<u8, Place>>);

impl Filled<'_> {
    /// Returns a random address of a random bucket: each bucket is as likely as the others, so that
    /// a source that fills its buckets gains nothing beyond them.
    pub fn any(&self, random: &mut Random) -> Option<Place> {
        if self.0.is_empty() {
            return None;
        }
        let bucket = self.0[random.below(self.0.len())];
        bucket.values().nth(random.below(bucket.len())).copied()
    }
}
