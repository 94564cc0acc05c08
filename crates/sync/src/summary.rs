//! How a sync ended.

use std::collections::BTreeMap;
use std::time::Duration;

use apus_hash::Hash;
use apus_node::block::script_difference::ScriptDifference;
use apus_node::checked::Checked;
use apus_node::clock::{Waits, words_of};
use apus_node::outcome::{Counts, Pruned, Refusal, ScriptCounts, ThreadStates};
use apus_peers::PeerReport;

use super::above_tip::AboveTip;
use super::method::ChosenMethod;
use super::saved_work::{SavedBlocks, SavedJoin};

/// How a sync ended.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Height of the tip.
    pub height: u32,
    /// Hash of the tip.
    pub best_block: Hash,
    /// Coins in the UTXO set; `None` if the number is not known without counting them.
    pub coins: Option<u64>,
    /// The method by which the blocks were synced, and why; `None` if none was chosen, since the
    /// run was interrupted before that or connects no blocks.
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
