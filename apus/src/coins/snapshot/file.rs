use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::disk::Disk;

use super::error::{SnapshotError, SnapshotReadError};
use super::head::SnapshotHead;
use super::pieces::SnapshotPieces;

/// A snapshot file, mapped into memory.
pub struct SnapshotFile {
    path: PathBuf,
    head: SnapshotHead,
    bytes: Mmap,
}

impl SnapshotFile {
    /// Maps the file and reads its head.
    ///
    /// # Errors
    /// The file cannot be read, or is no snapshot.
    pub fn open(path: &Path) -> Result<Self, SnapshotReadError> {
        let file = Disk::new().open_read(path)?;
        let none = || SnapshotError::new("this is not a UTXO snapshot, and no regular file");
        if !path.is_file() {
            return Err(none().into());
        }
        if file.is_empty()? {
            return Err(SnapshotError::new("this is not a UTXO snapshot: the file is empty").into());
        }
        let bytes = file.map()?;
        Ok(Self { path: path.to_path_buf(), head: SnapshotHead::parse(&bytes)?, bytes })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its head.
    pub fn head(&self) -> &SnapshotHead {
        &self.head
    }

    /// The length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// All coins, in pieces.
    pub fn pieces(&self) -> SnapshotPieces<'_> {
        SnapshotPieces::new(&self.bytes, self.head.coins)
    }
}
