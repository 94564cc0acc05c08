//! Files for tests and benchmarks.

use std::path::Path;
use std::{fs, io};

/// Copies a directory with everything in it; `to` is created if it does not exist.
///
/// # Errors
/// A file cannot be read or written.
pub fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
