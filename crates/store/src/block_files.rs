use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use apus_disk::{Disk, Result, StoreError};
use apus_hash::Hash;

use super::block_reader::BlockReader;
use super::flat_file::{
    BlockFilesOptions, FlatFile, Kind, STORAGE_HEADER_BYTES, UNDO_DATA_DISK_OVERHEAD, block_record,
    undo_record,
};
use super::writer::{Lane, Writer};
use super::{
    BlockStatus, FileChanges, FileInfo, FlatFilePos, IndexEntry, IndexRecord, Obfuscation,
};

/// Number of bytes of a file that are read at once while it is looked at as a whole.
const PART_BYTES: usize = 1 << 20;

/// The blk and rev files of a data directory (the part of Core's `BlockManager` that handles
/// bytes).
///
/// Any number of threads read at the same time. Threads that append take turns at a lock, for one
/// pass of obfuscation and one write; framing and hashing are done before. A block can be read as
/// soon as it is appended, and is durable after [`BlockFiles::flush`].
pub struct BlockFiles {
    disk: Disk,
    directory: PathBuf,
    magic: [u8; 4],
    writer: Mutex<Writer>,
    reader: Arc<BlockReader>,
}

/// Undo data to store.
#[derive(Clone, Copy)]
pub struct UndoRecord<'a> {
    /// Number of the blk file that holds the block, and of its rev file.
    pub file: u32,
    /// Height of the block.
    pub height: u32,
    /// Hash of the parent of the block, which the checksum covers.
    pub prev: &'a Hash,
    /// The serialised undo data (Core's `CBlockUndo`).
    pub payload: &'a [u8],
}

/// A record of undo data that is not obfuscated yet, as that depends on its offset in the file.
pub struct EncodedUndo {
    record: Vec<u8>,
}

impl EncodedUndo {
    /// Returns the number of bytes that the record takes in the file.
    pub fn bytes(&self) -> usize {
        self.record.len()
    }
}

/// The files that a flush in progress has to sync, and the changes that it may then write to the
/// block index.
#[must_use = "the next flush does not sync these files"]
pub struct Unflushed {
    files: BTreeSet<FlatFile>,
    changes: FileChanges,
}

impl BlockFiles {
    /// Returns the files in `directory` (Core's `blocks`), which the block index describes with
    /// `infos`.
    pub fn new(
        disk: &Disk,
        directory: &Path,
        magic: [u8; 4],
        obfuscation: Obfuscation,
        infos: Vec<FileInfo>,
        options: BlockFilesOptions,
    ) -> Self {
        let disk = disk.clone();
        let directory = directory.to_path_buf();
        let writer = Writer::new(disk.clone(), directory.clone(), obfuscation, options, infos);
        let reader = Arc::new(BlockReader::new(&disk, &directory, magic, obfuscation));
        Self { disk, directory, magic, writer: Mutex::new(writer), reader }
    }

    /// Returns what reads the blocks in these files, also while others are appended.
    pub fn reader(&self) -> &Arc<BlockReader> {
        &self.reader
    }

    /// Returns the path of the blk file with this number.
    pub fn block_path(&self, file: u32) -> PathBuf {
        Kind::Block.path(&self.directory, file)
    }

    /// Returns the path of the rev file with this number.
    pub fn undo_path(&self, file: u32) -> PathBuf {
        Kind::Undo.path(&self.directory, file)
    }

    /// Returns the error for the block at `pos`, whose bytes cannot be right.
    pub fn block_error(&self, pos: FlatFilePos, what: impl Display) -> StoreError {
        StoreError::corrupt(self.block_path(pos.file), pos.pos.into(), what.to_string())
    }

    /// Returns the error for the undo data at `pos`, which cannot be right.
    pub fn undo_error(&self, pos: FlatFilePos, what: impl Display) -> StoreError {
        StoreError::corrupt(self.undo_path(pos.file), pos.pos.into(), what.to_string())
    }

    /// Appends the bytes of a block, and returns their position. `time` is that of the header.
    pub fn append_block(&self, block: &[u8], height: u32, time: u32) -> Result<FlatFilePos> {
        self.append(None, block, height, time)
    }

