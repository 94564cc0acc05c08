//! Objects as the files of a directory, which may be on a file system that machines share.

use std::ops::Range;
use std::path::{Path, PathBuf};

use apus_disk::{Disk, File, Result, StoreError};

use super::{Store, Upload};

/// The suffix of a file that is still being written.
const INCOMPLETE: &str = ".incomplete";

/// A directory of objects.
pub(super) struct Directory {
    disk: Disk,
    path: PathBuf,
}

impl Directory {
    /// Returns the objects in the directory `path`, which is created with the first of them.
    pub(super) fn new(disk: &Disk, path: &Path) -> Self {
        Self { disk: disk.clone(), path: path.to_path_buf() }
    }
}

impl Store for Directory {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.disk.read(self.path.join(name))
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>> {
        let file = self.disk.open_read(self.path.join(name))?;
        let mut bytes = Vec::new();
        file.append_to(&mut bytes, (range.end - range.start) as usize, range.start)?;
        Ok(bytes)
    }

    fn begin(&self, name: &str) -> Result<Box<dyn Upload>> {
        self.disk.create_dir_all(&self.path)?;
        // Two machines may write the same object at the same time, each to a file of its own.
        let mut number = [0; 8];
        getrandom::fill(&mut number)
            .map_err(|error| StoreError::new(&self.path, format!("no randomness: {error}")))?;
        let number = u64::from_le_bytes(number);
        let temporary = self.path.join(format!(".{name}.{number:016x}{INCOMPLETE}"));
        let file = self.disk.create(&temporary)?;
        let disk = self.disk.clone();
        let path = self.path.join(name);
        Ok(Box::new(Writing { disk, path, temporary, file: Some(file), len: 0 }))
    }

    fn names(&self) -> Result<Vec<String>> {
        if self.path.is_dir() { self.disk.list(&self.path) } else { Ok(Vec::new()) }
    }
}

/// A file under a temporary name, which is removed if it is not finished.
struct Writing {
    disk: Disk,
    path: PathBuf,
    temporary: PathBuf,
    file: Option<File>,
    len: u64,
}

impl Upload for Writing {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let file = self.file.as_ref().expect("a file is written until it is finished");
        file.write_all_at(bytes, self.len)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let file = self.file.take().expect("a file is finished once");
        let renamed = file.sync().and_then(|()| self.disk.rename(&self.temporary, &self.path));
        if let Err(error) = renamed {
            self.file = Some(file);
            return Err(error);
        }
        self.disk.sync_dir(self.path.parent().unwrap_or(Path::new(".")))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // The error that ended the writing says more than a file that stays.
            let _ = self.disk.remove(&self.temporary);
        }
    }
}
