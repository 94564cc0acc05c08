//! The blocks between the tip and the best header: which can be connected, and which are missing.

use apus_chain::BlockId;
use apus_node::opened::{Node, step};
use apus_node::sources::BlockOrigin;

/// The blocks above the tip on the branch of the best header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AboveTip {
    /// Height of the best header or, if it is lower, the height to stop at.
    pub headers: u32,
    /// Number of blocks, from the one after the tip on without a gap, that can be connected.
    pub waiting: u32,
    /// Number of blocks up to [`AboveTip::headers`] of which only the header is known here.
    pub missing: u32,
    /// Height of the lowest missing block; `None` if no block is missing.
    pub first_missing: Option<u32>,
}

/// Counts the blocks between the tip and the best header of `node`.
pub fn above_tip(node: &Node) -> AboveTip {
    let best = node.tree().best_header();
    let tip = node.tip();
    let top = node.options().stop_at_height.unwrap_or(u32::MAX);
    let headers = node.tree().node(best).height.min(top);
    let mut above = AboveTip { headers, ..AboveTip::default() };
    if node.tree().node(best).work <= node.tree().node(tip).work {
        return above;
    }
    let end = node.tree().ancestor(best, headers).unwrap_or(best);
    let is_above = |id: &BlockId| !node.ledger().active.contains(node.tree(), *id);
    for id in node.tree().ancestors(end).take_while(is_above) {
        // Blocks that only peers have count as missing.
        if step(node, id).is_some_and(|step| !matches!(step.place, BlockOrigin::Peers)) {
            above.waiting += 1;
        } else {
            above.missing += 1;
            above.first_missing = Some(node.tree().node(id).height);
            above.waiting = 0;
        }
    }
    above
}
