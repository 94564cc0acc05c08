use std::path::Path;

use super::Result;
use crate::disk::{Disk, FileLock, StoreError};

/// A directory that no other Bitcoin Core and no other Apus may use while this lives: a record
/// lock (`fcntl`) on its file `.lock` (Core's `LockDirectory`).
pub struct DirLock {
    _lock: FileLock,
}

impl DirLock {
    /// Locks `directory`, which must exist.
    ///
    /// # Errors
    /// The lock is held by another program or by this one, or the file cannot be written.
    pub fn take(disk: &Disk, directory: &Path) -> Result<Self> {
        let lock = disk.lock(directory.join(".lock")).map_err(|e| match e.source {
            None => {
                let what = "cannot obtain a lock on this directory; \
                    Bitcoin Core or apus is probably already running";
                StoreError::new(directory, what)
            }
            Some(_) => e,
        });
        Ok(Self { _lock: lock? })
    }
}
