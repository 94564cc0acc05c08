use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, fcntl_lock};

use super::{Disk, File, StoreError};

/// Files that this process has locked. The kernel grants a process its own record locks again,
/// and drops them when *any* handle on the file is closed, so it cannot be asked.
static LOCKED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// An exclusive lock on a file, of the kind that Bitcoin Core and LevelDB take (`fcntl`); it ends
/// when this is dropped.
pub struct FileLock {
    name: PathBuf,
    file: Option<File>,
}

impl Disk {
    /// Locks `path`, creating it if it is not there; an error if this or another program has it.
    pub fn lock(&self, path: impl AsRef<Path>) -> Result<FileLock, StoreError> {
        let path = path.as_ref();
        let parent = path.parent().unwrap_or(Path::new("."));
        let parent = parent.canonicalize();
        let parent = parent.map_err(|e| StoreError::io(path, "find the lock's directory", e))?;
        let name = parent.join(path.file_name().unwrap_or_default());
        if !locked().insert(name.clone()) {
            return Err(StoreError::new(path, "in use by this program already"));
        }
        let mut lock = FileLock { name, file: None };
        let file = self.open(path)?;
        match fcntl_lock(file.raw(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => lock.file = Some(file),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                return Err(StoreError::new(path, "in use by another program"));
            }
            Err(e) => return Err(StoreError::io(path, "lock the file", e.into())),
        }
        Ok(lock)
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closed before the name is free, so that nobody's new lock is lost with our handle.
        drop(self.file.take());
        locked().remove(&self.name);
    }
}

fn locked() -> std::sync::MutexGuard<'static, BTreeSet<PathBuf>> {
    LOCKED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_taken_once_and_ends_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let disk = Disk::new();
        let lock = disk.lock(&path).unwrap();
        let error = disk.lock(&path).err().unwrap().to_string();
        assert!(error.contains("in use") && error.contains("LOCK"), "{error}");
        drop(lock);
        disk.lock(&path).unwrap();
    }
}
