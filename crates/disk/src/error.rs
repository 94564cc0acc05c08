use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The result of an operation on files.
pub type Result<T> = std::result::Result<T, StoreError>;

/// An error for which the disk is to blame: a file cannot be read or written, or holds bytes that
/// cannot be right.
///
/// The caller must stop writing; everything committed before remains valid.
#[derive(Debug, thiserror::Error)]
pub struct StoreError {
    /// The file or directory to blame.
    pub path: PathBuf,
    /// Byte offset in the file, if the error has one.
    pub offset: Option<u64>,
    /// The fault, in words for the user.
    pub what: String,
    /// The error of the operating system, if it refused an operation; `None` if the content of the
    /// file or directory is wrong.
    pub source: Option<io::Error>,
    /// Whether nothing is wrong with the file or directory, but another program, or another part
    /// of this one, holds its lock.
    pub is_locked: bool,
    /// The process that holds the lock, if the system tells.
    pub holder: Option<u32>,
}

impl StoreError {
    /// Returns the error for invalid bytes at `offset` of the file `path`.
    pub fn corrupt(path: impl AsRef<Path>, offset: u64, what: impl Into<String>) -> Self {
        Self { offset: Some(offset), ..Self::new(path, what) }
    }

    /// Returns the error, without an offset, for a file or directory that is not as it must be.
    pub fn new(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        let path = path.as_ref().to_path_buf();
        let what = what.into();
        Self { path, offset: None, what, source: None, is_locked: false, holder: None }
    }

    /// Returns the error for an operation that the operating system refused; `what` completes
    /// "cannot …".
    pub fn io(path: impl AsRef<Path>, what: &str, source: io::Error) -> Self {
        Self { source: Some(source), ..Self::new(path, format!("cannot {what}")) }
    }

    /// Returns the error for a file or directory whose lock is held elsewhere.
    pub fn locked(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Self { is_locked: true, ..Self::new(path, what) }
    }

    /// Returns the error for a disk that is full, or too small for what is to be written.
    pub fn full(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Self { source: Some(io::ErrorKind::StorageFull.into()), ..Self::new(path, what) }
    }

    /// Returns whether space has run out: the disk is full, or a quota is used up.
    pub fn is_full(&self) -> bool {
        let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        self.source.as_ref().is_some_and(|source| kinds.contains(&source.kind()))
    }

    /// Returns whether the system refused this process the file, because of its permissions, of a
    /// limit, or of a disk that does not answer, so that nothing is known about its content.
    pub fn is_refused(&self) -> bool {
        const REASONS: [Errno; 5] =
            [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::IO];
        self.source.as_ref().is_some_and(|source| {
            source.kind() == io::ErrorKind::PermissionDenied
                || Errno::from_io_error(source).is_some_and(|errno| REASONS.contains(&errno))
        })
    }

    /// Sets the offset of the error in its file.
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
