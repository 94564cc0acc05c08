use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use apus_disk::{Caching, File, Result, StoreError, lock};
use rayon::prelude::*;

use super::format::{SEQUENCE_MAX, table_path};
use super::inner::{Inner, TableChange};
use super::levels::bottom_level;
use super::pending::PendingTable;
use super::table::Table;
use super::table_writer::TableWriter;
use super::version::LevelTable;

/// The maximum number of unsynced files of a run: each takes a descriptor, and pages that are not
/// written yet.
const UNSYNCED_MAX: usize = 8;

/// A run that is being written. Nothing of it is visible before [`RunBuilder::commit`]. If it is
/// dropped uncommitted, its files are removed, except those of the tables that
/// [`RunBuilder::finished`] has returned, with which [`super::Db::resume_run`] continues.
pub struct RunBuilder {
    output: Output,
    /// The sequence number of all entries: a run holds each key once.
    sequence: u64,
    kind: RunKind,
    /// Whether a writer was dropped without being finished.
    failed: AtomicBool,
}

/// The effect of a run on the existing entries of the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunKind {
    /// The entries of the run take precedence over older entries.
    Adds,
    /// The run replaces all older entries.
    Replaces,
}

/// Writes one part of a run, in ascending key order. Other writers of the run may write other parts
/// at the same time.
pub struct RunWriter<'a> {
    run: &'a RunBuilder,
    tables: TablesWriter<'a>,
    finished: bool,
}

impl RunBuilder {
    pub(super) fn new(inner: &Arc<Inner>, kind: RunKind, caching: Caching) -> Result<Self> {
        inner.check_writable()?;
        let mut writing = lock(&inner.writing);
        while *writing {
            writing = inner.written.wait(writing).unwrap_or_else(PoisonError::into_inner);
        }
        let sequence = lock(&inner.manifest).last_sequence + 1;
        if sequence > SEQUENCE_MAX {
            return Err(StoreError::new(
                &inner.dir,
                "the database has used all of its 2^56 sequence numbers and takes no more changes",
            ));
        }
        *writing = true;
        let output = Output::new(inner, caching);
        Ok(Self { output, sequence, kind, failed: AtomicBool::new(false) })
    }

    /// Implements [`super::Db::resume_run`].
    pub(super) fn resume(
        inner: &Arc<Inner>,
        kind: RunKind,
        pending: &[PendingTable],
    ) -> Result<Self> {
        let run = Self::new(inner, kind, Caching::PageCache)?;
        let open = |table: &PendingTable| table.open(inner, run.sequence).map(Arc::new);
        let mut tables = pending.iter().map(open).collect::<Result<Vec<_>>>()?;
        tables.sort_by(|a, b| a.first().cmp(b.first()));
        if let Some(pair) = tables.windows(2).find(|pair| pair[0].last() >= pair[1].first()) {
            let what = format!(
                "the keys of this table overlap those of {:06}.ldb, in the same unfinished run \
                 of tables: write the run again",
                pair[1].number
            );
            return Err(StoreError::new(pair[0].path(), what));
        }
        run.output.add(tables);
        Ok(run)
    }

    /// Makes the tables of all finished writers durable, and returns them in ascending key order.
    /// From now on their files are kept even if the run is dropped uncommitted; opening the
    /// database removes them unless [`super::Options::keep`] names them.
    pub fn finished(&self) -> Result<Vec<PendingTable>> {
        self.output.sync()?;
        let tables = self.output.tables();
        self.output.inner.disk.sync_dir(&self.output.inner.dir)?;
        self.output.release(&tables);
        Ok(tables.iter().map(|table| PendingTable::of(table)).collect())
    }

    /// Makes the tables of all finished writers durable. Other threads may write meanwhile.
    pub fn sync(&self) -> Result<()> {
        self.output.sync()
    }

    /// Suspends the run: nothing is committed. Returns the tables that [`RunBuilder::finished`]
    /// would return, whose files are kept. Those of unfinished writers are removed.
    pub fn suspend(self) -> Result<Vec<PendingTable>> {
        self.finished()
    }

    /// Abandons the run, and removes all of its files.
    pub fn discard(self) {
        self.output.reclaim();
    }

    /// Removes the tables of all writers that have ended, which frees their disk space. The run can
    /// no longer be committed.
    pub fn remove(&self) {
        self.failed.store(true, Ordering::Release);
        self.output.remove();
    }

