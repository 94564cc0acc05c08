//! How much work an interrupted sync has saved, for the next run to continue from.

/// What an interrupted sync has saved; none of its coins is in the UTXO set yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SavedSync {
    SwiftSync(SavedBlocks),
    Join(SavedJoin),
}

impl SavedSync {
    /// Returns what a SwiftSync has saved.
    pub fn swiftsync(self) -> Option<SavedBlocks> {
        match self {
            Self::SwiftSync(saved) => Some(saved),
            Self::Join(_) => None,
        }
    }

    /// Returns what a join has saved.
    pub fn join(self) -> Option<SavedJoin> {
        match self {
            Self::SwiftSync(_) => None,
            Self::Join(saved) => Some(saved),
        }
    }
}

/// How much of an interrupted SwiftSync is saved for the next run to continue from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedBlocks {
    /// Number of blocks that are done and saved.
    pub done: u32,
    /// Number of blocks up to the hints' height.
    pub total: u32,
}

/// How much of an interrupted join is saved for the next run to continue from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedJoin {
    /// The pass that the join is in.
    pub pass: JoinPass,
    /// Number of blocks that the first pass has read, at any heights.
    pub blocks_read: u32,
    /// Number of blocks that have passed all checks.
    pub blocks_checked: u32,
    /// Number of all blocks of the join.
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
    /// Returns the number of the pass, from 1 to 3.
    pub fn number(self) -> u32 {
        match self {
            Self::Reading => 1,
            Self::Matching => 2,
            Self::Checking => 3,
        }
    }
}
