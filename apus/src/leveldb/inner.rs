use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use super::log;
use super::manifest::Edit;
use super::options::Options;
use super::table::Table;
use super::version::{Version, new_file};
use crate::disk::{Disk, File, FileLock, Result, StoreError};

/// What a [`super::Db`] and everything that writes for it share.
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