    /// Returns a writer for one part of the keys.
    pub fn writer(&self) -> RunWriter<'_> {
        RunWriter { run: self, tables: self.output.writer(), finished: false }
    }

    /// Makes the run visible and durable as a whole.
    ///
    /// # Errors
    /// The disk fails. If the manifest could not be written, only reopening the database shows
    /// whether the run is part of it; until then nothing more can be written.
    ///
    /// # Panics
    /// A writer was dropped without being finished, or the keys of two writers overlap.
    pub fn commit(self) -> Result<()> {
        let inner = &self.output.inner;
        let failed = self.failed.load(Ordering::Acquire);
        assert!(!failed, "a writer of the run was dropped without being finished");
        self.output.sync()?;
        let tables = self.output.tables();
        let sequence = Some(self.sequence);
        if self.kind == RunKind::Adds {
            if tables.is_empty() {
                return Ok(());
            }
            let added = at_level(0, tables);
            let change = TableChange { removed: Vec::new(), added, sequence };
            return inner.commit(&change, || self.output.keep());
        }
        let _merging = lock(&inner.merging);
        let removed = inner.current().tables().collect();
        let level = bottom_level(tables.iter().map(|table| table.bytes).sum());
        let change = TableChange { removed, added: at_level(level, tables), sequence };
        inner.commit(&change, || self.output.keep())
    }
}

impl Drop for RunBuilder {
    fn drop(&mut self) {
        let inner = &self.output.inner;
        *lock(&inner.writing) = false;
        inner.written.notify_one();
    }
}

impl RunWriter<'_> {
    /// Sets the value of `key`.
    ///
    /// # Panics
    /// `key` is not greater than the previous one.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.tables.add(key, self.run.sequence, Some(value))
    }

    /// Deletes `key`. In a run that replaces everything this does nothing, as there is nothing to
    /// delete.
    ///
    /// # Panics
    /// `key` is not greater than the previous one.
    #[inline]
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        match self.run.kind {
            RunKind::Adds => self.tables.add(key, self.run.sequence, None),
            RunKind::Replaces => Ok(()),
        }
    }

    /// Ends the part. A run is committed only after all of its writers have finished.
    pub fn finish(mut self) -> Result<()> {
        self.tables.finish()?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for RunWriter<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.run.failed.store(true, Ordering::Release);
        }
    }
}

/// Tables that are being written and are not yet part of the database. On drop their files are
/// removed, unless [`Output::keep`] was called.
pub(super) struct Output {
    inner: Arc<Inner>,
    /// The numbers of all files to remove on drop.
    numbers: Mutex<Vec<u64>>,
    /// The tables of finished writers.
    tables: Mutex<Vec<Arc<Table>>>,
    /// Files of tables that are not synced yet: the kernel writes them to the disk in the
    /// background, which keeps processor and disk busy at the same time.
    unsynced: Mutex<VecDeque<File>>,
    /// Whether the sync of a file has failed, so that its table may be lost.
    lost: AtomicBool,
    keep: AtomicBool,
    caching: Caching,
}

impl Output {
    pub(super) fn new(inner: &Arc<Inner>, caching: Caching) -> Self {
        Self {
            inner: inner.clone(),
            numbers: Mutex::default(),
            tables: Mutex::default(),
            unsynced: Mutex::default(),
            lost: AtomicBool::new(false),
            keep: AtomicBool::new(false),
            caching,
        }
    }

