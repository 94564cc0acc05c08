#![allow(unsafe_code, reason = "files are mapped into memory")]

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use memmap2::Mmap;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::{PowerCut, Result, StoreError};

/// A handle on the file system; clones share the same power cut, if one is armed.
#[derive(Clone, Default)]
pub struct Disk {
    power: Option<Arc<PowerCut>>,
}

/// An open file with its path, so that every error can name it.
pub struct File {
    path: PathBuf,
    inner: fs::File,
    power: Option<Arc<PowerCut>>,
    /// Whether reads and writes go past the page cache.
    direct: AtomicBool,
}

impl Disk {
    /// Memory, offset and length of what [`File::is_direct`] files read and write in one call are
    /// multiples of this many bytes; what the file system cannot take so goes through the page
    /// cache.
    pub const DIRECT_BYTES: usize = 4096;

    /// The real disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk that loses power as `power` says.
    pub fn with_power_cut(power: Arc<PowerCut>) -> Self {
        Self { power: Some(power) }
    }

    /// Creates `path` for reading and writing, or truncates what is there.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        self.before(path, &[])?;
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o644);
        self.open_with(path, &options, "create the file")
    }

    /// [`Disk::create`] for what only the owner may read.
    pub(super) fn create_private(&self, path: &Path) -> Result<File> {
        self.before(path, &[])?;
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        self.open_with(path, &options, "create the file")
    }

    /// As [`Disk::create`], past the page cache (`O_DIRECT`) where the file system can: for much
    /// data that nobody reads soon. It costs neither a copy nor the pages that hold it, and a sync
    /// finds nothing left to write.
    pub fn create_direct(&self, path: impl AsRef<Path>) -> Result<File> {
        Ok(self.create(path)?.into_direct())
    }

    /// As [`Disk::open`], past the page cache where the file system can.
    pub fn open_direct(&self, path: impl AsRef<Path>) -> Result<File> {
        Ok(self.open(path)?.into_direct())
    }

    /// Opens `path` for reading and writing, creating it empty if it is not there.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        if !path.exists() {
            self.before(path, &[])?;
        }
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        self.open_with(path, &options, "open the file")
    }

    /// Opens `path` for reading.
    pub fn open_read(&self, path: impl AsRef<Path>) -> Result<File> {
        let mut options = fs::OpenOptions::new();
        options.read(true);
        self.open_with(path.as_ref(), &options, "open the file")
    }

    /// The whole of `path`, or `None` if there is no such file.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Option<Vec<u8>>> {
        let path = path.as_ref();
        match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(StoreError::io(path, "read the file", e)),
        }
    }

    /// Length of the file at `path` in bytes.
    pub fn len(&self, path: impl AsRef<Path>) -> Result<u64> {
        let path = path.as_ref();
        let metadata = fs::metadata(path);
        Ok(metadata.map_err(|e| StoreError::io(path, "read the length", e))?.len())
    }

    /// Renames `from` to `to`, replacing what is there. Durable after [`Disk::sync_dir`].
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        if let Some(power) = &self.power {
            power.before_rename(from);
        }
        self.before(to, &[])?;
        fs::rename(from, to).map_err(|e| StoreError::io(to, "rename a file to this name", e))?;
        if let Some(power) = &self.power {
            power.renamed(from, to);
        }
        Ok(())
    }

    /// Removes a file; no error if it is not there. Durable after [`Disk::sync_dir`].
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.before(path, &[])?;
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io(path, "remove the file", e));
            }
            _ => {}
        }
        if let Some(power) = &self.power {
            power.removed(path);
        }
        Ok(())
    }

    /// Removes a directory if nothing is in it.
    pub fn remove_empty_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.before(path, &[])?;
        match fs::remove_dir(path) {
            Err(e) if path.exists() && e.kind() != io::ErrorKind::DirectoryNotEmpty => {
                Err(StoreError::io(path, "remove the directory", e))
            }
            _ => Ok(()),
        }
    }

    /// Creates a directory and its parents; no error if it is there.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        fs::create_dir_all(path).map_err(|e| StoreError::io(path, "create the directory", e))
    }

    /// Names of the entries of a directory, sorted; empty if there is no such directory.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<String>> {
        let path = path.as_ref();
        let fail = |e| StoreError::io(path, "list the directory", e);
        let mut names = Vec::new();
        match fs::read_dir(path) {
            Ok(entries) => {
                for entry in entries {
                    names.push(entry.map_err(fail)?.file_name().to_string_lossy().into_owned());
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(fail(e)),
        }
        names.sort();
        Ok(names)
    }

    /// Makes creations, renames and removals in `path` durable.
    pub fn sync_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.before(path, &[])?;
        let fail = |e| StoreError::io(path, "sync the directory", e);
        fs::File::open(path).and_then(|d| d.sync_all()).map_err(fail)?;
        if let Some(power) = &self.power {
            power.dir_synced(path);
        }
        Ok(())
    }

    fn open_with(&self, path: &Path, options: &fs::OpenOptions, what: &str) -> Result<File> {
        let inner = options.open(path).map_err(|e| StoreError::io(path, what, e))?;
        let (path, power) = (path.to_path_buf(), self.power.clone());
        Ok(File { path, inner, power, direct: AtomicBool::new(false) })
    }

    fn before(&self, path: &Path, bytes: &[u8]) -> Result<usize> {
        match &self.power {
            None => Ok(bytes.len()),
            Some(power) => power.step(path, bytes.len()),
        }
    }
}

