use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::hash::{Hash, sha256d};
use crate::swiftsync::{self, Hints, HintsError};
use crate::sync::error::SyncError;

/// An opened hints file.
pub(crate) struct HintsFile {
    pub path: PathBuf,
    pub reader: Box<dyn Hints>,
    pub(super) digest: Hash,
}

impl HintsFile {
    /// Maps the file and finds out its format.
    pub fn open(path: &Path) -> Result<Self, SyncError> {
        let file = Disk::new().open_read(path)?;
        let wrong = |error| SyncError::WrongHints { path: path.to_path_buf(), error };
        if file.is_empty()? {
            return Err(wrong(HintsError::new("the file is empty")));
        }
        let map = file.map()?;
        let digest = sha256d(&map);
        let reader = swiftsync::open(map).map_err(wrong)?;
        Ok(Self { path: path.to_path_buf(), reader, digest })
    }

    /// What is wrong with this file.
    pub fn error(&self, error: HintsError) -> SyncError {
        SyncError::WrongHints { path: self.path.clone(), error }
    }
}
