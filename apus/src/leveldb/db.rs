use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use super::adopt;
use super::cursor::Cursor;
use super::format::{LEVELS, Result};
use super::log;
use super::manifest::Edit;
use super::open;
use super::options::Options;
use super::run::RunBuilder;
use super::table::Table;
use super::version::{Version, new_file};
use crate::disk::{Disk, File, FileLock, StoreError};

/// An open database in LevelDB's on-disk format: byte-string keys in order, each with a value.
///
/// Any number of threads read while one writes and one merges. What is written comes in sorted
/// runs, each of which becomes visible and durable as a whole.
pub struct Db {
    pub(super) inner: Arc<Inner>,
}

/// The database as it was at one moment, for as long as it is held.
#[derive(Clone)]
pub struct Snapshot {
    version: Arc<Version>,
}

/// What a database is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Tables and their bytes, for each level.
    pub levels: [(usize, u64); LEVELS],
    /// Sorted runs that a lookup may have to look into.
    pub runs: usize,
}

impl Stats {
    /// Bytes of all tables.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Number of tables.
    pub fn tables(&self) -> usize {
        self.levels.iter().map(|(tables, _)| tables).sum()
    }
}

impl Db {
    /// Opens the database in the directory `path`, or makes it.
    ///
    /// It may be one that LevelDB left behind: what its log files hold is written to tables (kept
    /// in memory if `read_only`; then several programs may read at a time, and nothing in the
    /// directory is made or changed). An error if another program has it open, if a table is
    /// missing or cut short, or if the manifest or a log is damaged; a log's torn end is no damage.
    pub fn open(disk: Disk, path: &Path, options: Options) -> Result<Self> {
        open::open(disk, path, options).map(|inner| Self { inner: Arc::new(inner) })
    }

    /// Removes all files of the database in the directory `path`, if there is one.
    ///
    /// After a power cut in the middle it is as it was, or empty, or gone.
    pub fn destroy(disk: &Disk, path: &Path) -> Result<()> {
        open::destroy(disk, path)
    }

    /// Puts the database in `from` in the place of the one in `path`, or makes it the one there,
    /// and leaves nothing of it in `from`. Nobody may have either open. Both directories are on one
    /// file system; neither changes its name, so that `path` may be a symlink or a mount point.
    ///
    /// After a power cut in the middle `path` holds the old database or the new one, whole; the one
    /// in `from` may be lost.
    ///
    /// # Errors
    /// One of them is in use, the one in `from` is damaged or has log files with changes that are
    /// in no table, or the disk fails.
    pub fn adopt(disk: &Disk, path: &Path, from: &Path) -> Result<()> {
        adopt::adopt(disk, path, from)
    }

    /// The database as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { version: self.inner.current() }
    }

    /// The value of `key`. Many threads that look up much take a [`Snapshot`] each, or use
    /// [`Db::get_many`], so that they do not all count one reference up and down.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// What `read` makes of the value of `key`, without a copy of it.
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        Ok(self.inner.current().get(key)?.map(read))
    }

    /// Looks up many `keys`, which must ascend; calls `found` with the index and the value of each
    /// that is there, in no particular order.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        found: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        self.inner.current().get_many(keys, found)
    }

    /// A cursor over the keys from `from` on and below `to`, as they are now.
    pub fn scan(&self, from: &[u8], to: Option<&[u8]>) -> Result<Cursor> {
        Cursor::new(&self.inner.current(), from, to)
    }

    /// Writes a run of entries in ascending order of their keys, each once; no value deletes the
    /// key. All of it becomes visible and durable at once, when this returns.
    pub fn apply<K, V>(&self, entries: impl IntoIterator<Item = (K, Option<V>)>) -> Result<()>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let run = self.new_run()?;
        let mut writer = run.writer();
        for (key, value) in entries {
            match value {
                Some(value) => writer.put(key.as_ref(), value.as_ref())?,
                None => writer.delete(key.as_ref())?,
            }
        }
        writer.finish()?;
        run.commit()
    }

    /// Starts a run that several threads may write, each its own part of the keys.
    ///
    /// There is one run at a time: this waits until the one before is committed or dropped.
    pub fn new_run(&self) -> Result<RunBuilder> {
        RunBuilder::new(&self.inner, false)
    }

    /// Starts a run that will replace everything the database holds, once it is committed; it is
    /// written as one level of tables. Waits like [`Db::new_run`].
    pub fn bulk(&self) -> Result<RunBuilder> {
        RunBuilder::new(&self.inner, true)
    }

    /// What the database is made of now.
    pub fn stats(&self) -> Stats {
        let version = self.inner.current();
        let mut stats = Stats { runs: version.runs.len(), ..Stats::default() };
        for (level, table) in version.tables() {
            stats.levels[level].0 += 1;
            stats.levels[level].1 += table.bytes;
        }
        stats
    }
}

