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
            copy_file(&entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Copies a file, but for the zeros at its end, which take no space in the copy: block files
/// reserve 16 MiB.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let bytes = fs::read(from)?;
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    fs::write(to, &bytes[..used])?;
    fs::OpenOptions::new().write(true).open(to)?.set_len(bytes.len() as u64)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}
