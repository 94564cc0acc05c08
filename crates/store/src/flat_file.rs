use std::path::{Path, PathBuf};

use apus_disk::{File, Result};
use apus_hash::{Hash, Sha256d};

use super::Obfuscation;

/// Number of bytes by which space is reserved in blk files.
pub const BLOCKFILE_CHUNK_SIZE: u32 = 16 << 20;
/// Number of bytes by which space is reserved in rev files.
pub const UNDOFILE_CHUNK_SIZE: u32 = 1 << 20;
/// The size in bytes that a blk file never reaches.
pub const MAX_BLOCKFILE_SIZE: u32 = 128 << 20;
/// Length in bytes of magic and length, before a block or undo data.
pub const STORAGE_HEADER_BYTES: u32 = 8;
/// Length in bytes of magic and length before undo data, and of the checksum after it.
pub const UNDO_DATA_DISK_OVERHEAD: u32 = STORAGE_HEADER_BYTES + 32;

/// A number of files that no chain needs: they hold 12 TiB of blocks. Higher file numbers, in
/// records or in file names, are invalid.
pub(super) const FILES_MAX: u32 = 100_000;

/// The position of a block or undo data in a numbered file, after magic and length (Core's
/// `FlatFilePos`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct FlatFilePos {
    /// Number of the file.
    pub file: u32,
    /// Byte offset in the file.
    pub pos: u32,
}

/// Options for the layout of block files.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockFilesOptions {
    /// Whether files have 64 KiB and are reserved in steps of 16 KiB, for tests (Core's
    /// `-fastprune`).
    pub fast_prune: bool,
    /// Whether space is reserved in steps of 16 KiB all the same, for tests in memory.
    pub small_steps: bool,
}

impl BlockFilesOptions {
    pub(super) fn max_file_size(self) -> u32 {
        if self.fast_prune { 0x10000 } else { MAX_BLOCKFILE_SIZE }
    }

    pub(super) fn chunk_size(self) -> u32 {
        if self.fast_prune || self.small_steps { 0x4000 } else { BLOCKFILE_CHUNK_SIZE }
    }
}

/// The content of a numbered file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// Blocks; a blk file.
    Block,
    /// Undo data; a rev file.
    Undo,
}

impl Kind {
    /// Returns the path of the file of this kind and number.
    pub fn path(self, directory: &Path, number: u32) -> PathBuf {
        let prefix = match self {
            Self::Block => "blk",
            Self::Undo => "rev",
        };
        directory.join(format!("{prefix}{number:05}.dat"))
    }
}

/// One of the numbered files of a data directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FlatFile {
    pub kind: Kind,
    pub number: u32,
}

impl FlatFile {
    /// Returns the path of the file.
    pub fn path(self, directory: &Path) -> PathBuf {
        self.kind.path(directory, self.number)
    }
}

/// Returns the number in the name of a blk file, such as `blk00042.dat`; `None` for other names.
pub(super) fn block_file_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("blk")?.strip_suffix(".dat")?;
    let all_digits = digits.len() >= 5 && digits.bytes().all(|b| b.is_ascii_digit());
    if all_digits { digits.parse().ok() } else { None }
}

/// Returns the record of a block in a blk file, before obfuscation.
pub(super) fn block_record(magic: [u8; 4], block: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(STORAGE_HEADER_BYTES as usize + block.len());
    record.extend_from_slice(&magic);
    record.extend_from_slice(&(block.len() as u32).to_le_bytes());
    record.extend_from_slice(block);
    record
}

/// Returns the record of undo data in a rev file, before obfuscation.
pub(super) fn undo_record(magic: [u8; 4], payload: &[u8], prev: &Hash) -> Vec<u8> {
    let mut record = Vec::with_capacity(UNDO_DATA_DISK_OVERHEAD as usize + payload.len());
    record.extend_from_slice(&magic);
    record.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    record.extend_from_slice(payload);
    record.extend_from_slice(&undo_checksum(payload, prev).0);
    record
}

/// Returns the checksum after undo data: the double SHA-256 of the hash of the parent block and the
/// data.
pub(super) fn undo_checksum(payload: &[u8], prev: &Hash) -> Hash {
    let mut hasher = Sha256d::default();
    hasher.update(&prev.0);
    hasher.update(payload);
    hasher.finish()
}

/// Reads the `len` bytes of undo data at `offset` of a rev file into `payload`, whose content is
/// replaced. Returns whether the checksum after them is valid for a block whose parent is `prev`;
/// if not, `payload` is empty. The caller must keep `len`, for which memory is allocated, within
/// bounds.
pub(super) fn read_undo_payload(
    file: &File,
    obfuscation: Obfuscation,
    offset: u64,
    len: u32,
    prev: &Hash,
    payload: &mut Vec<u8>,
) -> Result<bool> {
    let len = len as usize;
    payload.clear();
    file.append_to(payload, len + 32, offset)?;
    obfuscation.apply(payload, offset);
    let is_right = payload[len..] == undo_checksum(&payload[..len], prev).0;
    payload.truncate(if is_right { len } else { 0 });
    Ok(is_right)
}

/// Returns the end of the space to reserve from `pos` on, before `len` bytes are written there;
/// `None` if it is already reserved (Core's `FlatFileSeq::Allocate`).
pub(super) fn reservation(pos: u32, len: u32, chunk: u32) -> Option<u64> {
    let pos = u64::from(pos);
    let len = u64::from(len);
    let chunk = u64::from(chunk);
    let chunks = (pos + len).div_ceil(chunk);
    (chunks > pos.div_ceil(chunk)).then_some(chunks * chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_byte_by_byte() {
        let record = block_record([0xf9, 0xbe, 0xb4, 0xd9], &[7; 3]);
        assert_eq!(record, [0xf9, 0xbe, 0xb4, 0xd9, 3, 0, 0, 0, 7, 7, 7]);
        let prev = Hash([1; 32]);
        let record = undo_record([1, 2, 3, 4], &[5, 6], &prev);
        assert_eq!(record[..10], [1, 2, 3, 4, 2, 0, 0, 0, 5, 6]);
        let hashed = [&prev.0[..], &[5, 6]].concat();
        assert_eq!(record[10..], apus_hash::sha256d(&hashed).0);
    }

    #[test]
    fn names_and_numbers() {
        let directory = Path::new("d");
        assert_eq!(Kind::Block.path(directory, 7), Path::new("d/blk00007.dat"));
        assert_eq!(Kind::Undo.path(directory, 123_456), Path::new("d/rev123456.dat"));
        assert_eq!(block_file_number("blk00042.dat"), Some(42));
        assert_eq!(block_file_number("blk123456.dat"), Some(123_456));
        for name in ["blk1.dat", "rev00001.dat", "blk0000x.dat", "blk00001.da", "blk+0001.dat"] {
            assert_eq!(block_file_number(name), None, "{name}");
        }
    }

    #[test]
    fn space_is_reserved_in_whole_chunks() {
        assert_eq!(reservation(0, 1, 16), Some(16));
        assert_eq!(reservation(1, 15, 16), None);
        assert_eq!(reservation(15, 2, 16), Some(32));
        assert_eq!(reservation(16, 1, 16), Some(32));
        assert_eq!(reservation(16, 40, 16), Some(64));
    }
}
