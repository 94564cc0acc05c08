use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use apus_disk::{Disk, File, Result, StoreError, lock};
use apus_hash::Hash;

use super::flat_file::{FlatFile, Kind, STORAGE_HEADER_BYTES, read_undo_payload};
use super::{FlatFilePos, Obfuscation};

/// The largest length that a block in a file may state (Core's `MAX_SIZE`).
const MAX_SIZE: u32 = 0x0200_0000;
/// Maximum number of files kept open for reading, below every usual limit on open files.
const READERS_MAX: usize = 16;

/// Reads the blk and rev files of a data directory, by any number of threads, also while others
/// append to the files.
pub struct BlockReader {
    disk: Disk,
    directory: PathBuf,
    magic: [u8; 4],
    obfuscation: Obfuscation,
    readers: Mutex<Readers>,
}

/// The files that are kept open.
#[derive(Default)]
struct Readers {
    open: VecDeque<Reader>,
    /// How often files were forgotten.
    forgotten: u64,
}

/// A file opened for reading.
struct Reader {
    id: FlatFile,
    file: Arc<File>,
}

impl BlockReader {
    /// Returns what reads the files in `directory`.
    pub(super) fn new(
        disk: &Disk,
        directory: &Path,
        magic: [u8; 4],
        obfuscation: Obfuscation,
    ) -> Self {
        let disk = disk.clone();
        let directory = directory.to_path_buf();
        Self { disk, directory, magic, obfuscation, readers: Mutex::default() }
    }

    /// Reads the bytes of the block at `pos` (Core's `ReadRawBlock`), which the caller parses, into
    /// a buffer whose content is replaced.
    ///
    /// # Errors
    /// The file is missing or cannot be read; the magic or the length before the block is invalid;
    /// the file ends within the block.
    pub fn read_block_into(&self, pos: FlatFilePos, block: &mut Vec<u8>) -> Result<()> {
        block.clear();
        let (file, len) = self.open_block(pos)?;
        self.append(&file, pos, 0..len as usize, block)
    }

    /// Reads a part of the bytes of the block at `pos` into a buffer whose content is replaced.
    ///
    /// # Errors
    /// As for [`BlockReader::read_block_into`], or the block is shorter.
    pub fn read_piece_into(
        &self,
        pos: FlatFilePos,
        part: Range<usize>,
        piece: &mut Vec<u8>,
    ) -> Result<()> {
        piece.clear();
        let (file, len) = self.open_block(pos)?;
        if part.end > len as usize {
            let what = format!("this block has become shorter: it has {len} bytes");
            return Err(StoreError::corrupt(file.path(), u64::from(pos.pos), what));
        }
        self.append(&file, pos, part, piece)
    }

    /// Reads the undo data at `pos` of a rev file (Core's `ReadBlockUndo`, before deserialisation)
    /// into a buffer whose content is replaced. `prev` is the hash of the parent of its block,
    /// which the checksum covers.
    ///
    /// # Errors
    /// As for [`BlockReader::read_block_into`], or the checksum does not match.
    pub fn read_undo_into(
        &self,
        pos: FlatFilePos,
        prev: &Hash,
        payload: &mut Vec<u8>,
    ) -> Result<()> {
        payload.clear();
        let (file, len) = self.open_record(Kind::Undo, pos)?;
        let offset = u64::from(pos.pos);
        if !read_undo_payload(&file, self.obfuscation, offset, len, prev, payload)? {
            let what = "the checksum of the undo data does not match";
            return Err(StoreError::corrupt(file.path(), offset, what));
        }
        Ok(())
    }

    /// Returns the number of bytes of the undo data at `pos`.
    ///
    /// # Errors
    /// As for [`BlockReader::read_block_into`].
    pub fn undo_len(&self, pos: FlatFilePos) -> Result<u32> {
        Ok(self.open_record(Kind::Undo, pos)?.1)
    }

    /// Returns the number of bytes of the block at `pos`.
    ///
    /// # Errors
    /// As for [`BlockReader::read_block_into`].
    pub fn block_len(&self, pos: FlatFilePos) -> Result<u32> {
        Ok(self.open_block(pos)?.1)
    }

    fn open_block(&self, pos: FlatFilePos) -> Result<(Arc<File>, u32)> {
        let (file, len) = self.open_record(Kind::Block, pos)?;
        if len > MAX_SIZE {
            let what =
                format!("the stated length of this block is {len} bytes, which no block can have");
            return Err(StoreError::corrupt(file.path(), u64::from(pos.pos - 4), what));
        }
        Ok((file, len))
    }

    /// Appends a part of the block at `pos` to `out`, which is empty.
    fn append(
        &self,
        file: &File,
        pos: FlatFilePos,
        part: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let offset = u64::from(pos.pos) + part.start as u64;
        file.append_to(out, part.len(), offset)?;
        self.obfuscation.apply(out, offset);
        Ok(())
    }

    /// Closes the files with these numbers, which were deleted: their space is free then.
    pub(super) fn forget(&self, numbers: &[u32]) {
        let mut readers = lock(&self.readers);
        readers.forgotten += 1;
        readers.open.retain(|reader| !numbers.contains(&reader.id.number));
    }

