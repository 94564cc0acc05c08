use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use apus_disk as disk;
use apus_disk::{Disk, Result, StoreError};
use memmap2::{Advice, Mmap};

use super::block::{BadBlock, Block, BlockCursor, Found};
use super::bloom;
use super::bloom::Filter;
use super::fences::{EntryBounds, Fences};
use super::format::{
    BLOCK_TRAILER_BYTES, FILTER_KEY, FOOTER_BYTES, Handle, KeyRange, Kind, get_u32, mask,
    read_footer, user_key,
};

/// Number of bytes that a scan asks the kernel to read ahead at a time.
const READ_AHEAD_BYTES: usize = 4 << 20;

/// A sorted table: written once, never changed, and read by any number of threads without a lock.
///
/// The file is mapped, and its index and filter are checked, on first use. When the last handle of
/// a table marked obsolete is dropped, the file is removed.
pub(super) struct Table {
    pub(super) number: u64,
    /// Length of the file in bytes.
    pub(super) bytes: u64,
    pub(super) keys: KeyRange,
    disk: Disk,
    path: PathBuf,
    open: OnceLock<Open>,
    obsolete: AtomicBool,
}

/// The bytes of an open table.
enum Bytes {
    /// The file, mapped.
    Mapped(Mmap),
    /// The content of a log file as a table, in a database opened for reading only.
    Owned(Vec<u8>),
}

/// The state of a table that has been opened.
struct Open {
    bytes: Bytes,
    index: Block,
    fences: Option<Fences>,
    filter: Option<FilterBlock>,
    /// A bit for each data block, set once the checksum of the block has been verified. The number
    /// of the bit is that of the block, or without fences the offset of the index entry divided by
    /// 4, which differs for all blocks, since an index entry has at least 5 bytes.
    verified: Box<[AtomicU64]>,
}

/// The bloom filters of a table.
struct FilterBlock {
    /// The range of the filter block in the file.
    block: Range<usize>,
    filter: Filter,
}

impl FilterBlock {
    /// Returns the filter of the data block at `offset` in `file`; see [`Filter::of`].
    #[inline]
    fn of<'a>(&self, file: &'a [u8], offset: u64) -> Option<&'a [u8]> {
        self.filter.of(&file[self.block.clone()], offset)
    }
}

/// The location of a data block, and the number of its bit in [`Open::verified`].
#[derive(Clone, Copy)]
pub(super) struct BlockLocation {
    handle: Handle,
    bit: usize,
}

/// The result of a lookup of a key in one table.
pub(super) enum Lookup<'a> {
    /// The table has no entry of the key; an older table may have one.
    Absent,
    /// The newest entry deletes the key.
    Deleted,
    /// The value of the newest entry.
    Value(&'a [u8]),
}

/// The position in the index after a lookup, where the lookup of the next, greater key starts.
#[derive(Default)]
pub(super) struct Probe {
    entry: usize,
    index: BlockCursor,
}

impl Table {
    /// Returns the table at `path`; nothing is read yet.
    pub(super) fn new(disk: Disk, path: PathBuf, number: u64, bytes: u64, keys: KeyRange) -> Self {
        let open = OnceLock::new();
        let obsolete = AtomicBool::new(false);
        Self { number, bytes, keys, disk, path, open, obsolete }
    }

    /// Returns the same table with its bytes in memory instead of a file.
    pub(super) fn in_memory(self, bytes: Vec<u8>) -> Result<Self> {
        let open = Open::check(&self.path, Bytes::Owned(bytes))?;
        self.open.get_or_init(|| open);
        Ok(self)
    }

    /// Returns the path of the file, or the path that it would have.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the first user key.
    pub(super) fn first(&self) -> &[u8] {
        user_key(&self.keys.smallest)
    }

    /// Returns the last user key.
    pub(super) fn last(&self) -> &[u8] {
        user_key(&self.keys.largest)
    }

    /// Marks the file to be removed when the last handle is dropped.
    pub(super) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// Returns the block that holds `key` if the table does; `None` if the table does not.
    ///
    /// `carry_on` says that `probe` was last used on this table, for a key that is not greater.
    #[inline]
    pub(super) fn locate(
        &self,
        probe: &mut Probe,
        key: &[u8],
        carry_on: bool,
    ) -> Result<Option<BlockLocation>> {
        let open = self.open()?;
        let file = open.bytes();
        let Some(fences) = &open.fences else {
            return self.locate_in_index(open, &mut probe.index, key, carry_on);
        };
        let EntryBounds { low, high } = fences.find(key, if carry_on { probe.entry } else { 0 });
        probe.entry = if low == high {
            low
        } else {
            let first = open.index.first_at_least(file, key, low..high);
            first.map_err(|bad| self.damaged(bad))?
        };
        let place = |handle| BlockLocation { handle, bit: probe.entry };
        Ok(fences.place(probe.entry).map(place))
    }

