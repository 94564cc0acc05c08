use std::path::Path;

use super::file::temporary_name;
use super::{Disk, File, StoreError};

impl Disk {
    /// Puts at `path` what `write` writes into an empty file, so that after a crash either the old
    /// or the new content is there: a temporary file beside it, synced, renamed over, directory
    /// synced. For content that is too much to hold in memory.
    ///
    /// # Errors
    /// The disk fails, or `write` does; then `path` is as it was and nothing is left beside it.
    pub fn replace_with<T, E: From<StoreError>>(
        &self,
        path: impl AsRef<Path>,
        write: impl FnOnce(&File) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = path.as_ref();
        let temporary = temporary_name(path);
        let result = self.create(&temporary).map_err(E::from).and_then(|file| {
            let written = write(&file)?;
            file.sync()?;
            self.rename(&temporary, path)?;
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
        let failed: Result<(), StoreError> = disk.replace_with(&path, |file| {
            file.write_all_at(b"half", 0)?;
            Err(StoreError::new(&path, "no more"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(disk.list(dir.path()).unwrap(), ["file"], "nothing is left beside it");
    }
}
