use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apus_disk::{Caching, File, Result, StoreError};

use super::format::{SEQUENCE_MAX, table_path};
use super::inner::{Inner, TableChange};
use super::levels::bottom_level;
use super::pending::PendingTable;
use super::table::Table;
use super::table_writer::TableWriter;
use super::version::LevelTable;

/// The files of a run that may be unsynced at a time: they take descriptors, and pages that are not
/// written yet.
const UNSYNCED_MAX: usize = 8;

/// A run that is being written. Nothing of it is visible before [`RunBuilder::commit`]; if it is
/// dropped without, its files are removed, except for those that [`RunBuilder::finished`] has
/// named, with which [`super::Db::resume_run`] carries on.
pub struct RunBuilder {
    output: Output,
    /// The sequence number of all entries: a run has no key twice.
    sequence: u64,
    kind: RunKind,
    /// Whether a writer was dropped without being finished.
    failed: AtomicBool,
}

/// What a run does to the entries that the database holds already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunKind {
    /// The entries of the run take precedence over older entries.
    Adds,
    /// The run replaces all older entries.
    Replaces,
}

/// Writes one part of a run, in ascending order of the keys. Other writers of the run may write
/// other parts at the same time.
pub struct RunWriter<'a> {
    run: &'a RunBuilder,
    tables: TablesWriter<'a>,
    finished: bool,
}

impl RunBuilder {
    pub(super) fn new(inner: &Arc<Inner>, kind: RunKind, caching: Caching) -> Result<Self> {
        inner.check_writable()?;
        let mut writing = inner.writing.lock().unwrap_or_else(PoisonError::into_inner);
        while *writing {
            writing = inner.written.wait(writing).unwrap_or_else(PoisonError::into_inner);
        }
        let sequence = inner.manifest().last_sequence + 1;
        if sequence > SEQUENCE_MAX {
            return Err(StoreError::new(
                &inner.dir,
                "the database has used up its sequence numbers (2^56), and takes no more changes",
            ));
        }
        *writing = true;
        let output = Output::new(inner, caching);
        Ok(Self { output, sequence, kind, failed: AtomicBool::new(false) })
    }

    /// See [`super::Db::resume_run`].
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
                "the keys of this table and of {:06}.ldb, which belong to the same unfinished \
                 run, overlap: write the run anew",
                pair[1].number
            );
            return Err(StoreError::new(pair[0].path(), what));
        }
        run.output.add(tables);
        Ok(run)
    }

    /// The tables of all writers that have finished, durable, in ascending order of their keys.
    /// From now on their files are kept if the run is dropped without being committed; opening the
    /// database removes them unless [`super::Options::keep`] names them.
    pub fn finished(&self) -> Result<Vec<PendingTable>> {
        self.output.sync()?;
        let tables = self.output.tables();
        self.output.inner.disk.sync_dir(&self.output.inner.dir)?;
        self.output.release(&tables);
        Ok(tables.iter().map(|table| PendingTable::of(table)).collect())
    }

    /// Makes the tables of all writers that have finished durable. Other threads may write
    /// meanwhile.
    pub fn sync(&self) -> Result<()> {
        self.output.sync()
    }

    /// Ends the writing for now: nothing is committed, and the tables that [`RunBuilder::finished`]
    /// would return, which this does, are kept. Those of other writers are removed.
    pub fn suspend(self) -> Result<Vec<PendingTable>> {
        self.finished()
    }

    /// Gives the run up, and removes all of its files.
    pub fn discard(self) {
        self.output.reclaim();
    }

    /// Removes the tables of all writers that have ended, so that their room on the disk is free.
    /// The run cannot be committed any more.
    pub fn remove(&self) {
        self.failed.store(true, Ordering::Release);
        self.output.remove();
    }

    /// A writer for one part of the keys.
    pub fn writer(&self) -> RunWriter<'_> {
        RunWriter { run: self, tables: self.output.writer(), finished: false }
    }

    /// Makes the run visible and durable as a whole.
    ///
    /// # Errors
    /// The disk fails. If it was the manifest that could not be written, only opening the database
    /// again shows whether the run counts; until then nothing more can be written.
    ///
    /// # Panics
    /// A writer was dropped without being finished, or the keys of two writers overlap.
    pub fn commit(self) -> Result<()> {
        let inner = &self.output.inner;
        let failed = self.failed.load(Ordering::Acquire);
        assert!(!failed, "every writer of a run is finished before the run is committed");
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
        let _merging = inner.merging.lock().unwrap_or_else(PoisonError::into_inner);
        let removed = inner.current().tables().collect();
        let level = bottom_level(tables.iter().map(|table| table.bytes).sum());
        let change = TableChange { removed, added: at_level(level, tables), sequence };
        inner.commit(&change, || self.output.keep())
    }
}

