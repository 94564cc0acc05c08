use std::path::Path;

use rustix::fs::{stat, statvfs};

use super::{Result, StoreError};

/// A file system at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSystem {
    /// The number that the system tells file systems apart by.
    pub device: u64,
    /// Free bytes, as far as this user may use them.
    pub free: u64,
}

impl FileSystem {
    /// The file system of `path` or, if that does not exist, of the nearest directory above it.
    ///
    /// # Errors
    /// The system does not say.
    pub fn of(path: &Path) -> Result<Self> {
        let there = path.ancestors().find(|path| path.exists()).unwrap_or(path);
        let fail = |e: rustix::io::Errno| StoreError::io(there, "ask for free space", e.into());
        let (found, system) = (stat(there).map_err(fail)?, statvfs(there).map_err(fail)?);
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        Ok(Self { device: found.st_dev, free })
    }
}