    /// Returns the file of the record at `pos`, and the length of the record. Every record takes
    /// two reads, since the index holds no lengths; this one takes 0.3 µs, and reading a block 50
    /// µs.
    pub(super) fn open_record(&self, kind: Kind, pos: FlatFilePos) -> Result<(Arc<File>, u32)> {
        let file = self.reader(FlatFile { kind, number: pos.file })?;
        let Some(start) = pos.pos.checked_sub(STORAGE_HEADER_BYTES).map(u64::from) else {
            let what = "the block index names this offset, but no record can start before byte 8";
            return Err(StoreError::corrupt(file.path(), u64::from(pos.pos), what));
        };
        let mut header = [0; STORAGE_HEADER_BYTES as usize];
        file.read_exact_at(&mut header, start)?;
        self.obfuscation.apply(&mut header, start);
        let [m0, m1, m2, m3, len @ ..] = header;
        if [m0, m1, m2, m3] != self.magic {
            let what = format!(
                "no record starts here: the bytes are {m0:02x}{m1:02x}{m2:02x}{m3:02x} instead of \
                 the magic of the network"
            );
            return Err(StoreError::corrupt(file.path(), start, what));
        }
        let len = u32::from_le_bytes(len);
        let end = u64::from(pos.pos) + u64::from(len);
        // Checked before memory is allocated for that length.
        if end > file.len()? {
            let what = format!("the file ends within the {len} bytes that start here");
            return Err(StoreError::corrupt(file.path(), u64::from(pos.pos), what));
        }
        Ok((file, len))
    }

    /// Returns the file, open for reading. All readers share one handle, so that the kernel notices
    /// when they read sequentially.
    fn reader(&self, id: FlatFile) -> Result<Arc<File>> {
        let forgotten = {
            let readers = lock(&self.readers);
            if let Some(file) = readers.find(id) {
                return Ok(file);
            }
            readers.forgotten
        };
        // Other threads need not wait for a slow disk.
        let file = Arc::new(self.disk.open_read(id.path(&self.directory))?);
        let mut readers = lock(&self.readers);
        if let Some(file) = readers.find(id) {
            return Ok(file);
        }
        // Another thread may have deleted it.
        if readers.forgotten == forgotten {
            if readers.open.len() == READERS_MAX {
                readers.open.pop_front();
            }
            readers.open.push_back(Reader { id, file: Arc::clone(&file) });
        }
        Ok(file)
    }
}

impl Readers {
    fn find(&self, id: FlatFile) -> Option<Arc<File>> {
        let known = self.open.iter().find(|reader| reader.id == id)?;
        Some(Arc::clone(&known.file))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use apus_disk::Call;

    use super::*;
    use crate::{BlockFiles, BlockFilesOptions};

    const MAGIC: [u8; 4] = [1, 2, 3, 4];

    fn one_block(disk: &Disk, directory: &Path) -> (BlockFiles, FlatFilePos) {
        let key = Obfuscation::NONE;
        let options = BlockFilesOptions::default();
        let files = BlockFiles::new(disk, directory, MAGIC, key, vec![], options);
        let pos = files.append_block(&[7; 100], 1, 1).unwrap();
        (files, pos)
    }

    #[test]
    fn readers_do_not_wait_while_a_file_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let (_, pos) = one_block(&Disk::new(), directory.path());
        let reader: Arc<OnceLock<BlockReader>> = Arc::default();
        let opened = Arc::clone(&reader);
        let disk = Disk::new().with_hook(Arc::new(move |call, _| {
            let is_free = opened.get().is_none_or(|reader| reader.readers.try_lock().is_ok());
            assert!(is_free || call != Call::Open, "another thread would have to wait");
            Ok(())
        }));
        let new = BlockReader::new(&disk, directory.path(), MAGIC, Obfuscation::NONE);
        let reader = reader.get_or_init(|| new);
        let mut block = Vec::new();
        reader.read_block_into(pos, &mut block).unwrap();
        assert_eq!((block.len(), lock(&reader.readers).open.len()), (100, 1));
    }

    #[test]
    fn the_parts_of_a_block_are_the_block() {
        let directory = tempfile::tempdir().unwrap();
        let key = Obfuscation::new([1, 2, 3, 4, 5, 6, 7, 8]);
        let options = BlockFilesOptions::default();
        let files = BlockFiles::new(&Disk::new(), directory.path(), MAGIC, key, vec![], options);
        let block: Vec<u8> = (0..100).collect();
        let pos = files.append_block(&block, 1, 1).unwrap();
        let mut piece = Vec::new();
        let mut all = Vec::new();
        for part in [0..33, 33..99, 99..100, 100..100] {
            files.reader().read_piece_into(pos, part, &mut piece).unwrap();
            all.extend_from_slice(&piece);
        }
        assert_eq!(all, block);
        assert!(files.reader().read_piece_into(pos, 99..101, &mut piece).is_err());
    }

    #[test]
    fn no_deleted_file_is_kept_open() {
        let directory = tempfile::tempdir().unwrap();
        let (files, pos) = one_block(&Disk::new(), directory.path());
        let mut block = Vec::new();
        files.read_block_into(pos, &mut block).unwrap();
        assert_eq!(lock(&files.reader().readers).open.len(), 1);
        files.remove(&[pos.file]).unwrap();
        assert!(lock(&files.reader().readers).open.is_empty());

        let (_, pos) = one_block(&Disk::new(), directory.path());
        let reader: Arc<OnceLock<BlockReader>> = Arc::default();
        let opened = Arc::clone(&reader);
        // The file is deleted while it is opened.
        let disk = Disk::new().with_hook(Arc::new(move |call, _| {
            if let (Call::Open, Some(reader)) = (call, opened.get()) {
                reader.forget(&[pos.file]);
            }
            Ok(())
        }));
        let new = BlockReader::new(&disk, directory.path(), MAGIC, Obfuscation::NONE);
        let reader = reader.get_or_init(|| new);
        reader.read_block_into(pos, &mut block).unwrap();
        assert!(lock(&reader.readers).open.is_empty());
    }
}
