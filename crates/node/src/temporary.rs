//! A directory for files that are of no use once the work is done.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use apus_disk::StoreError;

use super::options::Options;

/// How the names of these directories begin.
const PREFIX: &str = "apus-";
/// The directories that there are now.
static PRESENT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// How often a directory is removed in which other threads go on making files.
const REMOVALS_MAX: usize = 5;

/// Removes all directories for temporary files, before the process ends at once.
pub fn remove_temporary_directories() {
    present().iter().for_each(|directory| remove(directory));
}

/// A directory for temporary files, removed with all that is in it.
pub struct TemporaryDir(PathBuf);

impl TemporaryDir {
    /// Makes a new directory that only its owner may enter, in the system's for temporary files
    /// (`TMPDIR`).
    ///
    /// # Errors
    /// No directory can be made there.
    pub fn new() -> Result<Self, StoreError> {
        Self::below(&std::env::temp_dir())
    }

    /// Makes a new directory that only its owner may enter, in the one that the options name for
    /// temporary files or, if they name none, in the system's.
    ///
    /// # Errors
    /// No directory can be made there.
    pub fn chosen(options: &Options) -> Result<Self, StoreError> {
        options.spill_dir.as_deref().map_or_else(Self::new, Self::below)
    }

    fn below(parent: &Path) -> Result<Self, StoreError> {
        let mut name = [0; 8];
        getrandom::fill(&mut name)
            .map_err(|error| StoreError::new(parent, format!("no randomness: {error}")))?;
        let path = parent.join(format!("{PREFIX}{:016x}", u64::from_le_bytes(name)));
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            StoreError::io(
                &path,
                "make a temporary directory (TMPDIR names another place for it)",
                error,
            )
        })?;
        present().push(path.clone());
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        remove(&self.0);
        present().retain(|directory| *directory != self.0);
    }
}

/// Whether a file, below the system's directory for temporary files, is in such a directory or is
/// one.
pub fn is_temporary(path: &Path) -> bool {
    let first = path.components().next();
    first.is_some_and(|name| name.as_os_str().as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

fn present() -> MutexGuard<'static, Vec<PathBuf>> {
    PRESENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a directory with all that is in it; nobody is left to hear of an error.
fn remove(directory: &Path) {
    (0..REMOVALS_MAX).any(|_| std::fs::remove_dir_all(directory).is_ok() || !directory.exists());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_as_long_as_it_is_there_and_removed_with_what_is_in_it() {
        let directory = TemporaryDir::new().unwrap();
        let path = directory.path().to_path_buf();
        assert!(path.is_dir() && present().contains(&path));
        std::fs::create_dir(path.join("sub")).unwrap();
        std::fs::write(path.join("sub/file"), [7]).unwrap();
        remove(&path);
        assert!(!path.exists());
        drop(directory);
        assert!(!present().contains(&path));
    }

    #[test]
    fn where_none_can_be_made_the_error_names_tmpdir() {
        let error = TemporaryDir::below(Path::new("/nowhere")).err().unwrap().to_string();
        assert!(error.contains("/nowhere/apus-") && error.contains("TMPDIR"), "{error}");
    }
}
