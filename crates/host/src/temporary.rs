//! Directories for files that are not needed after the work.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use apus_disk::{StoreError, lock};

/// The prefix of the names of these directories.
const PREFIX: &str = "apus-";
/// The directories that exist now.
static PRESENT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Number of attempts to remove a directory in which other threads still create files.
const REMOVALS_MAX: usize = 5;

/// Removes all directories for temporary files, before the process exits at once.
pub fn remove_temporary_directories() {
    lock(&PRESENT).iter().for_each(|directory| remove(directory));
}

/// A directory for temporary files, removed with its content when it is dropped.
pub struct TemporaryDir(PathBuf);

impl TemporaryDir {
    /// Creates a directory that only its owner may enter, in the system's for temporary files
    /// (`TMPDIR`).
    ///
    /// No directory can be created there.
    pub fn new() -> Result<Self, StoreError> {
        Self::below(&std::env::temp_dir())
    }

    /// Creates a directory that only its owner may enter, in `parent`.
    ///
    /// No directory can be created there.
    pub fn below(parent: &Path) -> Result<Self, StoreError> {
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
        lock(&PRESENT).push(path.clone());
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        remove(&self.0);
        lock(&PRESENT).retain(|directory| *directory != self.0);
    }
}

/// Returns whether a path below the system's directory for temporary files is that of such a
/// directory, or is inside one.
pub fn is_temporary(path: &Path) -> bool {
    let first = path.components().next();
    first.is_some_and(|name| name.as_os_str().as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

/// Removes a directory with its content, and ignores errors.
fn remove(directory: &Path) {
    (0..REMOVALS_MAX).any(|_| std::fs::remove_dir_all(directory).is_ok() || !directory.exists());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_while_it_exists_and_removed_with_its_content() {
        let directory = TemporaryDir::new().unwrap();
        let path = directory.path().to_path_buf();
        assert!(path.is_dir() && lock(&PRESENT).contains(&path));
        std::fs::create_dir(path.join("sub")).unwrap();
        std::fs::write(path.join("sub/file"), [7]).unwrap();
        remove(&path);
        assert!(!path.exists());
        drop(directory);
        assert!(!lock(&PRESENT).contains(&path));
    }

    #[test]
    fn where_none_can_be_made_the_error_names_tmpdir() {
        let error = TemporaryDir::below(Path::new("/nowhere")).err().unwrap().to_string();
        assert!(error.contains("/nowhere/apus-") && error.contains("TMPDIR"), "{error}");
    }
}
