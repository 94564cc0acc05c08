//! A block to work on.

use apus_chain::BlockId;

use crate::sources::Place;

/// A block to work on, and the place of its bytes.
#[derive(Clone, Copy)]
pub struct Step {
    /// The block.
    pub id: BlockId,
    /// The place of its bytes.
    pub place: Place,
    /// The expected amount of work, in bytes of block, for progress.
    pub weight: u64,
}
