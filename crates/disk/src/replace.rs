use std::fs::{Metadata, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Disk, File, Result, StoreError};

/// The suffix of a file that [`Disk::write_new`] is still writing, as in Core's `dumptxoutset`.
const INCOMPLETE_SUFFIX: &str = ".incomplete";
/// How often a file is opened that other runs rename or remove meanwhile.
const BEGIN_TRIES: u32 = 10;

impl Disk {
    /// Makes `bytes` the content of the file `path`. After a crash the file has either its old or
    /// its new content.
    ///
    /// # Errors
    /// As for [`Disk::replace_with`].
    pub fn write_atomically(&self, path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        self.replace_with(path, |file| file.write_all_at(bytes, 0))
    }

    /// Like [`Disk::write_atomically`], but only the owner may read the file.
    pub fn write_private(&self, path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        let path = path.as_ref();
        // An existing temporary file would keep its mode.
        self.remove_temporary(path)?;
        let temporary = self.create_private(&temporary_name(path))?;
        self.finish(temporary, path, false, |file| file.write_all_at(bytes, 0))
    }

    /// Removes the temporary file that a crash may have left while `path` was being replaced.
    pub fn remove_temporary(&self, path: impl AsRef<Path>) -> Result<()> {
        let temporary = temporary_name(path.as_ref());
        if temporary.exists() { self.remove(temporary) } else { Ok(()) }
    }

    /// Replaces the file `path` with what `write` writes into an empty file. After a crash the file
    /// has either its old or its new content: a temporary file next to it is written, synced and
    /// renamed, and then the directory is synced. It is meant for content that is too large for
    /// memory.
    ///
    /// # Errors
    /// The disk or `write` fails; then the file is unchanged, and the temporary file is removed. If
    /// only the sync of the directory fails, the file has its new content, which is not durable.
    pub fn replace_with<T, E: From<StoreError>>(
        &self,
        path: impl AsRef<Path>,
        write: impl FnOnce(&File) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let path = path.as_ref();
        self.finish(self.create(temporary_name(path))?, path, false, write)
    }

    /// Creates the file `path`, which must not exist, with what `write` writes: a file with the
    /// suffix `.incomplete` is written, synced and renamed, and then the directory is synced. An
    /// incomplete file that a crash has left is overwritten.
    ///
    /// # Errors
    /// The file already exists, another run is writing it, or the disk or `write` fails; then no
    /// file is created, and the incomplete one is removed if it is this run's.
    pub fn write_new<T, E: From<StoreError>>(
        &self,
        path: impl AsRef<Path>,
        write: impl FnOnce(&File) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let path = path.as_ref();
        let incomplete = self.begin_incomplete(path)?;
        self.finish(incomplete, path, true, write)
    }

    /// Opens the incomplete file of `path`, empty, and locked until it is closed.
    fn begin_incomplete(&self, path: &Path) -> Result<File> {
        let name = with_suffix(path, INCOMPLETE_SUFFIX);
        let is_written = || StoreError::new(path, "another run is writing this file");
        for _ in 0..BEGIN_TRIES {
            self.refuse_existing(path)?;
            // The file that a link leads to is another one's.
            if name.symlink_metadata().is_ok_and(|found| !found.is_file()) {
                return Err(StoreError::new(&name, "this is not a regular file: remove it"));
            }
            let file = self.open(&name)?;
            // Any other error is that of a network mount that has no locks.
            if let Err(TryLockError::WouldBlock) = file.raw().try_lock() {
                return Err(is_written());
            }
            // A run that has ended since it was opened may have renamed or removed it.
            let is_same = |now: Metadata| {
                let opened = file.raw().metadata();
                opened.is_ok_and(|opened| (opened.dev(), opened.ino()) == (now.dev(), now.ino()))
            };
            if name.symlink_metadata().is_ok_and(is_same) {
                file.set_len(0)?;
                return Ok(file);
            }
        }
        Err(is_written())
    }

