use std::path::{Path, PathBuf};

use memmap2::MmapMut;

use crate::{Caching, Disk, Result, SpillFile, StoreError};

use super::extent::{Extent, PAGE_BYTES};

/// The file for the bytes that do not fit in memory.
pub(super) struct Output {
    disk: Disk,
    file: SpillFile,
}

impl Output {
    pub(super) fn new(disk: &Disk, path: PathBuf, caching: Caching) -> Self {
        Self { disk: disk.clone(), file: SpillFile::resumable(disk, path, caching) }
    }

    /// The file as it was when it had `len` bytes.
    pub(super) fn resume(disk: &Disk, path: PathBuf, len: u64, caching: Caching) -> Result<Self> {
        Ok(Self { disk: disk.clone(), file: SpillFile::resume(disk, path, len, caching)? })
    }

    /// Writes whole pages, of which the first `bytes` bytes are of a part.
    pub(super) fn write(&self, pages: &[u8], bytes: usize) -> Result<Extent> {
        let offset = self.file.append(pages)?;
        let Ok(page) = u32::try_from(offset / PAGE_BYTES as u64) else {
            let what = "the file would be longer than the 16 TiB that it can have";
            return Err(StoreError::full(self.path(), what).at(offset));
        };
        Ok(Extent { page, bytes: bytes as u32, crc: crc32c::crc32c(&pages[..bytes]) })
    }

    /// Reads the pages of `extent` into `pages`, which are as long.
    pub(super) fn read(&self, extent: &Extent, pages: &mut [u8]) -> Result<()> {
        self.file.read_exact(extent.offset(), pages)?;
        let found = crc32c::crc32c(&pages[..extent.bytes as usize]);
        if found != extent.crc {
            let Extent { bytes, crc, .. } = extent;
            let what = format!(
                "the {bytes} bytes that were written here came back damaged: their CRC-32C was \
                 {crc:08x} and is {found:08x}"
            );
            return Err(StoreError::corrupt(self.path(), extent.offset(), what));
        }
        Ok(())
    }

    /// Gives the room of pages that nothing needs any more back to the file system.
    pub(super) fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.file.punch_hole(offset, len)
    }

    /// Makes all that is written durable, and returns the file's length.
    pub(super) fn sync(&self) -> Result<u64> {
        self.file.sync()
    }

    /// The bytes written so far.
    pub(super) fn bytes_written(&self) -> u64 {
        self.file.bytes_written()
    }

    /// Deletes the file, if there is one.
    pub(super) fn destroy(self) -> Result<()> {
        let (disk, path) = (self.disk, self.file.path().to_path_buf());
        drop(self.file);
        if path.exists() { disk.remove(path) } else { Ok(()) }
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Maps zeroed memory that starts at a page and is allocated as it is touched. Huge pages save
    /// 60 ms of page faults where memory was in use before, but cost 500 ms in a virtual machine
    /// whose host has to find them first.
    pub(super) fn map(&self, bytes: usize) -> Result<MmapMut> {
        let what = "get memory for what is written to this file";
        MmapMut::map_anon(bytes).map_err(|e| StoreError::io(self.path(), what, e))
    }
}
