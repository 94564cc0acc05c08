use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use apus_disk::{Caching, Disk, Result};

use super::cursor::Cursor;
use super::format::{LEVELS, table_path};
use super::inner::Inner;
use super::options::Options;
use super::pending::PendingTable;
use super::run::{RunBuilder, RunKind};
use super::version::{LevelTable, Version};
use super::{adopt, open};

/// An open database in LevelDB's on-disk format: byte strings as keys, in order, each with a value.
///
/// Any number of threads read while one writes and one merges. Writes come in sorted runs, each of
/// which becomes visible and durable as a whole.
pub struct Db {
    pub(super) inner: Arc<Inner>,
}

/// A database as it was at one moment. The files of that moment remain as long as this is held.
#[derive(Clone)]
pub struct Snapshot {
    version: Arc<Version>,
}

/// The tables and runs that a database consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The tables of each level.
    pub levels: [LevelStats; LEVELS],
    /// Number of sorted runs, each of which a lookup may have to search.
    pub runs: usize,
}

/// The tables of one level of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Number of tables.
    pub tables: usize,
    /// Bytes of all tables.
    pub bytes: u64,
}

impl Stats {
    /// Bytes of all tables.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.bytes).sum()
    }

    /// Number of tables.
    pub fn tables(&self) -> usize {
        self.levels.iter().map(|level| level.tables).sum()
    }
}

impl Db {
    /// Opens the database in the directory `path`, or creates it.
    ///
    /// LevelDB may have written it: the content of its log files is then written to tables. With
    /// [`Options::read_only`] that content is kept in memory, nothing in the directory is created
    /// or changed, and several programs may read at the same time.
    ///
    /// # Errors
    /// Another program has the database open; there is none and [`Options::create_if_missing`] is
    /// not set; a table is missing or cut short; the manifest or a log is damaged. A log may end
    /// in the middle of a record, which its writer then did not finish.
    pub fn open(disk: Disk, path: &Path, options: Options) -> Result<Self> {
        open::open(disk, path, options).map(|inner| Self { inner: Arc::new(inner) })
    }

    /// Removes all files of the database in the directory `path`, if there is one.
    ///
    /// After a power cut in the middle the database is unchanged, empty, or gone.
    pub fn destroy(disk: &Disk, path: &Path) -> Result<()> {
        open::destroy(disk, path)
    }

    /// Replaces the database in the directory `path`, if there is one, by the one in the directory
    /// `from`, of which nothing is left there. Both directories are on one file system. They keep
    /// their names, so that `path` may be a symlink or a mount point.
    ///
    /// After a power cut in the middle `path` holds the whole old database or the whole new one;
    /// the one in `from` may be lost.
    ///
    /// # Errors
    /// One of the databases is in use; the one in `from` is damaged, or has log files whose content
    /// is in no table; the disk fails.
    pub fn adopt(disk: &Disk, path: &Path, from: &Path) -> Result<()> {
        adopt::adopt(disk, path, from)
    }

    /// The database as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { version: self.inner.current() }
    }

    /// The value of `key`. Threads that look up many keys hold a [`Snapshot`] each, or call
    /// [`Db::get_many`], so that they do not contend for one reference count.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// What `read` returns for the value of `key`, which is not copied.
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        Ok(self.inner.current().get(key)?.map(read))
    }

    /// Looks up many `keys`, in ascending order; calls `found` with the index and the value of each
    /// key that the database holds, in no particular order.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        found: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        self.inner.current().get_many(keys, found)
    }

    /// A cursor over the present entries with keys of at least `from` and below `to`.
    pub fn scan(&self, from: &[u8], to: Option<&[u8]>) -> Result<Cursor> {
        Cursor::new(&self.inner.current(), from, to)
    }

    /// Writes a run of entries: keys, each with a value or with `None` to delete it. When this
    /// returns, all of the run is visible and durable.
    ///
    /// # Panics
    /// The keys do not ascend, or the database was opened for reading only.
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

    /// Starts a run that several threads may write, each a part of the keys of its own.
    ///
    /// There is one run at a time: this waits until the run before is committed or dropped.
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub fn new_run(&self) -> Result<RunBuilder> {
        RunBuilder::new(&self.inner, RunKind::Adds, Caching::PageCache)
    }

    /// Starts a run that, once it is committed, replaces everything in the database. It is written
    /// as one level of tables. Like [`Db::new_run`], this waits for the run before.
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub fn bulk(&self) -> Result<RunBuilder> {
        RunBuilder::new(&self.inner, RunKind::Replaces, Caching::Direct)
    }

    /// Carries on with a run that was not committed, whose finished tables are `tables`: those that
    /// [`RunBuilder::finished`] returned, possibly to another process. The database must have been
    /// opened with [`Options::keep`] of their numbers. Like [`Db::new_run`], this waits for the run
    /// before.
    ///
    /// # Errors
    /// A table is missing or another one; two of them overlap; the database has changed since the
    /// run was started. No file is removed then.
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub fn resume_run(&self, kind: RunKind, tables: &[PendingTable]) -> Result<RunBuilder> {
        RunBuilder::resume(&self.inner, kind, tables)
    }

    /// Removes the files of tables that [`RunBuilder::finished`] has named, possibly to another
    /// process, and that were not committed: their run is given up. Nothing else is removed, even
    /// if another program has given one of their numbers to a table of the database since.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove_pending(&self, tables: &[PendingTable]) -> Result<()> {
        let version = self.inner.current();
        let live: BTreeSet<u64> = version.tables().map(|table| table.number()).collect();
        let given_up = tables.iter().filter(|table| !live.contains(&table.number));
        let paths = given_up.map(|table| table_path(&self.inner.dir, table.number));
        paths.filter(|path| path.is_file()).try_for_each(|path| self.inner.disk.remove(path))
    }

    /// The tables and runs that the database consists of now.
    pub fn stats(&self) -> Stats {
        let version = self.inner.current();
        let mut stats = Stats { runs: version.runs.len(), ..Stats::default() };
        for LevelTable { level, table } in version.tables() {
            stats.levels[level].tables += 1;
            stats.levels[level].bytes += table.bytes;
        }
        stats
    }
}

impl Snapshot {
    /// The value of `key`, borrowed from its table.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.version.get(key)
    }

    /// [`Db::get_many`] of this snapshot.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        found: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        self.version.get_many(keys, found)
    }

    /// [`Db::scan`] of this snapshot.
    pub fn scan(&self, from: &[u8], to: Option<&[u8]>) -> Result<Cursor> {
        Cursor::new(&self.version, from, to)
    }

    /// At most `parts - 1` ascending keys that cut the snapshot into parts of about equal size, for
    /// threads to scan one each.
    pub fn split(&self, parts: usize) -> Result<Vec<Vec<u8>>> {
        super::version::split(&self.version.runs, parts)
    }

    pub(super) fn version(&self) -> &Version {
        &self.version
    }
}
