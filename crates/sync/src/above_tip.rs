//! The blocks between the tip and the best header: those that can be connected, and those that are
//! missing.

use apus_chain::BlockId;
use apus_node::opened::{Node, step};
use apus_node::sources::Place;

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

/// The blocks between the tip and the best header of `node`.
pub fn above_tip(node: &Node) -> AboveTip {
    let (best, tip) = (node.tree.best_header(), node.tip());
    let top = node.options.stop_at_height.unwrap_or(u32::MAX);
    let headers = node.tree.node(best).height.min(top);
    let mut above = AboveTip { headers, ..AboveTip::default() };
    if node.tree.node(best).work <= node.tree.node(tip).work {
        return above;
    }
    let end = node.tree.ancestor(best, headers).unwrap_or(best);
    let is_above = |id: &BlockId| !node.ledger.active.contains(&node.tree, *id);
    for id in node.tree.ancestors(end).take_while(is_above) {
        // What only peers have is not stored yet.
        if step(node, id).is_some_and(|step| !matches!(step.place, Place::Peers)) {
            above.waiting += 1;
        } else {
            above.missing += 1;
            above.first_missing = Some(node.tree.node(id).height);
            above.waiting = 0;
        }
    }
    above
}
