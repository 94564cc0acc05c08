//! Errors of settings files.

use apus_disk::StoreError;
use apus_node::SyncError;

/// Why settings files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfError {
    /// A setting is wrong, or a file that is named does not exist.
    #[error("{0}")]
    Wrong(String),
    /// The system refuses to read a file.
    #[error(transparent)]
    Disk(StoreError),
}

impl From<String> for ConfError {
    fn from(what: String) -> Self {
        Self::Wrong(what)
    }
}

impl From<ConfError> for SyncError {
    fn from(error: ConfError) -> Self {
        match error {
            ConfError::Wrong(what) => Self::WrongOptions(what),
            ConfError::Disk(error) => Self::Store(error),
        }
    }
}
