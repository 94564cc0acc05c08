use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::disk::{Disk, File, StoreError};

const NAME: &str = "survivors.dat";
/// Memory is written in whole pages.
pub(super) const PAGE_BYTES: usize = Disk::DIRECT_BYTES;

/// Records of one slot that lie in the file: some pages, of which the last may be used in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub offset: u64,
    pub bytes: u32,
    /// CRC-32C of those bytes.
    pub crc: u32,
}

impl Extent {
    /// Bytes with the rest of the last page.
    pub(super) fn pages_bytes(&self) -> usize {
        (self.bytes as usize).next_multiple_of(PAGE_BYTES)
    }
}

/// The file for what does not fit in memory, made when first needed.
pub(super) struct Spill {
    disk: Disk,
    dir: PathBuf,
    file: OnceLock<File>,
    /// Held by whoever makes the file.
    making: Mutex<()>,
    /// Length of the file with all that is being written.
    end: AtomicU64,
}

impl Spill {
    pub(super) fn new(disk: &Disk, dir: &Path) -> Self {
        let (file, making, end) = (OnceLock::new(), Mutex::default(), AtomicU64::new(0));
        Self { disk: disk.clone(), dir: dir.to_path_buf(), file, making, end }
    }

    /// The file as it was when it had `end` bytes.
    pub(super) fn resume(disk: &Disk, dir: &Path, end: u64) -> Result<Self, StoreError> {
        let spill = Self::new(disk, dir);
        if end > 0 {
            let path = dir.join(NAME);
            let bytes = disk.len(&path)?;
            if bytes < end {
                let what = format!("the file has {bytes} bytes of the {end} that were saved");
                return Err(StoreError::new(&path, what));
            }
            let file = disk.open_direct(&path)?;
            file.set_len(end)?;
            spill.end.store(end, Relaxed);
            spill.file.get_or_init(|| file);
        }
        Ok(spill)
    }

    /// Removes the file.
    pub(super) fn remove(disk: &Disk, dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(NAME);
        if path.exists() { disk.remove(path) } else { Ok(()) }
    }

    /// Writes the first `bytes` of `pages`, which are whole pages with nothing else in the last.
    pub(super) fn write(&self, pages: &[u8], bytes: usize) -> Result<Extent, StoreError> {
        let offset = self.end.fetch_add(pages.len() as u64, Relaxed);
        self.file()?.write_all_at(pages, offset)?;
        Ok(Extent { offset, bytes: bytes as u32, crc: crc32c::crc32c(&pages[..bytes]) })
    }

    /// Fills `pages` with those of `extent`.
    pub(super) fn read(&self, extent: &Extent, pages: &mut [u8]) -> Result<(), StoreError> {
        let file = self.file()?;
        file.read_exact_at(pages, extent.offset)?;
        if crc32c::crc32c(&pages[..extent.bytes as usize]) != extent.crc {
            return Err(self.damaged(extent.offset));
        }
        Ok(())
    }

    /// Makes everything written durable; returns the file's length.
    pub(super) fn sync(&self) -> Result<u64, StoreError> {
        let end = self.end.load(Relaxed);
        if end > 0 {
            self.file()?.sync()?;
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(end)
    }

    /// An error about what lies at `offset` of the file.
    pub(super) fn damaged(&self, offset: u64) -> StoreError {
        let what = "what was put aside here came back damaged";
        StoreError::corrupt(self.dir.join(NAME), offset, what)
    }

    /// An error about memory for what is gathered.
    pub(super) fn no_memory(&self, error: std::io::Error) -> StoreError {
        StoreError::io(&self.dir, "get memory for the coins that survive", error)
    }

    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    fn file(&self) -> Result<&File, StoreError> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        self.disk.create_dir_all(&self.dir)?;
        let made = self.disk.create_direct(self.dir.join(NAME))?;
        Ok(self.file.get_or_init(|| made))
    }
}
