use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use super::{Caching, Disk, File, Result, StoreError, lock};

/// A file for bytes that do not fit in memory, created when the first of them are written.
///
/// Any number of threads append and read at the same time. The caller has to remember where each
/// piece is.
pub struct SpillFile {
    disk: Disk,
    path: PathBuf,
    persistence: Persistence,
    file: OnceLock<File>,
    /// Locked by the thread that creates the file.
    creating: Mutex<()>,
    /// Length of the file, including bytes that are still being written.
    len: AtomicU64,
}

/// Whether a later process can find the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Persistence {
    /// The file keeps its name, so that the program can continue with it after a restart.
    Resumable(Caching),
    /// The name is removed as soon as the file is open, so that a crash leaves nothing behind.
    Unlinked,
}

impl SpillFile {
    /// Returns a file at `path` that can be [resumed](SpillFile::resume) after a restart. Missing
    /// directories are created together with it.
    pub fn resumable(disk: &Disk, path: PathBuf, caching: Caching) -> Self {
        Self::new(disk, path, Persistence::Resumable(caching))
    }

    /// Returns the resumable file at `path`, truncated to its first `len` bytes. If `len` is 0, it
    /// is not created yet.
    ///
    /// # Errors
    /// The file is missing, or shorter than `len`.
    pub fn resume(disk: &Disk, path: PathBuf, len: u64, caching: Caching) -> Result<Self> {
        let spill = Self::resumable(disk, path, caching);
        if len > 0 {
            let found = disk.len(&spill.path)?;
            if found < len {
                let what = format!("the file has only {found} of the {len} bytes that were saved");
                return Err(StoreError::new(&spill.path, what));
            }
            let file = disk.open_cached(&spill.path, caching)?;
            file.set_len(len)?;
            spill.len.store(len, Relaxed);
            spill.file.get_or_init(|| file);
        }
        Ok(spill)
    }

    /// Returns a file in the directory of `path`, named like `path` with `suffix` added, that is
    /// gone once this is dropped or the process ends. Missing directories are created together with
    /// it, and stay.
    pub fn unlinked(path: &Path, suffix: &str) -> Self {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(suffix);
        Self::new(&Disk::new(), path.with_file_name(name), Persistence::Unlinked)
    }

    fn new(disk: &Disk, path: PathBuf, persistence: Persistence) -> Self {
        Self {
            disk: disk.clone(),
            path,
            persistence,
            file: OnceLock::new(),
            creating: Mutex::default(),
            len: AtomicU64::new(0),
        }
    }

    /// Returns the path at which the file is or will be created.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of bytes appended so far.
    pub fn bytes_written(&self) -> u64 {
        self.len.load(Relaxed)
    }

    /// Appends `bytes` and returns their offset.
    pub fn append(&self, bytes: &[u8]) -> Result<u64> {
        let offset = self.reserve(bytes.len() as u64);
        self.write_at(bytes, offset)?;
        Ok(offset)
    }

    /// Reserves `len` bytes that the caller will [write](SpillFile::write_at), and returns their
    /// offset.
    pub fn reserve(&self, len: u64) -> u64 {
        self.len.fetch_add(len, Relaxed)
    }

