use std::path::PathBuf;

use super::block::BlockBuilder;
use super::bloom::{self, FilterBuilder};
use super::format::{
    BLOCK_TRAILER_BYTES, ENTRY_BYTES_MAX, FILTER_KEY, Handle, Kind, Result, footer, mask,
    shorten_separator, trailer, user_key,
};
use super::options::Options;
use super::table::Table;
use crate::disk::{Disk, File, StoreError};

/// Bytes gathered before they are written with one call.
const WRITE_BYTES: usize = 2 << 20;

/// Writes one table: entries in ascending order of their keys.
pub(super) struct TableWriter {
    disk: Disk,
    path: PathBuf,
    number: u64,
    /// `None` for a table that stays in memory.
    file: Option<File>,
    /// Bytes not yet written, and the offset in the file of the first of them.
    buffer: Vec<u8>,
    written: u64,
    block_bytes: usize,
    data: BlockBuilder,
    index: BlockBuilder,
    filter: Option<FilterBuilder>,
    /// Last key of the block that ended, and where that block lies; its index entry waits for the
    /// next key, so that a short separator can be found.
    ended: Option<Handle>,
    separator: Vec<u8>,
    smallest: Vec<u8>,
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
    ) -> Result<Self> {
        let file = disk.create(&path)?;
        Ok(Self { file: Some(file), ..Self::in_memory(disk, path, number, options) })
    }

    /// The same, without a file; `path` is for messages.
    pub(super) fn in_memory(disk: &Disk, path: PathBuf, number: u64, options: &Options) -> Self {
        let bloom = options.bloom_bits_per_key;
        Self {
            disk: disk.clone(),
            path,
            number,
            file: None,
            buffer: Vec::with_capacity(WRITE_BYTES + 2 * options.block_bytes),
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

    /// Appends an entry. `key` must be greater than the one before; that is checked.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], sequence: u64, value: Option<&[u8]>) -> Result<()> {
        let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
        let value = value.unwrap_or_default();
        if key.len() > ENTRY_BYTES_MAX || value.len() > ENTRY_BYTES_MAX {
            return Err(StoreError::new(&self.path, "a key or value is longer than 512 MiB"));
        }
        if self.data.is_empty() {
            self.start_block(key)?;
        } else if user_key(self.data.last_key()) >= key {
            return Err(out_of_order(&self.path));
        }
        if let Some(filter) = &mut self.filter {
            filter.add(bloom::hash(key));
        }
        self.data.add(key, &trailer(sequence, kind).to_le_bytes(), value);
        if self.data.len() >= self.block_bytes { self.end_block() } else { Ok(()) }
    }

    /// Bytes that the table would have if it ended here, about.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, FilterBuilder::bytes);
        self.offset() + (self.data.len() + self.index.len() + filter) as u64
    }

    /// Writes what is left. The file comes back so that the caller can sync it.
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
            metaindex.add(FILTER_KEY, &[], &self.scratch);
        }
        let metaindex = self.put_block(|out| metaindex.finish_into(out));
        let mut index = std::mem::replace(&mut self.index, BlockBuilder::new(1));
        let index = self.put_block(|out| index.finish_into(out));
        self.buffer.extend_from_slice(&footer(metaindex, index));
        let bytes = self.offset();
        let keys = (self.smallest.as_slice().into(), self.largest.as_slice().into());
        if self.file.is_some() {
            self.write_out()?;
            let table = Table::new(self.disk, self.path, self.number, bytes, keys);
            return Ok((table, self.file));
        }
        let table = Table::new(self.disk, self.path, self.number, bytes, keys);
        Ok((table.in_memory(self.buffer)?, None))
    }

    fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn start_block(&mut self, key: &[u8]) -> Result<()> {
        if let Some(handle) = self.ended.take() {
            if user_key(&self.separator) >= key {
                return Err(out_of_order(&self.path));
            }
            shorten_separator(&mut self.separator, Some(key));
            self.add_to_index(handle);
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        self.separator.clear();
        self.separator.extend_from_slice(self.data.last_key());
        self.largest.clone_from(&self.separator);
        if self.smallest.is_empty() {
            self.smallest.extend_from_slice(self.data.first_key());
        }
        let mut data = std::mem::replace(&mut self.data, BlockBuilder::new(1));
        let handle = self.put_block(|out| data.finish_into(out));
        self.data = data;
        self.ended = Some(handle);
        let offset = self.offset();
        if let Some(filter) = &mut self.filter {
            filter.block_starts(offset);
        }
        if self.file.is_some() && self.buffer.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(())
    }

    fn add_to_index(&mut self, handle: Handle) {
        self.scratch.clear();
        handle.put(&mut self.scratch);
        self.index.add(&self.separator, &[], &self.scratch);
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

    fn write_out(&mut self) -> Result<()> {
        if let Some(file) = &self.file {
            file.write_all_at(&self.buffer, self.written)?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}

fn out_of_order(path: &std::path::Path) -> StoreError {
    StoreError::new(path, "keys must be written in ascending order, each once")
}
