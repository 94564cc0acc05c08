#![allow(unsafe_code, reason = "files are mapped into memory")]

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use memmap2::{Mmap, UncheckedAdvice};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::hook::{Call, Hook};
use super::power::{FileId, Power, PowerCut};
use super::{Result, StoreError};

/// Releases the memory of a range of a mapped file, in whole pages. A later read brings the pages
/// back from the page cache or from the file.
pub fn release(map: &Mmap, bytes: Range<usize>) {
    let advice = UncheckedAdvice::DontNeed;
    // SAFETY: the map is read-only and backed by a file, so the same bytes come back.
    let released = unsafe { map.unchecked_advise_range(advice, bytes.start, bytes.len()) };
    // If the system refuses, this process merely uses more memory.
    let _ = released;
}

/// How a file is read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caching {
    /// Through the page cache: for data that is read soon, or deleted before it has to reach the
    /// disk.
    PageCache,
    /// Past the page cache (`O_DIRECT`): for large data that is not read soon. Nothing is copied,
    /// no pages are taken from other uses, and a sync has nothing left to write.
    Direct,
}

/// The file system. Clones share a [`PowerCut`] and a [`Hook`], if there is one.
#[derive(Clone, Default)]
pub struct Disk {
    power: Option<Arc<PowerCut>>,
    hook: Option<Arc<Hook>>,
}

/// An open file, with its path for error messages.
pub struct File {
    path: PathBuf,
    inner: fs::File,
    power: Option<(Arc<PowerCut>, FileId)>,
    hook: Option<Arc<Hook>>,
    /// Whether reads and writes go past the page cache.
    direct: AtomicBool,
    /// Whether a sync has failed.
    lost: AtomicBool,
}

impl Disk {
    /// The alignment, in bytes, of memory, offset and length for reads and writes of
    /// [`File::is_direct`] files. If the file system refuses a call with this alignment, the file
    /// goes through the page cache from then on.
    pub const DIRECT_BYTES: usize = 4096;

    /// Returns the file system of this machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the file system of this machine, whose power fails as `power` says.
    pub fn with_power_cut(power: Arc<PowerCut>) -> Self {
        Self { power: Some(power), hook: None }
    }

    /// Adds a hook that is called before each call to the file system, after the hooks already
    /// there.
    pub fn with_hook(self, hook: Arc<Hook>) -> Self {
        let hook: Arc<Hook> = match self.hook {
            None => hook,
            Some(first) => {
                Arc::new(move |call, path| first(call, path).and_then(|()| hook(call, path)))
            }
        };
        Self { hook: Some(hook), ..self }
    }

    /// Returns a disk on which the calls of one kind with these numbers, counted from 0, fail.
    pub fn failing(call: Call, numbers: Range<u64>) -> Self {
        let count = AtomicU64::new(0);
        let hook = move |asked, _: &Path| {
            let is_asked = asked == call;
            let number = count.fetch_add(u64::from(is_asked), Relaxed);
            if is_asked && numbers.contains(&number) {
                Err(io::Error::from_raw_os_error(Errno::IO.raw_os_error()))
            } else {
                Ok(())
            }
        };
        Self::new().with_hook(Arc::new(hook))
    }

