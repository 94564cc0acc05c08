//! How a sync ended, and what it worked through.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secp_lanes::Kernel;

use super::checked::Checked;
use super::clock::{Waits, words_of};
use super::options::Method;
use super::peers::PeerReport;
use crate::hash::Hash;
use crate::sync::block::difference::ScriptDifference;

/// How an activation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Activated {
    /// The best valid chain (up to the height asked for) is active.
    Best,
    /// Somebody asked to stop.
    Stopped,
}

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
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            bytes: self.bytes + other.bytes,
            transactions: self.transactions + other.transactions,
            inputs: self.inputs + other.inputs,
            scripts: self.scripts + other.scripts,
        }
    }

    /// The work done since `before` was taken; some of that may have been dropped since.
    pub(super) fn since(self, before: Self) -> Self {
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

/// How a sync ended.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Height of the tip.
    pub height: u32,
    /// Hash of the tip.
    pub best_block: Hash,
    /// Coins in the UTXO set; `None` if the number is not known without counting them.
    pub coins: Option<u64>,
    /// The way in which the blocks were synced, and why; `None` if none was chosen, since the run
    /// was interrupted before that or connects no blocks.
    pub chosen: Option<ChosenMethod>,
    /// The blocks between the tip and the best header; `None` if the run was to connect none.
    pub above_tip: Option<AboveTip>,
    /// Number of blocks that were disconnected.
    pub disconnected: u64,
    /// Bytes that a join wrote to its temporary files; `None` if there was no join.
    pub spilled_bytes: Option<u64>,
    /// The work that this run did.
    pub counts: Counts,
    /// Who has checked scripts, and how many.
    pub scripts: ScriptCounts,
    /// An input about which Apus and Core's engine disagree, because of which that engine alone
    /// checks scripts in this directory.
    pub script_difference: Option<ScriptDifference>,
    /// Wall clock time.
    pub elapsed: Duration,
    /// Processor time, summed over all cores.
    pub cpu: Duration,
    /// The most memory that the process ever had, in bytes; 0 where the system does not say.
    pub peak_memory: u64,
    /// Whether somebody asked to stop before the end.
    pub interrupted: bool,
    /// The blocks of an interrupted SwiftSync that are saved; none of them is in the UTXO set yet.
    pub saved: Option<SavedBlocks>,
    /// How far an interrupted join is; none of its coins is in the UTXO set yet.
    pub saved_join: Option<SavedJoin>,
    /// The rules that were not checked of the blocks that this run worked through.
    pub checked: Checked,
    /// The lowest height such that every stored block of the active chain from there on has undo
    /// data; 1 if all have it.
    pub undo_from: u32,
    /// Blocks, and pieces of sources, that were not taken.
    pub refusals: Vec<Refusal>,
    /// Stored copies of blocks that were damaged and are replaced.
    pub repaired: Vec<Refusal>,
    /// Time that each stage took, summed over its threads.
    pub stages: BTreeMap<&'static str, Duration>,
    /// What the thread that connects blocks in order waited for.
    pub waits: Waits,
    /// What all threads were seen at while blocks were connected.
    pub states: ThreadStates,
    /// What is pruned; `None` if nothing was, and nothing is to be.
    pub pruned: Option<Pruned>,
    /// What each peer gave; empty if there were to be none.
    pub peers: Vec<PeerReport>,
}

impl Summary {
    /// What the run would have to do faster to end earlier; `None` if there is too little to tell
    /// by.
    pub fn bottleneck(&self) -> Option<&'static str> {
        let Waits { connecting, blocks, peers, checks, commits, .. } = self.waits;
        if connecting * 2 < self.elapsed {
            let all: Vec<&str> = self.stages.keys().copied().collect();
            return self.longest_stage(&all);
        }
        let workers = blocks + checks;
        let own = connecting.saturating_sub(workers + peers + commits);
        match workers.max(peers).max(commits).max(own) {
            longest if longest.is_zero() => None,
            longest if longest == workers => {
                self.longest_stage(&["read", "check", "look_up", "validate"])
            }
            longest if longest == peers => {
                Some("peers: blocks come slower than they are connected")
            }
            longest if longest == commits => Some("writing coins"),
            _ => Some("taking and adding coins, which one thread does"),
        }
    }

    /// The stage of these that took most time, in words.
    fn longest_stage(&self, names: &[&str]) -> Option<&'static str> {
        let time = |name: &&&str| self.stages.get(**name).copied().unwrap_or_default();
        let longest = names.iter().max_by_key(time).filter(|name| !time(name).is_zero())?;
        words_of(longest)
    }
}

/// The blocks above the tip on the branch of the best header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AboveTip {
    /// Height of the best header or, if it is lower, the height to stop at.
    pub headers: u32,
    /// Number of blocks next to the tip that can be connected and are not yet.
    pub waiting: u32,
    /// Number of blocks up to [`AboveTip::headers`] of which the header alone is known.
    pub missing: u32,
    /// Height of the lowest of these; `None` if no block is missing.
    pub first_missing: Option<u32>,
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

/// The way in which blocks are synced, and the reason for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChosenMethod {
    /// The way; never [`Method::Auto`].
    pub method: Method,
    /// The reason, as a clause.
    pub why: String,
}

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
