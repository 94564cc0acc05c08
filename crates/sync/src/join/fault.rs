//! The ways in which a join fails.

use apus_disk::StoreError;
use apus_node::block::step::{BlockFault, Step};

/// Why a pass of the join cannot go on.
pub(super) enum Fault {
    /// The disk is to blame.
    Store(StoreError),
    /// The bytes at the step's place are not its block; another copy may be good.
    Damaged(Step, String),
    /// The block at this height is invalid, or cannot be judged out of order.
    Block(u32),
    /// All threads are to end.
    Stopped,
}

impl Fault {
    /// The fault of the block at `height`, which could not be read and checked.
    pub fn of_block(step: Step, height: u32, fault: BlockFault) -> Self {
        match fault {
            BlockFault::Stopped => Self::Stopped,
            // A branch that no peer has is not far below the best header.
            BlockFault::Gone => Self::Block(height),
            BlockFault::Store(error) => Self::Store(error),
            BlockFault::Damaged(what) => Self::Damaged(step, what),
            BlockFault::Rule(_) => Self::Block(height),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