    /// Returns a writer for one part of the keys.
    pub(super) fn writer(&self) -> TablesWriter<'_> {
        TablesWriter { output: self, table: None, ended: Vec::new() }
    }

    /// Returns the finished tables, in ascending key order.
    ///
    /// # Panics
    /// The tables overlap.
    pub(super) fn tables(&self) -> Vec<Arc<Table>> {
        let mut tables = lock(&self.tables).clone();
        tables.sort_by(|a, b| a.first().cmp(b.first()));
        let apart = tables.windows(2).all(|pair| pair[0].last() < pair[1].first());
        assert!(apart, "the keys of two parts of a run overlap");
        tables
    }

    /// Keeps all files when this is dropped.
    pub(super) fn keep(&self) {
        self.keep.store(true, Ordering::Release);
    }

    /// Queues a file for syncing, which happens once [`UNSYNCED_MAX`] others follow it.
    fn sync_later(&self, file: File) -> Result<()> {
        let mut unsynced = lock(&self.unsynced);
        unsynced.push_back(file);
        let oldest = if unsynced.len() > UNSYNCED_MAX { unsynced.pop_front() } else { None };
        drop(unsynced);
        oldest.map_or(Ok(()), |file| self.sync_file(&file))
    }

    /// Makes the tables of all finished writers durable.
    ///
    /// # Errors
    /// The disk fails, or failed in an earlier sync of one of the tables.
    pub(super) fn sync(&self) -> Result<()> {
        let mut unsynced = lock(&self.unsynced);
        let files = std::mem::take(&mut *unsynced);
        drop(unsynced);
        if rayon::current_thread_index().is_some() {
            files.into_par_iter().try_for_each(|file| self.sync_file(&file))?;
        } else {
            files.into_iter().try_for_each(|file| self.sync_file(&file))?;
        }
        if self.lost.load(Ordering::Acquire) {
            let what = "an earlier sync of a table of this run failed";
            return Err(StoreError::new(&self.inner.dir, what));
        }
        Ok(())
    }

    fn sync_file(&self, file: &File) -> Result<()> {
        file.sync().inspect_err(|_| self.lost.store(true, Ordering::Release))
    }

    /// Adds finished tables.
    fn add(&self, tables: impl IntoIterator<Item = Arc<Table>>) {
        lock(&self.tables).extend(tables);
    }

    /// Keeps the files of these tables when this is dropped.
    fn release(&self, tables: &[Arc<Table>]) {
        let released: BTreeSet<u64> = tables.iter().map(|table| table.number).collect();
        lock(&self.numbers).retain(|number| !released.contains(number));
    }

    /// Removes the files of all tables on drop, even those released, unless [`Output::keep`] is
    /// called.
    fn reclaim(&self) {
        let finished: Vec<u64> = lock(&self.tables).iter().map(|table| table.number).collect();
        lock(&self.numbers).extend(finished);
    }

    /// Removes all files that are to be removed on drop. Open files use disk space until they are
    /// closed, so the finished tables are closed first.
    fn remove(&self) {
        lock(&self.unsynced).clear();
        lock(&self.tables).clear();
        for number in lock(&self.numbers).drain(..) {
            // A file that remains is removed when the database is next opened.
            let _ = self.inner.disk.remove(table_path(&self.inner.dir, number));
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.keep.load(Ordering::Acquire) {
            self.remove();
        }
    }
}

/// Writes ascending entries to tables, starting a new table when one is full.
pub(super) struct TablesWriter<'a> {
    output: &'a Output,
    table: Option<TableWriter>,
    /// The tables that are full.
    ended: Vec<Arc<Table>>,
}

impl TablesWriter<'_> {
    /// Appends an entry; without a value it deletes the key.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], sequence: u64, value: Option<&[u8]>) -> Result<()> {
        let table = match &mut self.table {
            Some(table) => table,
            None => self.table.insert(create(self.output)?),
        };
        table.add(key, sequence, value)?;
        if table.bytes() >= self.output.inner.options.table_bytes_max {
            self.end_table()?;
        }
        Ok(())
    }

    /// Ends the last table. The tables are durable after [`Output::sync`].
    pub(super) fn finish(&mut self) -> Result<()> {
        self.end_table()?;
        self.output.add(self.ended.drain(..));
        Ok(())
    }

    fn end_table(&mut self) -> Result<()> {
        let Some(table) = self.table.take() else { return Ok(()) };
        let (table, file) = table.finish()?;
        self.ended.push(Arc::new(table));
        file.map_or(Ok(()), |file| self.output.sync_later(file))
    }
}

/// Assigns the tables to one level.
pub(super) fn at_level(level: usize, tables: Vec<Arc<Table>>) -> Vec<LevelTable> {
    tables.into_iter().map(|table| LevelTable { level, table }).collect()
}

fn create(output: &Output) -> Result<TableWriter> {
    let inner = &output.inner;
    let number = inner.new_number();
    lock(&output.numbers).push(number);
    let path = table_path(&inner.dir, number);
    TableWriter::create(&inner.disk, path, number, &inner.options, output.caching)
}
