//! The ways in which a SwiftSync fails, and the error that each becomes.

use std::path::PathBuf;

use apus_chain::BlockId;
use apus_coins::SnapshotError;
use apus_disk::StoreError;
use apus_node::block::step::{BlockFault, Step};
use apus_node::error::SyncError;
use apus_node::mend::stored_damage;
use apus_node::opened::Node;
use apus_node::outcome::Refusal;
use apus_node::sources::Place;
use apus_node::tables::TablesError;
use apus_rules::RuleError;
use apus_swiftsync::HintsError;

use super::directory::DIRECTORY;
use crate::claim::Claim;

/// Why a SwiftSync cannot go on.
pub enum Fault {
    /// The disk is to blame.
    Store(StoreError),
    /// The hints are to blame.
    Hints(HintsError),
    /// The snapshot is to blame.
    Snapshot(SnapshotError),
    /// The bytes at the step's place are not its block; another copy may be good.
    Damaged(Step, String),
    /// The block breaks a rule, or its undo data is wrong.
    Rule(Step, RuleError),
    /// No undo data was found for the block at this height, and maybe for others above it.
    NoUndo(u32, StoreError),
    /// The undo data of a block is damaged, or another block's.
    Undo {
        /// The block.
        id: BlockId,
        /// The rev file.
        path: PathBuf,
        /// What is wrong with its undo data.
        what: String,
    },
    /// The chain as a whole is to blame, or cannot be judged out of order.
    Chain(String),
    /// There is too little memory to begin.
    Memory(String),
    /// What was asked for cannot be done with what there is.
    Usage(String),
    /// All threads are to end, and one waited for a block.
    Stopped,
}

impl Fault {
    /// The fault of a block that could not be read and checked.
    pub fn of_block(step: Step, fault: BlockFault) -> Self {
        match fault {
            BlockFault::Store(error) => Self::Store(error),
            BlockFault::Damaged(what) => Self::Damaged(step, what),
            BlockFault::Rule(error) => Self::Rule(step, error),
            BlockFault::Stopped => Self::Stopped,
            BlockFault::Gone => Self::Usage("a block that no peer has".to_string()),
        }
    }

    /// Whether another branch that reaches the hints' height may succeed.
    pub fn is_of_branch(&self) -> bool {
        match self {
            Self::Store(_) | Self::Usage(_) | Self::Memory(_) | Self::Stopped => false,
            Self::Hints(_)
            | Self::Snapshot(_)
            | Self::Damaged(..)
            | Self::Rule(..)
            | Self::NoUndo(..)
            | Self::Undo { .. }
            | Self::Chain(_) => true,
        }
    }

    /// Whether a later run may carry on from what was saved, once the cause is gone.
    pub fn keeps_progress(&self, node: &Node) -> bool {
        match self {
            // Carrying on would end here again.
            Self::Store(_) => self.damage_to_saved(node).is_none(),
            Self::Memory(_) | Self::Stopped => true,
            _ => false,
        }
    }

    /// The error, if it is that what this or an earlier run has saved came back damaged.
    pub fn damage_to_saved(&self, node: &Node) -> Option<&StoreError> {
        let Self::Store(error) = self else { return None };
        let directory = node.dir.path().join(DIRECTORY);
        (error.source.is_none() && error.path.starts_with(directory)).then_some(error)
    }

    /// The error for the caller.
    pub fn into_error(self, node: &Node, claim: &Claim) -> SyncError {
        let block = |id: BlockId| Some(node.tree.node(id).hash);
        match self {
            Self::Store(error) | Self::NoUndo(_, error) => SyncError::Store(error),
            Self::Usage(what) => SyncError::Input(what),
            Self::Memory(what) => SyncError::Input(match node.options.claim_option() {
                Some(option) => format!("{what}, or sync without {option}"),
                None => what,
            }),
            Self::Stopped => SyncError::Input("a block that peers were to send is missing".into()),
            Self::Hints(error) => claim.of_hints(error),
            Self::Snapshot(error) => claim.of_snapshot(error),
            Self::Chain(what) => SyncError::Unproved(what),
            Self::Damaged(step, what) => match step.place {
                Place::Stored(pos) => stored_damage(node, step.id, pos, &what).into(),
                Place::Source(_) | Place::Peers => refused(node, step, what),
            },
            Self::Rule(step, error) => refused(node, step, error.to_string()),
            Self::Undo { id, path, what } => {
                let reason = format!("its undo data is wrong: {what}");
                SyncError::Refused(Refusal {
                    path: Some(path),
                    offset: None,
                    block: block(id),
                    reason,
                })
            }
        }
    }
}

impl From<TablesError> for Fault {
    fn from(error: TablesError) -> Self {
        match error {
            TablesError::Store(error) => Self::Store(error),
            TablesError::Snapshot(error) => Self::Snapshot(error),
            TablesError::Twice(outpoint) => Self::Chain(format!(
                "the output {outpoint} was created twice: only a sync in order can tell whether \
                 BIP30 allows it"
            )),
        }
    }
}

fn refused(node: &Node, step: Step, reason: String) -> SyncError {
    let height = node.tree.node(step.id).height;
    let mut refusal = apus_node::opened::refusal(node, &step, reason);
    if let Place::Stored(_) = step.place {
        refusal.reason = format!("at height {height}: {}", refusal.reason);
    }
    SyncError::Refused(refusal)
}