    /// Creates the file `path` for reading and writing; an existing file is truncated.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File> {
        self.create_with_mode(path.as_ref(), 0o644)
    }

    /// Like [`Disk::create`], but only the owner may read the file.
    pub(super) fn create_private(&self, path: &Path) -> Result<File> {
        self.create_with_mode(path, 0o600)
    }

    fn create_with_mode(&self, path: &Path, mode: u32) -> Result<File> {
        self.step(path)?;
        let existed = self.power.as_ref().is_some_and(|power| power.before_change(path));
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(mode);
        let file = self.open_with(path, &options, !existed, "create the file")?;
        if existed {
            file.note(|power, id| power.len_set(id, 0));
        }
        Ok(file)
    }

    /// Like [`Disk::create`], but reads and writes the file with `caching`, if the file system
    /// supports it.
    pub fn create_cached(&self, path: impl AsRef<Path>, caching: Caching) -> Result<File> {
        Ok(self.create(path)?.with_caching(caching))
    }

    /// Like [`Disk::open`], but reads and writes the file with `caching`, if the file system
    /// supports it.
    pub fn open_cached(&self, path: impl AsRef<Path>, caching: Caching) -> Result<File> {
        Ok(self.open(path)?.with_caching(caching))
    }

    /// Opens the file `path` for reading and writing; it is created if it does not exist.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let existed = path.exists();
        if !existed {
            self.step(path)?;
        }
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        self.open_with(path, &options, !existed, "open the file")
    }

    /// Opens the file `path` for reading.
    pub fn open_read(&self, path: impl AsRef<Path>) -> Result<File> {
        let mut options = fs::OpenOptions::new();
        options.read(true);
        self.open_with(path.as_ref(), &options, false, "open the file")
    }

    /// Reads the whole file `path`; `None` if it does not exist.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Option<Vec<u8>>> {
        let path = path.as_ref();
        match self.ask(Call::Read, path).and_then(|()| fs::read(path)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(StoreError::io(path, "read the file", e)),
        }
    }

    pub fn len(&self, path: impl AsRef<Path>) -> Result<u64> {
        let path = path.as_ref();
        let metadata = fs::metadata(path);
        Ok(metadata.map_err(|e| StoreError::io(path, "read the length", e))?.len())
    }

    /// Renames the file `from` to `to`, replacing an existing file. Durable after
    /// [`Disk::sync_dir`].
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let from = from.as_ref();
        let to = to.as_ref();
        let fail = |e| StoreError::io(to, "rename a file to this name", e);
        self.ask(Call::Rename, to).map_err(fail)?;
        self.step(to)?;
        if let Some(power) = &self.power {
            power.before_change(from);
            power.before_change(to);
        }
        fs::rename(from, to).map_err(fail)?;
        if let Some(power) = &self.power {
            power.renamed(from, to);
        }
        Ok(())
    }

    /// Removes the file `path`, if it exists. Durable after [`Disk::sync_dir`].
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let fail = |e| StoreError::io(path, "remove the file", e);
        self.ask(Call::Remove, path).map_err(fail)?;
        self.step(path)?;
        let existed = self.power.as_ref().is_some_and(|power| power.before_change(path));
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(fail(e)),
            _ => {}
        }
        if let Some(power) = self.power.as_ref().filter(|_| existed) {
            power.removed(path);
        }
        Ok(())
    }

    /// Removes the directory `path`, if it exists and is empty.
    pub fn remove_empty_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let fail = |e| StoreError::io(path, "remove the directory", e);
        self.ask(Call::Remove, path).map_err(fail)?;
        self.step(path)?;
        match fs::remove_dir(path) {
            Err(e) if path.exists() && e.kind() != io::ErrorKind::DirectoryNotEmpty => Err(fail(e)),
            _ => Ok(()),
        }
    }

    /// Creates the directory `path` and its parents, where they do not exist.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let create = || fs::create_dir_all(path);
        let created = self.ask(Call::Open, path).and_then(|()| create());
        created.map_err(|e| StoreError::io(path, "create the directory", e))
    }

    /// Returns the names in the directory `path`, sorted; none if it does not exist.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<String>> {
        let path = path.as_ref();
        let fail = |e| StoreError::io(path, "list the directory", e);
        let mut names = Vec::new();
        match self.ask(Call::Read, path).and_then(|()| fs::read_dir(path)) {
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

    /// Makes creations, renames and removals in the directory `path` durable.
    pub fn sync_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let fail = |e| StoreError::io(path, "sync the directory", e);
        self.ask(Call::Sync, path).map_err(fail)?;
        self.step(path)?;
        let changes = self.power.as_ref().map_or(0, |power| power.name_changes());
        fs::File::open(path).and_then(|d| d.sync_all()).map_err(fail)?;
        if let Some(power) = &self.power {
            power.dir_synced(path, changes);
        }
        Ok(())
    }

    fn open_with(
        &self,
        path: &Path,
        options: &fs::OpenOptions,
        is_new: bool,
        what: &str,
    ) -> Result<File> {
        let inner = self.ask(Call::Open, path).and_then(|()| options.open(path));
        let inner = inner.map_err(|e| StoreError::io(path, what, e))?;
        let power = self.power.as_ref();
        let power = power.map(|power| (Arc::clone(power), power.opened(path, is_new)));
        let path = path.to_path_buf();
        let hook = self.hook.clone();
        let direct = AtomicBool::new(false);
        let lost = AtomicBool::new(false);
        Ok(File { path, inner, power, hook, direct, lost })
    }

    /// Calls the hook, if there is one.
    fn ask(&self, call: Call, path: &Path) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), |hook| hook(call, path))
    }

    /// Counts a change to the disk.
    ///
    /// # Errors
    /// The power is off.
    fn step(&self, path: &Path) -> Result<()> {
        self.power.as_ref().map_or(Ok(()), |power| power.step().whole(path))
    }
}

