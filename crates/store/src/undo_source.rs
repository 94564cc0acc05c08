use std::path::Path;

use apus_disk::{Disk, File, Result};
use apus_hash::Hash;
use apus_wire::Cursor;

use super::flat_file::{Kind, STORAGE_HEADER_BYTES, UNDO_DATA_DISK_OVERHEAD, read_undo_payload};
use super::{Obfuscation, SourceFile};

/// The maximum length of undo data in bytes: a block of 1,000,000 bytes without its witness has at
/// most 24,390 inputs, and a coin takes at most 10,000 bytes of script and 18 more.
const UNDO_BYTES_MAX: u32 = 256 << 20;
/// Number of bytes that are read at a time while frames are walked: enough for many small records,
/// and little more than the frame of a large one.
const WINDOW_BYTES: u64 = 4 << 10;
/// Number of bytes read at the start of a record: magic, length, and the number of transactions as
/// a CompactSize.
const HEAD_BYTES: usize = STORAGE_HEADER_BYTES as usize + 5;

/// The undo data in the rev file next to a block file of a source, where no block index says which
/// record belongs to which block.
///
/// Records are in the order in which their blocks were connected. The file also holds the records
/// of blocks that were disconnected again, but none of blocks that were never connected.
pub struct UndoFile {
    file: File,
    obfuscation: Obfuscation,
    records: Vec<UndoPlace>,
}

/// The location of the undo data of a block in its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UndoPlace {
    /// Offset of the undo data, after magic and length.
    pub offset: u64,
    /// Length of the undo data in bytes, without the checksum after it.
    pub len: u32,
    /// Number of transactions whose spent coins it holds: all of the block except the coinbase.
    pub spending_txs: u32,
}

impl UndoFile {
    /// Opens the rev file next to `file`, for the network with this magic; `None` if there is none,
    /// or if `file` is not one of Core's numbered files.
    ///
    /// Only the frames are read, up to the first bytes that are not a frame. From there on the file
    /// is unwritten, or so damaged that later records cannot be found.
    pub fn beside(file: &SourceFile, magic: [u8; 4]) -> Result<Option<Self>> {
        let Some(number) = file.number else { return Ok(None) };
        let directory = file.path.parent().unwrap_or(Path::new("."));
        let path = Kind::Undo.path(directory, number);
        if !path.is_file() {
            return Ok(None);
        }
        let rev = Disk::new().open_read(&path)?;
        let records = Walk::new(&rev, file.obfuscation)?.records(magic)?;
        Ok(Some(Self { file: rev, obfuscation: file.obfuscation, records }))
    }

    /// Returns the path of the rev file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the locations of all undo data, in file order.
    pub fn records(&self) -> &[UndoPlace] {
        &self.records
    }

    /// Returns the index in [`UndoFile::records`] of the undo data that starts at `offset`.
    pub fn record_at(&self, offset: u64) -> Option<usize> {
        self.records.binary_search_by_key(&offset, |record| record.offset).ok()
    }

    /// Reads the undo data at `place` into `payload`, whose content is replaced. Returns whether
    /// its checksum is valid for a block whose parent is `prev`; if not, `payload` is empty.
    ///
    /// # Errors
    /// The file cannot be read, or has become shorter.
    pub fn read(&self, place: UndoPlace, prev: &Hash, payload: &mut Vec<u8>) -> Result<bool> {
        let UndoPlace { offset, len, .. } = place;
        read_undo_payload(&self.file, self.obfuscation, offset, len, prev, payload)
    }

    /// Finds and reads the undo data of the block that has `tx_count` transactions and the parent
    /// `prev`. Returns its index in [`UndoFile::records`], or `None` if the file does not hold it.
    ///
    /// The record at index `guess` is tried first, then its neighbours at increasing distance; a
    /// good guess, such as the index after the last one found, costs one read. A block whose only
    /// transaction is the coinbase spends nothing and needs no undo data.
    ///
    /// Two blocks with the same parent may have the same number of transactions: see
    /// [`UndoFile::find_fitting`].
    ///
    /// # Errors
    /// As for [`UndoFile::read`].
    pub fn find(
        &self,
        guess: usize,
        prev: &Hash,
        tx_count: usize,
        payload: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        self.find_fitting(guess, prev, tx_count, payload, |_| true)
    }

    /// Like [`UndoFile::find`], for undo data that `fits` accepts, which may distinguish the block
    /// from a stale one with the same parent and the same number of transactions.
    pub fn find_fitting(
        &self,
        guess: usize,
        prev: &Hash,
        tx_count: usize,
        payload: &mut Vec<u8>,
        mut fits: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<usize>> {
        payload.clear();
        let Some(last) = self.records.len().checked_sub(1) else { return Ok(None) };
        let guess = guess.min(last);
        for distance in 0..=guess.max(last - guess) {
            let after = guess.checked_add(distance).filter(|index| *index <= last);
            let before = guess.checked_sub(distance).filter(|_| distance > 0);
            for index in after.into_iter().chain(before) {
                let place = self.records[index];
                let can_be = place.spending_txs as usize + 1 == tx_count;
                if can_be && self.read(place, prev, payload)? && fits(payload) {
                    return Ok(Some(index));
                }
            }
        }
        payload.clear();
        Ok(None)
    }
}

/// A walk over the frames of a rev file.
struct Walk<'a> {
    file: &'a File,
    len: u64,
    obfuscation: Obfuscation,
    /// The revealed bytes of the file from `window_start` on.
    window: Vec<u8>,
    window_start: u64,
}

impl<'a> Walk<'a> {
    fn new(file: &'a File, obfuscation: Obfuscation) -> Result<Self> {
        let len = file.len()?;
        Ok(Self { file, len, obfuscation, window: Vec::new(), window_start: 0 })
    }

    fn records(mut self, magic: [u8; 4]) -> Result<Vec<UndoPlace>> {
        let mut records = Vec::new();
        let mut at = 0;
        while at + u64::from(UNDO_DATA_DISK_OVERHEAD) < self.len {
            let head = self.head(at)?;
            let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            let end = at + u64::from(UNDO_DATA_DISK_OVERHEAD) + u64::from(len);
            if head[..4] != magic || len > UNDO_BYTES_MAX || end > self.len {
                break;
            }
            let stated = &head[8..][..(len as usize).min(HEAD_BYTES - 8)];
            // Without a count this is not undo data, but later records may be.
            if let Ok(txs) = Cursor::new(stated).compact_size() {
                let offset = at + u64::from(STORAGE_HEADER_BYTES);
                records.push(UndoPlace { offset, len, spending_txs: txs as u32 });
            }
            at = end;
        }
        Ok(records)
    }

    /// Returns the first bytes of the record at `at`; the file must have that many.
    fn head(&mut self, at: u64) -> Result<[u8; HEAD_BYTES]> {
        let held = self.window_start..self.window_start + self.window.len() as u64;
        if !(held.contains(&at) && at + HEAD_BYTES as u64 <= held.end) {
            self.window.clear();
            let len = WINDOW_BYTES.min(self.len - at) as usize;
            self.file.append_to(&mut self.window, len, at)?;
            self.obfuscation.apply(&mut self.window, at);
            self.window_start = at;
        }
        let mut head = [0; HEAD_BYTES];
        let from = (at - self.window_start) as usize;
        head.copy_from_slice(&self.window[from..from + HEAD_BYTES]);
        Ok(head)
    }
}
