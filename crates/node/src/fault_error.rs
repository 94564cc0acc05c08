//! The error that a fault becomes, for the caller of a sync or of another command.

use super::block::step::Step;
use super::error::SyncError;
use super::fault::Fault;
use super::mend::stored_damage;
use super::opened::{Node, refusal};
use super::shared::Shared;
use super::sources::BlockOrigin;
use apus_progress::outcome::Refusal;

impl Fault {
    /// The error for the caller of a sync or of another command.
    pub fn into_error(self, node: &Node) -> SyncError {
        match self {
            Self::Stopped => SyncError::Stopped,
            Self::Store(error) | Self::Full(error) | Self::NoUndo(_, error) => error.into(),
            Self::Damaged(Step { id, place: BlockOrigin::Stored(pos), .. }, what) => {
                stored_damage(node, id, pos, &what).into()
            }
            Self::Damaged(step, what) => refused(&node.shared(), step, what),
            Self::Gone(step) => refused(&node.shared(), step, "no peer has this block".to_string()),
            Self::Rule(step, error) => refused(&node.shared(), step, error.to_string()),
            Self::Unjudged(height) => {
                SyncError::Unproved(format!("only a sync in order can judge block {height}"))
            }
            Self::Chain(what) => SyncError::Unproved(what),
            Self::Undo { id, path, what } => {
                let reason = format!("its undo data is wrong: {what}");
                let block = Some(node.tree().node(id).hash);
                SyncError::Refused(Refusal { path: Some(path), offset: None, block, reason })
            }
            Self::Hints(error) => SyncError::Unproved(error.to_string()),
            Self::Snapshot(error) => SyncError::Unproved(error.to_string()),
            Self::Memory(what) | Self::Usage(what) => SyncError::Input(what),
        }
    }
}

/// The error for a block that is not taken from the place of its step.
fn refused(shared: &Shared, step: Step, reason: String) -> SyncError {
    let mut refusal = refusal(shared, &step, reason);
    if let BlockOrigin::Stored(_) = step.place {
        let height = shared.tree.node(step.id).height;
        refusal.reason = format!("at height {height}: {}", refusal.reason);
    }
    SyncError::Refused(refusal)
}