    fn locate_in_index(
        &self,
        open: &Open,
        index: &mut BlockCursor,
        key: &[u8],
        carry_on: bool,
    ) -> Result<Option<BlockLocation>> {
        let file = open.bytes();
        let in_same_block = carry_on && index.valid() && key <= user_key(index.key());
        if !in_same_block && !index.seek(file, open.index, key).map_err(|bad| self.damaged(bad))? {
            return Ok(None);
        }
        let handle = self.handle(file, index)?;
        Ok(Some(BlockLocation { handle, bit: (index.offset() - open.index.start) / 4 }))
    }

    /// Returns the bloom filter of the block at `place`; `None` if there is none.
    #[inline]
    pub(super) fn filter(&self, place: BlockLocation) -> Result<Option<&[u8]>> {
        let open = self.open()?;
        let filter = open.filter.as_ref();
        Ok(filter.and_then(|filter| filter.of(open.bytes(), place.handle.offset)))
    }

    /// Starts to load the block at `place`, from the disk if it was never read: the disk works on
    /// many blocks at once when many keys are located before the first is read. Returns a number
    /// that depends on bytes of the block, so that the processor has to load them.
    #[inline]
    pub(super) fn request(&self, place: BlockLocation) -> Result<u32> {
        let open = self.open()?;
        let block = bounds(&self.path, open.bytes(), place.handle)?;
        match &open.bytes {
            Bytes::Mapped(map) if !open.is_verified(place) => {
                // The kernel may refuse the advice, which affects only speed.
                let _ = map.advise_range(Advice::WillNeed, block.start, block.len());
                Ok(0)
            }
            _ => Ok(get_u32(open.bytes(), block.end.saturating_sub(4)).unwrap_or(0)),
        }
    }

    /// Returns the newest entry of `key` in the block at `place`, where [`Table::locate`] found it.
    pub(super) fn read(&self, place: BlockLocation, key: &[u8]) -> Result<Lookup<'_>> {
        let open = self.open()?;
        let file = open.bytes();
        let block = self.block_verified_once(open, place)?;
        let found = block.find(file, key).map_err(|bad| self.damaged(bad))?;
        Ok(match found {
            None => Lookup::Absent,
            Some(Found { trailer, value }) => match Kind::of(trailer) {
                Some(Kind::Put) => Lookup::Value(&file[value]),
                Some(Kind::Delete) => Lookup::Deleted,
                None => return Err(self.bad_key(value.start)),
            },
        })
    }

    fn open(&self) -> Result<&Open> {
        if let Some(open) = self.open.get() {
            return Ok(open);
        }
        let file = self.disk.open_read(&self.path)?;
        let bytes = file.len()?;
        if bytes != self.bytes {
            let what = format!("the table has {bytes} bytes, but the manifest says {}", self.bytes);
            return Err(StoreError::new(&self.path, what));
        }
        if bytes < FOOTER_BYTES as u64 {
            return Err(StoreError::new(
                &self.path,
                format!("the file has {bytes} bytes, but a table has at least {FOOTER_BYTES}"),
            ));
        }
        let map = file.map()?;
        // The kernel may refuse the advice, which affects only speed. Scans ask for readahead
        // themselves.
        let _ = map.advise(Advice::Random);
        let open = Open::check(&self.path, Bytes::Mapped(map))?;
        Ok(self.open.get_or_init(|| open))
    }

    /// Returns the bytes of the whole file.
    fn file(&self) -> Result<&[u8]> {
        Ok(self.open()?.bytes())
    }

    fn handle(&self, file: &[u8], index: &BlockCursor) -> Result<Handle> {
        let mut at = 0;
        let bytes = &file[index.value()];
        Handle::get(bytes, &mut at).ok_or_else(|| {
            StoreError::corrupt(
                &self.path,
                index.value().start as u64,
                "the location of a block, stored here, is damaged",
            )
        })
    }

    fn block_verified_once(&self, open: &Open, place: BlockLocation) -> Result<Block> {
        if open.is_verified(place) {
            let block = bounds(&self.path, open.bytes(), place.handle)?;
            return Block::open(open.bytes(), block).map_err(|bad| self.damaged(bad));
        }
        let block = checked_block(&self.path, open.bytes(), place.handle)?;
        open.verified[place.bit / 64].fetch_or(1 << (place.bit % 64), Ordering::Release);
        Ok(block)
    }

    fn damaged(&self, bad: BadBlock) -> StoreError {
        damaged(&self.path, bad)
    }

    fn bad_key(&self, at: usize) -> StoreError {
        StoreError::corrupt(&self.path, at as u64, "the key is too short or of an unknown kind")
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            // A file that remains is removed when the database is next opened.
            let _ = self.disk.remove(&self.path);
        }
    }
}