impl Snapshot {
    /// The value of `key`, lent from the table.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.version.get(key)
    }

    /// Like [`Db::get_many`].
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        found: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        self.version.get_many(keys, found)
    }

    /// Like [`Db::scan`].
    pub fn scan(&self, from: &[u8], to: Option<&[u8]>) -> Result<Cursor> {
        Cursor::new(&self.version, from, to)
    }

    /// At most `parts - 1` ascending keys that cut the database into parts of about equal size, so
    /// that threads can scan one each.
    pub fn split(&self, parts: usize) -> Result<Vec<Vec<u8>>> {
        super::merge::split(&self.version.runs, parts)
    }

    pub(super) fn version(&self) -> &Version {
        &self.version
    }
}

/// What a [`Db`] and everything that writes for it share.
pub(super) struct Inner {
    pub disk: Disk,
    pub dir: PathBuf,
    pub options: Options,
    pub current: RwLock<Arc<Version>>,
    pub manifest: Mutex<Manifest>,
    /// Number of the next file.
    pub next_file: AtomicU64,
    /// Whether a run is being written, and a bell for those who wait to write the next.
    pub writing: Mutex<bool>,
    pub written: Condvar,
    /// Held by whoever takes tables out: there is one merge at a time.
    pub merging: Mutex<()>,
    /// `None` in a database opened read-only where no lock can be taken.
    pub _lock: Option<FileLock>,
}

/// The end of the manifest that records are appended to.
pub(super) struct Manifest {
    /// `None` in a database opened read-only, or after a write to it has failed: whether the
    /// record counts is then known only after opening anew.
    pub file: Option<File>,
    pub offset: u64,
    pub last_sequence: u64,
}

impl Inner {
    /// What the database holds now.
    pub(super) fn current(&self) -> Arc<Version> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file number that nobody else has.
    pub(super) fn new_number(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// An error in a database that may not be written.
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(StoreError::new(&self.dir, "the database is open for reading only"));
        }
        if self.manifest().file.is_none() {
            let what = "a write to the manifest has failed; the database must be opened anew";
            return Err(StoreError::new(&self.dir, what));
        }
        Ok(())
    }

    /// Makes a change visible and durable: tables out, tables in, each with its level. The new
    /// ones must be synced already. `begin` is called right before the manifest is written, from
    /// when on the tables must stay, since the change may have reached the disk despite an error.
    pub(super) fn commit(
        &self,
        out: &[(usize, Arc<Table>)],
        new: Vec<(usize, Arc<Table>)>,
        sequence: Option<u64>,
        begin: impl FnOnce(),
    ) -> Result<()> {
        self.check_writable()?;
        let mut manifest = self.manifest();
        let edit = Edit {
            next_file: Some(self.next_file.load(Ordering::Relaxed)),
            last_sequence: Some(sequence.unwrap_or(manifest.last_sequence)),
            deleted: out.iter().map(|(level, table)| (*level, table.number)).collect(),
            new: new.iter().map(|(level, table)| new_file(*level, table)).collect(),
            ..Edit::default()
        };
        let gone: BTreeSet<u64> = out.iter().map(|(_, table)| table.number).collect();
        let stays = |table: &Table| !gone.contains(&table.number);
        let current = self.current();
        let mut tables: Vec<_> =
            current.tables().filter(|(_, t)| stays(t)).map(|(l, t)| (l, t.clone())).collect();
        tables.extend(new.iter().cloned());
        let version = Version::new(&self.dir, tables)?;
        self.disk.sync_dir(&self.dir)?;

        begin();
        manifest.append(&edit)?;
        manifest.last_sequence = edit.last_sequence.unwrap_or_default();
        let version = Arc::new(version);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = version;
        let moved: BTreeSet<u64> = new.iter().map(|(_, table)| table.number).collect();
        out.iter().filter(|(_, t)| !moved.contains(&t.number)).for_each(|(_, t)| t.mark_obsolete());
        Ok(())
    }
}

impl Manifest {
    fn append(&mut self, edit: &Edit) -> Result<()> {
        let mut bytes = Vec::new();
        log::put_record(&mut bytes, self.offset, &edit.encode());
        let Some(file) = self.file.take() else { return Ok(()) };
        file.write_all_at(&bytes, self.offset)?;
        file.sync()?;
        self.offset += bytes.len() as u64;
        self.file = Some(file);
        Ok(())
    }
}
