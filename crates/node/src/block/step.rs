//! A block to work on.

use apus_chain::BlockId;

use crate::sources::BlockOrigin;

/// A block to work on, and the place of its bytes. Packed, since there is one for each block of a
/// chain.
#[derive(Clone, Copy)]
#[repr(Rust, packed(4))]
pub struct Step {
    /// The block.
    pub id: BlockId,
    /// The place of its bytes.
    pub place: BlockOrigin,
    /// The expected amount of work, in bytes of block, for progress.
    pub weight: u64,
}

const _: () = assert!(size_of::<Step>() == 32);
