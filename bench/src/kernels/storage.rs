use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use apus_coins::Coin;
use apus_disk::Disk;
use apus_store::{
    BlockFiles, BlockFilesOptions, FlatFilePos, Obfuscation, STORAGE_HEADER_BYTES, UndoRecord,
};
use apus_wire::{BlockView, Chain, Cursor, Network};
use bitcoin::Block;
use bitcoin::consensus::{deserialize, encode::serialize};

use super::Sample;
use super::figures::Amount::Bytes;
use super::figures::{Figures, Kind};
use crate::Result;
use crate::measure::{Effort, digest};

const KEY: [u8; 8] = [0x1f, 0x8b, 0xe6, 0x42, 0x90, 0x3c, 0x77, 0xd5];
/// The number of writes of one kind. More would fill the page cache.
const WRITES_MAX: usize = 60;

const PARSED: (Kind, &str) = (Kind::Other, "one call, the block of the crate bitcoin");

/// The block in memory, and files to write it to.
struct Storage<'a> {
    sample: &'a Sample,
    block: Block,
    magic: [u8; 4],
    key: Obfuscation,
    files: BlockFiles,
    /// A file in the format of a block file, without undo data and an index.
    path: PathBuf,
}

/// Reads and writes the block and its undo data.
pub fn run(effort: Effort, sample: &Sample, dir: &Path, figures: &mut Figures) -> Result<()> {
    let key = Obfuscation::new(KEY);
    let magic = Network::new(Chain::Main).magic;
    let options = BlockFilesOptions::default();
    let files = BlockFiles::new(&Disk::new(), dir, magic, key, Vec::new(), options);
    let block: Block = deserialize(&sample.block)?;
    let path = dir.join("parsed.dat");
    let storage = Storage { sample, block, magic, key, files, path };
    let writes = Effort { runs_max: effort.runs_max.min(WRITES_MAX), ..effort };
    let pos = storage.write_block(writes, figures)?;
    storage.read_block(effort, pos, figures)?;
    storage.undo(effort, writes, figures)
}

impl Storage<'_> {
    fn write_block(&self, effort: Effort, figures: &mut Figures) -> Result<FlatFilePos> {
        let what = "write block";
        let amount = Bytes(self.sample.block.len());
        let (time, written) = effort.time(|| self.write_parsed());
        written?;
        figures.add(what, PARSED, amount, time, self.digest_of_parsed()?)?;
        let time_now = self.block.header.time;
        let append = || self.files.append_block(&self.sample.block, self.sample.height, time_now);
        let (time, pos) = effort.time(append);
        let pos = pos?;
        let by = (Kind::Apus, "Apus: one call, bytes at hand");
        figures.add(what, by, amount, time, digest(&self.files.read_block(pos)?))?;
        Ok(pos)
    }

    fn read_block(&self, effort: Effort, pos: FlatFilePos, figures: &mut Figures) -> Result<()> {
        let what = "read block";
        let amount = Bytes(self.sample.block.len());
        let read = || -> Result<Block> { Ok(deserialize(&self.files.read_block(pos)?)?) };
        let (time, block) = effort.time(read);
        figures.add(what, PARSED, amount, time, digest(&serialize(&block?)))?;
        let read = || -> Result<_> { Ok(BlockView::parse(self.files.read_block(pos)?)?) };
        let (time, view) = effort.time(read);
        let by = (Kind::Apus, "Apus: one call, and a view of the bytes");
        figures.add(what, by, amount, time, digest(view?.bytes()))
    }

    fn undo(&self, effort: Effort, writes: Effort, figures: &mut Figures) -> Result<()> {
        let Sample { prev, height, .. } = self.sample;
        let undo = self.sample.encode_undo();
        let amount = Bytes(undo.len());
        let file = 0;
        let height = *height;
        let append = || {
            let payload = self.sample.encode_undo();
            self.files.append_undo(UndoRecord { file, height, prev, payload: &payload })
        };
        let (time, pos) = writes.time(append);
        let pos = FlatFilePos { file, pos: pos? };
        let by = (Kind::Apus, "Apus: coins encoded in memory, one call");
        let written = digest(&self.files.read_undo(pos, prev)?);
        figures.add("write undo", by, amount, time, written)?;
        if written != digest(&undo) {
            return Err("write undo: the file holds other bytes".into());
        }
        let read = || -> Result<_> { decode_undo(&self.files.read_undo(pos, prev)?) };
        let (time, spent) = effort.time(read);
        let spent = spent?;
        let by = (Kind::Apus, "Apus: one call, coins decoded in memory");
        figures.add("read undo", by, amount, time, digest_of_coins(&spent))?;
        if spent != self.sample.spent {
            return Err("read undo: other coins than those written".into());
        }
        Ok(())
    }

    fn write_parsed(&self) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let end = file.seek(SeekFrom::End(0))?;
        let bytes = serialize(&self.block);
        let mut framed = Vec::with_capacity(bytes.len() + STORAGE_HEADER_BYTES as usize);
        framed.extend_from_slice(&self.magic);
        framed.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        framed.extend_from_slice(&bytes);
        self.key.apply(&mut framed, end);
        Ok(file.write_all(&framed)?)
    }

    /// Returns the digest of the first block in the file of [`Self::write_parsed`].
    fn digest_of_parsed(&self) -> Result<u64> {
        let mut bytes = vec![0; self.sample.block.len() + STORAGE_HEADER_BYTES as usize];
        File::open(&self.path)?.read_exact(&mut bytes)?;
        self.key.apply(&mut bytes, 0);
        Ok(digest(&bytes[STORAGE_HEADER_BYTES as usize..]))
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
