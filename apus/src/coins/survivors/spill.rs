use std::path::Path;

use crate::disk::{Disk, SpillFile, StoreError};

const NAME: &str = "survivors.dat";
/// The unit in which the file is written.
pub(super) const PAGE_BYTES: usize = Disk::DIRECT_BYTES;

/// Consecutive pages of the file with records of one slot. The last page may be used in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub offset: u64,
    /// The bytes of records, without the rest of the last page.
    pub bytes: u32,
    /// The CRC-32C of those bytes.
    pub crc: u32,
}

impl Extent {
    /// The bytes of all pages, with the rest of the last one.
    pub(super) fn pages_bytes(&self) -> usize {
        (self.bytes as usize).next_multiple_of(PAGE_BYTES)
    }
}

/// The file `survivors.dat` of a directory, for the records that do not fit in memory.
pub(super) struct Spill {
    disk: Disk,
    file: SpillFile,
}

impl Spill {
    pub(super) fn new(disk: &Disk, dir: &Path) -> Self {
        Self { disk: disk.clone(), file: SpillFile::resumable(disk, dir.join(NAME)) }
    }

    /// The file as it was when it had `len` bytes.
    pub(super) fn resume(disk: &Disk, dir: &Path, len: u64) -> Result<Self, StoreError> {
        Ok(Self { disk: disk.clone(), file: SpillFile::resume(disk, dir.join(NAME), len)? })
    }

    /// Deletes the file, if there is one.
    pub(super) fn remove(disk: &Disk, dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(NAME);
        if path.exists() { disk.remove(path) } else { Ok(()) }
    }

    /// Writes whole pages, of which the first `bytes` bytes are records.
    pub(super) fn write(&self, pages: &[u8], bytes: usize) -> Result<Extent, StoreError> {
        let offset = self.file.append(pages)?;
        Ok(Extent { offset, bytes: bytes as u32, crc: crc32c::crc32c(&pages[..bytes]) })
    }

    /// Reads the pages of `extent` into `pages`, which are as long.
    pub(super) fn read(&self, extent: &Extent, pages: &mut [u8]) -> Result<(), StoreError> {
        self.file.read_exact(extent.offset, pages)?;
        if crc32c::crc32c(&pages[..extent.bytes as usize]) != extent.crc {
            return Err(self.damaged(extent.offset));
        }
        Ok(())
    }

    /// Makes all that is written durable, and returns the file's length.
    pub(super) fn sync(&self) -> Result<u64, StoreError> {
        self.file.sync()
    }

    /// The error of damaged records at `offset` of the file.
    pub(super) fn damaged(&self, offset: u64) -> StoreError {
        let what = "the coins that were written here came back damaged";
        StoreError::corrupt(self.file.path(), offset, what)
    }

    /// The error of memory for records that the system refused.
    pub(super) fn no_memory(&self, error: std::io::Error) -> StoreError {
        StoreError::io(self.dir(), "get memory for the coins that survive", error)
    }

    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    pub(super) fn dir(&self) -> &Path {
        self.file.path().parent().unwrap_or(Path::new("."))
    }
}
