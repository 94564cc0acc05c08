//! What came of work on a data directory, in numbers.

use std::fmt;
use std::path::PathBuf;

use apus_hash::Hash;
use secp_lanes::Kernel;

/// The amount of work that was done.
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
    /// The work of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            bytes: self.bytes + other.bytes,
            transactions: self.transactions + other.transactions,
            inputs: self.inputs + other.inputs,
            scripts: self.scripts + other.scripts,
        }
    }

    /// The work done since `before` was taken; some of that may have been dropped since.
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

/// Who has checked the scripts of a run, in inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptCounts {
    /// Found valid by verifying many signatures at once.
    pub fast: u64,
    /// Decided by Bitcoin Core's engine alone.
    pub core: u64,
    /// Those of the first that Core's engine has checked as well.
    pub rechecked: u64,
    /// Signatures, and commitments of Taproot, that were verified side by side.
    pub signatures: u64,
    /// What verified them; `None` if there were none.
    pub kernel: Option<Kernel>,
}

/// How often threads were seen in a state, each time that all of them were looked at. Those that
/// wait for each other, or for peers, are in neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadStates {
    /// At work: with a processor, or waiting for one that another thread or program uses.
    pub working: u64,
    /// Waiting for the disk.
    pub blocked: u64,
}

impl ThreadStates {
    /// The fewest times that threads were seen for a share of them to be told.
    const SEEN_MIN: u64 = 20;

    /// The percentage of blocked threads among those that were not idle; `None` if too few were
    /// seen to tell.
    pub fn blocked_percent(self) -> Option<u64> {
        let seen = self.working + self.blocked;
        (seen >= Self::SEEN_MIN).then(|| self.blocked * 100 / seen)
    }

    /// Whether threads mostly waited for the disk.
    pub fn waits_for_disk(self) -> bool {
        self.blocked_percent().is_some_and(|percent| percent > 50)
    }
}

/// What pruning has done, in this run or before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pruned {
    /// The lowest height from which all blocks up to the tip are stored.
    pub blocks_from: u32,
    /// Bytes of the files that this run has deleted.
    pub freed_bytes: u64,
    /// Bytes that block and undo files have in use.
    pub usage: u64,
    /// The height that an index of Core's holds pruning back at.
    pub held_at: Option<u32>,
}

/// A block, or a piece of a source, that was not taken.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The file that the block or piece is in.
    pub path: Option<PathBuf>,
    /// Its offset in that file, in bytes.
    pub offset: Option<u64>,
    /// The block's hash, where it has one.
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
            // As many as there may be that wait for a processor: these are not blocked.
            (states(1_000, 10), Some(0), false),
        ] {
            assert_eq!(seen.blocked_percent(), percent, "{seen:?}");
            assert_eq!(seen.waits_for_disk(), waits, "{seen:?}");
        }
    }
}