impl Drop for RunBuilder {
    fn drop(&mut self) {
        let inner = &self.output.inner;
        *inner.writing.lock().unwrap_or_else(PoisonError::into_inner) = false;
        inner.written.notify_one();
    }
}

impl RunWriter<'_> {
    /// Sets the value of `key`.
    ///
    /// # Panics
    /// `key` is not greater than the one before.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.tables.add(key, self.run.sequence, Some(value))
    }

    /// Deletes `key`. In a run that replaces everything there is nothing to delete, and this does
    /// nothing.
    ///
    /// # Panics
    /// `key` is not greater than the one before.
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

/// Tables that are being written and are not yet part of the database. When this is dropped their
/// files are removed, unless [`Output::keep`] was called.
pub(super) struct Output {
    inner: Arc<Inner>,
    /// The numbers of all files that are removed in the end, unless they are kept.
    numbers: Mutex<Vec<u64>>,
    /// The tables of writers that have finished.
    tables: Mutex<Vec<Arc<Table>>>,
    /// Files of tables that are not synced yet, which the kernel is still writing to the disk. That
    /// keeps processor and disk busy at the same time.
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

    /// A writer for one part of the keys.
    pub(super) fn writer(&self) -> TablesWriter<'_> {
        TablesWriter { output: self, table: None, ended: Vec::new() }
    }

    /// The finished tables, in ascending order of their keys.
    ///
    /// # Panics
    /// The tables overlap.
    pub(super) fn tables(&self) -> Vec<Arc<Table>> {
        let mut tables = self.finished().clone();
        tables.sort_by(|a, b| a.first().cmp(b.first()));
        let apart = tables.windows(2).all(|pair| pair[0].last() < pair[1].first());
        assert!(apart, "the parts of a run hold keys that do not overlap");
        tables
    }

    /// Keeps the files from now on, whatever happens.
    pub(super) fn keep(&self) {
        self.keep.store(true, Ordering::Release);
    }

    /// Leaves a file to be synced until there are [`UNSYNCED_MAX`] after it.
    fn sync_later(&self, file: File) -> Result<()> {
        let mut unsynced = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        unsynced.push_back(file);
        let oldest = if unsynced.len() > UNSYNCED_MAX { unsynced.pop_front() } else { None };
        drop(unsynced);
        oldest.map_or(Ok(()), |file| self.sync_file(&file))
    }

    /// Makes the tables of all writers that have finished durable.
    ///
    /// # Errors
    /// The disk fails, or it did in an earlier sync of one of them.
    pub(super) fn sync(&self) -> Result<()> {
        loop {
            let mut unsynced = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(file) = unsynced.pop_front() else { break };
            drop(unsynced);
            self.sync_file(&file)?;
        }
        if self.lost.load(Ordering::Acquire) {
            let what = "an earlier sync of a table that is being written failed";
            return Err(StoreError::new(&self.inner.dir, what));
        }
        Ok(())
    }

    fn sync_file(&self, file: &File) -> Result<()> {
        file.sync().inspect_err(|_| self.lost.store(true, Ordering::Release))
    }

    /// Adds tables that are finished.
    fn add(&self, tables: impl IntoIterator<Item = Arc<Table>>) {
        self.finished().extend(tables);
    }

    /// Keeps the files of these tables in any case.
    fn release(&self, tables: &[Arc<Table>]) {
        let released: BTreeSet<u64> = tables.iter().map(|table| table.number).collect();
        self.numbers().retain(|number| !released.contains(number));
    }

    /// Keeps the file of no finished table, unless [`Output::keep`] is called.
    fn reclaim(&self) {
        let finished: Vec<u64> = self.finished().iter().map(|table| table.number).collect();
        self.numbers().extend(finished);
    }

    /// Removes all files that are to be removed in the end. Those that are open take room until
    /// they are closed, so that none of the finished tables is kept open.
    fn remove(&self) {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.finished().clear();
        for number in self.numbers().drain(..) {
            // A file that remains is removed when the database is opened next.
            let _ = self.inner.disk.remove(table_path(&self.inner.dir, number));
        }
    }

    fn finished(&self) -> MutexGuard<'_, Vec<Arc<Table>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn numbers(&self) -> MutexGuard<'_, Vec<u64>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.keep.load(Ordering::Acquire) {
            self.remove();
        }
    }
}

/// Writes ascending entries to as many tables as they fill.
pub(super) struct TablesWriter<'a> {
    output: &'a Output,
    table: Option<TableWriter>,
    /// The tables before.
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

/// The tables as those of one level.
pub(super) fn at_level(level: usize, tables: Vec<Arc<Table>>) -> Vec<LevelTable> {
    tables.into_iter().map(|table| LevelTable { level, table }).collect()
}

fn create(output: &Output) -> Result<TableWriter> {
    let inner = &output.inner;
    let number = inner.new_number();
    output.numbers().push(number);
    let path = table_path(&inner.dir, number);
    TableWriter::create(&inner.disk, path, number, &inner.options, output.caching)
}
