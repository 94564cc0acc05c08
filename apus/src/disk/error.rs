use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What an operation on files returns.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The disk is to blame: a file could not be read or written, or holds bytes that cannot be right.
///
/// The reaction is to stop and accept no more writes; what was committed stays good.
#[derive(Debug, thiserror::Error)]
pub struct StoreError {
    /// The file or directory that failed.
    pub path: PathBuf,
    /// Byte offset inside the file, where one is known.
    pub offset: Option<u64>,
    /// What went wrong, in words for the user.
    pub what: String,
    /// What the operating system said, where it said something.
    pub source: Option<io::Error>,
}

impl StoreError {
    /// Bytes at `offset` of `path` that cannot be right.
    pub fn corrupt(path: impl AsRef<Path>, offset: u64, what: impl Into<String>) -> Self {
        let path = path.as_ref().to_path_buf();
        Self { path, offset: Some(offset), what: what.into(), source: None }
    }

    /// A file or directory that is not as it must be, at no one place inside it.
    pub fn new(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        let path = path.as_ref().to_path_buf();
        Self { path, offset: None, what: what.into(), source: None }
    }

    /// An operation that the operating system refused; `what` completes "cannot …".
    pub fn io(path: impl AsRef<Path>, what: &str, source: io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        Self { path, offset: None, what: format!("cannot {what}"), source: Some(source) }
    }

    /// A disk that is full, or too small for what is to come.
    pub fn full(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Self { source: Some(io::ErrorKind::StorageFull.into()), ..Self::new(path, what) }
    }

    /// The same error, at `offset` of its file.
    pub fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.what)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}
