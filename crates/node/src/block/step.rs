//! A block that is to be worked on, and why that may fail.

use apus_chain::BlockId;
use apus_disk::StoreError;
use apus_rules::RuleError;

use crate::sources::Place;

/// A block to work on, and where its bytes are.
#[derive(Clone, Copy)]
pub struct Step {
    /// The block.
    pub id: BlockId,
    /// Where its bytes are.
    pub place: Place,
    /// The work that the block is expected to take, in bytes of block; for progress.
    pub weight: u64,
}

/// Why a block could not be read and checked.
pub enum BlockFault {
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
