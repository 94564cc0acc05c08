//! What is known at the end of a failed sync, for its error.

use apus_node::block::script_difference::ScriptDifference;
use apus_node::block::scripts::ScriptChecker;
use apus_node::context::Context;
use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_progress::outcome::Refusal;

use super::claim::Claim;
use super::loadtxoutset;

/// What is known when a sync fails that its error does not say.
pub struct Ending<'a> {
    /// The blocks that were refused.
    refusals: &'a [Refusal],
    /// The input about which the two engines disagree.
    difference: Option<&'a ScriptDifference>,
    /// The height of the snapshot that the blocks were to prove, if it is loaded.
    loaded: Option<u32>,
}

impl<'a> Ending<'a> {
    pub fn of_sync(node: &'a Node, claim: Option<&Claim>) -> Self {
        let loaded = claim.filter(|claim| loadtxoutset::is_loaded(node.ledger(), claim));
        Self {
            refusals: node.refusals(),
            loaded: loaded.and_then(|claim| claim.height(node.tree())),
            ..Self::of_reindex(node.shared().scripts)
        }
    }

    /// A reindex reads no block that is refused before it is connected, and proves no snapshot.
    pub fn of_reindex(scripts: &'a ScriptChecker) -> Self {
        Self { refusals: &[], difference: scripts.difference(), loaded: None }
    }

    pub fn explain(&self, error: SyncError) -> SyncError {
        self.contexts(&error).iter().fold(error, SyncError::with)
    }

    /// Returns what to say with `error`: of something that is missing, which block was refused, and
    /// that bitcoind can continue without Apus; of a refused block, that it has shown a fault in
    /// Apus.
    fn contexts(&self, error: &SyncError) -> Vec<Context> {
        let lacks_blocks = matches!(error, SyncError::Input(_));
        let mut contexts = Vec::new();
        if let [first, others @ ..] = self.refusals
            && (lacks_blocks || matches!(error, SyncError::Hints { .. }))
        {
            contexts.push(Context::BlocksRefused { first: first.clone(), others: others.len() });
        }
        if let Some(difference) = self.difference
            && matches!(error, SyncError::Refused(_))
        {
            contexts.push(Context::EnginesDiffer(difference.clone()));
        }
        if let Some(height) = self.loaded.filter(|_| lacks_blocks) {
            contexts.push(Context::SnapshotLoaded { height });
        }
        contexts
    }
}

#[cfg(test)]
mod tests {
    use apus_swiftsync::HintsError;

    use super::*;

    #[test]
    fn each_error_is_explained_by_what_may_be_its_cause() {
        let refusal = |reason: &str| Refusal {
            path: None,
            offset: None,
            block: None,
            reason: reason.to_string(),
        };
        let refusals = [refusal("bad-cb-amount"), refusal("bad-prevblk"), refusal("bad-prevblk")];
        let of_refusals = Ending { refusals: &refusals, difference: None, loaded: None };
        let refused = Context::BlocksRefused { first: refusals[0].clone(), others: 2 };
        let loaded = Context::SnapshotLoaded { height: 9 };
        let lacks = || SyncError::Input("a block is missing".to_string());
        let wrong = || SyncError::Hints { path: "h".into(), error: HintsError::new("a bit") };
        assert_eq!(of_refusals.contexts(&lacks()), vec![refused.clone()]);
        assert_eq!(of_refusals.contexts(&wrong()), vec![refused.clone()]);
        let of_all = Ending { loaded: Some(9), ..of_refusals };
        assert_eq!(of_all.contexts(&lacks()), [refused.clone(), loaded]);
        assert_eq!(of_all.contexts(&wrong()), [refused]);
        for other in [SyncError::Stopped, SyncError::Refused(refusal("bad-txnmrklroot"))] {
            assert_eq!(of_all.contexts(&other), []);
        }
        let explained = of_all.explain(lacks()).to_string();
        let start = "a block is missing. Refused: bad-cb-amount and 2 more. The snapshot is loaded";
        assert!(explained.starts_with(start), "{explained}");
    }
}
