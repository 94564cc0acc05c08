use crate::wire::OutPoint;

use super::coin::Coin;
use super::hasher::OutPointHasher;
use super::lookup::{Lookup, Overwrite, Overwritten};
use super::slab::{NONE, Slab, State};
use super::table::Table;

/// One shard of the cache: the slots with their entries, a table that finds them by outpoint, and a
/// list through those that have changed since the last sync.
///
/// Each method that takes a `hash` and an `outpoint` expects the outpoint's own hash
/// ([`OutPointHasher::hash`]).
pub(super) struct Shard {
    hasher: OutPointHasher,
    table: Table,
    slab: Slab,
    /// The first and the last slot of the list of entries that are fresh, changed or spent.
    head: u32,
    tail: u32,
    changed: usize,
    /// The slot with which the next eviction starts.
    hand: u32,
}

/// The entry that was looked for.
struct Found {
    slot: u32,
    /// Whether it has just been made.
    is_new: bool,
}

impl Shard {
    pub fn new(hasher: OutPointHasher) -> Self {
        let (table, slab) = (Table::new(), Slab::default());
        Self { hasher, table, slab, head: NONE, tail: NONE, changed: 0, hand: 0 }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn changed(&self) -> usize {
        self.changed
    }

    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.slab.bytes()
    }

    pub fn slab(&self) -> &Slab {
        &self.slab
    }

    /// Asks the processor to load the memory that operations on these outpoints will touch, so that
    /// a batch waits for it once: the buckets, then the slots, then their neighbours in the list.
    pub fn warm(&self, hashes: impl Iterator<Item = u64> + Clone) {
        hashes.clone().for_each(|hash| self.table.prefetch(hash));
        let slots = hashes.filter_map(|hash| self.table.candidate(hash));
        slots.clone().for_each(|slot| self.slab.prefetch(slot));
        slots.for_each(|slot| {
            let entry = self.slab.get(slot);
            self.slab.prefetch(entry.prev);
            self.slab.prefetch(entry.next);
        });
    }

    /// The slots of the changed entries, in the order in which they were first changed.
    pub fn changed_slots(&self) -> impl Iterator<Item = u32> {
        let first = (self.head != NONE).then_some(self.head);
        std::iter::successors(first, |slot| match self.slab.get(*slot).next {
            NONE => None,
            next => Some(next),
        })
    }

    pub fn lookup(&self, hash: u64, outpoint: &OutPoint) -> Lookup {
        match self.find(hash, outpoint) {
            None => Lookup::Unknown,
            Some(slot) if self.slab.get(slot).state == State::Spent => Lookup::Spent,
            Some(slot) => Lookup::Hit(self.slab.coin(slot)),
        }
    }

    pub fn knows(&self, hash: u64, outpoint: &OutPoint) -> bool {
        self.find(hash, outpoint).is_some()
    }

    /// Adds a coin, unless it is unspendable (Core's `AddCoin`).
    pub fn add(
        &mut self,
        hash: u64,
        outpoint: &OutPoint,
        coin: &Coin,
        overwrite: Overwrite,
    ) -> Result<(), Overwritten> {
        if coin.script.is_unspendable() {
            return Ok(());
        }
        let created = match overwrite {
            Overwrite::Possible => State::Changed,
            Overwrite::Never => State::Fresh,
        };
        let Found { slot, is_new } = self.entry(hash, outpoint, created);
        let state = self.slab.get(slot).state;
        if is_new {
            self.link(slot);
        } else if overwrite == Overwrite::Never && state != State::Spent {
            return Err(Overwritten(*outpoint));
        } else if state != State::Fresh {
            // A spent entry becomes changed and not fresh: if it was fresh and spent again before
            // a sync, it would be dropped, and the tables would keep the coin that they still hold.
            self.set_state(slot, State::Changed);
        }
        self.slab.set_coin(slot, coin);
        Ok(())
    }

    /// Spends and returns the coin of an entry, if there is one.
    pub fn spend(&mut self, hash: u64, outpoint: &OutPoint) -> Lookup {
        let Some(slot) = self.find(hash, outpoint) else { return Lookup::Unknown };
        let state = self.slab.get(slot).state;
        if state == State::Spent {
            return Lookup::Spent;
        }
        let coin = self.slab.coin(slot);
        self.spend_slot(hash, slot, state);
        Lookup::Hit(coin)
    }

    /// Makes the next sync delete the coin under `outpoint` from the tables, if they hold one.
    pub fn remove(&mut self, hash: u64, outpoint: &OutPoint) {
        let Found { slot, is_new } = self.entry(hash, outpoint, State::Spent);
        if is_new {
            self.link(slot);
        } else {
            let state = self.slab.get(slot).state;
            self.spend_slot(hash, slot, state);
        }
    }

    /// Adds a clean entry if there is no entry, and returns whether it did.
    pub fn fill(&mut self, hash: u64, outpoint: &OutPoint, coin: &Coin) -> bool {
        let Found { slot, is_new } = self.entry(hash, outpoint, State::Clean);
        if is_new {
            self.slab.set_coin(slot, coin);
        }
        is_new
    }