    /// Writes `bytes` at `offset`, in [reserved](SpillFile::reserve) space.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file()?.write_all_at(bytes, offset)
    }

    /// Appends the `len` bytes at `offset` of the file to `out`.
    pub fn read(&self, offset: u64, len: usize, out: &mut Vec<u8>) -> Result<()> {
        self.file()?.append_to(out, len, offset)
    }

    /// Fills `buffer` with the bytes at `offset` of the file.
    pub fn read_exact(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file()?.read_exact_at(buffer, offset)
    }

    /// Frees the disk space of the `len` bytes at `offset` of the file, if the file system can. The
    /// bytes must no longer be needed: they may stay or become zeros.
    pub fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.file()?.punch_hole(offset, len)
    }

    /// Makes everything appended durable, and returns the length to [resume](SpillFile::resume)
    /// with. No thread may append meanwhile.
    pub fn sync(&self) -> Result<u64> {
        let len = self.bytes_written();
        if len > 0 {
            self.file()?.sync()?;
            self.disk.sync_dir(self.directory())?;
        }
        Ok(len)
    }

    /// Deletes the file, if it has a name.
    pub fn destroy(self) -> Result<()> {
        let Self { disk, path, file, .. } = self;
        drop(file);
        if path.exists() { disk.remove(path) } else { Ok(()) }
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn file(&self) -> Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let _creating = lock(&self.creating);
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        self.disk.create_dir_all(self.directory())?;
        let created = match self.persistence {
            Persistence::Resumable(caching) => self.disk.create_cached(&self.path, caching)?,
            Persistence::Unlinked => {
                let file = self.disk.create(&self.path)?;
                self.disk.remove(&self.path)?;
                file
            }
        };
        Ok(self.file.get_or_init(|| created))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a page, the unit of writes past the page cache.
    fn page(byte: u8) -> Vec<u8> {
        vec![byte; Disk::DIRECT_BYTES]
    }

    #[test]
    fn an_unlinked_file_is_never_seen() {
        let dir = tempfile::tempdir().unwrap();
        let spill = SpillFile::unlinked(&dir.path().join("out"), ".tmp");
        assert!(spill.bytes_written() == 0 && spill.path().ends_with("out.tmp"));
        assert_eq!(spill.append(b"first").unwrap(), 0);
        assert_eq!(spill.append(b"second").unwrap(), 5);
        assert_eq!(spill.bytes_written(), 11);
        assert!(Disk::new().list(dir.path()).unwrap().is_empty());
        let mut out = b"> ".to_vec();
        spill.read(5, 6, &mut out).unwrap();
        assert_eq!(out, b"> second");
        assert!(spill.read(5, 7, &mut out).is_err(), "beyond the end");
    }

    #[test]
    fn a_resumable_file_carries_on_where_it_was_synced() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        let path = dir.path().join("new").join("spill");
        let spill = SpillFile::resumable(&disk, path.clone(), Caching::Direct);
        assert_eq!(spill.sync().unwrap(), 0);
        assert!(!path.exists(), "created by the first append");
        spill.append(&page(1)).unwrap();
        let saved = spill.sync().unwrap();
        spill.append(&page(2)).unwrap();
        drop(spill);

        let spill = SpillFile::resume(&disk, path.clone(), saved, Caching::Direct).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), saved, "the rest is cut off");
        assert_eq!(spill.append(&page(3)).unwrap(), saved);
        let mut found = page(0);
        for (offset, expected) in [(0, page(1)), (saved, page(3))] {
            spill.read_exact(offset, &mut found).unwrap();
            assert_eq!(found, expected);
        }
        drop(spill);

        let error = SpillFile::resume(&disk, path.clone(), 3 * saved, Caching::Direct)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("8192 of the 12288 bytes"), "{error}");
        assert!(SpillFile::resume(&disk, dir.path().join("none"), 1, Caching::Direct).is_err());
        assert!(
            SpillFile::resume(&disk, dir.path().join("none"), 0, Caching::Direct)
                .unwrap()
                .bytes_written()
                == 0
        );
    }

    #[test]
    fn many_threads_share_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let spill = SpillFile::unlinked(&dir.path().join("out"), ".tmp");
        std::thread::scope(|scope| {
            for byte in 0..8u8 {
                let spill = &spill;
                scope.spawn(move || {
                    for _ in 0..100 {
                        let offset = spill.append(&[byte; 100]).unwrap();
                        let mut found = Vec::new();
                        spill.read(offset, 100, &mut found).unwrap();
                        assert_eq!(found, [byte; 100]);
                    }
                });
            }
        });
        assert_eq!(spill.bytes_written(), 80_000);
    }
}
