//! The index of filters (Core's `blockfilterindex`): filters in files, and a database with the
//! place of each, its hash, and the chain of filter headers (BIP157).

use std::path::Path;

use apus_disk::{Disk, Result, StoreError};
use apus_hash::{Hash, sha256d, sha256d_64};
use apus_leveldb::{Db, Options, RunWriter};
use apus_store::FlatFilePos;
use apus_wire::{Cursor, ParseError, put_varint};

use super::block::{Block, StoredBlock};
use super::filter_files::FilterFiles;
use super::golomb::BasicFilter;
use super::heights::{height_key, look_up, no_entry};
use super::sorting::Other;

/// The key of the place of the next filter (Core's `DB_FILTER_POS`).
pub const DB_FILTER_POS: u8 = b'P';

/// The place of the first filter.
const FIRST: FlatFilePos = FlatFilePos { file: 0, pos: 0 };

/// The value of a block, after its hash (Core's `DBVal` of `blockfilterindex.cpp`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterEntry {
    /// Hash of the filter.
    pub hash: Hash,
    /// The filter header: the hash of filter and previous header.
    pub header: Hash,
    /// Where the filter is.
    pub pos: FlatFilePos,
}

impl FilterEntry {
    /// Reads a value without the block's hash.
    pub fn read(bytes: &[u8]) -> std::result::Result<Self, ParseError> {
        let mut cursor = Cursor::new(bytes);
        let hash = Hash(cursor.array()?);
        let header = Hash(cursor.array()?);
        let entry = Self { hash, header, pos: read_pos(&mut cursor)? };
        match cursor.remaining() {
            0 => Ok(entry),
            _ => Err(cursor.error("bytes follow after the place of a filter")),
        }
    }

    /// Returns the value without the block's hash.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = [self.hash.0, self.header.0].concat();
        put_pos(&mut out, self.pos);
        out
    }
}

pub fn read_pos(cursor: &mut Cursor) -> std::result::Result<FlatFilePos, ParseError> {
    Ok(FlatFilePos { file: read_number(cursor)?, pos: read_number(cursor)? })
}

pub fn read_number(cursor: &mut Cursor) -> std::result::Result<u32, ParseError> {
    let number = cursor.varint()?;
    u32::try_from(number).map_err(|_| cursor.error("a number has more than 32 bits"))
}

fn put_pos(out: &mut Vec<u8>, pos: FlatFilePos) {
    put_varint(out, pos.file.into());
    put_varint(out, pos.pos.into());
}

/// Checks that the files hold as much as the database at `path` says, which bitcoind notices only
/// when a filter is asked for.
pub fn check_files(disk: &Disk, path: &Path) -> Result<()> {
    let db = Db::open(disk.clone(), path, Options { read_only: true, ..Options::default() })?;
    let Some(value) = db.get(&[DB_FILTER_POS])? else { return Ok(()) };
    let next = read_pos(&mut Cursor::new(&value))
        .map_err(|error| StoreError::new(path, format!("a record cannot be read: {error}")))?;
    for number in 0..=next.file {
        let file = path.with_file_name(format!("fltr{number:05}.dat"));
        let found = if file.exists() { Some(disk.len(&file)?) } else { None };
        let used = if number == next.file { u64::from(next.pos) } else { 1 };
        if found.unwrap_or(0) < used {
            let what = match found {
                Some(found) => format!(
                    "the file has {found} bytes, but the database of the index says that more are \
                     used"
                ),
                None => "the file is missing, although the database of the index names it".into(),
            };
            return Err(StoreError::new(file, what));
        }
    }
    Ok(())
}

pub fn filter_of(block: &Block) -> Vec<u8> {
    let scripts = block.view.output_count() + block.spent.len();
    let mut filter = BasicFilter::new(&block.stored.hash, scripts);
    for tx in block.view.txs() {
        tx.outputs().for_each(|out| filter.add_created(out.script()));
    }
    block.spent_scripts.iter().for_each(|script| filter.add_spent(script));
    filter.encode()
}

/// The index of filters, while blocks are appended.
pub struct Filters<'a> {
    files: FilterFiles,
    /// The filter header of the last block.
    header: Hash,
    writer: RunWriter<'a>,
}

impl<'a> Filters<'a> {
    /// Continues the index whose database at `path` is `db` after block `last`; `None` for an index
    /// without blocks. Entries go to `writer`.
    ///
    /// # Errors
    /// The database cannot be read, or lacks an entry.
    pub fn after(
        last: Option<&StoredBlock>,
        (db, path): (&Db, &Path),
        disk: &Disk,
        writer: RunWriter<'a>,
    ) -> Result<Self> {
        let directory = path.parent().unwrap_or(path).to_path_buf();
        let mut next = FIRST;
        let mut header = Hash::ZERO;
        if let Some(last) = last {
            let wrong = |error: ParseError| {
                StoreError::new(path, format!("a record cannot be read: {error}"))
            };
            let value = look_up(db, last.height, &last.hash)?;
            let value = value.ok_or_else(|| no_entry(path, last))?;
            header = FilterEntry::read(&value).map_err(wrong)?.header;
            let value = db.get(&[DB_FILTER_POS])?.unwrap_or_default();
            next = read_pos(&mut Cursor::new(&value)).map_err(wrong)?;
        }
        Ok(Self { files: FilterFiles::new(disk, directory, next), header, writer })
    }

    /// Appends the filter of the next block.
    pub fn append(&mut self, block: &StoredBlock, filter: &[u8]) -> Result<()> {
        let hash = sha256d(filter);
        let mut both = [0; 64];
        both[..32].copy_from_slice(&hash.0);
        both[32..].copy_from_slice(&self.header.0);
        self.header = sha256d_64(&both);
        let pos = self.files.append(&block.hash, filter)?;
        let entry = FilterEntry { hash, header: self.header, pos }.to_bytes();
        self.writer.put(&height_key(block.height), &[&block.hash.0[..], &entry].concat())
    }

    /// Writes the filters that were appended, so that they no longer take memory.
    pub fn write(&mut self) -> Result<()> {
        self.files.write()
    }

    /// Makes the filters durable, ends the entries by height, and returns the other entries that
    /// have to be committed with them.
    pub fn finish(mut self) -> Result<Vec<Other>> {
        self.files.sync()?;
        self.writer.finish()?;
        let mut pos = Vec::new();
        put_pos(&mut pos, self.files.next());
        Ok(vec![(vec![DB_FILTER_POS], Some(pos))])
    }
}
