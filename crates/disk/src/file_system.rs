use std::path::Path;

use rustix::fs::{stat, statvfs};

use super::{Result, StoreError};

/// A file system at one moment in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSystem {
    /// The number by which the operating system tells file systems apart.
    pub device: u64,
    /// Free bytes that this user may use.
    pub free: u64,
}

impl FileSystem {
    /// Returns the file system of `path` or, if that does not exist, of the nearest directory above
    /// it.
    pub fn of(path: &Path) -> Result<Self> {
        let there = path.ancestors().find(|path| path.exists()).unwrap_or(path);
        let fail = |e: rustix::io::Errno| StoreError::io(there, "read the free space", e.into());
        let found = stat(there).map_err(fail)?;
        let system = statvfs(there).map_err(fail)?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        Ok(Self { device: found.st_dev, free })
    }
}
