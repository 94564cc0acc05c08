//! Functions with which several targets split their input.

use std::path::Path;

use tempfile::TempDir;

/// Returns an empty directory, in memory if the system offers it, so that files cost little.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory for temporary files can be made")
}

/// Splits off the first byte, whose bits choose among variants. An empty input has no bit set.
pub fn flags(data: &[u8]) -> (u8, &[u8]) {
    data.split_first().map_or((0, &[]), |(flags, rest)| (*flags, rest))
}
