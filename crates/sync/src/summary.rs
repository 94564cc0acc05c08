//! The summary of a sync: how it ended, and what it did.

use std::collections::BTreeMap;
use std::time::Duration;

use apus_hash::Hash;
use apus_node::block::script_difference::ScriptDifference;
use apus_node::checked::Checked;
use apus_peers::PeerReport;
use apus_progress::clock::Waits;
use apus_progress::estimate::estimator::Ran;
use apus_progress::outcome::{Counts, Pruned, Refusal, ScriptCounts, ThreadStates};

use super::above_tip::AboveTip;
use super::method::ChosenMethod;
use super::saved_work::SavedSync;

/// The summary of a sync.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Height of the tip.
    pub height: u32,
    /// Hash of the tip.
    pub best_block: Hash,
    /// Number of coins in the UTXO set; `None` if they would have to be counted.
    pub coins: Option<u64>,
    /// The method that was chosen for the blocks, and why; `None` if the run was interrupted before
    /// that, or was not to connect blocks.
    pub chosen: Option<ChosenMethod>,
    /// The blocks between the tip and the best header; `None` for a run that was not to connect
    /// blocks.
    pub above_tip: Option<AboveTip>,
    /// Number of blocks that this run has disconnected.
    pub disconnected: u64,
    /// Bytes that joins have written to temporary files; `None` if there was no join.
    pub spilled_bytes: Option<u64>,
    /// The work that this run did.
    pub counts: Counts,
    /// Number of inputs whose scripts each engine has checked.
    pub scripts: ScriptCounts,
    /// An input about which Apus and Core's engine disagree. Since it was found, only that engine
    /// checks scripts in this directory.
    pub script_difference: Option<ScriptDifference>,
    /// Wall clock time.
    pub elapsed: Duration,
    /// Processor time, summed over all cores.
    pub cpu: Duration,
    /// Peak memory of the process, in bytes; 0 if the system does not report it.
    pub peak_memory: u64,
    /// Whether the run was asked to stop before the end.
    pub interrupted: bool,
    /// What an interrupted SwiftSync or join has saved.
    pub saved: Option<SavedSync>,
    /// The rules that were not checked for the blocks of this run.
    pub checked: Checked,
    /// The lowest height from which every stored block of the active chain has undo data; 1 if all
    /// have.
    pub undo_from: u32,
    /// Blocks, and pieces of sources, that were refused.
    pub refusals: Vec<Refusal>,
    /// Damaged copies of stored blocks that were replaced.
    pub repaired: Vec<Refusal>,
    /// Time that each stage took, summed over its threads.
    pub stages: BTreeMap<&'static str, Duration>,
    /// What the thread that connects blocks in order has waited for.
    pub waits: Waits,
    /// The time in which at least one thread waited for a block from a peer.
    pub waited_for_peers: Duration,
    /// The time that was expected, and what held the run up.
    pub ran: Ran,
    /// How often threads were seen working, and waiting for the disk, while blocks were connected.
    pub states: ThreadStates,
    /// The blocks that pruning has deleted; `None` if nothing is pruned and nothing will be.
    pub pruned: Option<Pruned>,
    /// The blocks that each peer has sent; empty for a run without peers.
    pub peers: Vec<PeerReport>,
}

impl Summary {
    /// Returns whether no block is connected, in this run or before, since blocks were refused.
    pub fn connects_nothing(&self) -> bool {
        let is_idle = self.counts.blocks == 0 && self.saved.is_none();
        self.height == 0 && is_idle && !self.refusals.is_empty()
    }

    /// Returns the summary of this run and later ones: method and spilled bytes of this run,
    /// refusals and repairs of all, and everything else as it is `now`.
    pub fn continued(self, now: Self) -> Self {
        let refusals = [self.refusals, now.refusals].concat();
        let repaired = [self.repaired, now.repaired].concat();
        let Self { chosen, spilled_bytes, .. } = self;
        Self { chosen, spilled_bytes, refusals, repaired, ..now }
    }
}
