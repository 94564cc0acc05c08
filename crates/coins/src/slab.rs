use apus_wire::OutPoint;

use super::coin::{Coin, CoinParts};
use super::memory::prefetch;
use super::script::{CompactScript, INLINE_BYTES, Repr, inline_bytes};

/// The state of a cache entry, relative to the tables on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SlotState {
    /// The slot has no entry, and is on the free list.
    Free,
    /// The coin is not known yet, and a block yet to be connected spends it: it is being looked up
    /// in the tables, or an earlier block will create it.
    Awaited,
    /// The tables hold the same coin.
    Clean,
    /// The coin was never written: the tables hold none with its outpoint.
    Fresh,
    /// The coin must be written; the tables may hold another one with its outpoint.
    Changed,
    /// The coin must be deleted from the tables; the entry holds no coin.
    Spent,
    /// The coin is being written; the tables hold it once the sync ends.
    Writing,
    /// Like [`SlotState::Writing`], and spent since: the next sync deletes it. The entry still
    /// holds the coin that is being written.
    WritingSpent,
    /// Like [`SlotState::Writing`], and replaced since: the next sync writes the coin that the
    /// entry holds. The shard keeps the one that is being written.
    WritingChanged,
    /// The coin is being deleted from the tables; the entry holds no coin.
    Deleting,
    /// Like [`SlotState::Deleting`], and added again since: the next sync writes the entry's coin.
    DeletingChanged,
}

/// All states, in the order of [`SlotState`].
const STATES: [SlotState; 11] = [
    SlotState::Free,
    SlotState::Awaited,
    SlotState::Clean,
    SlotState::Fresh,
    SlotState::Changed,
    SlotState::Spent,
    SlotState::Writing,
    SlotState::WritingSpent,
    SlotState::WritingChanged,
    SlotState::Deleting,
    SlotState::DeletingChanged,
];

const _: () = {
    let mut index = 0;
    while index < STATES.len() {
        assert!(STATES[index] as usize == index);
        index += 1;
    }
};

impl SlotState {
    /// Returns whether the next sync has to write or delete something.
    pub fn is_listed(self) -> bool {
        match self {
            Self::Free | Self::Awaited | Self::Clean | Self::Writing | Self::Deleting => false,
            Self::Fresh | Self::Changed | Self::Spent => true,
            Self::WritingSpent | Self::WritingChanged | Self::DeletingChanged => true,
        }
    }

    /// Returns whether a sync is writing the entry and it has not changed since.
    pub fn is_held(self) -> bool {
        matches!(self, Self::Writing | Self::Deleting)
    }

    /// Returns whether the coin is spent.
    pub fn is_spent(self) -> bool {
        matches!(self, Self::Spent | Self::WritingSpent | Self::Deleting)
    }
}

/// The slot number that ends a list of slots.
pub(super) const NONE: u32 = u32::MAX;

/// The bit in [`Slot::mark`] that is set if a block yet to be connected spends the coin.
const WANTED: u8 = 0x80;

/// The first script byte of a slot whose script is boxed; inline scripts start with a smaller byte.
const BOXED: u8 = 0xff;

/// One entry. Its 92 bytes and its bucket in the table are all the memory of a cached coin whose
/// script is inline.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub outpoint: OutPoint,
    /// As bytes, little endian, so that the slot is aligned to 4 bytes.
    amount: [u8; 8],
    code: u32,
    /// The neighbours in the list of changed entries; [`NONE`] if the entry is not listed.
    pub prev: u32,
    pub next: u32,
    /// The state's index in [`STATES`], and [`WANTED`].
    mark: u8,
    /// The compressed script, or [`BOXED`] and the index of its box.
    script: [u8; INLINE_BYTES],
}

const _: () = assert!(size_of::<Slot>() == 92);

impl Slot {
    fn empty() -> Self {
        Self {
            outpoint: OutPoint::default(),
            amount: [0; 8],
            code: 0,
            prev: NONE,
            next: NONE,
            mark: SlotState::Free as u8,
            script: [0; INLINE_BYTES],
        }
    }

    #[inline]
    pub fn state(&self) -> SlotState {
        STATES[usize::from(self.mark & !WANTED)]
    }

