//! Proves a claim by SwiftSync's sums, and finds the coins that it is wrong about.

use std::time::Instant;

use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::opened::Node;
use apus_progress::Watch;
use apus_sync::claim::Claim;
use apus_sync::run::summary;
use apus_sync::summary::Summary;
use apus_sync::swift::attempt::verify;
use apus_sync::swift::fault::into_error;
use apus_sync::swift::find_differences::find_differences;
use apus_sync::swift::plan::SwiftPlan;
use apus_sync::swift::tally::Tally;

/// A claim to be proved, when the proof began, and who observes it.
#[derive(Clone, Copy)]
pub(super) struct Proof<'a> {
    pub claim: &'a Claim,
    pub started: Instant,
    pub watch: Watch<'a>,
}

/// Why the sums do not prove a claim.
pub(super) struct Unproved {
    pub error: SyncError,
    /// Whether the blocks may be wrong and not the claim: if they issue too much or spend coins
    /// that do not exist, the sums disprove every claim, though no coin of this one is wrong.
    pub may_be_blocks: bool,
    /// The height of a block that has no undo data in the directory, and none or damaged undo data
    /// in the sources; or whose undo data lacks heights.
    pub lacks_undo: Option<u32>,
}

impl Proof<'_> {
    /// Proves that the claim is what the blocks of the plan leave unspent.
    pub fn sums(&self, node: &mut Node, plan: &SwiftPlan) -> Result<Tally, Unproved> {
        let Self { claim, watch, .. } = *self;
        let fault = match verify(node, claim, plan, watch) {
            Ok(tally) => return Ok(tally),
            Err(fault) => fault,
        };
        let is_of_claim = matches!(fault, Fault::Hints(_) | Fault::Snapshot(_));
        let may_be_blocks = matches!(fault, Fault::Chain(_));
        let lacks_undo = match fault {
            Fault::Undo { id, .. } if node.record(id).undo_pos().is_none() => {
                Some(node.tree().node(id).height)
            }
            Fault::NoUndo(height, _) => Some(height),
            _ => None,
        };
        let error = into_error(fault, node, claim);
        if !is_of_claim {
            return Err(Unproved { error, may_be_blocks, lacks_undo });
        }
        // If the claim is too damaged for its coins to be compared, `error` names the damage
        // already.
        let found =
            find_differences(&node.shared(), node.options(), claim, plan, watch).ok().flatten();
        let is_none = found.as_ref().is_some_and(|found| found.coins.is_empty() && !found.are_more);
        let differences = found.unwrap_or_default();
        let error = SyncError::Differs { error: Box::new(error), differences };
        Err(Unproved { error, may_be_blocks: is_none, lacks_undo })
    }

    pub fn interrupted(&self, node: &mut Node) -> Summary {
        Summary { coins: None, ..summary(node, self.started, true) }
    }
}
