use std::collections::HashMap;

use apus_wire::OutPoint;

use super::coin::{Coin, CoinParts};
use super::hasher::OutPointHasher;
use super::lookup::{Lookup, Overwrite, Overwritten};
use super::slab::{NONE, Slab, SlotState};
use super::table::Table;

/// One shard of the cache: slots with entries, a table that finds them by outpoint, and a list of
/// the entries that have changed since the last sync.
///
/// Every method that takes a `hash` and an `outpoint` expects the hash of that outpoint
/// ([`OutPointHasher::hash`]).
pub(super) struct Shard {
    hasher: OutPointHasher,
    table: Table,
    slab: Slab,
    /// The first and the last slot in the list of fresh, changed and spent entries.
    head: u32,
    tail: u32,
    changed: usize,
    /// The number of entries that a sync is writing and that have not changed since.
    held: usize,
    /// The number of other unchanged entries that a block yet to be connected wants.
    pinned: usize,
    /// The slot at which the next eviction starts.
    hand: u32,
    /// By slot, the coins that are being written although the entry holds another one. This
    /// is rare: a coin is restored, or a txid occurs twice.
    displaced: HashMap<u32, Coin>,
}

/// The number of slots that are prefetched ahead of the current one when many slots are visited.
const AHEAD: usize = 16;

/// The entry found by a lookup.
struct Found {
    slot: u32,
    /// Whether the entry was just created.
    is_new: bool,
}

impl Shard {
    pub fn new(hasher: OutPointHasher) -> Self {
        let table = Table::default();
        let slab = Slab::default();
        let displaced = HashMap::new();
        let head = NONE;
        let tail = NONE;
        let hand = 0;
        let changed = 0;
        let held = 0;
        let pinned = 0;
        Self { hasher, table, slab, head, tail, changed, held, pinned, hand, displaced }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn changed(&self) -> usize {
        self.changed
    }

    /// Returns the number of clean entries that no block yet to be connected wants.
    pub fn clean(&self) -> usize {
        self.len() - self.changed - self.held - self.pinned
    }

    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.slab.bytes()
    }

    /// Prefetches the memory that operations on these outpoints will touch, so that a batch waits
    /// for it only once: the buckets, then the slots, then their neighbours in the list.
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

    pub fn lookup(&self, hash: u64, outpoint: &OutPoint) -> Lookup {
        self.find(hash, outpoint).map_or(Lookup::Unknown, |slot| self.lookup_slot(slot))
    }

    fn lookup_slot(&self, slot: u32) -> Lookup {
        match self.slab.get(slot).state() {
            SlotState::Awaited => Lookup::Unknown,
            state if state.is_spent() => Lookup::Spent,
            _ => Lookup::Hit(self.slab.coin(slot)),
        }
    }

    /// Keeps the entry of a coin that a block yet to be connected spends, until it is spent or
    /// released. Returns whether the coin is known; if not, it is awaited from this `generation`
    /// on.
    pub fn want(&mut self, hash: u64, outpoint: &OutPoint, generation: u64) -> bool {
        let Some(slot) = self.find(hash, outpoint) else {
            let slot = self.insert(hash, outpoint, SlotState::Awaited);
            self.slab.get_mut(slot).set_awaited_since(generation);
            self.set_wanted(slot, true);
            return false;
        };
        let state = self.slab.get(slot).state();
        if !state.is_spent() {
            self.set_wanted(slot, true);
        }
        state != SlotState::Awaited
    }

    /// Announces that the block that wanted this coin will not be connected.
    pub fn release(&mut self, hash: u64, outpoint: &OutPoint) {
        let Some(slot) = self.find(hash, outpoint) else { return };
        self.set_wanted(slot, false);
        if self.slab.get(slot).state() == SlotState::Awaited {
            self.forget(hash, slot);
        }
    }

