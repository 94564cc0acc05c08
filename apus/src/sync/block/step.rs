//! A block that is to be worked on, and why that may fail.

use crate::chain::BlockId;
use crate::disk::StoreError;
use crate::rules::RuleError;
use crate::sync::sources::Place;

/// A block to work on, and where its bytes are.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub id: BlockId,
    pub place: Place,
    /// The work that the block is expected to take, in bytes of block; for progress.
    pub weight: u64,
}

/// Why a block could not be read and checked.
pub(crate) enum BlockFault {
    /// The disk cannot be read.
    Store(StoreError),
    /// The bytes at the step's place are not the block that belongs there, or cannot be told from
    /// damage. Another copy of the block may be good.
    Damaged(String),
    /// The block breaks a rule; every copy of it does.
    Rule(RuleError),
    /// It was waited for, and nobody wants it any more.
    Stopped,
    /// It was waited for, and no peer has it.
    Gone,
}
