use apus_wire::OutPoint;

use super::coin::{Coin, CoinParts};
use super::memory::prefetch;
use super::script::{CompactScript, INLINE_BYTES, Repr, inline_bytes};

/// The relation of a cache entry to the tables on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// The slot has no entry, and is on the free list.
    Free,
    /// The coin is not known yet, and a block that is yet to be connected spends it: it is being
    /// looked up in the tables, or an earlier block is to create it.
    Awaited,
    /// The tables hold the same coin.
    Clean,
    /// The coin was never written: the tables hold none under its outpoint.
    Fresh,
    /// The coin is to be written; the tables may hold another one under its outpoint.
    Changed,
    /// The coin is to be deleted from the tables; the entry holds none.
    Spent,
    /// The coin is being written: the tables hold it once the sync ends.
    Writing,
    /// As [`State::Writing`], and spent since: the next sync deletes it. The entry still holds the
    /// coin that is being written.
    WritingSpent,
    /// As [`State::Writing`], and replaced since: the next sync writes the coin that the entry
    /// holds. The one that is being written is kept by the shard.
    WritingChanged,
    /// The coin is being deleted from the tables; the entry holds none.
    Deleting,
    /// As [`State::Deleting`], and added again since: the next sync writes the entry's coin.
    DeletingChanged,
}

/// All states in the order of [`State`].
const STATES: [State; 11] = [
    State::Free,
    State::Awaited,
    State::Clean,
    State::Fresh,
    State::Changed,
    State::Spent,
    State::Writing,
    State::WritingSpent,
    State::WritingChanged,
    State::Deleting,
    State::DeletingChanged,
];

const _: () = {
    let mut index = 0;
    while index < STATES.len() {
        assert!(STATES[index] as usize == index);
        index += 1;
    }
};

impl State {
    /// Whether the next sync has to write or delete something.
    pub fn is_listed(self) -> bool {
        match self {
            Self::Free | Self::Awaited | Self::Clean | Self::Writing | Self::Deleting => false,
            Self::Fresh | Self::Changed | Self::Spent => true,
            Self::WritingSpent | Self::WritingChanged | Self::DeletingChanged => true,
        }
    }

    /// Whether a sync is writing the entry, and it has not changed since.
    pub fn is_held(self) -> bool {
        matches!(self, Self::Writing | Self::Deleting)
    }

    /// Whether the coin is spent.
    pub fn is_spent(self) -> bool {
        matches!(self, Self::Spent | Self::WritingSpent | Self::Deleting)
    }
}

/// The slot number that ends a list of slots.
pub(super) const NONE: u32 = u32::MAX;

/// Set in [`Slot::mark`] where a block that is yet to be connected spends the coin.
const WANTED: u8 = 0x80;

/// The first script byte of a slot whose script is boxed; that of an inline script is smaller.
const BOXED: u8 = 0xff;

/// One entry. Its 92 bytes, and those of its bucket in the table, are the whole cost of a cached
/// coin whose script is inline.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub outpoint: OutPoint,
    /// In bytes, little endian, so that the slot aligns to 4 bytes.
    amount: [u8; 8],
    code: u32,
    /// The neighbours in the list of changed entries; [`NONE`] in an entry that is not listed.
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
            mark: State::Free as u8,
            script: [0; INLINE_BYTES],
        }
    }

    #[inline]
    pub fn state(&self) -> State {
        STATES[usize::from(self.mark & !WANTED)]
    }

    /// Sets the state. A coin that is spent is no longer wanted.
    #[inline]
    pub fn set_state(&mut self, state: State) {
        let wanted = if state.is_spent() { 0 } else { self.mark & WANTED };
        self.mark = state as u8 | wanted;
    }

    /// Whether a block that is yet to be connected spends the coin.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.mark & WANTED != 0
    }

    /// Whether the entry has no changes, and is kept nevertheless: what was looked up for a block
    /// ahead would be looked up again.
    #[inline]
    pub fn is_pinned(&self) -> bool {
        self.is_wanted() && matches!(self.state(), State::Clean | State::Awaited)
    }

    pub fn set_wanted(&mut self, is_wanted: bool) {
        self.mark = self.state() as u8 | if is_wanted { WANTED } else { 0 };
    }

    /// Notes the generation in which the coin began to be awaited.
    pub fn set_awaited_since(&mut self, generation: u64) {
        self.amount = generation.to_le_bytes();
    }

    /// The generation in which the coin began to be awaited, if it still is.
    pub fn awaited_since(&self) -> Option<u64> {
        (self.state() == State::Awaited).then(|| u64::from_le_bytes(self.amount))
    }

    fn box_index(&self) -> Option<usize> {
        let [tag, a, b, c, d, ..] = self.script;
        (tag == BOXED).then(|| u32::from_le_bytes([a, b, c, d]) as usize)
    }
}

/// How many slots before it is taken a free slot is requested from memory.
const FREE_AHEAD: usize = 8;

/// The number of slots that are allocated at once, so that growing copies nothing and wastes at
/// most one chunk.
const CHUNK_SLOTS: usize = 1024;
/// The bytes that an allocator adds to a boxed script, about: a header and rounding up to 16.
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

    /// The number of slots, free ones included.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The number of free slots.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes a slot for `outpoint`, which is linked to nothing and has no coin yet.
    pub fn take(&mut self, outpoint: OutPoint, state: State) -> u32 {
        let slot = match self.free.pop() {
            None => self.grow(),
            Some(slot) => {
                // Those that come next were given back long ago, and are in no processor cache.
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
        (entry.mark, entry.prev, entry.next) = (State::Free as u8, NONE, NONE);
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

    /// Drops a slot's coin.
    pub fn clear_coin(&mut self, slot: u32) {
        if let Some(index) = self.get(slot).box_index() {
            let bytes = std::mem::take(&mut self.boxes[index]);
            self.box_bytes -= bytes.len() + BOX_OVERHEAD;
            self.free_boxes.push(index as u32);
        }
        self.get_mut(slot).script[0] = 0;
    }

    /// The coin in a slot.
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

    /// The coin in a slot, with a borrowed script.
    pub fn parts(&self, slot: u32) -> CoinParts<'_> {
        let entry = self.get(slot);
        let script = match entry.box_index() {
            None => inline_bytes(&entry.script),
            Some(index) => &self.boxes[index],
        };
        CoinParts { amount: u64::from_le_bytes(entry.amount), code: entry.code, script }
    }

    /// The bytes in use: slots that are not free, the list of those that are, and boxed scripts.
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

    /// Panics unless free slots, boxes and the counts of both agree with each other.
    pub fn check(&self) {
        let mut is_listed = vec![false; self.len as usize];
        for slot in &self.free {
            assert_eq!(self.get(*slot).state(), State::Free, "an entry on the free list");
            let twice = std::mem::replace(&mut is_listed[*slot as usize], true);
            assert!(!twice, "a slot that is free twice");
        }
        let mut boxed = vec![false; self.boxes.len()];
        let (mut free_slots, mut box_bytes) = (0, 0);
        for slot in 0..self.len {
            free_slots += usize::from(self.get(slot).state() == State::Free);
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
