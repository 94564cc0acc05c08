//! The consequences of a fault of a SwiftSync, and its error.

use apus_disk::StoreError;
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::opened::Node;
use apus_store::DataDir;

use super::directory::DIRECTORY;
use crate::claim::Claim;

/// Returns whether another branch may succeed that reaches the height of the claim.
pub fn is_of_branch(fault: &Fault) -> bool {
    match fault {
        Fault::Stopped
        | Fault::Store(_)
        | Fault::Full(_)
        | Fault::Gone(_)
        | Fault::Memory(_)
        | Fault::Usage(_) => false,
        Fault::Damaged(..)
        | Fault::Rule(..)
        | Fault::Unjudged(_)
        | Fault::Chain(_)
        | Fault::NoUndo(..)
        | Fault::Undo { .. }
        | Fault::Hints(_)
        | Fault::Snapshot(_) => true,
    }
}

/// Returns whether a later run may continue from the saved work, once the cause is gone.
pub fn keeps_progress(fault: &Fault, dir: &DataDir) -> bool {
    match fault {
        // A later run would find the same damage.
        Fault::Store(_) => damage_to_saved(fault, dir).is_none(),
        Fault::Memory(_) | Fault::Stopped => true,
        _ => false,
    }
}

/// Returns the error if it says that saved work, or a temporary file, was read back damaged.
pub fn damage_to_saved<'f>(fault: &'f Fault, dir: &DataDir) -> Option<&'f StoreError> {
    let Fault::Store(error) = fault else { return None };
    let directory = dir.path().join(DIRECTORY);
    (error.source.is_none() && error.path.starts_with(directory)).then_some(error)
}

/// Converts the fault to the error that callers see.
pub fn into_error(fault: Fault, node: &Node, claim: &Claim) -> SyncError {
    match fault {
        Fault::Hints(error) => claim.of_hints(error),
        Fault::Snapshot(error) => claim.of_snapshot(error),
        Fault::Memory(what) => SyncError::Input(match node.options().swiftsync.claim_option() {
            Some(option) => format!("{what}, or sync without {option}"),
            None => what,
        }),
        fault => fault.into_error(node),
    }
}
