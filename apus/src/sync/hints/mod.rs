//! Hints files from a synced directory, which is locked and read, and never changed.

mod chain;
mod compress;
mod convert;
mod create;
mod number;
mod spill;
mod sorted;
mod workers;
mod write;

use std::time::Duration;

pub use compress::compress_hints;
pub use convert::{conversion_needs_blocks, convert_hints};
pub use create::create_hints;

use super::options::SyncError;
use crate::disk::StoreError;
use crate::hash::Hash;
use crate::swiftsync::HintsError;

/// Bytes of blocks that a thread takes at once, at most: enough that what it does once for all of
/// them does not count, and few enough that what is held for them is small.
const GROUP_BYTES_MAX: u64 = 16 << 20;
/// At least; below this, more threads would not be faster.
const GROUP_BYTES_MIN: u64 = 64 << 10;
/// Groups for each thread where there are few blocks, so that all threads end together.
const GROUPS_PER_THREAD: u64 = 8;

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
enum Halt {
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

impl From<HintsError> for Halt {
    fn from(error: HintsError) -> Self {
        Self::Failed(error.into())
    }
}
