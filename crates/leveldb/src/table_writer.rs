use std::path::PathBuf;

use apus_disk::{Caching, Disk, File, Result, StoreError};

use super::block::BlockBuilder;
use super::bloom::{self, FilterBuilder};
use super::format::{
    BLOCK_TRAILER_BYTES, ENTRY_BYTES_MAX, FILTER_KEY, Footer, Handle, KeyRange, Kind,
    TRAILER_BYTES, common_prefix, footer_bytes, mask, put_short, shorten_separator, trailer,
};
use super::options::Options;
use super::table::Table;

/// Number of bytes that are gathered before they are written with one call.
const WRITE_BYTES: usize = 2 << 20;

/// Writes one table, in ascending key order.
pub(super) struct TableWriter {
    disk: Disk,
    path: PathBuf,
    number: u64,
    /// `None` for a table that stays in memory.
    file: Option<File>,
    /// The bytes from `base` on are not written yet.
    buffer: Vec<u8>,
    /// The start of the first whole memory page in `buffer`.
    base: usize,
    /// Number of bytes already written.
    written: u64,
    block_bytes: usize,
    data: BlockBuilder,
    index: BlockBuilder,
    filter: Option<FilterBuilder>,
    /// The location of the last finished data block. Its index entry is written when the next key
    /// is known, so that a short separator can be found.
    ended: Option<Handle>,
    /// The last key of that block.
    separator: Vec<u8>,
    /// The first internal key.
    smallest: Vec<u8>,
    /// The last internal key so far.
    largest: Vec<u8>,
    scratch: Vec<u8>,
}

impl TableWriter {
    /// Creates the table `number` at `path`.
    pub(super) fn create(
        disk: &Disk,
        path: PathBuf,
        number: u64,
        options: &Options,
        caching: Caching,
    ) -> Result<Self> {
        let file = disk.create_cached(&path, caching)?;
        Ok(Self { file: Some(file), ..Self::in_memory(disk, path, number, options) })
    }

    /// Returns a writer for a table without a file; `path` is for messages.
    pub(super) fn in_memory(disk: &Disk, path: PathBuf, number: u64, options: &Options) -> Self {
        let bloom = options.bloom_bits_per_key;
        // The data is followed by a filter and an index of a few percent of its size.
        let tail = 2 * options.block_bytes + (options.table_bytes_max / 16) as usize;
        let mut buffer: Vec<u8> = Vec::with_capacity(Disk::DIRECT_BYTES + WRITE_BYTES + tail);
        let base = buffer.as_ptr().align_offset(Disk::DIRECT_BYTES).min(Disk::DIRECT_BYTES);
        buffer.resize(base, 0);
        Self {
            disk: disk.clone(),
            path,
            number,
            file: None,
            buffer,
            base,
            written: 0,
            block_bytes: options.block_bytes,
            data: BlockBuilder::new(options.restart_interval),
            index: BlockBuilder::new(1),
            filter: (bloom > 0).then(|| FilterBuilder::new(bloom)),
            ended: None,
            separator: Vec::new(),
            smallest: Vec::new(),
            largest: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// The disk fails, or the key or the value is longer than 512 MiB.
    ///
    /// # Panics
    /// `key` is not greater than the previous one.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], sequence: u64, value: Option<&[u8]>) -> Result<()> {
        let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
        let value = value.unwrap_or_default();
        if key.len() > ENTRY_BYTES_MAX || value.len() > ENTRY_BYTES_MAX {
            return Err(StoreError::new(
                &self.path,
                "a key or a value is longer than the limit of 512 MiB",
            ));
        }
        // Bytes of the trailer are stored in full even if they could be shared too.
        let shared = common_prefix(&self.largest, key);
        assert!(self.ascends(key, shared), "keys must be written in ascending order, each once");
        if let Some(filter) = &mut self.filter {
            filter.add(bloom::hash(key));
        }
        let trailer = trailer(sequence, kind).to_le_bytes();
        let shared = if self.data.is_empty() { self.start_block(key, &trailer) } else { shared };
        self.data.add(key, shared, &trailer, value);
        self.largest.resize(key.len() + TRAILER_BYTES, 0);
        put_short(&mut self.largest, key);
        self.largest[key.len()..].copy_from_slice(&trailer);
        if self.data.len() >= self.block_bytes { self.end_block() } else { Ok(()) }
    }

    /// Returns about how many bytes the table has if it ends here.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, FilterBuilder::bytes);
        self.offset() + (self.data.len() + self.index.len() + filter) as u64
    }

