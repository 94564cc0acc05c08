use std::ops::Range;

use super::format::{
    TRAILER_BYTES, common_prefix, get_u32, get_u64, get_varint32, put_short, put_varint_at,
    split_key, user_key,
};

/// The maximum number of bytes of the three lengths of an entry.
const LENGTHS_BYTES_MAX: usize = 15;

/// Builds a block: entries in ascending order, followed by a list of restarts. A restart is the
/// offset of an entry whose key is stored in full, as it is for every `restart_interval`-th entry;
/// other keys omit the bytes that they share with the previous key.
pub(super) struct BlockBuilder {
    restart_interval: usize,
    since_restart: usize,
    restarts: Vec<u32>,
    /// The entries in the first `used` bytes, followed by spare space.
    bytes: Vec<u8>,
    used: usize,
}

impl BlockBuilder {
    /// Returns an empty block.
    pub(super) fn new(restart_interval: usize) -> Self {
        Self {
            restart_interval: restart_interval.max(1),
            since_restart: 0,
            restarts: vec![0],
            bytes: Vec::new(),
            used: 0,
        }
    }

    /// Appends an entry whose key is `key` followed by `tail`. The caller must add entries in
    /// order, and the first `shared` bytes of `key` must equal those of the previous key.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], shared: usize, tail: &[u8], value: &[u8]) {
        let shared = if self.since_restart < self.restart_interval {
            shared
        } else {
            self.restarts.push(self.used as u32);
            self.since_restart = 0;
            0
        };
        let unshared = &key[shared..];
        let room = LENGTHS_BYTES_MAX + unshared.len() + tail.len() + value.len();
        if self.bytes.len() - self.used < room {
            self.bytes.resize((self.used + room).next_power_of_two(), 0);
        }
        let out = &mut self.bytes[self.used..];
        let mut at = 0;
        let lengths = [shared, unshared.len() + tail.len(), value.len()];
        if lengths[0] | lengths[1] | lengths[2] < 0x80 {
            out[..3].copy_from_slice(&lengths.map(|len| len as u8));
            at = 3;
        } else {
            lengths.into_iter().for_each(|len| put_varint_at(out, &mut at, len as u64));
        }
        for bytes in [unshared, tail, value] {
            put_short(&mut out[at..], bytes);
            at += bytes.len();
        }
        self.used += at;
        self.since_restart += 1;
    }

    /// Returns whether the block has no entries yet.
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns the size in bytes that the block has if it ends here.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.used + 4 * self.restarts.len() + 4
    }

    /// Appends the finished block to `out` and starts the next one.
    pub(super) fn finish_into(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.used]);
        for restart in &self.restarts {
            out.extend_from_slice(&restart.to_le_bytes());
        }
        out.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        self.used = 0;
        self.restarts.clear();
        self.restarts.push(0);
        self.since_restart = 0;
    }
}

/// A block of an open table, by its offsets in the file.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Block {
    /// Offset of the first entry in the file.
    pub start: usize,
    /// Offset of the end of the last entry, where the list of restarts begins.
    pub entries_end: usize,
    restarts: usize,
}

/// The newest entry of a key in a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// Sequence number and kind.
    pub trailer: u64,
    /// The range of the value in the file.
    pub value: Range<usize>,
}

/// The offset in the file at which a block is damaged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadBlock(pub usize);

impl Block {
    /// Reads the end of the block `file[block]`, where the restarts are.
    pub(super) fn open(file: &[u8], block: Range<usize>) -> Result<Self, BadBlock> {
        let start = block.start;
        let bytes = file.get(block).ok_or(BadBlock(start))?;
        let count_at = bytes.len().checked_sub(4).ok_or(BadBlock(start))?;
        let restarts = get_u32(bytes, count_at).ok_or(BadBlock(start))? as usize;
        if restarts > count_at / 4 {
            return Err(BadBlock(start + count_at));
        }
        Ok(Self { start, entries_end: start + count_at - 4 * restarts, restarts })
    }