    /// Writes the bytes of a block again at `pos`, where they were stored before. No other block
    /// may be stored where they end.
    pub fn rewrite_block(&self, pos: FlatFilePos, block: &[u8]) -> Result<()> {
        let pos = FlatFilePos { pos: pos.pos - STORAGE_HEADER_BYTES, ..pos };
        self.writer().rewrite_block(pos, &mut block_record(self.magic, block))
    }

    /// Appends the bytes of a block to the files of `lane`, which hold no other blocks, and returns
    /// their position. `time` is that of the header. Different lanes may be appended to at the same
    /// time.
    pub fn append_block_in(
        &self,
        lane: &mut Lane,
        block: &[u8],
        height: u32,
        time: u32,
    ) -> Result<FlatFilePos> {
        self.append(Some(lane), block, height, time)
    }

    /// Ends a lane: the space reserved at the end of its file is released. If a lane is dropped
    /// instead, its files keep that space, and get no more blocks until they are opened again.
    pub fn end_lane(&self, lane: Lane) -> Result<()> {
        self.writer().end_lane(lane)
    }

    /// Appends undo data, and returns its offset in its rev file.
    pub fn append_undo(&self, undo: UndoRecord) -> Result<u32> {
        let encoded = self.encode_undo(undo.payload, undo.prev);
        self.append_encoded_undo(undo.file, undo.height, encoded)
    }

    /// Returns the record of undo data, with its checksum, for [`BlockFiles::append_encoded_undo`].
    /// `payload` is Core's serialised `CBlockUndo`; `prev` is the hash of the parent of the block.
    pub fn encode_undo(&self, payload: &[u8], prev: &Hash) -> EncodedUndo {
        EncodedUndo { record: undo_record(self.magic, payload, prev) }
    }

    /// Appends the undo record of the block at `height`, which is in the blk file with the number
    /// `file`, and returns the offset of the undo data in the rev file with that number.
    pub fn append_encoded_undo(&self, file: u32, height: u32, undo: EncodedUndo) -> Result<u32> {
        let mut record = undo.record;
        let start = self.writer().append_undo(&mut record, file, height)?;
        Ok(start + STORAGE_HEADER_BYTES)
    }

    /// Appends the undo data of a stored block and notes its position in `record`, unless the
    /// record has one already. Returns whether it was appended (Core's `WriteBlockUndo`).
    pub fn write_undo(
        &self,
        record: &mut IndexRecord,
        height: u32,
        prev: &Hash,
        payload: &[u8],
    ) -> Result<bool> {
        if record.status.has(BlockStatus::BLOCK_HAVE_UNDO) {
            return Ok(false);
        }
        let file = record.file;
        record.undo_pos = self.append_undo(UndoRecord { file, height, prev, payload })?;
        record.status.0 |= BlockStatus::BLOCK_HAVE_UNDO;
        Ok(true)
    }

    /// Truncates each rev file after the last of its undo data in `named`, which holds the
    /// positions of all entries of the block index; a file without any becomes empty. Files that
    /// already end there are not touched, and missing files are skipped.
    ///
    /// # Errors
    /// There is no undo record at a position that an entry names, or the disk fails.
    pub fn cut_undo(&self, named: impl IntoIterator<Item = FlatFilePos>) -> Result<()> {
        let mut last_of = BTreeMap::new();
        for FlatFilePos { file, pos } in named {
            let last = last_of.entry(file).or_insert(pos);
            *last = pos.max(*last);
        }
        for (number, info) in (0..).zip(self.infos()) {
            if info.undo_size == 0 || !self.undo_path(number).exists() {
                continue;
            }
            let end = match last_of.get(&number) {
                Some(last) => self.undo_end(FlatFilePos { file: number, pos: *last })?,
                None => 0,
            };
            if end < info.undo_size {
                self.writer().cut_undo(number, end)?;
            }
        }
        Ok(())
    }

    /// Counts a block of `len` bytes that is already at `pos`, while the index is rebuilt from the
    /// files (Core's `UpdateBlockInfo`).
    ///
    /// # Errors
    /// The file number is higher than any chain needs.
    pub fn note_block(&self, pos: FlatFilePos, len: u32, height: u32, time: u32) -> Result<()> {
        self.writer().note_block(pos, len, height, time)
    }

