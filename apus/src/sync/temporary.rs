//! A directory for files that are of no use once the work is done.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::disk::StoreError;

/// A directory of the system's for temporary files, removed with all that is in it.
pub(super) struct TemporaryDir(PathBuf);

impl TemporaryDir {
    /// Makes a new directory that only its owner may enter.
    ///
    /// # Errors
    /// The system's directory for temporary files (`TMPDIR`) cannot be written.
    pub fn new() -> Result<Self, StoreError> {
        let parent = std::env::temp_dir();
        let mut name = [0; 8];
        getrandom::fill(&mut name)
            .map_err(|error| StoreError::new(&parent, format!("no randomness: {error}")))?;
        let path = parent.join(format!("apus-{:016x}", u64::from_le_bytes(name)));
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            StoreError::io(
                &path,
                "make a temporary directory (TMPDIR names another place for it)",
                error,
            )
        })?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
