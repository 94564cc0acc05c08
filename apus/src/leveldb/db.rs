use std::path::Path;
use std::sync::Arc;

use super::adopt;
use super::cursor::Cursor;
use super::format::LEVELS;
use super::inner::Inner;
use super::open;
use super::options::Options;
use super::run::{RunBuilder, RunKind};
use super::version::{LevelTable, Version};
use crate::disk::{Disk, Result};

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
    /// What each level holds.
    pub levels: [LevelStats; LEVELS],
    /// Sorted runs that a lookup may have to look into.
    pub runs: usize,
}

/// What one level of a database is made of.
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
        RunBuilder::new(&self.inner, RunKind::Adds)
    }

    /// Starts a run that will replace everything the database holds, once it is committed; it is
    /// written as one level of tables. Waits like [`Db::new_run`].
    pub fn bulk(&self) -> Result<RunBuilder> {
        RunBuilder::new(&self.inner, RunKind::Replaces)
    }

    /// What the database is made of now.
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
        super::version::split(&self.version.runs, parts)
    }

    pub(super) fn version(&self) -> &Version {
        &self.version
    }
}
