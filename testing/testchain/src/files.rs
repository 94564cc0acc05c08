//! Files for tests and benchmarks.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

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

/// Copies a file, but for the zeros at its end, which take no space in the copy.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut used = File::open(from)?.take(used_len(from)?);
    let mut copy = File::create(to)?;
    io::copy(&mut used, &mut copy)?;
    let metadata = fs::metadata(from)?;
    copy.set_len(metadata.len())?;
    fs::set_permissions(to, metadata.permissions())
}

/// Returns how long a file is without the zeros at its end: block files reserve 16 MiB, so tests
/// look at far fewer bytes.
///
/// # Errors
/// The file cannot be read.
pub fn used_len(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let mut bytes = vec![0; 1 << 16];
    let zeros = bytes.clone();
    while end > 0 {
        let part = &mut bytes[..end.min(1 << 16) as usize];
        end -= part.len() as u64;
        file.read_exact_at(part, end)?;
        if part != &zeros[..part.len()]
            && let Some(last) = part.iter().rposition(|byte| *byte != 0)
        {
            return Ok(end + last as u64 + 1);
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_equal_and_zeros_at_the_end_are_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
        fs::create_dir(&from).unwrap();
        // Bytes, and zeros after them; the end is read in parts of 64 KiB.
        for (used, zeros) in
            [(0, 0), (0, 70_000), (1, 0), (1, 65_535), (1, 65_536), (70_000, 200_000)]
        {
            let mut bytes = vec![7; used];
            bytes.resize(used + zeros, 0);
            fs::write(from.join("file"), &bytes).unwrap();
            assert_eq!(used_len(&from.join("file")).unwrap(), used as u64, "{used} {zeros}");
            copy_dir(&from, &to).unwrap();
            assert!(fs::read(to.join("file")).unwrap() == bytes, "{used} {zeros}");
        }
    }
}
