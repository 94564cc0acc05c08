//! Why work on a directory that is only read ended before it was done.

use apus_disk::StoreError;
use apus_node::error::SyncError;

/// Why nothing was made.
pub enum EndedEarly {
    /// Somebody asked to stop.
    Stopped,
    /// The work failed.
    Failed(SyncError),
}

impl From<SyncError> for EndedEarly {
    fn from(error: SyncError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for EndedEarly {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}
