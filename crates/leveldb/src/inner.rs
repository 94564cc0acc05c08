//! The shared state of an open database, and how a change to it is committed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};

use apus_disk::{Disk, File, FileLock, Result, StoreError, lock};

use super::log;
use super::manifest::Edit;
use super::options::Options;
use super::version::{LevelTable, Version};

/// The state that a [`super::Db`] shares with the runs and merges that are being written.
pub(super) struct Inner {
    pub disk: Disk,
    pub dir: PathBuf,
    pub options: Options,
    pub current: RwLock<Arc<Version>>,
    pub manifest: Mutex<Manifest>,
    /// The number of the next file.
    pub next_file: AtomicU64,
    /// Whether a run is being written; only one run is written at a time.
    pub writing: Mutex<bool>,
    /// Notified when a run ends.
    pub written: Condvar,
    /// Held while tables are removed, so that only one merge runs at a time.
    pub merging: Mutex<()>,
    /// The lock on the directory; `None` in a database opened for reading only if no lock can be
    /// taken or none was requested.
    pub _lock: Option<FileLock>,
}

/// A change to the content of the database, which becomes visible as a whole.
pub(super) struct TableChange {
    /// Tables that are removed from the database. A table that is also added only changes its
    /// level.
    pub removed: Vec<LevelTable>,
    /// Tables that are added to the database; their files are already synced.
    pub added: Vec<LevelTable>,
    /// The sequence number of the entries of the run; `None` if there are no new entries.
    pub sequence: Option<u64>,
}

/// The current manifest, to which records are appended.
pub(super) struct Manifest {
    /// `None` in a database opened for reading only, and after a write to the manifest has failed:
    /// only reopening the database shows whether the failed record was written.
    pub file: Option<File>,
    /// Offset of the next record.
    pub offset: u64,
    /// The last sequence number used.
    pub last_sequence: u64,
}

impl Inner {
    /// Returns the current version of the database.
    pub(super) fn current(&self) -> Arc<Version> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a file number that was not used before.
    pub(super) fn new_number(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Checks that the database can be written.
    ///
    /// # Errors
    /// An earlier write to the manifest failed.
    ///
    /// # Panics
    /// The database was opened for reading only.
    pub(super) fn check_writable(&self) -> Result<()> {
        assert!(!self.options.read_only, "the database was opened for reading only");
        if lock(&self.manifest).file.is_none() {
            let what = "an earlier write to the manifest of this database failed: restart the \
                program, which reopens the database and finds out what was written";
            return Err(StoreError::new(&self.dir, what));
        }
        Ok(())
    }

    /// Makes a change visible and durable as a whole. `begin` is called right before the manifest
    /// is written. From then on the files of the added tables must be kept, since the change may
    /// have reached the disk despite an error.
    pub(super) fn commit(&self, change: &TableChange, begin: impl FnOnce()) -> Result<()> {
        let TableChange { removed, added, sequence } = change;
        self.check_writable()?;
        let mut manifest = lock(&self.manifest);
        let edit = Edit {
            next_file: Some(self.next_file.load(Ordering::Relaxed)),
            last_sequence: Some(sequence.unwrap_or(manifest.last_sequence)),
            deleted: removed.iter().map(LevelTable::deleted_file).collect(),
            new: added.iter().map(LevelTable::file).collect(),
            ..Edit::default()
        };
        let gone: BTreeSet<u64> = removed.iter().map(LevelTable::number).collect();
        let current = self.current();
        let kept = current.tables().filter(|table| !gone.contains(&table.number()));
        let tables = kept.chain(added.iter().cloned()).collect();
        let version = Version::new(&self.dir, tables)?;
        self.disk.sync_dir(&self.dir)?;

        begin();
        manifest.append(&edit)?;
        manifest.last_sequence = edit.last_sequence.unwrap_or_default();
        let version = Arc::new(version);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = version;
        // A table that only changed its level is kept.
        let moved: BTreeSet<u64> = added.iter().map(LevelTable::number).collect();
        let obsolete = removed.iter().filter(|table| !moved.contains(&table.number()));
        obsolete.for_each(|table| table.table.mark_obsolete());
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