    /// Marks a file as used up to its byte `end`, while the index is rebuilt, so that its content
    /// there is not overwritten.
    ///
    /// # Errors
    /// The file number is higher than any chain needs.
    pub fn note_used(&self, file: u32, end: u32) -> Result<()> {
        self.writer().note_used(file, end)
    }

    /// Marks the rev file of a block file that holds a block as used up to its byte `end`, while
    /// the index is rebuilt, so that its content there is not overwritten.
    pub fn note_undo(&self, file: u32, end: u32) {
        self.writer().note_undo(file, end);
    }

    /// Reads the bytes of the block at `pos` (Core's `ReadRawBlock`), which the caller parses.
    ///
    /// # Errors
    /// The file is missing or cannot be read; the magic or the length before the block is invalid;
    /// the file ends within the block.
    pub fn read_block(&self, pos: FlatFilePos) -> Result<Vec<u8>> {
        let mut block = Vec::new();
        self.read_block_into(pos, &mut block)?;
        Ok(block)
    }

    /// Like [`BlockFiles::read_block`], into a buffer whose content is replaced.
    pub fn read_block_into(&self, pos: FlatFilePos, block: &mut Vec<u8>) -> Result<()> {
        self.reader.read_block_into(pos, block)
    }

    /// Reads the undo data at `pos` of a rev file (Core's `ReadBlockUndo`, before deserialisation).
    /// `prev` is the hash of the parent of its block, which the checksum covers.
    ///
    /// # Errors
    /// As for [`BlockFiles::read_block`], or the checksum does not match.
    pub fn read_undo(&self, pos: FlatFilePos, prev: &Hash) -> Result<Vec<u8>> {
        let mut payload = Vec::new();
        self.read_undo_into(pos, prev, &mut payload)?;
        Ok(payload)
    }

    /// Like [`BlockFiles::read_undo`], into a buffer whose content is replaced.
    pub fn read_undo_into(
        &self,
        pos: FlatFilePos,
        prev: &Hash,
        payload: &mut Vec<u8>,
    ) -> Result<()> {
        self.reader.read_undo_into(pos, prev, payload)
    }

    /// Makes everything appended so far durable: the files, then their directory. Data that is
    /// appended meanwhile is left to the next flush.
    ///
    /// # Errors
    /// The disk fails, or failed in an earlier flush, whose data may be lost.
    pub fn flush(&self) -> Result<FileChanges> {
        self.end_flush(self.begin_flush()?)
    }

    /// Begins to make everything appended so far durable; [`BlockFiles::end_flush`] completes it.
    /// Data that is appended from now on is left to the next flush, and is not counted in this one.
    ///
    /// # Errors
    /// The disk failed in an earlier flush, whose data may be lost.
    pub fn begin_flush(&self) -> Result<Unflushed> {
        let (files, changes) = self.writer().take_changes()?;
        Ok(Unflushed { files, changes })
    }

    /// Makes the data durable that was appended before [`BlockFiles::begin_flush`].
    ///
    /// # Errors
    /// The disk fails.
    pub fn end_flush(&self, unflushed: Unflushed) -> Result<FileChanges> {
        let Unflushed { files: unsynced, changes } = unflushed;
        let synced = unsynced
            .iter()
            .try_for_each(|file| self.disk.open_read(file.path(&self.directory))?.sync());
        let synced = if unsynced.is_empty() {
            synced
        } else {
            synced.and_then(|()| self.disk.sync_dir(&self.directory))
        };
        synced.inspect_err(|error| self.writer().lose(error))?;
        Ok(changes)
    }

    /// Keeps at least `bytes` of the disk free, for other data, whenever more space is reserved;
    /// never fewer than [`super::MIN_DISK_SPACE_BYTES`].
    pub fn keep_free(&self, bytes: u64) {
        self.writer().keep_free(bytes);
    }

    /// Returns the info of each file, by its number.
    pub fn infos(&self) -> Vec<FileInfo> {
        self.writer().infos().to_vec()
    }

    /// Returns the info of each file that may be pruned, by its number; files that lanes append to
    /// count as empty.
    pub fn prunable_infos(&self) -> Vec<FileInfo> {
        self.writer().infos_but_lanes()
    }

