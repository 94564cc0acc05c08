//! The directory that holds `/proc` and `/sys`; tests use another.

use std::fs;
use std::path::{Path, PathBuf};

/// The root directory of the system that is looked at: `/`, or what a container or a test has in
/// its place.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// Looks at the system that this process runs on.
    pub fn system() -> Self {
        Self::new("/")
    }

    /// Looks at the system whose root directory is `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns where the absolute `path` of the system is.
    pub fn below(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the text of a file, without white space around it; `None` if it cannot be read.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(fs::read_to_string(self.below(path)).ok()?.trim().to_string())
    }

    /// Returns the names in a directory, in their order; none if it cannot be read.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.below(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}
