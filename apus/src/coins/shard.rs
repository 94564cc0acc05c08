use crate::wire::OutPoint;

use super::coin::Coin;
use super::hasher::OutPointHasher;
use super::lookup::{Lookup, Overwrite, Overwritten};
use super::slab::{NONE, Slab, State};
use super::table::Table;

/// One shard of the cache: a table of slot numbers, the slots, and the list of changed entries
/// that runs through them. Every `hash` given is that of the outpoint beside it.
pub(super) struct Shard {
    hasher: OutPointHasher,
    table: Table,
    slab: Slab,
    /// Ends of the list of entries that are fresh, changed or spent.
    head: u32,
    tail: u32,
    changed: usize,
    /// The slot at which the next eviction starts.
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

    /// Asks memory for all that operations on these outpoints will touch, so that they wait for it
    /// once and not each in turn: their buckets, then their slots, then the neighbours in the list.
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

    /// Slots of the changed entries, in the order in which they became so.
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

    /// Core's `AddCoin`.
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
            // A spent entry becomes changed, never fresh: were it spent again before a sync, the
            // tables would keep the coin that they still hold.
            self.set_state(slot, State::Changed);
        }
        self.slab.set_coin(slot, coin);
        Ok(())
    }

    /// Takes the coin of an entry, if there is an entry and it has one.
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

    /// Makes sure that a sync leaves no coin under `outpoint` in the tables.
    pub fn remove(&mut self, hash: u64, outpoint: &OutPoint) {
        let Found { slot, is_new } = self.entry(hash, outpoint, State::Spent);
        if is_new {
            self.link(slot);
        } else {
            let state = self.slab.get(slot).state;
            self.spend_slot(hash, slot, state);
        }
    }

    /// Adds a clean entry unless there is an entry. Returns whether it did.
    pub fn fill(&mut self, hash: u64, outpoint: &OutPoint, coin: &Coin) -> bool {
        let Found { slot, is_new } = self.entry(hash, outpoint, State::Clean);
        if is_new {
            self.slab.set_coin(slot, coin);
        }
        is_new
    }

    /// What a sync leaves: no changed entry, and no spent one.
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

    /// Drops clean entries, in the order of their slots from where the last call stopped, until
    /// at most `bytes_max` are in use or every slot was looked at.
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

    /// A fresh coin that is spent leaves nothing; any other leaves its death to be written.
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

    /// Takes an entry that is not in the list out of the table, and frees its slot.
    fn forget(&mut self, hash: u64, slot: u32) {
        self.table.remove(hash, slot);
        self.slab.give(slot);
    }

    /// Gives an entry a state that belongs in the list.
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

    /// Panics unless table, slots and list agree.
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