    /// Begins to prune the files with these numbers, by clearing their infos. The caller then
    /// clears the positions in the entries of their blocks ([`forget_data`]), flushes, writes the
    /// changes and the entries to the index, and finally calls [`BlockFiles::remove`].
    ///
    /// [`forget_data`]: crate::IndexRecord::forget_data
    ///
    /// # Panics
    /// A file is the last one, which is still written to, or does not exist.
    pub fn prune(&self, numbers: &[u32]) -> Result<()> {
        let mut writer = self.writer();
        numbers.iter().try_for_each(|number| writer.prune(*number))
    }

    /// Deletes the pruned files with these numbers. It may be called only if the block index holds
    /// the flag `prunedblockfiles`.
    pub fn remove(&self, numbers: &[u32]) -> Result<()> {
        for number in numbers {
            for kind in [Kind::Block, Kind::Undo] {
                let path = kind.path(&self.directory, *number);
                if path.exists() {
                    self.disk.remove(path)?;
                }
            }
        }
        // Before, another thread could have opened them again.
        self.reader.forget(numbers);
        Ok(())
    }

    /// Deletes all pruned files that a crash has left (Core's `ScanAndUnlinkAlreadyPrunedFiles`):
    /// those whose info is empty, except the last one. It may be called only if the block index
    /// holds the flag `prunedblockfiles`.
    pub fn remove_pruned(&self) -> Result<()> {
        let infos = self.infos();
        let old = infos.split_last().map_or(&[][..], |(_, old)| old);
        let pruned = (0..).zip(old).filter(|(_, info)| info.size == 0);
        self.remove(&pruned.map(|(number, _)| number).collect::<Vec<u32>>())
    }

    /// Returns whether nothing was ever written to the blk file with this number: it is missing,
    /// empty, or only reserved.
    pub fn is_unwritten(&self, number: u32) -> Result<bool> {
        let path = self.block_path(number);
        if !path.exists() {
            return Ok(true);
        }
        let file = self.disk.open_read(path)?;
        let len = file.len()?;
        let mut part = Vec::new();
        for at in (0..len).step_by(PART_BYTES) {
            part.clear();
            file.append_to(&mut part, (len - at).min(PART_BYTES as u64) as usize, at)?;
            if part.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks that every blk file named in `entries` exists, as Core does at startup. With
    /// `may_lack_files`, only links whose file is not there are errors: its disk may not be
    /// mounted.
    ///
    /// # Errors
    /// A file is missing.
    pub fn check_present(&self, entries: &[IndexEntry], may_lack_files: bool) -> Result<()> {
        let stored = entries.iter().filter_map(IndexEntry::block_pos);
        let numbers: std::collections::BTreeSet<u32> = stored.map(|pos| pos.file).collect();
        for number in numbers {
            let path = Kind::Block.path(&self.directory, number);
            if !path.is_file() && (!may_lack_files || path.is_symlink()) {
                return Err(StoreError::new(
                    path,
                    "the file is missing, although the block index names it",
                ));
            }
        }
        Ok(())
    }

    fn append(
        &self,
        lane: Option<&mut Lane>,
        block: &[u8],
        height: u32,
        time: u32,
    ) -> Result<FlatFilePos> {
        let mut record = block_record(self.magic, block);
        let start = self.writer().append_block(lane, &mut record, height, time)?;
        Ok(FlatFilePos { file: start.file, pos: start.pos + STORAGE_HEADER_BYTES })
    }

    /// Returns the end of the undo record at `pos`, after its checksum.
    fn undo_end(&self, pos: FlatFilePos) -> Result<u32> {
        let (file, len) = self.reader.open_record(Kind::Undo, pos)?;
        let end = [len, UNDO_DATA_DISK_OVERHEAD - STORAGE_HEADER_BYTES]
            .into_iter()
            .try_fold(pos.pos, u32::checked_add);
        end.ok_or_else(|| {
            let what =
                format!("undo data of {len} bytes starts here, but a rev file is below 4 GiB");
            StoreError::corrupt(file.path(), u64::from(pos.pos), what)
        })
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // It is unknown what a writer that panicked has left in the files.
        self.writer.lock().unwrap_or_else(|poisoned| {
            let mut writer = poisoned.into_inner();
            writer.fail(&StoreError::new(&self.directory, "a writing thread has panicked"));
            writer
        })
    }
}