impl Open {
    fn check(path: &Path, bytes: Bytes) -> Result<Self> {
        let mut open = Self {
            bytes,
            index: Block::default(),
            fences: None,
            filter: None,
            verified: Box::new([]),
        };
        let file = open.bytes();
        let footer_at = file.len().saturating_sub(FOOTER_BYTES);
        let footer = read_footer(&file[footer_at..]).ok_or_else(|| {
            StoreError::corrupt(path, footer_at as u64, "the footer of the table is damaged")
        })?;
        let index = checked_block(path, file, footer.index)?;
        let metaindex = checked_block(path, file, footer.metaindex)?;
        let filter = find_filter(path, file, metaindex)?;
        let fences = Fences::read(file, index).map_err(|bad| damaged(path, bad))?;
        let bits = match &fences {
            Some(fences) => fences.len(),
            None => (index.entries_end - index.start) / 4,
        };
        let words = bits / 64 + 1;
        open.verified = (0..words).map(|_| AtomicU64::new(0)).collect();
        open.index = index;
        open.fences = fences;
        open.filter = filter;
        Ok(open)
    }

    fn is_verified(&self, place: BlockLocation) -> bool {
        self.verified[place.bit / 64].load(Ordering::Acquire) & 1 << (place.bit % 64) != 0
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

fn find_filter(path: &Path, file: &[u8], metaindex: Block) -> Result<Option<FilterBlock>> {
    let mut cursor = BlockCursor::default();
    cursor.reset(metaindex);
    while cursor.advance(file).map_err(|bad| damaged(path, bad))? {
        if cursor.key() != FILTER_KEY {
            continue;
        }
        let at = cursor.value();
        let handle = Handle::get(&file[at.clone()], &mut 0).ok_or_else(|| {
            StoreError::corrupt(
                path,
                at.start as u64,
                "the location of a block, stored here, is damaged",
            )
        })?;
        let block = checked_bounds(path, file, handle)?;
        return Ok(Filter::open(&file[block.clone()]).map(|filter| FilterBlock { block, filter }));
    }
    Ok(None)
}

/// Returns the range of the block that `handle` names, without its trailer.
fn bounds(path: &Path, file: &[u8], handle: Handle) -> Result<Range<usize>> {
    let end = handle.offset.checked_add(handle.size);
    let limit = file.len().saturating_sub(FOOTER_BYTES + BLOCK_TRAILER_BYTES) as u64;
    match end {
        Some(end) if end <= limit => Ok(handle.offset as usize..end as usize),
        _ => {
            let what = format!(
                "a block of {} bytes that starts here would reach beyond the end of the table",
                handle.size
            );
            Err(StoreError::corrupt(path, handle.offset, what))
        }
    }
}

/// Returns the [`bounds`] of a block after verifying its checksum.
fn checked_bounds(path: &Path, file: &[u8], handle: Handle) -> Result<Range<usize>> {
    let block = bounds(path, file, handle)?;
    let stored = get_u32(file, block.end + 1);
    if stored != Some(mask(crc32c::crc32c(&file[block.start..=block.end]))) {
        return Err(StoreError::corrupt(
            path,
            handle.offset,
            "the checksum of a block does not match its bytes",
        ));
    }
    match file[block.end] {
        0 => Ok(block),
        1 => {
            let what =
                "the block is compressed with Snappy, but only uncompressed tables can be read";
            Err(StoreError::corrupt(path, handle.offset, what))
        }
        _ => Err(StoreError::corrupt(
            path,
            handle.offset,
            "the block has an unknown compression type",
        )),
    }
}

fn checked_block(path: &Path, file: &[u8], handle: Handle) -> Result<Block> {
    Block::open(file, checked_bounds(path, file, handle)?).map_err(|bad| damaged(path, bad))
}

fn damaged(path: &Path, bad: BadBlock) -> StoreError {
    StoreError::corrupt(path, bad.0 as u64, "a block of the table is damaged")
}

/// A cursor over the entries of one table. It verifies the checksum of each block first.
#[derive(Default)]
pub(super) struct TableCursor {
    index: BlockCursor,
    data: BlockCursor,
    read_ahead_to: usize,
    /// Whether the memory of blocks is released once the cursor has passed them.
    releases: bool,
}

impl TableCursor {
    /// Returns a cursor for a scan, which reads each block once: the memory of blocks is released
    /// once it has passed them.
    pub(super) fn of_scan() -> Self {
        Self { releases: true, ..Self::default() }
    }

    /// Releases the memory of the whole table if this is the cursor of a scan.
    pub(super) fn release(&self, table: &Table) {
        if let Some(Open { bytes: Bytes::Mapped(map), .. }) = table.open.get()
            && self.releases
        {
            disk::release(map, 0..map.len());
        }
    }

    /// Moves to the first entry whose user key is at least `key`; `false` if there is none.
    pub(super) fn seek(&mut self, table: &Table, key: &[u8]) -> Result<bool> {
        let open = table.open()?;
        let file = open.bytes();
        self.read_ahead_to = 0;
        self.data.reset(Block::default());
        if !self.index.seek(file, open.index, key).map_err(|bad| table.damaged(bad))? {
            return Ok(false);
        }
        let block = self.load(table, open)?;
        if self.data.seek(file, block, key).map_err(|bad| table.damaged(bad))? {
            return Ok(true);
        }
        self.advance(table)
    }

    /// Moves to the first entry.
    pub(super) fn seek_first(&mut self, table: &Table) -> Result<bool> {
        let open = table.open()?;
        self.read_ahead_to = 0;
        self.index.reset(open.index);
        self.data.reset(Block::default());
        self.advance(table)
    }

    /// Moves to the next entry; `false` at the end.
    #[inline]
    pub(super) fn advance(&mut self, table: &Table) -> Result<bool> {
        let open = table.open()?;
        let file = open.bytes();
        loop {
            if self.data.advance(file).map_err(|bad| table.damaged(bad))? {
                return Ok(true);
            }
            if !self.index.advance(file).map_err(|bad| table.damaged(bad))? {
                return Ok(false);
            }
            let block = self.load(table, open)?;
            self.data.reset(block);
        }
    }

    /// Returns the internal key of the current entry.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.data.key()
    }

    /// Returns the value of the current entry.
    #[inline]
    pub(super) fn value<'a>(&self, table: &'a Table) -> Result<&'a [u8]> {
        Ok(&table.file()?[self.data.value()])
    }

    /// Returns an error that blames the current entry.
    pub(super) fn bad_entry(&self, table: &Table, what: &str) -> StoreError {
        StoreError::corrupt(table.path(), self.data.offset() as u64, what)
    }

    /// Returns the index key of the current block.
    pub(super) fn index_key(&self) -> &[u8] {
        self.index.key()
    }

    /// Moves to the next block without reading it; `false` at the end.
    pub(super) fn advance_block(&mut self, table: &Table) -> Result<bool> {
        let file = table.file()?;
        self.index.advance(file).map_err(|bad| table.damaged(bad))
    }

    /// Returns whether the filter of its block admits the current key, which has this bloom hash.
    pub(super) fn filter_holds(&self, table: &Table, hash: u32) -> Result<bool> {
        let open = table.open()?;
        let Some(filter) = &open.filter else { return Ok(true) };
        let filter = filter.of(open.bytes(), self.data.block().start as u64);
        Ok(filter.is_none_or(|filter| bloom::may_hold(filter, hash)))
    }

    fn load(&mut self, table: &Table, open: &Open) -> Result<Block> {
        let file = open.bytes();
        let handle = table.handle(file, &self.index)?;
        let Range { start, end } = bounds(table.path(), file, handle)?;
        match &open.bytes {
            Bytes::Mapped(map) if end > self.read_ahead_to => {
                if self.releases {
                    disk::release(map, 0..start);
                }
                let len = READ_AHEAD_BYTES.min(file.len() - start);
                // The kernel may refuse the advice, which affects only speed.
                let _ = map.advise_range(Advice::WillNeed, start, len);
                self.read_ahead_to = start + len;
            }
            _ => {}
        }
        checked_block(table.path(), file, handle)
    }
}