    /// Writes the rest, and returns the table and its file, which the caller syncs.
    pub(super) fn finish(mut self) -> Result<(Table, Option<File>)> {
        if !self.data.is_empty() {
            self.end_block()?;
        }
        if let Some(handle) = self.ended.take() {
            shorten_separator(&mut self.separator, None);
            self.add_to_index(handle);
        }
        let mut metaindex = BlockBuilder::new(1);
        if let Some(filter) = self.filter.take() {
            let bytes = filter.finish();
            let handle = self.put_block(|out| out.extend_from_slice(&bytes));
            self.scratch.clear();
            handle.put(&mut self.scratch);
            metaindex.add(FILTER_KEY, 0, &[], &self.scratch);
        }
        let metaindex = self.put_block(|out| metaindex.finish_into(out));
        let mut index = std::mem::replace(&mut self.index, BlockBuilder::new(1));
        let index = self.put_block(|out| index.finish_into(out));
        self.buffer.extend_from_slice(&footer_bytes(Footer { metaindex, index }));
        let bytes = self.offset();
        let keys = KeyRange {
            smallest: self.smallest.as_slice().into(),
            largest: self.largest.as_slice().into(),
        };
        if self.file.is_some() {
            self.write_rest()?;
            let table = Table::new(self.disk, self.path, self.number, bytes, keys);
            return Ok((table, self.file));
        }
        let table = Table::new(self.disk, self.path, self.number, bytes, keys);
        Ok((table.in_memory(self.buffer.split_off(self.base))?, None))
    }

    fn offset(&self) -> u64 {
        self.written + (self.buffer.len() - self.base) as u64
    }

    /// Returns whether `key`, which has `shared` bytes in common with the last internal key, is
    /// greater than the last user key. The first key always is.
    #[inline]
    fn ascends(&self, key: &[u8], shared: usize) -> bool {
        let Some(last) = self.largest.len().checked_sub(TRAILER_BYTES) else { return true };
        match (key.get(shared), shared < last) {
            (Some(byte), true) => self.largest[shared] < *byte,
            _ => key.len() > last && shared >= last,
        }
    }

    /// Prepares the first entry of a block; returns how many bytes its key shares, which is 0.
    fn start_block(&mut self, key: &[u8], trailer: &[u8]) -> usize {
        if self.smallest.is_empty() {
            self.smallest.extend_from_slice(key);
            self.smallest.extend_from_slice(trailer);
        }
        if let Some(handle) = self.ended.take() {
            shorten_separator(&mut self.separator, Some(key));
            self.add_to_index(handle);
        }
        0
    }

    fn end_block(&mut self) -> Result<()> {
        self.separator.clone_from(&self.largest);
        let mut data = std::mem::replace(&mut self.data, BlockBuilder::new(1));
        let handle = self.put_block(|out| data.finish_into(out));
        self.data = data;
        self.ended = Some(handle);
        let offset = self.offset();
        if let Some(filter) = &mut self.filter {
            filter.block_starts(offset);
        }
        if self.file.is_some() && self.buffer.len() - self.base >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(())
    }

    fn add_to_index(&mut self, handle: Handle) {
        self.scratch.clear();
        handle.put(&mut self.scratch);
        self.index.add(&self.separator, 0, &[], &self.scratch);
    }

    /// Appends a block, its type and its checksum.
    fn put_block(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Handle {
        let offset = self.offset();
        let start = self.buffer.len();
        put(&mut self.buffer);
        let size = (self.buffer.len() - start) as u64;
        self.buffer.push(0);
        let crc = mask(crc32c::crc32c(&self.buffer[start..]));
        self.buffer.extend_from_slice(&crc.to_le_bytes());
        debug_assert_eq!(self.offset(), offset + size + BLOCK_TRAILER_BYTES as u64);
        Handle { offset, size }
    }

    /// Writes the gathered bytes; past the page cache, only whole pages.
    fn write_out(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let gathered = self.buffer.len() - self.base;
        let len = if file.is_direct() {
            gathered / Disk::DIRECT_BYTES * Disk::DIRECT_BYTES
        } else {
            gathered
        };
        file.write_all_at(&self.buffer[self.base..self.base + len], self.written)?;
        self.written += len as u64;
        self.buffer.copy_within(self.base + len.., self.base);
        self.buffer.truncate(self.base + gathered - len);
        Ok(())
    }

    /// Writes all remaining bytes, which may end inside a page.
    fn write_rest(&mut self) -> Result<()> {
        self.write_out()?;
        let Some(file) = self.file.as_ref().filter(|_| self.buffer.len() > self.base) else {
            return Ok(());
        };
        let end = self.offset();
        self.buffer.resize(self.base + Disk::DIRECT_BYTES, 0);
        file.write_all_at(&self.buffer[self.base..], self.written)?;
        file.set_len(end)
    }
}
