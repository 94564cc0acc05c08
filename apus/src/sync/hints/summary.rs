use std::time::Duration;

use crate::disk::StoreError;
use crate::hash::Hash;
use crate::sync::error::SyncError;

/// How a hints file was made.
#[derive(Clone, Debug, PartialEq)]
pub struct HintsSummary {
    /// The height at which the outputs are unspent.
    pub height: u32,
    /// The block at that height; `None` where no directory was asked.
    pub best_block: Option<Hash>,
    /// Blocks that have hints: all from 1 to the height.
    pub blocks: u32,
    /// Their outputs that the format counts ([`crate::swiftsync::Numbering`]); `None` where the
    /// file does not tell and no directory was asked.
    pub outputs: Option<u64>,
    /// Of these, the ones that stay unspent.
    pub unspent: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Wall clock time.
    pub elapsed: Duration,
    /// Whether it was told to stop before its end; then no file was written.
    pub interrupted: bool,
}

/// Why the work ends early.
pub(super) enum Halt {
    /// It was told to.
    Stopped,
    /// It cannot go on.
    Failed(SyncError),
}

impl From<SyncError> for Halt {
    fn from(error: SyncError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}