    fn set_wanted(&mut self, slot: u32, is_wanted: bool) {
        let entry = self.slab.get_mut(slot);
        self.pinned -= usize::from(entry.is_pinned());
        entry.set_wanted(is_wanted);
        self.pinned += usize::from(entry.is_pinned());
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
            Overwrite::Possible => SlotState::Changed,
            Overwrite::Never => SlotState::Fresh,
        };
        let Found { slot, is_new } = self.entry(hash, outpoint, created);
        let state = self.slab.get(slot).state();
        if !is_new {
            if overwrite == Overwrite::Never && !state.is_spent() {
                return Err(Overwritten(*outpoint));
            }
            let next = self.state_with(slot, state, coin);
            self.set_state(slot, next);
        }
        self.slab.set_coin(slot, coin);
        Ok(())
    }

    /// Returns the state of an entry once it holds `coin`. A different coin that is being written
    /// is put aside.
    fn state_with(&mut self, slot: u32, state: SlotState, coin: &Coin) -> SlotState {
        match state {
            SlotState::Fresh => SlotState::Fresh,
            // A spent entry becomes changed, not fresh: if it was fresh and spent again before a
            // sync, it would be dropped, and the tables would keep the coin that they still hold.
            SlotState::Free
            | SlotState::Awaited
            | SlotState::Clean
            | SlotState::Changed
            | SlotState::Spent => SlotState::Changed,
            SlotState::Writing | SlotState::WritingSpent => {
                let is_aside = self.displaced.contains_key(&slot);
                if !is_aside && self.slab.coin(slot) == *coin {
                    return SlotState::Writing;
                }
                if !is_aside {
                    self.displaced.insert(slot, self.slab.coin(slot));
                }
                SlotState::WritingChanged
            }
            SlotState::WritingChanged => SlotState::WritingChanged,
            SlotState::Deleting | SlotState::DeletingChanged => SlotState::DeletingChanged,
        }
    }

    /// Spends and returns the coin of an entry, if there is one.
    pub fn spend(&mut self, hash: u64, outpoint: &OutPoint) -> Lookup {
        let Some(slot) = self.find(hash, outpoint) else { return Lookup::Unknown };
        let found = self.lookup_slot(slot);
        if matches!(found, Lookup::Hit(_)) {
            self.spend_slot(hash, slot);
        }
        found
    }

    /// Makes the next sync delete the coin under `outpoint` from the tables, if they hold one.
    pub fn remove(&mut self, hash: u64, outpoint: &OutPoint) {
        let Found { slot, is_new } = self.entry(hash, outpoint, SlotState::Spent);
        if !is_new {
            self.spend_slot(hash, slot);
        }
    }

    /// Fills an awaited entry with a coin that was read from the tables after `generation` was
    /// taken, and makes it clean. Other entries, and one that is awaited since a later generation,
    /// are not changed: the coin may have been spent after it was read.
    pub fn fill(&mut self, hash: u64, outpoint: &OutPoint, generation: u64, coin: &Coin) {
        let Some(slot) = self.find(hash, outpoint) else { return };
        if self.slab.get(slot).awaited_since().is_some_and(|since| since <= generation) {
            self.slab.set_coin(slot, coin);
            self.set_state(slot, SlotState::Clean);
        }
    }

    /// Marks each changed entry as being written, and passes its slot and outpoint to `take`. Later
    /// changes are listed anew.
    pub fn begin_writing(&mut self, mut take: impl FnMut(u32, &OutPoint)) {
        let mut at = self.head;
        while at != NONE {
            let next = self.slab.get(at).next;
            self.slab.prefetch(next);
            let entry = self.slab.get_mut(at);
            entry.set_state(match entry.state() {
                SlotState::Spent => SlotState::Deleting,
                _ => SlotState::Writing,
            });
            (entry.prev, entry.next) = (NONE, NONE);
            take(at, &entry.outpoint);
            at = next;
        }
        self.held = std::mem::take(&mut self.changed);
        (self.head, self.tail) = (NONE, NONE);
    }

    /// Passes on, for slots that are being written, the outpoint and the coin that the tables get,
    /// or `None` if they must delete theirs.
    pub fn copy(&self, slots: &[u32], mut take: impl FnMut(&OutPoint, Option<CoinParts>)) {
        self.each_ahead(slots).for_each(|slot| {
            let entry = self.slab.get(slot);
            match entry.state() {
                SlotState::Deleting | SlotState::DeletingChanged => take(&entry.outpoint, None),
                _ => match self.displaced.get(&slot) {
                    Some(coin) => take(&entry.outpoint, Some(coin.parts())),
                    None => take(&entry.outpoint, Some(self.slab.parts(slot))),
                },
            }
        });
    }

    /// Notes that the tables hold the entries that were being written; `slots` must be all slots
    /// that [`Shard::begin_writing`] returned.
    pub fn finish(&mut self, slots: &[u32]) {
        for (index, &slot) in slots.iter().enumerate() {
            slots.get(index + 2 * AHEAD).inspect(|slot| self.slab.prefetch(**slot));
            slots.get(index + AHEAD).inspect(|slot| self.warm_slot(**slot, SlotState::Deleting));
            let entry = self.slab.get_mut(slot);
            match entry.state() {
                SlotState::Writing => {
                    entry.set_state(SlotState::Clean);
                    self.pinned += usize::from(entry.is_pinned());
                }
                SlotState::WritingSpent => self.forget_coin(slot),
                SlotState::WritingChanged | SlotState::DeletingChanged => {
                    entry.set_state(SlotState::Changed)
                }
                SlotState::Deleting => {
                    let hash = self.hasher.hash(&entry.outpoint).outpoint;
                    self.forget(hash, slot);
                }
                SlotState::Free | SlotState::Awaited | SlotState::Clean => {}
                SlotState::Fresh | SlotState::Changed | SlotState::Spent => {}
            }
        }
        self.displaced.clear();
        self.held = 0;
    }

    /// Turns entries that were being written into changed ones again, since the tables do not hold
    /// them.
    pub fn take_back(&mut self, slots: &[u32]) {
        for &slot in slots {
            match self.slab.get(slot).state() {
                SlotState::Writing => self.set_state(slot, SlotState::Changed),
                SlotState::WritingSpent => self.forget_coin(slot),
                SlotState::Deleting => self.set_state(slot, SlotState::Spent),
                // The entry is already listed.
                _ => self.slab.get_mut(slot).set_state(SlotState::Changed),
            }
        }
        self.displaced.clear();
        self.held = 0;
    }

    /// Drops a spent coin, so that its entry only says that the tables must delete it.
    fn forget_coin(&mut self, slot: u32) {
        self.slab.clear_coin(slot);
        self.slab.get_mut(slot).set_state(SlotState::Spent);
    }

    /// Returns an iterator over the slots that prefetches the next ones.
    fn each_ahead<'a>(&'a self, slots: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        slots.iter().enumerate().map(|(index, slot)| {
            slots.get(index + AHEAD).inspect(|slot| self.slab.prefetch(**slot));
            *slot
        })
    }

    /// Drops clean entries until at most `bytes_max` bytes are in use or each slot has been
    /// visited. Slots are visited in order, starting where the last call stopped. Entries that a
    /// block yet to be connected wants are kept.
    pub fn evict(&mut self, bytes_max: usize) {
        for _ in 0..self.slab.len() {
            if self.bytes() <= bytes_max {
                return;
            }
            if self.hand >= self.slab.len() {
                self.hand = 0;
            }
            self.warm_slot(self.hand + AHEAD as u32, SlotState::Clean);
            let entry = self.slab.get(self.hand);
            if entry.state() == SlotState::Clean && !entry.is_wanted() {
                let hash = self.hasher.hash(&entry.outpoint).outpoint;
                self.forget(hash, self.hand);
            }
            self.hand += 1;
        }
    }

    /// Prefetches the memory that dropping the entry of a slot will touch, if it is in `state`.
    fn warm_slot(&self, slot: u32, state: SlotState) {
        if slot < self.slab.len() {
            let entry = self.slab.get(slot);
            if entry.state() == state {
                self.table.prefetch(self.hasher.hash(&entry.outpoint).outpoint);
            }
        }
    }

    fn find(&self, hash: u64, outpoint: &OutPoint) -> Option<u32> {
        self.table.find(hash, |slot| self.slab.get(slot).outpoint == *outpoint)
    }

    /// Finds the entry of `outpoint`, or creates one in `state`. An awaited entry is put into
    /// `state`.
    fn entry(&mut self, hash: u64, outpoint: &OutPoint, state: SlotState) -> Found {
        let Some(slot) = self.find(hash, outpoint) else {
            return Found { slot: self.insert(hash, outpoint, state), is_new: true };
        };
        let is_new = self.slab.get(slot).state() == SlotState::Awaited;
        if is_new {
            self.set_state(slot, state);
        }
        Found { slot, is_new }
    }

    fn insert(&mut self, hash: u64, outpoint: &OutPoint, state: SlotState) -> u32 {
        let slot = self.slab.take(*outpoint, state);
        self.table.insert(hash, slot);
        if state.is_listed() {
            self.link(slot);
        }
        slot
    }

    /// Spends the coin in a slot. The entry of a fresh coin is dropped; any other stays, since the
    /// tables must delete their coin.
    fn spend_slot(&mut self, hash: u64, slot: u32) {
        match self.slab.get(slot).state() {
            SlotState::Fresh => {
                self.unlink(slot);
                self.forget(hash, slot);
            }
            SlotState::Clean | SlotState::Changed => {
                self.slab.clear_coin(slot);
                self.set_state(slot, SlotState::Spent);
            }
            // The coin is still to be copied, and stays.
            SlotState::Writing => self.set_state(slot, SlotState::WritingSpent),
            SlotState::WritingChanged => {
                self.slab.clear_coin(slot);
                self.set_state(slot, SlotState::WritingSpent);
            }
            SlotState::DeletingChanged => {
                self.slab.clear_coin(slot);
                self.set_state(slot, SlotState::Deleting);
            }
            SlotState::Spent | SlotState::WritingSpent | SlotState::Deleting => {}
            SlotState::Free | SlotState::Awaited => {}
        }
    }

    /// Removes an entry that is not in the list of changed entries, and frees its slot.
    fn forget(&mut self, hash: u64, slot: u32) {
        self.table.remove(hash, slot);
        self.slab.give(slot);
    }

    /// Sets the state of an entry, and adds it to the list or removes it as the state requires.
    fn set_state(&mut self, slot: u32, state: SlotState) {
        let entry = self.slab.get_mut(slot);
        let before = entry.state();
        self.pinned -= usize::from(entry.is_pinned());
        entry.set_state(state);
        self.pinned += usize::from(entry.is_pinned());
        self.held += usize::from(state.is_held());
        self.held -= usize::from(before.is_held());
        match (before.is_listed(), state.is_listed()) {
            (false, true) => self.link(slot),
            (true, false) => self.unlink(slot),
            (false, false) | (true, true) => {}
        }
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
        let prev = entry.prev;
        let next = entry.next;
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

    /// Returns the outpoints of all entries, in no particular order.
    pub fn outpoints(&self) -> impl Iterator<Item = &OutPoint> {
        self.table.slots().map(|slot| &self.slab.get(slot).outpoint)
    }

    /// Panics unless table, slots and list are consistent.
    pub fn check(&self) {
        self.slab.check();
        assert_eq!(self.table.len() + self.slab.free(), self.slab.len() as usize, "entries");
        for slot in self.table.slots() {
            let entry = self.slab.get(slot);
            let found = self.find(self.hasher.hash(&entry.outpoint).outpoint, &entry.outpoint);
            assert_eq!(found, Some(slot), "an entry that is not found");
            assert_ne!(entry.state(), SlotState::Free, "a free slot in the table");
            if !entry.state().is_listed() {
                assert_eq!((entry.prev, entry.next), (NONE, NONE), "a clean entry in the list");
            }
            if entry.state().is_spent() {
                assert!(!entry.is_wanted(), "a spent coin that is wanted");
            }
            if entry.state() == SlotState::Awaited {
                assert!(entry.is_wanted(), "a coin that is awaited and not wanted");
            }
        }
        let mut prev = NONE;
        let mut at = self.head;
        let mut listed = 0;
        while at != NONE {
            let entry = self.slab.get(at);
            assert_eq!(entry.prev, prev, "a broken link");
            assert!(entry.state().is_listed(), "an unchanged entry in the list");
            listed += 1;
            assert!(listed <= self.changed, "the list is longer than its count");
            (prev, at) = (at, entry.next);
        }
        assert_eq!((listed, prev), (self.changed, self.tail), "the end of the list");
        let held = self.table.slots().filter(|slot| self.slab.get(*slot).state().is_held());
        assert_eq!(held.count(), self.held, "entries that are being written");
        let pinned = self.table.slots().filter(|slot| self.slab.get(*slot).is_pinned());
        assert_eq!(pinned.count(), self.pinned, "entries that later blocks want");
        let states = self.table.slots().map(|slot| self.slab.get(slot).state());
        let changed = states.filter(|state| state.is_listed()).count();
        assert_eq!(changed, self.changed, "changed entries outside the list");
    }
}
