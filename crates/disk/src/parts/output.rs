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

    /// Opens the file of an earlier process and truncates it to `len` bytes.
    pub(super) fn resume(disk: &Disk, path: PathBuf, len: u64, caching: Caching) -> Result<Self> {
        Ok(Self { disk: disk.clone(), file: SpillFile::resume(disk, path, len, caching)? })
    }

    /// Writes whole pages, of which the first `bytes` bytes belong to a part.
    pub(super) fn write(&self, pages: &[u8], bytes: usize) -> Result<Extent> {
        let offset = self.file.append(pages)?;
        let Ok(page) = u32::try_from(offset / PAGE_BYTES as u64) else {
            let what = "the file would exceed its limit of 16 TiB";
            return Err(StoreError::full(self.path(), what).at(offset));
        };
        Ok(Extent { page, bytes: bytes as u32, crc: crc32c::crc32c(&pages[..bytes]) })
    }

    /// Reads the pages of `extent` into `pages`, which has their length.
    pub(super) fn read(&self, extent: &Extent, pages: &mut [u8]) -> Result<()> {
        self.file.read_exact(extent.offset(), pages)?;
        let found = crc32c::crc32c(&pages[..extent.bytes as usize]);
        if found != extent.crc {
            let Extent { bytes, crc, .. } = extent;
            let what = format!(
                "the {bytes} bytes that were written here are damaged: their CRC-32C was \
                 {crc:08x} and is {found:08x}"
            );
            return Err(StoreError::corrupt(self.path(), extent.offset(), what));
        }
        Ok(())
    }

    /// Frees the disk space of pages that are no longer needed.
    pub(super) fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.file.punch_hole(offset, len)
    }

    /// Makes everything written durable, and returns the length of the file.
    pub(super) fn sync(&self) -> Result<u64> {
        self.file.sync()
    }

    /// Returns the number of bytes written so far.
    pub(super) fn bytes_written(&self) -> u64 {
        self.file.bytes_written()
    }

    /// Deletes the file, if there is one.
    pub(super) fn destroy(self) -> Result<()> {
        let disk = self.disk;
        let path = self.file.path().to_path_buf();
        drop(self.file);
        if path.exists() { disk.remove(path) } else { Ok(()) }
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Maps zeroed memory that starts at a page boundary and is allocated when it is touched. Huge
    /// pages save 60 ms of page faults if the memory was in use before, but cost 500 ms in a
    /// virtual machine whose host has to find them first.
    pub(super) fn map(&self, bytes: usize) -> Result<MmapMut> {
        let what = "allocate memory for the bytes of this file";
        MmapMut::map_anon(bytes).map_err(|e| StoreError::io(self.path(), what, e))
    }
}
