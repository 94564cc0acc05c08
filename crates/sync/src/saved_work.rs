//! How far the work is that an interrupted sync has saved, for the next run to carry on.

/// Blocks of a SwiftSync that was interrupted, saved for the next run to carry on from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedBlocks {
    /// Number of blocks that are done.
    pub done: u32,
    /// Number of blocks up to the hints' height.
    pub total: u32,
}

/// How far a join is that was interrupted, and that the next run carries on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedJoin {
    /// The pass that it is in.
    pub pass: JoinPass,
    /// Number of blocks that are read, of any height.
    pub blocks_read: u32,
    /// Number of blocks whose spends are checked.
    pub blocks_checked: u32,
    /// Number of blocks of the join.
    pub total: u32,
}

/// A pass of a join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinPass {
    /// Blocks are read, and their outputs and spends written to partitions.
    Reading,
    /// Spends are matched with outputs, partition by partition.
    Matching,
    /// The spends of each block are checked.
    Checking,
}

impl JoinPass {
    /// The number of the pass, from 1 to 3.
    pub fn number(self) -> u32 {
        match self {
            Self::Reading => 1,
            Self::Matching => 2,
            Self::Checking => 3,
        }
    }
}
