use std::path::{Path, PathBuf};

use super::{Disk, File, Result, StoreError};

impl Disk {
    /// Puts `bytes` at `path` so that after a crash either the old or the new content is there.
    ///
    /// # Errors
    /// The disk fails; then `path` is as it was.
    pub fn write_atomically(&self, path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        self.replace_with(path, |file| file.write_all_at(bytes, 0))
    }

    /// [`Disk::write_atomically`] for what only the owner may read.
    pub fn write_private(&self, path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        let path = path.as_ref();
        // A temporary file that is there already would keep its mode.
        self.remove_temporary(path)?;
        let temporary = self.create_private(&temporary_name(path));
        self.replace(path, temporary, |file| file.write_all_at(bytes, 0))
    }

    /// Removes what a crash while a file was replaced may have left next to `path`.
    pub fn remove_temporary(&self, path: impl AsRef<Path>) -> Result<()> {
        let temporary = temporary_name(path.as_ref());
        if temporary.exists() { self.remove(temporary) } else { Ok(()) }
    }

    /// Puts at `path` what `write` writes into an empty file, so that after a crash either the old
    /// or the new content is there: a temporary file beside it, synced, renamed over, directory
    /// synced. For content that is too much to hold in memory.
    ///
    /// # Errors
    /// The disk fails, or `write` does; then `path` is as it was and nothing is left beside it.
    pub fn replace_with<T, E: From<StoreError>>(
        &self,
        path: impl AsRef<Path>,
        write: impl FnOnce(&File) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let path = path.as_ref();
        self.replace(path, self.create(temporary_name(path)), write)
    }

    /// Writes `temporary` and puts it in the place of `path`.
    fn replace<T, E: From<StoreError>>(
        &self,
        path: &Path,
        temporary: Result<File>,
        write: impl FnOnce(&File) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let result = temporary.map_err(E::from).and_then(|file| {
            let written = write(&file)?;
            file.sync()?;
            self.rename(file.path(), path)?;
            Ok(written)
        });
        match result {
            Ok(written) => {
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                self.sync_dir(directory.unwrap_or(Path::new(".")))?;
                Ok(written)
            }
            Err(error) => {
                // The first error counts.
                let _ = self.remove_temporary(path);
                Err(error)
            }
        }
    }
}

/// Where the bytes go that are to replace a file.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".dbtmp");
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
        assert_eq!(disk.list(dir.path()).unwrap(), ["file"], "nothing is left beside it");
    }
}
