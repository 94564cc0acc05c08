use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::checked::Checked;
use crate::hash::Hash;

/// How an activation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Activated {
    /// The best valid chain (up to the height asked for) is active.
    Best,
    /// Someone asked to stop.
    Stopped,
}

/// What was worked through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks connected.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Their inputs, coinbases left out.
    pub inputs: u64,
    /// Inputs whose scripts were checked.
    pub scripts: u64,
}

impl Counts {
    /// What came on top of `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            blocks: self.blocks - before.blocks,
            bytes: self.bytes - before.bytes,
            transactions: self.transactions - before.transactions,
            inputs: self.inputs - before.inputs,
            scripts: self.scripts - before.scripts,
        }
    }
}

/// How a sync ended.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Height of the tip.
    pub height: u32,
    /// Hash of the tip.
    pub best_block: Hash,
    /// Coins in the UTXO set; unknown after an interrupted run that did not start from nothing.
    pub coins: Option<u64>,
    /// What this run worked through.
    pub counts: Counts,
    /// Wall clock time.
    pub elapsed: Duration,
    /// Time of all cores together.
    pub cpu: Duration,
    /// Most memory that the process ever had, in bytes; 0 where the system does not tell.
    pub peak_memory: u64,
    /// Whether it was asked to stop before its end.
    pub interrupted: bool,
    /// What an interrupted SwiftSync has on disk; nothing of it is in the UTXO set yet.
    pub saved: Option<SavedBlocks>,
    /// What was not checked of the blocks that this run worked through.
    pub checked: Checked,
    /// The active chain has stored blocks without undo data below this height, and none from it
    /// on; 1 if all have it.
    pub undo_from: u32,
    /// What was not taken, and why.
    pub refusals: Vec<Refusal>,
    /// Time that each stage took, summed over the threads in it.
    pub stages: BTreeMap<&'static str, Duration>,
}

/// Blocks of a SwiftSync that was interrupted, saved for the next run to carry on from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedBlocks {
    /// Blocks that are done.
    pub done: u32,
    /// Blocks up to the hints' height.
    pub total: u32,
}

/// A block, or a piece of a source, that was not taken.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The file that it came from.
    pub path: Option<PathBuf>,
    /// Where in that file.
    pub offset: Option<u64>,
    /// The block's hash, where it has one.
    pub block: Option<Hash>,
    /// Core's reject reason and more, or what is wrong with the file.
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