    /// Returns the offset in the file of the entry that the `i`-th restart points at.
    #[inline]
    fn restart(&self, file: &[u8], i: usize) -> Result<usize, BadBlock> {
        let at = self.entries_end + 4 * i;
        let offset = get_u32(file, at).ok_or(BadBlock(at))? as usize;
        let entry = self.start + offset;
        if entry >= self.entries_end { Err(BadBlock(at)) } else { Ok(entry) }
    }

    pub(super) fn restarts(&self) -> usize {
        self.restarts
    }

    /// Returns the user key of the entry that the `i`-th restart points at.
    fn restart_key<'a>(&self, file: &'a [u8], i: usize) -> Result<&'a [u8], BadBlock> {
        let at = self.restart(file, i)?;
        let entry = Entry::read(file, at, self.entries_end)?;
        match entry.shared {
            0 => Ok(user_key(&file[entry.key..entry.value])),
            _ => Err(BadBlock(at)),
        }
    }

    /// Returns the offset of the last restart whose user key is below `key`, or of the first entry
    /// if there is none.
    ///
    /// Only user keys are compared, since a reader always wants the newest entry of a key.
    fn restart_before(&self, file: &[u8], key: &[u8]) -> Result<usize, BadBlock> {
        match self.restarts {
            0 => Ok(self.start),
            restarts => self.restart(file, self.first_at_least(file, key, 1..restarts)? - 1),
        }
    }

    /// Returns the index of the first restart in `between` whose user key is at least `key`, or the
    /// end of `between`.
    pub(super) fn first_at_least(
        &self,
        file: &[u8],
        key: &[u8],
        between: Range<usize>,
    ) -> Result<usize, BadBlock> {
        let Range { start: mut low, end: mut high } = between;
        while low < high {
            let middle = (low + high) / 2;
            if self.restart_key(file, middle)? < key { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// Returns the newest entry of a user key; `None` if the block has none. No key is assembled:
    /// each is compared from the first byte at which it may differ from `key`.
    pub(super) fn find(&self, file: &[u8], key: &[u8]) -> Result<Option<Found>, BadBlock> {
        if self.start == self.entries_end {
            return Ok(None);
        }
        let mut at = self.restart_before(file, key)?;
        // For the previous entry, whose user key is smaller: the length of its internal key, and
        // how many bytes at the start of its user key equal those of `key`.
        let mut before = 0;
        let mut common = 0;
        while at < self.entries_end {
            let entry = Entry::read(file, at, self.entries_end)?;
            let len = entry.shared + (entry.value - entry.key);
            if entry.shared > before {
                return Err(BadBlock(at));
            }
            let user_len = len.checked_sub(TRAILER_BYTES).ok_or(BadBlock(at))?;
            if entry.shared > common {
                if user_len <= common || before - TRAILER_BYTES <= common {
                    // Shared bytes may belong to a trailer.
                    return self.find_by_whole_keys(file, key);
                }
                // The shared bytes include the one that makes the previous entry smaller.
            } else {
                if user_len < entry.shared || entry.value - entry.key < TRAILER_BYTES {
                    return self.find_by_whole_keys(file, key);
                }
                let tail = &file[entry.key..entry.value - TRAILER_BYTES];
                let rest = &key[entry.shared..];
                let same = common_prefix(tail, rest);
                match (tail.get(same), rest.get(same)) {
                    (None, None) => {
                        let trailer = get_u64(file, entry.value - TRAILER_BYTES);
                        let trailer = trailer.ok_or(BadBlock(at))?;
                        return Ok(Some(Found { trailer, value: entry.value..entry.end }));
                    }
                    (Some(_), None) => return Ok(None),
                    (Some(byte), Some(wanted)) if byte > wanted => return Ok(None),
                    (None | Some(_), Some(_)) => common = entry.shared + same,
                }
            }
            before = len;
            at = entry.end;
        }
        Ok(None)
    }

    #[cold]
    fn find_by_whole_keys(&self, file: &[u8], key: &[u8]) -> Result<Option<Found>, BadBlock> {
        let mut cursor = BlockCursor::default();
        if !cursor.seek(file, *self, key)? {
            return Ok(None);
        }
        let internal = split_key(cursor.key()).ok_or(BadBlock(cursor.offset()))?;
        let found = Found { trailer: internal.trailer, value: cursor.value() };
        Ok((internal.user == key).then_some(found))
    }
}

/// The location in the file of the fields of an entry.
struct Entry {
    shared: usize,
    /// Offset of the bytes of the key that are not shared with the previous key.
    key: usize,
    value: usize,
    end: usize,
}

impl Entry {
    #[inline]
    fn read(file: &[u8], at: usize, limit: usize) -> Result<Self, BadBlock> {
        let bytes = &file[..limit];
        let mut pos = at;
        let mut field = || get_varint32(bytes, &mut pos).ok_or(BadBlock(at));
        let shared = field()?;
        let unshared = field()?;
        let value_len = field()?;
        let value = pos.saturating_add(unshared);
        let end = value.saturating_add(value_len);
        if end > limit { Err(BadBlock(at)) } else { Ok(Self { shared, key: pos, value, end }) }
    }
}

/// A cursor over the entries of one block. It borrows nothing, so every call is given the file.
#[derive(Default)]
pub(super) struct BlockCursor {
    block: Block,
    /// Offset of the current entry.
    entry: usize,
    /// Offset of the next entry.
    next: usize,
    key: Vec<u8>,
    value: Range<usize>,
    valid: bool,
}

impl BlockCursor {
    /// Moves before the first entry of `block`.
    pub(super) fn reset(&mut self, block: Block) {
        self.block = block;
        self.next = block.start;
        self.key.clear();
        self.valid = false;
    }

    /// Moves to the next entry; `false` at the end.
    #[inline]
    pub(super) fn advance(&mut self, file: &[u8]) -> Result<bool, BadBlock> {
        if self.next >= self.block.entries_end {
            self.valid = false;
            return Ok(false);
        }
        let entry = Entry::read(file, self.next, self.block.entries_end)?;
        if entry.shared > self.key.len() {
            return Err(BadBlock(self.next));
        }
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(&file[entry.key..entry.value]);
        self.value = entry.value..entry.end;
        self.entry = self.next;
        self.next = entry.end;
        self.valid = true;
        Ok(true)
    }

    /// Moves to the first entry of `block` whose user key is at least `key`; `false` if there is
    /// none.
    pub(super) fn seek(&mut self, file: &[u8], block: Block, key: &[u8]) -> Result<bool, BadBlock> {
        self.reset(block);
        if block.start == block.entries_end {
            return Ok(false);
        }
        self.next = block.restart_before(file, key)?;
        self.forward_to(file, key)
    }

    fn forward_to(&mut self, file: &[u8], key: &[u8]) -> Result<bool, BadBlock> {
        while self.advance(file)? {
            if user_key(&self.key) >= key {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether the current entry is the one that the `i`-th restart points at.
    pub(super) fn is_restart(&self, file: &[u8], i: usize) -> bool {
        i < self.block.restarts && self.block.restart(file, i) == Ok(self.entry)
    }

    /// Returns whether the cursor is at an entry.
    pub(super) fn valid(&self) -> bool {
        self.valid
    }

    /// Returns the full key of the current entry.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the range in the file of the value of the current entry.
    #[inline]
    pub(super) fn value(&self) -> Range<usize> {
        self.value.clone()
    }

    /// Returns the offset in the file of the current entry.
    pub(super) fn offset(&self) -> usize {
        self.entry
    }

    pub(super) fn block(&self) -> Block {
        self.block
    }
}
