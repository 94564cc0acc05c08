//! A block that is to be worked on.

use apus_chain::BlockId;

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
