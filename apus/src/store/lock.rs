use std::path::Path;

use crate::disk::{Disk, FileLock, Result, StoreError};

/// A directory that no other Bitcoin Core and no other Apus may use, or may write to, while this
/// lives: a record lock (`fcntl`) on its file `.lock` (Core's `LockDirectory`).
pub struct DirLock {
    /// `None` for a reader that cannot keep anybody away.
    lock: Option<FileLock>,
}

impl DirLock {
    /// Locks `directory`, which must exist.
    ///
    /// # Errors
    /// The lock is held by another program or by this one, or the file cannot be written.
    pub fn take(disk: &Disk, directory: &Path) -> Result<Self> {
        Ok(Self {
            lock: Some(disk.lock(directory.join(".lock")).map_err(|e| refused(directory, e))?),
        })
    }

    /// Locks `directory` for reading, together with other readers; nothing is made in it. Where
    /// there is no lock file, or none can be locked, nobody is kept away: see
    /// [`DirLock::is_held`].
    ///
    /// # Errors
    /// A program that writes holds the lock.
    pub fn take_shared(disk: &Disk, directory: &Path) -> Result<Self> {
        let lock = disk.lock_shared(directory.join(".lock"));
        Ok(Self { lock: lock.map_err(|e| refused(directory, e))? })
    }

    /// Whether the directory is locked.
    pub fn is_held(&self) -> bool {
        self.lock.is_some()
    }
}

fn refused(directory: &Path, error: StoreError) -> StoreError {
    match error.source {
        None => {
            let what = "cannot obtain a lock on this directory; \
                Bitcoin Core or apus is probably already running";
            StoreError::new(directory, what)
        }
        Some(_) => error,
    }
}
