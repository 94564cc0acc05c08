//! What several targets need to take their input apart.

use std::path::Path;

use tempfile::TempDir;

/// An empty directory, in memory where the system offers one, so that files cost little.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory for temporary files can be made")
}

/// The first byte, whose bits choose among variants, and the rest. An empty input has no bit set.
pub fn flags(data: &[u8]) -> (u8, &[u8]) {
    data.split_first().map_or((0, &[]), |(flags, rest)| (*flags, rest))
}
