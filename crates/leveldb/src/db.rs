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

/// An open database in LevelDB's on-disk format: an ordered map from byte strings to byte strings.
///
/// Any number of threads read while one writes and one merges. Writes are sorted runs, each of
/// which becomes visible and durable as a whole.
pub struct Db {
    pub(super) inner: Arc<Inner>,
}

/// The database at one moment in time. Its files are kept as long as the snapshot exists.
#[derive(Clone)]
pub struct Snapshot {
    version: Arc<Version>,
}

/// Statistics of the tables and runs of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Statistics of each level.
    pub levels: [LevelStats; LEVELS],
    /// Number of sorted runs, each of which a lookup may have to search.
    pub runs: usize,
}

/// Statistics of the tables of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Number of tables.
    pub tables: usize,
    /// Size of all tables in bytes.
    pub bytes: u64,
}

impl Stats {
    /// Returns the size of all tables in bytes.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.bytes).sum()
    }

    /// Returns the number of tables.
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
    /// Another program has the database open; it does not exist and [`Options::create_if_missing`]
    /// is not set; a table is missing or truncated; the manifest or a log is damaged. A log may end
    /// in the middle of a record, which its writer then did not finish.
    pub fn open(disk: Disk, path: &Path, options: Options) -> Result<Self> {
        open::open(disk, path, options).map(|inner| Self { inner: Arc::new(inner) })
    }

    /// Removes all files of the database in the directory `path`, if there is one.
    ///
    /// If the power fails during the call, the database is unchanged, empty, or gone.
    pub fn destroy(disk: &Disk, path: &Path) -> Result<()> {
        open::destroy(disk, path)
    }

    /// Replaces the database in the directory `path`, if there is one, by the one in the directory
    /// `from`, which is removed from there. Both directories must be on one file system. They keep
    /// their names, so that `path` may be a symlink or a mount point.
    ///
    /// If the power fails during the call, `path` holds the whole old database or the whole new
    /// one; the one in `from` may be lost.
    ///
    /// # Errors
    /// One of the databases is in use; the one in `from` is damaged, or has log files with changes
    /// that no table holds; the disk fails.
    pub fn adopt(disk: &Disk, path: &Path, from: &Path) -> Result<()> {
        adopt::adopt(disk, path, from)
    }

    /// Returns a snapshot of the database as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { version: self.inner.current() }
    }

    /// Returns the value of `key`. Threads that look up many keys should each hold a [`Snapshot`],
    /// or call [`Db::get_many`], to avoid contention for a reference count.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Returns the result of `read` for the value of `key`, which is not copied.
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        Ok(self.inner.current().get(key)?.map(read))
    }

    /// Looks up `keys`, which must ascend; calls `found` with the index and the value of each key
    /// that the database holds, in no particular order.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        found: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        self.inner.current().get_many(keys, found)
    }

    /// Returns a cursor over the entries with keys of at least `from` and below `to`.
    pub fn scan(&self, from: &[u8], to: Option<&[u8]>) -> Result<Cursor> {
        Cursor::new(&self.inner.current(), from, to)
    }

    /// Writes a run of entries: keys, each with a value or with `None` to delete it. When this
    /// returns, the whole run is visible and durable.
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

    /// Starts a run that several threads may write, each a separate range of the keys.
    ///
    /// There is one run at a time: this waits until the previous run is committed or dropped.
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub fn new_run(&self) -> Result<RunBuilder> {
        RunBuilder::new(&self.inner, RunKind::Adds, Caching::PageCache)
    }

    /// Starts a run that replaces everything in the database once it is committed. It is written as
    /// one level of tables. Like [`Db::new_run`], this waits for the previous run.
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub fn bulk(&self) -> Result<RunBuilder> {
        RunBuilder::new(&self.inner, RunKind::Replaces, Caching::Direct)
    }

    /// Resumes a run that was not committed, whose finished tables are `tables`, as
    /// [`RunBuilder::finished`] returned them, possibly to another process. The database must have
    /// been opened with their numbers in [`Options::keep`]. Like [`Db::new_run`], this waits for
    /// the previous run.
    ///
    /// # Errors
    /// A table is missing or is not the one that was written; two tables overlap; the database has
    /// changed since the run was started. No file is removed in these cases.
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub fn resume_run(&self, kind: RunKind, tables: &[PendingTable]) -> Result<RunBuilder> {
        RunBuilder::resume(&self.inner, kind, tables)
    }

    /// Removes the files of the uncommitted tables that [`RunBuilder::finished`] returned, possibly
    /// to another process: their run is abandoned. Nothing else is removed, even if another program
    /// has since given one of their numbers to a table of the database.
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

    /// Returns statistics of the current tables and runs.
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
    /// Returns the value of `key`, borrowed from its table.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.version.get(key)
    }

    /// Like [`Db::get_many`], on this snapshot.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        found: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        self.version.get_many(keys, found)
    }

    /// Like [`Db::scan`], on this snapshot.
    pub fn scan(&self, from: &[u8], to: Option<&[u8]>) -> Result<Cursor> {
        Cursor::new(&self.version, from, to)
    }

    /// Returns at most `parts - 1` ascending keys that split the snapshot into parts of about equal
    /// size, for threads to scan one each.
    pub fn split(&self, parts: usize) -> Result<Vec<Vec<u8>>> {
        super::version::split(&self.version.runs, parts)
    }

    /// Returns the size of all tables in bytes.
    pub fn bytes(&self) -> u64 {
        self.version.tables().map(|table| table.table.bytes).sum()
    }

    pub(super) fn version(&self) -> &Version {
        &self.version
    }
}
