use crate::chain::BlockId;
use crate::disk::StoreError;
use crate::rules::RuleError;
use crate::sync::sources::Place;

/// A block to connect, and where its bytes are.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub id: BlockId,
    pub place: Place,
    /// About how much work it is, in bytes; for progress.
    pub weight: u64,
}

/// Why a block could not be made ready.
pub(crate) enum BlockFault {
    /// The disk is to blame: it cannot be read.
    Store(StoreError),
    /// The bytes at the step's place, stored or a source's, are not the block that is said to be
    /// there; or a source's break a rule without their place in a chain. Another copy may be good.
    Damaged(String),
    /// The block breaks a rule.
    Rule(RuleError),
}