    /// Sets the state. A coin that is spent is no longer wanted.
    #[inline]
    pub fn set_state(&mut self, state: SlotState) {
        let wanted = if state.is_spent() { 0 } else { self.mark & WANTED };
        self.mark = state as u8 | wanted;
    }

    /// Returns whether a block yet to be connected spends the coin.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.mark & WANTED != 0
    }

    /// Returns whether the entry is kept although it has no changes: a block yet to be connected
    /// would have to look it up again.
    #[inline]
    pub fn is_pinned(&self) -> bool {
        self.is_wanted() && matches!(self.state(), SlotState::Clean | SlotState::Awaited)
    }

    pub fn set_wanted(&mut self, is_wanted: bool) {
        self.mark = self.state() as u8 | if is_wanted { WANTED } else { 0 };
    }

    /// Notes the generation in which the coin began to be awaited.
    pub fn set_awaited_since(&mut self, generation: u64) {
        self.amount = generation.to_le_bytes();
    }

    /// Returns the generation in which the coin began to be awaited, if it still is.
    pub fn awaited_since(&self) -> Option<u64> {
        (self.state() == SlotState::Awaited).then(|| u64::from_le_bytes(self.amount))
    }

    fn box_index(&self) -> Option<usize> {
        let [tag, a, b, c, d, ..] = self.script;
        (tag == BOXED).then(|| u32::from_le_bytes([a, b, c, d]) as usize)
    }
}

/// The distance in slots at which free slots are prefetched before they are taken.
const FREE_AHEAD: usize = 8;

/// The number of slots that are allocated at once, so that growing copies nothing and wastes at
/// most one chunk.
const CHUNK_SLOTS: usize = 1024;
/// The approximate number of bytes that an allocator adds to a boxed script: a header, and rounding
/// up to 16.
const BOX_OVERHEAD: usize = 16;

/// All entries of one shard, addressed by slot number, and the scripts that are too long for a
/// slot.
#[derive(Default)]
pub(super) struct Slab {
    chunks: Vec<Vec<Slot>>,
    len: u32,
    /// The numbers of the free slots; the last one is taken next.
    free: Vec<u32>,
    boxes: Vec<Box<[u8]>>,
    free_boxes: Vec<u32>,
    box_bytes: usize,
}

