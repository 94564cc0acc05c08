//! Bytes that wait on disk: a temporary file that nobody sees.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::disk::{Disk, File, StoreError};

/// Bytes that many threads append, made on the first append and removed at once, so that whatever
/// happens nothing stays behind: the open file alone keeps them.
pub(super) struct Spill {
    path: PathBuf,
    file: OnceLock<File>,
    making: Mutex<()>,
    end: AtomicU64,
}

impl Spill {
    /// To be written beside `path`, to which `suffix` is added.
    pub fn beside(path: &Path, suffix: &str) -> Self {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(suffix);
        let path = path.with_file_name(name);
        Self { path, file: OnceLock::new(), making: Mutex::default(), end: AtomicU64::new(0) }
    }

    /// Appends bytes; their offset.
    pub fn append(&self, bytes: &[u8]) -> Result<u64, StoreError> {
        let offset = self.end.fetch_add(bytes.len() as u64, Relaxed);
        self.file()?.write_all_at(bytes, offset)?;
        Ok(offset)
    }

    /// Appends the `len` bytes at `offset` to `out`.
    pub fn read(&self, offset: u64, len: usize, out: &mut Vec<u8>) -> Result<(), StoreError> {
        self.file()?.append_to(out, len, offset)
    }

    /// Bytes appended so far.
    pub fn len(&self) -> u64 {
        self.end.load(Relaxed)
    }

    fn file(&self) -> Result<&File, StoreError> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.file.get().is_none() {
            let disk = Disk::new();
            let file = disk.create(&self.path)?;
            disk.remove(&self.path)?;
            let _ = self.file.set(file);
        }
        let gone = || StoreError::new(&self.path, "the temporary file is gone");
        self.file.get().ok_or_else(gone)
    }
}