impl File {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn len(&self) -> Result<u64> {
        let metadata = self.inner.metadata();
        Ok(metadata.map_err(|e| StoreError::io(&self.path, "read the length", e))?.len())
    }

    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns whether the file is read and written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.load(Relaxed)
    }

    /// Fills `buffer` with the bytes that start at `offset`.
    ///
    /// # Errors
    /// The file ends before `buffer` is full, or cannot be read.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let read = || self.inner.read_exact_at(buffer, offset);
        let result = self.ask(Call::Read).and_then(|()| self.through_cache_if_refused(read));
        result.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => {
                let what =
                    format!("the file ends within the {} bytes to be read here", buffer.len());
                StoreError::corrupt(&self.path, offset, what)
            }
            _ => StoreError::io(&self.path, "read", e).at(offset),
        })
    }

    /// Appends the `len` bytes that start at `offset` to `out`, without zeroing the new space
    /// first. It allocates memory for `len` bytes, which the caller must keep within bounds.
    ///
    /// # Errors
    /// The file ends before `len` bytes, or cannot be read; then `out` is unchanged.
    pub fn append_to(&self, out: &mut Vec<u8>, len: usize, offset: u64) -> Result<()> {
        let fail = |at, e| StoreError::io(&self.path, "read", e).at(at);
        self.ask(Call::Read).map_err(|e| fail(offset, e))?;
        let start = out.len();
        out.reserve_exact(len);
        while out.len() < start + len {
            let at = offset + (out.len() - start) as u64;
            let spare = rustix::buffer::spare_capacity(out);
            match rustix::io::pread(&self.inner, spare, at) {
                Ok(0) => {
                    out.truncate(start);
                    let what = format!("the file ends within the {len} bytes to be read here");
                    return Err(StoreError::corrupt(&self.path, offset, what));
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => {
                    out.truncate(start);
                    return Err(fail(at, e.into()));
                }
            }
        }
        out.truncate(start + len);
        Ok(())
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let fail = |e| StoreError::io(&self.path, "write", e).at(offset);
        let asked = self.ask(Call::Write);
        let power = self.step();
        let kept = match (power, &asked) {
            (Power::On, Ok(())) => bytes,
            (Power::On, Err(_)) | (Power::Fails, _) => &bytes[..bytes.len() / 2],
            (Power::Off, _) => &[],
        };
        if !kept.is_empty() {
            let write = || self.inner.write_all_at(kept, offset);
            self.through_cache_if_refused(write).map_err(fail)?;
            // Any part of the write that the power failure interrupts may survive.
            let changed = if asked.is_ok() { bytes } else { kept };
            self.note(|power, file| power.written(file, offset, changed));
        }
        asked.map_err(fail)?;
        power.whole(&self.path)
    }

    /// Reserves space for the `len` bytes that start at `offset`, and extends the file with zeros
    /// to their end (`fallocate`). Does nothing if the file system cannot reserve space.
    pub fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        let fail = |e| StoreError::io(&self.path, "reserve space", e).at(offset);
        self.ask(Call::Allocate).map_err(fail)?;
        self.step().whole(&self.path)?;
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(&self.inner, FallocateFlags::empty(), offset, len) {
            Ok(()) => {
                self.note(|power, file| power.allocated(file, offset + len));
                Ok(())
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(e) => Err(fail(e.into())),
        }
    }

    /// Frees the disk space of the `len` bytes that start at `offset` (`FALLOC_FL_PUNCH_HOLE`), so
    /// that they read as zeros; the file keeps its length. Does nothing if the file system cannot
    /// free space. After a power failure the bytes may be zeros or not, even if the file was synced
    /// since.
    pub fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        let fail = |e| StoreError::io(&self.path, "free space", e).at(offset);
        self.ask(Call::Allocate).map_err(fail)?;
        let power = self.step();
        if power == Power::Off {
            return power.whole(&self.path);
        }
        self.note(|power, file| power.hole_punched(file, offset, len));
        use rustix::fs::{FallocateFlags, fallocate};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.inner, flags, offset, len) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => power.whole(&self.path),
            Err(e) => Err(fail(e.into())),
        }
    }

    /// Truncates the file to `len` bytes, or extends it with zeros to that length.
    pub fn set_len(&self, len: u64) -> Result<()> {
        let fail = |e| StoreError::io(&self.path, "set the length", e);
        self.ask(Call::Allocate).map_err(fail)?;
        self.step().whole(&self.path)?;
        self.inner.set_len(len).map_err(fail)?;
        self.note(|power, file| power.len_set(file, len));
        Ok(())
    }

    /// Makes the content of the file durable (`fdatasync`).
    ///
    /// # Errors
    /// The disk fails, or failed in an earlier sync of this handle: the kernel drops pages that it
    /// cannot write, and would report success for the next sync.
    pub fn sync(&self) -> Result<()> {
        if self.lost.load(Relaxed) {
            let what = "an earlier sync of this file failed, so written data may be lost";
            return Err(StoreError::new(&self.path, what));
        }
        self.sync_once().inspect_err(|_| self.lost.store(true, Relaxed))
    }

    fn sync_once(&self) -> Result<()> {
        let fail = |e| StoreError::io(&self.path, "sync", e);
        let asked = self.ask(Call::Sync);
        self.step().whole(&self.path)?;
        let changes = self.power.as_ref().map_or(0, |(power, file)| power.changes(*file));
        if let Err(error) = asked {
            self.note(|power, file| power.sync_failed(file, changes));
            return Err(fail(error));
        }
        self.inner.sync_data().map_err(fail)?;
        self.note(|power, file| power.file_synced(file, changes));
        Ok(())
    }

    /// Maps the whole file for reading.
    ///
    /// The file must not be truncated while the map exists. Only tables are mapped, which never
    /// change once they are written, and the lock on the data directory keeps other programs away.
    pub fn map(&self) -> Result<Mmap> {
        let fail = |e| StoreError::io(&self.path, "map the file", e);
        self.ask(Call::Read).map_err(fail)?;
        // SAFETY: the file does not change, as the doc comment requires. If another program
        // truncates it anyway, reading raises SIGBUS, as in every program that maps files.
        unsafe { Mmap::map(&self.inner) }.map_err(fail)
    }

    /// Switches the file to `caching`, if the file system supports it.
    fn with_caching(self, caching: Caching) -> Self {
        match caching {
            Caching::PageCache => self,
            Caching::Direct => self.into_direct(),
        }
    }

    /// Makes reads and writes bypass the page cache, if the file system supports it. Files under a
    /// [`PowerCut`] stay in the page cache, because a power cut writes half of the bytes, which may
    /// be any number.
    fn into_direct(self) -> Self {
        let set = || fcntl_setfl(&self.inner, fcntl_getfl(&self.inner)? | OFlags::DIRECT);
        if self.power.is_none() && set().is_ok() {
            self.direct.store(true, Relaxed);
        }
        self
    }

    /// Runs `work`. If the file system refuses it because it bypasses the page cache, switches the
    /// file to the cache and runs it again.
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

    /// Calls the hook, if there is one.
    fn ask(&self, call: Call) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), |hook| hook(call, &self.path))
    }

    /// Counts a change to the file, whose content is remembered before the first change.
    fn step(&self) -> Power {
        let Some((power, file)) = &self.power else { return Power::On };
        power.before_write(*file, &self.path);
        power.step()
    }

    /// Notes a change that has been made.
    fn note(&self, note: impl FnOnce(&PowerCut, FileId)) {
        if let Some((power, file)) = &self.power {
            note(power, *file);
        }
    }

    /// Returns the file of the standard library, for locks and advice to the kernel.
    pub fn raw(&self) -> &fs::File {
        &self.inner
    }
}