impl Slab {
    #[inline]
    pub fn get(&self, slot: u32) -> &Slot {
        &self.chunks[slot as usize / CHUNK_SLOTS][slot as usize % CHUNK_SLOTS]
    }

    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.chunks[slot as usize / CHUNK_SLOTS][slot as usize % CHUNK_SLOTS]
    }

    /// Asks the processor to load a slot.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        if let Some(slot) = self
            .chunks
            .get(slot as usize / CHUNK_SLOTS)
            .and_then(|c| c.get(slot as usize % CHUNK_SLOTS))
        {
            prefetch(slot);
        }
    }

    /// Returns the number of slots, free ones included.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the number of free slots.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes a slot for `outpoint`, without links and coin.
    pub fn take(&mut self, outpoint: OutPoint, state: SlotState) -> u32 {
        let slot = match self.free.pop() {
            None => self.grow(),
            Some(slot) => {
                // The next free slots were freed long ago, and are in no processor cache.
                let soon = self.free.len().checked_sub(FREE_AHEAD);
                soon.into_iter().for_each(|soon| self.prefetch(self.free[soon]));
                slot
            }
        };
        let entry = self.get_mut(slot);
        (entry.outpoint, entry.mark) = (outpoint, state as u8);
        (entry.prev, entry.next) = (NONE, NONE);
        slot
    }

    /// Frees a slot and its script.
    pub fn give(&mut self, slot: u32) {
        self.clear_coin(slot);
        let entry = self.get_mut(slot);
        (entry.mark, entry.prev, entry.next) = (SlotState::Free as u8, NONE, NONE);
        self.free.push(slot);
    }

    /// Replaces the coin in a slot.
    pub fn set_coin(&mut self, slot: u32, coin: &Coin) {
        if self.get(slot).script[0] == BOXED {
            self.clear_coin(slot);
        }
        let script = match coin.script.repr() {
            Repr::Inline(bytes) => *bytes,
            Repr::Boxed(bytes) => self.put_box(bytes),
        };
        let entry = self.get_mut(slot);
        (entry.amount, entry.code) = (coin.amount.to_le_bytes(), coin.code());
        entry.script = script;
    }

    /// Drops the coin in a slot.
    pub fn clear_coin(&mut self, slot: u32) {
        if let Some(index) = self.get(slot).box_index() {
            let bytes = std::mem::take(&mut self.boxes[index]);
            self.box_bytes -= bytes.len() + BOX_OVERHEAD;
            self.free_boxes.push(index as u32);
        }
        self.get_mut(slot).script[0] = 0;
    }

    /// Returns the coin in a slot.
    pub fn coin(&self, slot: u32) -> Coin {
        let entry = self.get(slot);
        let script = CompactScript::from_repr(match entry.box_index() {
            None => Repr::Inline(entry.script),
            Some(index) => Repr::Boxed(self.boxes[index].clone()),
        });
        Coin {
            amount: u64::from_le_bytes(entry.amount),
            height: entry.code >> 1,
            is_coinbase: entry.code & 1 == 1,
            script,
        }
    }

    /// Returns the coin in a slot, with a borrowed script.
    pub fn parts(&self, slot: u32) -> CoinParts<'_> {
        let entry = self.get(slot);
        let script = match entry.box_index() {
            None => inline_bytes(&entry.script),
            Some(index) => &self.boxes[index],
        };
        CoinParts { amount: u64::from_le_bytes(entry.amount), code: entry.code, script }
    }

    /// Returns the memory in use, in bytes: used slots, the list of free slots, and boxed scripts.
    pub fn bytes(&self) -> usize {
        let boxes = size_of::<Box<[u8]>>() * self.boxes.capacity() + self.box_bytes;
        let slots = size_of::<Slot>() * (self.len as usize - self.free.len());
        let lists = 4 * (self.free.capacity() + self.free_boxes.capacity());
        slots + boxes + lists
    }

    fn grow(&mut self) -> u32 {
        let slot = self.len;
        assert!(slot < NONE, "a shard of the coins cache is full");
        if (slot as usize).is_multiple_of(CHUNK_SLOTS) {
            self.chunks.push(Vec::with_capacity(CHUNK_SLOTS));
        }
        self.chunks[slot as usize / CHUNK_SLOTS].push(Slot::empty());
        self.len += 1;
        slot
    }

    fn put_box(&mut self, bytes: &[u8]) -> [u8; INLINE_BYTES] {
        self.box_bytes += bytes.len() + BOX_OVERHEAD;
        let index = match self.free_boxes.pop() {
            Some(index) => {
                self.boxes[index as usize] = bytes.into();
                index
            }
            None => {
                self.boxes.push(bytes.into());
                self.boxes.len() as u32 - 1
            }
        };
        let mut script = [0; INLINE_BYTES];
        script[0] = BOXED;
        script[1..5].copy_from_slice(&index.to_le_bytes());
        script
    }

    /// Panics unless free slots, boxes and their counts are consistent.
    pub fn check(&self) {
        let mut is_listed = vec![false; self.len as usize];
        for slot in &self.free {
            assert_eq!(self.get(*slot).state(), SlotState::Free, "an entry on the free list");
            let twice = std::mem::replace(&mut is_listed[*slot as usize], true);
            assert!(!twice, "a slot that is free twice");
        }
        let mut boxed = vec![false; self.boxes.len()];
        let mut free_slots = 0;
        let mut box_bytes = 0;
        for slot in 0..self.len {
            free_slots += usize::from(self.get(slot).state() == SlotState::Free);
            if let Some(index) = self.get(slot).box_index() {
                assert!(!std::mem::replace(&mut boxed[index], true), "a box with two owners");
                box_bytes += self.boxes[index].len() + BOX_OVERHEAD;
            }
        }
        assert_eq!(free_slots, self.free.len(), "free slots");
        assert_eq!(box_bytes, self.box_bytes, "bytes of boxed scripts");
        let unowned = boxed.iter().filter(|owned| !**owned).count();
        assert_eq!(unowned, self.free_boxes.len(), "boxes without an owner");
    }
}