impl File {
    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length in bytes.
    pub fn len(&self) -> Result<u64> {
        let metadata = self.inner.metadata();
        Ok(metadata.map_err(|e| StoreError::io(&self.path, "read the length", e))?.len())
    }

    /// Whether the file holds no bytes.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Whether the file is read and written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.load(Relaxed)
    }

    /// Fills `buffer` from `offset`; an error if the file ends before.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let result = self.through_cache_if_refused(|| self.inner.read_exact_at(buffer, offset));
        result.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => {
                let what = format!("the file ends inside the {} bytes wanted here", buffer.len());
                StoreError::corrupt(&self.path, offset, what)
            }
            _ => StoreError::io(&self.path, "read", e).at(offset),
        })
    }

    /// Appends the `len` bytes from `offset` to `out`; its new space is not zeroed first.
    ///
    /// `len` is for the caller to bound: as much is reserved. On an error `out` is as before.
    pub fn append_to(&self, out: &mut Vec<u8>, len: usize, offset: u64) -> Result<()> {
        let start = out.len();
        out.reserve_exact(len);
        while out.len() < start + len {
            let at = offset + (out.len() - start) as u64;
            let spare = rustix::buffer::spare_capacity(out);
            match rustix::io::pread(&self.inner, spare, at) {
                Ok(0) => {
                    out.truncate(start);
                    let what = format!("the file ends inside the {len} bytes wanted here");
                    return Err(StoreError::corrupt(&self.path, offset, what));
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => {
                    out.truncate(start);
                    return Err(StoreError::io(&self.path, "read", e.into()).at(at));
                }
            }
        }
        out.truncate(start + len);
        Ok(())
    }

    /// Writes all of `bytes` at `offset` with one call.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let fail = |e| StoreError::io(&self.path, "write", e).at(offset);
        match &self.power {
            None => {
                let write = || self.inner.write_all_at(bytes, offset);
                self.through_cache_if_refused(write).map_err(fail)
            }
            Some(power) => {
                let kept = power.step(&self.path, bytes.len());
                let partial = kept.as_ref().map_or(bytes.len() / 2, |n| *n);
                if !power.was_off_before_last_step() {
                    self.inner.write_all_at(&bytes[..partial], offset).map_err(fail)?;
                }
                kept.map(|_| ())
            }
        }
    }

    /// Reserves blocks up to `len` bytes and extends the file with zeros (`fallocate`).
    pub fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        if let Some(power) = &self.power {
            power.step(&self.path, 0)?;
        }
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(&self.inner, FallocateFlags::empty(), offset, len) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(e) => Err(StoreError::io(&self.path, "reserve space", e.into()).at(offset)),
        }
    }

    /// Cuts the file, or extends it with zeros, to `len` bytes.
    pub fn set_len(&self, len: u64) -> Result<()> {
        if let Some(power) = &self.power {
            power.step(&self.path, 0)?;
        }
        self.inner.set_len(len).map_err(|e| StoreError::io(&self.path, "set the length", e))
    }

    /// Makes the content durable (`fdatasync`).
    pub fn sync(&self) -> Result<()> {
        if let Some(power) = &self.power {
            power.step(&self.path, 0)?;
        }
        self.inner.sync_data().map_err(|e| StoreError::io(&self.path, "sync", e))?;
        if let Some(power) = &self.power {
            power.file_synced(&self.path);
        }
        Ok(())
    }

    /// Maps the whole file for reading.
    ///
    /// The caller vouches that nobody cuts the file while the map lives: tables never change once
    /// written, and the data directory's lock keeps other programs away.
    pub fn map(&self) -> Result<Mmap> {
        let fail = |e| StoreError::io(&self.path, "map the file", e);
        // SAFETY: see above; a file cut by a third party raises SIGBUS, as in every mmap reader.
        unsafe { Mmap::map(&self.inner) }.map_err(fail)
    }

    /// Goes past the page cache from now on. Not where power cuts are tested: they leave half a
    /// write, of any length.
    fn into_direct(self) -> Self {
        let set = || fcntl_setfl(&self.inner, fcntl_getfl(&self.inner)? | OFlags::DIRECT);
        if self.power.is_none() && set().is_ok() {
            self.direct.store(true, Relaxed);
        }
        self
    }

    /// Does `work`; if the file system refuses it for going past the page cache, does it again
    /// through the cache, and so from then on.
    fn through_cache_if_refused(&self, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        match work() {
            Err(e) if self.is_direct() && e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                fcntl_setfl(&self.inner, fcntl_getfl(&self.inner)? - OFlags::DIRECT)?;
                self.direct.store(false, Relaxed);
                work()
            }
            result => result,
        }
    }

    /// The file underneath, for locks.
    pub fn raw(&self) -> &fs::File {
        &self.inner
    }
}
