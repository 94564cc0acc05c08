use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use apus_coins::Coin;
use apus_disk::Disk;
use apus_store::{
    BlockFiles, BlockFilesOptions, FlatFilePos, Obfuscation, STORAGE_HEADER_BYTES, UndoRecord,
};
use apus_wire::{BlockView, Chain, Cursor, Network};
use bitcoin::Block;
use bitcoin::consensus::{Decodable, Encodable, deserialize, encode::serialize};
use bitcoin::io::{Read, Write};

use super::Sample;
use super::fields::{Hidden, read_frame, read_undo, write_frame, write_undo};
use super::figures::Amount::Bytes;
use super::figures::{Figures, Kind};
use crate::Result;
use crate::measure::{Effort, digest};

const KEY: [u8; 8] = [0x1f, 0x8b, 0xe6, 0x42, 0x90, 0x3c, 0x77, 0xd5];
/// The size of stdio's buffer in glibc, through which Core's `AutoFile` reads and writes.
const STDIO_BYTES: usize = 4096;
/// The number of writes of one kind. More would fill the page cache.
const WRITES_MAX: usize = 60;

const UNBUFFERED: (Kind, &str) = (Kind::Small, "field by field, a system call each");
const BUFFERED: (Kind, &str) = (Kind::Small, "field by field, 4 KiB buffer (as Core before)");
const ONE_CALL: (Kind, &str) = (Kind::Other, "one call, fields in memory (as Core after)");
const APUS: (Kind, &str) = (Kind::Apus, "Apus: one call, bytes at hand");

/// A record that is written field by field.
#[derive(Clone, Copy)]
enum Record {
    Block,
    Undo,
}

/// The same records in a file written field by field, and in Apus' block files.
struct Place<'a> {
    sample: &'a Sample,
    block: Block,
    undo: Vec<u8>,
    magic: [u8; 4],
    key: Obfuscation,
    files: BlockFiles,
    path: PathBuf,
}

/// Reads and writes the block and its undo data, each through many small calls and through one.
pub fn run(effort: Effort, sample: &Sample, dir: &Path, figures: &mut Figures) -> Result<()> {
    let key = Obfuscation::new(KEY);
    let magic = Network::new(Chain::Main).magic;
    let options = BlockFilesOptions::default();
    let files = BlockFiles::new(&Disk::new(), dir, magic, key, Vec::new(), options);
    let block: Block = deserialize(&sample.block)?;
    let undo = sample.encode_undo();
    let path = dir.join("fields.dat");
    let place = Place { sample, block, undo, magic, key, files, path };
    let writes = Effort { runs_max: effort.runs_max.min(WRITES_MAX), ..effort };
    let pos = place.write_block(writes, figures)?;
    place.read_block(effort, pos, figures)?;
    let pos = place.write_undo(writes, figures)?;
    place.read_undo(effort, pos, figures)
}