    /// Returns an error if there is something at `path`.
    fn refuse_existing(&self, path: &Path) -> Result<()> {
        match path.symlink_metadata() {
            Ok(_) => Err(StoreError::new(path, "it exists already: name another file")),
            Err(_) => Ok(()),
        }
    }

    /// Makes a new name in the directory of `path` durable.
    fn sync_parent(&self, path: &Path) -> Result<()> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.sync_dir(directory.unwrap_or(Path::new(".")))
    }

    /// Writes a temporary file and renames it to `path`, which must still not exist if it `is_new`.
    fn finish<T, E: From<StoreError>>(
        &self,
        temporary: File,
        path: &Path,
        is_new: bool,
        write: impl FnOnce(&File) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let finished = write(&temporary).and_then(|written| {
            temporary.sync()?;
            if is_new {
                self.refuse_existing(path)?;
            }
            self.rename(temporary.path(), path)?;
            Ok(written)
        });
        match &finished {
            Ok(_) => self.sync_parent(path)?,
            // Only the first error is reported.
            Err(_) => drop(self.remove(temporary.path())),
        }
        finished
    }
}

/// Returns the path of the temporary file that is renamed to `path`.
fn temporary_name(path: &Path) -> PathBuf {
    with_suffix(path, ".dbtmp")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(suffix);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let disk = Disk::new();
        let write = |bytes: &'static [u8]| {
            disk.replace_with(&path, |file| file.write_all_at(bytes, 0).map(|()| bytes.len()))
        };
        assert_eq!(write(b"first").unwrap(), 5);
        assert_eq!(write(b"new").unwrap(), 3);
        let failed: Result<()> = disk.replace_with(&path, |file| {
            file.write_all_at(b"half", 0)?;
            Err(StoreError::new(&path, "no more"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(disk.list(dir.path()).unwrap(), ["file"], "nothing is left next to it");
    }

    #[test]
    fn a_new_file_is_whole_and_takes_no_other_ones_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new");
        let disk = Disk::new();
        std::fs::write(dir.path().join("new.incomplete"), "longer than what will be there")
            .unwrap();
        let write = |what: Result<()>| {
            disk.write_new(&path, |file| file.write_all_at(b"whole", 0).and(what))
        };
        assert!(write(Err(StoreError::new(&path, "no more"))).is_err());
        assert_eq!(disk.list(dir.path()).unwrap(), [""; 0]);
        write(Ok(())).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        let error = write(Ok(())).unwrap_err().to_string();
        assert!(error.ends_with("new: it exists already: name another file"), "{error}");
        // A file that appears while the new one is written stays, too.
        let other = dir.path().join("other");
        let race = disk.write_new(&other, |_| -> Result<()> {
            std::fs::write(&other, "theirs").unwrap();
            Ok(())
        });
        assert!(race.is_err());
        assert_eq!(std::fs::read(&other).unwrap(), b"theirs");
        // Two runs do not write to one file.
        let both = dir.path().join("both");
        disk.write_new(&both, |file| {
            let second = disk.write_new(&both, |_| -> Result<()> { panic!("it has begun") });
            let error = second.unwrap_err().to_string();
            assert!(error.ends_with("both: another run is writing this file"), "{error}");
            file.write_all_at(b"first", 0)
        })
        .unwrap();
        assert_eq!(std::fs::read(&both).unwrap(), b"first");
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
        assert!(disk.write_new(dir.path().join("link"), |_| -> Result<()> { Ok(()) }).is_err());
        // Nor is what a link leads to overwritten.
        std::os::unix::fs::symlink(&other, dir.path().join("linked.incomplete")).unwrap();
        assert!(disk.write_new(dir.path().join("linked"), |_| -> Result<()> { Ok(()) }).is_err());
        assert_eq!(std::fs::read(&other).unwrap(), b"theirs");
        assert_eq!(
            disk.list(dir.path()).unwrap(),
            ["both", "link", "linked.incomplete", "new", "other"]
        );
    }
}