    /// Makes changed entries clean and drops spent ones, after a sync has written them.
    pub fn mark_clean(&mut self) {
        let mut at = self.head;
        while at != NONE {
            let entry = self.slab.get_mut(at);
            let (slot, next) = (at, entry.next);
            (entry.prev, entry.next) = (NONE, NONE);
            if entry.state == State::Spent {
                let hash = self.hasher.hash(&entry.outpoint).outpoint;
                self.forget(hash, slot);
            } else {
                entry.state = State::Clean;
            }
            at = next;
        }
        (self.head, self.tail, self.changed) = (NONE, NONE, 0);
    }

    /// Drops clean entries until at most `bytes_max` bytes are in use or each slot has been
    /// visited. Slots are visited in order, starting where the last call stopped.
    pub fn evict(&mut self, bytes_max: usize) {
        for _ in 0..self.slab.len() {
            if self.bytes() <= bytes_max {
                return;
            }
            if self.hand >= self.slab.len() {
                self.hand = 0;
            }
            let entry = self.slab.get(self.hand);
            if entry.state == State::Clean {
                let hash = self.hasher.hash(&entry.outpoint).outpoint;
                self.forget(hash, self.hand);
            }
            self.hand += 1;
        }
    }

    fn find(&self, hash: u64, outpoint: &OutPoint) -> Option<u32> {
        self.table.find(hash, |slot| self.slab.get(slot).outpoint == *outpoint)
    }

    /// Finds the entry of `outpoint`, or makes one in `state` and linked to nothing.
    fn entry(&mut self, hash: u64, outpoint: &OutPoint, state: State) -> Found {
        if let Some(slot) = self.find(hash, outpoint) {
            return Found { slot, is_new: false };
        }
        let slot = self.slab.take(*outpoint, state);
        self.table.insert(hash, slot);
        Found { slot, is_new: true }
    }

    /// Spends the coin in a slot. The entry of a fresh coin disappears; any other stays, since the
    /// tables have to delete their coin.
    fn spend_slot(&mut self, hash: u64, slot: u32, state: State) {
        match state {
            State::Fresh => {
                self.unlink(slot);
                self.forget(hash, slot);
            }
            State::Clean | State::Changed => {
                self.slab.clear_coin(slot);
                self.set_state(slot, State::Spent);
            }
            State::Spent | State::Free => {}
        }
    }

    /// Removes an entry that is not in the list of changed entries, and frees its slot.
    fn forget(&mut self, hash: u64, slot: u32) {
        self.table.remove(hash, slot);
        self.slab.give(slot);
    }

    /// Sets the state of an entry to one that belongs in the list of changed entries.
    fn set_state(&mut self, slot: u32, state: State) {
        if self.slab.get(slot).state == State::Clean {
            self.link(slot);
        }
        self.slab.get_mut(slot).state = state;
    }

    fn link(&mut self, slot: u32) {
        let tail = std::mem::replace(&mut self.tail, slot);
        self.slab.get_mut(slot).prev = tail;
        match tail {
            NONE => self.head = slot,
            tail => self.slab.get_mut(tail).next = slot,
        }
        self.changed += 1;
    }

    fn unlink(&mut self, slot: u32) {
        let entry = self.slab.get_mut(slot);
        let (prev, next) = (entry.prev, entry.next);
        (entry.prev, entry.next) = (NONE, NONE);
        match prev {
            NONE => self.head = next,
            prev => self.slab.get_mut(prev).next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => self.slab.get_mut(next).prev = prev,
        }
        self.changed -= 1;
    }

    /// Panics unless table, slots and list agree with each other.
    #[cfg(any(test, feature = "internals"))]
    pub fn check(&self) {
        self.slab.check();
        assert_eq!(self.table.len() + self.slab.free(), self.slab.len() as usize, "entries");
        for slot in self.table.slots() {
            let entry = self.slab.get(slot);
            let found = self.find(self.hasher.hash(&entry.outpoint).outpoint, &entry.outpoint);
            assert_eq!(found, Some(slot), "an entry that is not found");
            assert_ne!(entry.state, State::Free, "a free slot in the table");
            if entry.state == State::Clean {
                assert_eq!((entry.prev, entry.next), (NONE, NONE), "a clean entry in the list");
            }
        }
        let (mut prev, mut at, mut listed) = (NONE, self.head, 0);
        while at != NONE {
            let entry = self.slab.get(at);
            assert_eq!(entry.prev, prev, "a broken link");
            assert!(matches!(entry.state, State::Fresh | State::Changed | State::Spent));
            listed += 1;
            assert!(listed <= self.changed, "the list is longer than its count");
            (prev, at) = (at, entry.next);
        }
        assert_eq!((listed, prev), (self.changed, self.tail), "the end of the list");
        let is_listed = |state| matches!(state, State::Fresh | State::Changed | State::Spent);
        let states = self.table.slots().filter(|slot| is_listed(self.slab.get(*slot).state));
        assert_eq!(states.count(), self.changed, "changed entries outside the list");
    }
}
