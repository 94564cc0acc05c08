use super::block::{BadBlock, Block, BlockCursor};
use super::format::{Handle, common_prefix, first_from, user_key};

/// The index block of a table as arrays: for each key, the eight bytes after the common prefix of
/// all keys, and the location of its data block. A search touches a few cache lines of the arrays,
/// instead of two for each step in the block itself.
///
/// The arrays take 16 bytes for each block of 4 KiB, or 48 MB for a database of 12 GB.
pub(super) struct Fences {
    common: Box<[u8]>,
    heads: Box<[u64]>,
    places: Box<[BlockOrigin]>,
}

/// The location of a data block in its table.
#[derive(Clone, Copy)]
struct BlockOrigin {
    offset: u32,
    size: u32,
}

/// Bounds for the index of an entry: it is at least `low` and at most `high`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryBounds {
    pub low: usize,
    pub high: usize,
}

impl Fences {
    /// Reads an index block. Returns `None` if not every entry is a restart, as LevelDB writes
    /// them, or a block lies beyond 4 GiB.
    pub(super) fn read(file: &[u8], index: Block) -> Result<Option<Self>, BadBlock> {
        let mut cursor = BlockCursor::default();
        let mut first = Vec::new();
        let mut last = Vec::new();
        let mut entries = 0;
        cursor.reset(index);
        while cursor.advance(file)? {
            if !cursor.is_restart(file, entries) {
                return Ok(None);
            }
            last.clear();
            last.extend_from_slice(user_key(cursor.key()));
            if entries == 0 {
                first.clone_from(&last);
            }
            entries += 1;
        }
        if entries != index.restarts() {
            return Ok(None);
        }
        let common: Box<[u8]> = first[..common_prefix(&first, &last)].into();
        let mut heads = Vec::with_capacity(entries);
        let mut places = Vec::with_capacity(entries);
        cursor.reset(index);
        while cursor.advance(file)? {
            let key = user_key(cursor.key());
            if !key.starts_with(&common) {
                return Err(BadBlock(cursor.offset()));
            }
            heads.push(head(&key[common.len()..]));
            let handle = Handle::get(&file[cursor.value()], &mut 0);
            let Handle { offset, size } = handle.ok_or(BadBlock(cursor.value().start))?;
            let (Ok(offset), Ok(size)) = (offset.try_into(), size.try_into()) else {
                return Ok(None);
            };
            places.push(BlockOrigin { offset, size });
        }
        Ok(Some(Self { common, heads: heads.into(), places: places.into() }))
    }

    /// Returns the number of data blocks.
    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Returns the location of the data block of an entry; `None` after the last one.
    #[inline]
    pub(super) fn place(&self, entry: usize) -> Option<Handle> {
        let BlockOrigin { offset, size } = *self.places.get(entry)?;
        Some(Handle { offset: offset.into(), size: size.into() })
    }

    /// Returns bounds for the index of the first entry whose user key is at least `key`. The index
    /// is known to be at least `from`.
    #[inline]
    pub(super) fn find(&self, key: &[u8], from: usize) -> EntryBounds {
        let start = &key[..key.len().min(self.common.len())];
        match start.cmp(&self.common) {
            std::cmp::Ordering::Less => return EntryBounds { low: 0, high: 0 },
            std::cmp::Ordering::Greater => {
                let end = self.heads.len();
                return EntryBounds { low: end, high: end };
            }
            std::cmp::Ordering::Equal => {}
        }
        let head = head(&key[self.common.len()..]);
        let low = first_from(&self.heads, from, |other| *other < head);
        let same = self.heads[low..].iter().take_while(|other| **other == head).count();
        EntryBounds { low, high: low + same }
    }
}

/// Returns the first eight bytes of a key as a number; numbers compare as the keys do.
#[inline]
fn head(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}
