use std::path::Path;

use apus_disk::{Disk, FileLock, Result, StoreError};

/// A lock on a directory that keeps away other instances of Bitcoin Core and Apus, or only those
/// that write: a record lock (`fcntl`) on the file `.lock` in it (Core's `LockDirectory`). It is
/// released on drop.
pub struct DirLock {
    /// `None` for a reader if no lock can be taken.
    lock: Option<FileLock>,
}

impl DirLock {
    /// Takes the exclusive lock on `directory`, which must exist.
    ///
    /// # Errors
    /// This or another program holds a lock on the directory, or the file cannot be written.
    pub fn take(disk: &Disk, directory: &Path) -> Result<Self> {
        Ok(Self {
            lock: Some(disk.lock(directory.join(".lock")).map_err(|e| refused(directory, e))?),
        })
    }

    /// Takes the shared lock on `directory` for reading; nothing is created. If there is no lock
    /// file, or its file system has no locks, no lock is held: see [`DirLock::is_held`].
    ///
    /// # Errors
    /// A program that writes holds the exclusive lock.
    pub fn take_shared(disk: &Disk, directory: &Path) -> Result<Self> {
        let lock = disk.lock_shared(directory.join(".lock"));
        Ok(Self { lock: lock.map_err(|e| refused(directory, e))? })
    }

    /// Checks that the lock on `directory` could be taken, shared or exclusive. Nothing is created
    /// or locked.
    ///
    /// # Errors
    /// This or another program holds a lock in the way.
    pub fn check(disk: &Disk, directory: &Path, shared: bool) -> Result<()> {
        let checked = disk.check_lock(directory.join(".lock"), shared);
        checked.map_err(|e| refused(directory, e))
    }

    /// Returns whether a lock is held.
    pub fn is_held(&self) -> bool {
        self.lock.is_some()
    }
}

fn refused(directory: &Path, error: StoreError) -> StoreError {
    if error.is_locked {
        let what = format!("cannot obtain a lock on this directory: it is {}", error.what);
        StoreError { holder: error.holder, ..StoreError::locked(directory, what) }
    } else {
        error
    }
}
