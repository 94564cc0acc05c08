use std::io;
use std::path::Path;

/// A kind of call to the file system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Call {
    /// Opens or creates a file, or creates directories.
    Open,
    /// Reads a file or lists a directory, or maps a file.
    Read,
    /// Writes bytes; if it fails, half of them are written.
    Write,
    /// Syncs a file or a directory.
    Sync,
    /// Reserves room for a file, frees it, or sets the length of the file.
    Allocate,
    /// Renames a file.
    Rename,
    /// Removes a file or an empty directory.
    Remove,
}

impl Call {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::Allocate,
        Self::Rename,
        Self::Remove,
    ];
}

/// Is asked before each call to the file system, for tests: it may take its time, and the call
/// fails with the error that it returns. What is mapped into memory is read without asking.
pub type Hook = dyn Fn(Call, &Path) -> io::Result<()> + Send + Sync;
