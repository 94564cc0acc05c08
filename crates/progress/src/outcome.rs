//! The results of work on a data directory, in numbers.

use std::fmt;
use std::path::PathBuf;

use apus_hash::Hash;
use secp_lanes::Kernel;

/// The amount of work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks connected.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
    /// Transactions of these blocks.
    pub transactions: u64,
    /// Inputs of these transactions, except those of coinbases.
    pub inputs: u64,
    /// Inputs whose scripts were checked.
    pub scripts: u64,
}

impl Counts {
    /// Adds two amounts of work.
    pub fn plus(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            bytes: self.bytes + other.bytes,
            transactions: self.transactions + other.transactions,
            inputs: self.inputs + other.inputs,
            scripts: self.scripts + other.scripts,
        }
    }

    /// Returns the work done since `before` was taken; never negative, although work may have been
    /// dropped.
    pub fn since(self, before: Self) -> Self {
        Self {
            blocks: self.blocks.saturating_sub(before.blocks),
            bytes: self.bytes.saturating_sub(before.bytes),
            transactions: self.transactions.saturating_sub(before.transactions),
            inputs: self.inputs.saturating_sub(before.inputs),
            scripts: self.scripts.saturating_sub(before.scripts),
        }
    }
}

/// How many inputs each script engine has checked in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptCounts {
    /// Inputs found valid by verifying many signatures together.
    pub fast: u64,
    /// Inputs decided by Bitcoin Core's engine alone.
    pub core: u64,
    /// Inputs counted in `fast` that Core's engine has checked as well.
    pub rechecked: u64,
    /// Signatures, and Taproot commitments, that were verified side by side.
    pub signatures: u64,
    /// The kernel that verified them; `None` if there were none.
    pub kernel: Option<Kernel>,
}

/// How often threads were seen in each state, over all samples. Threads that wait for each other,
/// or for peers, are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadStates {
    /// At work: running, or waiting for a processor that another thread or program uses.
    pub working: u64,
    /// Waiting for the disk.
    pub blocked: u64,
}

impl ThreadStates {
    /// The smallest number of observations from which a share is computed.
    const SEEN_MIN: u64 = 20;

    /// Returns the percentage of blocked threads among the busy ones; `None` if there
    /// were too few observations.
    pub fn blocked_percent(self) -> Option<u64> {
        let seen = self.working + self.blocked;
        (seen >= Self::SEEN_MIN).then(|| self.blocked * 100 / seen)
    }

    /// Returns the observations since `before` was taken.
    pub fn since(self, before: Self) -> Self {
        Self {
            working: self.working.saturating_sub(before.working),
            blocked: self.blocked.saturating_sub(before.blocked),
        }
    }

    pub fn waits_for_disk(self) -> bool {
        self.blocked_percent().is_some_and(|percent| percent > 50)
    }
}

/// The result of pruning, in this run or before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pruned {
    /// The lowest height from which all blocks up to the tip are stored.
    pub blocks_from: u32,
    /// Bytes of the files that this run has deleted.
    pub freed_bytes: u64,
    /// Bytes used in block and undo files.
    pub usage: u64,
    /// The height of the Core index that holds pruning back.
    pub held_at: Option<u32>,
}

/// A block, or a part of a source, that was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The file that contains it.
    pub path: Option<PathBuf>,
    /// Its offset in that file, in bytes.
    pub offset: Option<u64>,
    /// The hash of the block, if it is known.
    pub block: Option<Hash>,
    /// Core's reject reason with details, or what is wrong with the file.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(block) = &self.block {
            write!(f, "block {block}: ")?;
        }
        f.write_str(&self.reason)?;
        if let Some(path) = &self.path {
            write!(f, " (in {}", path.display())?;
            if let Some(offset) = self.offset {
                write!(f, " at byte {offset}")?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_that_were_seen_blocked_wait_for_the_disk() {
        let states = |working, blocked| ThreadStates { working, blocked };
        for (seen, percent, waits) in [
            (states(0, 0), None, false),
            (states(0, 19), None, false),
            (states(0, 20), Some(100), true),
            (states(49, 51), Some(51), true),
            (states(50, 50), Some(50), false),
            // Threads that wait for a processor, however many, are not blocked.
            (states(1_000, 10), Some(0), false),
        ] {
            assert_eq!(seen.blocked_percent(), percent, "{seen:?}");
            assert_eq!(seen.waits_for_disk(), waits, "{seen:?}");
        }
    }
}
