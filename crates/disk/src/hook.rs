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
    /// Reserves or frees space of a file, or sets its length.
    Allocate,
    /// Renames a file.
    Rename,
    /// Removes a file or an empty directory.
    Remove,
}

impl Call {
    /// All kinds.
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

/// A callback before each call to the file system, for tests: it may delay the call, and an error
/// that it returns makes the call fail. Reads of mapped memory do not call it.
pub type Hook = dyn Fn(Call, &Path) -> io::Result<()> + Send + Sync;