impl Place<'_> {
    fn write_block(&self, effort: Effort, figures: &mut Figures) -> Result<FlatFilePos> {
        let what = "write block";
        let amount = Bytes(self.sample.block.len());
        let len = self.sample.block.len();
        self.write_fields(effort, Record::Block, figures)?;
        let (time, written) = effort.time(|| self.write_in_one_call(|| serialize(&self.block)));
        written?;
        figures.add(what, ONE_CALL, amount, time, self.digest_of_record(len)?)?;
        let time_now = self.block.header.time;
        let append = || self.files.append_block(&self.sample.block, self.sample.height, time_now);
        let (time, pos) = effort.time(append);
        let pos = pos?;
        figures.add(what, APUS, amount, time, digest(&self.files.read_block(pos)?))?;
        Ok(pos)
    }

    fn read_block(&self, effort: Effort, pos: FlatFilePos, figures: &mut Figures) -> Result<()> {
        let what = "read block";
        let amount = Bytes(self.sample.block.len());
        let theirs = self.files.block_path(pos.file);
        let start = u64::from(pos.pos - STORAGE_HEADER_BYTES);
        let (time, block) = effort.time(|| self.block_fields(self.open(&theirs, start)?));
        figures.add(what, UNBUFFERED, amount, time, digest(&serialize(&block?)))?;
        let (time, block) = effort.time(|| self.block_fields(self.open_buffered(&theirs, start)?));
        figures.add(what, BUFFERED, amount, time, digest(&serialize(&block?)))?;
        let read = || -> Result<Block> { Ok(deserialize(&self.files.read_block(pos)?)?) };
        let (time, block) = effort.time(read);
        figures.add(what, ONE_CALL, amount, time, digest(&serialize(&block?)))?;
        let read = || -> Result<_> { Ok(BlockView::parse(self.files.read_block(pos)?)?) };
        let (time, view) = effort.time(read);
        let by = (Kind::Apus, "Apus: one call, and a view of the bytes");
        figures.add(what, by, amount, time, digest(view?.bytes()))?;

        let what = "read block's bytes";
        let mut buffer = Vec::new();
        let (time, read) = effort.time(|| self.files.read_block_into(pos, &mut buffer));
        read?;
        figures.add(what, APUS, amount, time, digest(&buffer))
    }

    /// Writes the undo data, and returns the position of Apus' record.
    fn write_undo(&self, effort: Effort, figures: &mut Figures) -> Result<FlatFilePos> {
        let Sample { prev, height, .. } = self.sample;
        let what = "write undo";
        let amount = Bytes(self.undo.len());
        self.write_fields(effort, Record::Undo, figures)?;
        let file = 0;
        let height = *height;
        let append = || {
            let payload = self.sample.encode_undo();
            self.files.append_undo(UndoRecord { file, height, prev, payload: &payload })
        };
        let (time, pos) = effort.time(append);
        let pos = FlatFilePos { file, pos: pos? };
        let by = (Kind::Apus, "Apus: coins encoded in memory, one call");
        figures.add(what, by, amount, time, digest(&self.files.read_undo(pos, prev)?))?;
        Ok(pos)
    }

    fn read_undo(&self, effort: Effort, pos: FlatFilePos, figures: &mut Figures) -> Result<()> {
        let prev = &self.sample.prev;
        let what = "read undo";
        let amount = Bytes(self.undo.len());
        let theirs = self.files.undo_path(pos.file);
        let start = u64::from(pos.pos - STORAGE_HEADER_BYTES);
        let (time, spent) = effort.time(|| self.undo_fields(self.open(&theirs, start)?));
        figures.add(what, UNBUFFERED, amount, time, digest_of_coins(&spent?))?;
        let (time, spent) = effort.time(|| self.undo_fields(self.open_buffered(&theirs, start)?));
        figures.add(what, BUFFERED, amount, time, digest_of_coins(&spent?))?;
        let read = || -> Result<_> { decode_undo(&self.files.read_undo(pos, prev)?) };
        let (time, spent) = effort.time(read);
        let by = (Kind::Apus, "Apus: one call, coins decoded in memory");
        figures.add(what, by, amount, time, digest_of_coins(&spent?))
    }

    /// Writes records field by field, one after another, without and with stdio's buffer.
    fn write_fields(&self, effort: Effort, record: Record, figures: &mut Figures) -> Result<()> {
        let (what, bytes) = match record {
            Record::Block => ("write block", &self.sample.block),
            Record::Undo => ("write undo", &self.undo),
        };
        for (by, buffered) in [(UNBUFFERED, false), (BUFFERED, true)] {
            self.truncate()?;
            let (time, written) = effort.time(|| self.append_fields(record, buffered));
            written?;
            let found = self.digest_of_record(bytes.len())?;
            if found != digest(bytes) {
                return Err(format!("{what}, {}: the file holds other bytes", by.1).into());
            }
            figures.add(what, by, Bytes(bytes.len()), time, found)?;
        }
        self.truncate()
    }

    fn append_fields(&self, record: Record, buffered: bool) -> bitcoin::io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let end = file.seek(SeekFrom::End(0))?;
        if !buffered {
            return self.put_fields(record, &mut Hidden::new(file, self.key, end));
        }
        let file = BufWriter::with_capacity(STDIO_BYTES, file);
        let mut to = Hidden::new(file, self.key, end);
        self.put_fields(record, &mut to)?;
        to.flush()
    }

    fn put_fields(&self, record: Record, to: &mut impl Write) -> bitcoin::io::Result<()> {
        match record {
            Record::Block => {
                write_frame(to, self.magic, self.sample.block.len())?;
                self.block.consensus_encode(to).map(|_| ())
            }
            Record::Undo => {
                write_frame(to, self.magic, self.undo.len())?;
                write_undo(to, &self.sample.prev, &self.sample.spent)
            }
        }
    }

    fn block_fields(&self, mut from: impl Read) -> bitcoin::io::Result<Block> {
        read_frame(&mut from, self.magic)?;
        let block = Block::consensus_decode_from_finite_reader(&mut from);
        block.map_err(|_| bitcoin::io::ErrorKind::InvalidData.into())
    }

    fn undo_fields(&self, mut from: impl Read) -> bitcoin::io::Result<Vec<Vec<Coin>>> {
        read_frame(&mut from, self.magic)?;
        read_undo(from, &self.sample.prev)
    }

    fn write_in_one_call(&self, record: impl Fn() -> Vec<u8>) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let end = file.seek(SeekFrom::End(0))?;
        let bytes = record();
        let mut framed = Vec::with_capacity(bytes.len() + STORAGE_HEADER_BYTES as usize);
        framed.extend_from_slice(&self.magic);
        framed.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        framed.extend_from_slice(&bytes);
        self.key.apply(&mut framed, end);
        Ok(std::io::Write::write_all(&mut file, &framed)?)
    }

    fn truncate(&self) -> Result<()> {
        Ok(File::create(&self.path).map(|_| ())?)
    }

    /// Returns the digest of the first `len` bytes of the first record's content in the file of
    /// fields.
    fn digest_of_record(&self, len: usize) -> Result<u64> {
        let mut bytes = vec![0; len + STORAGE_HEADER_BYTES as usize];
        std::io::Read::read_exact(&mut File::open(&self.path)?, &mut bytes)?;
        self.key.apply(&mut bytes, 0);
        Ok(digest(&bytes[STORAGE_HEADER_BYTES as usize..]))
    }

    fn open(&self, path: &Path, start: u64) -> std::io::Result<Hidden<File>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(start))?;
        Ok(Hidden::new(file, self.key, start))
    }

    fn open_buffered(&self, path: &Path, start: u64) -> std::io::Result<Hidden<BufReader<File>>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(start))?;
        Ok(Hidden::new(BufReader::with_capacity(STDIO_BYTES, file), self.key, start))
    }
}

fn decode_undo(undo: &[u8]) -> Result<Vec<Vec<Coin>>> {
    let mut cursor = Cursor::new(undo);
    let mut spent = Vec::new();
    for _ in 0..cursor.compact_size()? {
        let count = cursor.compact_size()?;
        let coins: std::result::Result<Vec<_>, _> =
            (0..count).map(|_| Coin::decode_undo(&mut cursor)).collect();
        spent.push(coins?);
    }
    Ok(spent)
}

fn digest_of_coins(spent: &[Vec<Coin>]) -> u64 {
    let mut bytes = Vec::new();
    spent.iter().flatten().for_each(|coin| coin.encode_undo(&mut bytes));
    digest(&bytes)
}
