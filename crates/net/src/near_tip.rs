//! The blocks that are wanted near the tip: those of every branch that a peer has and that has more
//! work than the tip. Above a limit, a pipeline claims and downloads them.

use std::collections::HashSet;
use std::ops::Range;

use apus_chain::{BlockId, Tree};

use super::peer::Has;

/// The most branches that are wanted at once, and blocks of each: what is beyond follows when these
/// blocks are here.
const BRANCHES_MAX: usize = 64;
const BLOCKS_MAX: usize = 288;
/// If a peer's chain continues the tip by more blocks than this, a pipeline downloads all but the
/// last [`NEAR_BLOCKS`].
const BULK_BLOCKS: u32 = 2 * NEAR_BLOCKS;
/// Blocks less than this far below the best header are near it: a reorganisation may still replace
/// them, and there may be a branch of them that no peer has.
pub const NEAR_BLOCKS: u32 = 144;

/// Blocks in lanes: each lane is a range of the blocks, and the part of a branch that no lane
/// before has.
#[derive(Default)]
pub struct Branches {
    /// The blocks, each once; those of a lane in order of height.
    pub blocks: Vec<BlockId>,
    /// A lane for each branch, the one with the most work first, those of outbound peers before
    /// blocks that only inbound peers have.
    pub lanes: Vec<Range<usize>>,
}

impl Branches {
    /// Returns the blocks up to height `top` that are not available in `tree`, of the branches of
    /// these peers.
    pub fn above(tree: &Tree, tip: BlockId, having: &[Has], top: u32) -> Self {
        let work = tree.node(tip).work;
        let is_better = |has: &Has| {
            let best = tree.node(has.best);
            best.work > work && !best.failed
        };
        let mut ends: Vec<Has> = having.iter().copied().filter(is_better).collect();
        ends.sort_by_key(|has| {
            (has.is_inbound, std::cmp::Reverse(tree.node(has.best).work), has.best)
        });
        ends.dedup_by_key(|has| has.best);
        let mut wanted = Self::default();
        let mut seen = HashSet::<BlockId>::new();
        for has in ends {
            let is_new = |id: &BlockId| !tree.is_linked(*id) && !seen.contains(id);
            let branch = tree.ancestors(has.best).take_while(is_new);
            let is_missing = |id: &BlockId| !tree.is_available(*id) && tree.height(*id) <= top;
            let mut branch: Vec<BlockId> = branch.filter(is_missing).collect();
            branch.reverse();
            branch.truncate(BLOCKS_MAX);
            if !branch.is_empty() && wanted.lanes.len() < BRANCHES_MAX {
                let first = wanted.blocks.len();
                seen.extend(&branch);
                wanted.blocks.append(&mut branch);
                wanted.lanes.push(first..wanted.blocks.len());
            }
        }
        wanted
    }
}

/// The inputs of [`Branches`].
#[derive(PartialEq, Eq)]
pub struct BranchesFrom {
    /// The version of the tree.
    pub tree: u64,
    /// The last block of the active chain.
    pub tip: BlockId,
    /// The height up to which blocks are wanted.
    pub top: u32,
    /// The blocks that each peer has.
    pub having: Vec<Has>,
}

/// Returns the first block that is missing of a branch with more work than the tip.
#[cfg(test)]
pub(super) fn first_missing(tree: &Tree, from: &BranchesFrom, has: Has) -> Option<BlockId> {
    let best = tree.node(has.best);
    let branch = tree.ancestors(has.best).take_while(|id| !tree.is_linked(*id));
    let is_missing = |id: &BlockId| !tree.is_available(*id) && tree.height(*id) <= from.top;
    let is_better = best.work > tree.node(from.tip).work && !best.failed;
    branch.filter(is_missing).last().filter(|_| is_better)
}

/// Marks blocks that peers have as available, so that a pipeline downloads them while no header is
/// taken, and returns them. They continue the tip: nothing is disconnected for a block that is not
/// here. The first pipeline of a run downloads all, a later one only many at once.
///
/// What inbound peers have counts only if no outbound peer can send the next block of a better
/// chain: an inbound peer must not delay an outbound one.
pub fn claim(tree: &mut Tree, tip: BlockId, having: &[Has], is_first: bool) -> Vec<BlockId> {
    let is_led = having.iter().any(|has| !has.is_inbound && can_lead(tree, tip, *has));
    let height = tree.height(tip);
    let mut claimed = Vec::new();
    for has in having.iter().filter(|has| !(is_led && has.is_inbound)) {
        let top = if is_first { u32::MAX } else { bulk_top(tree, tip, *has) };
        if tree.ancestor(has.best, height) != Some(tip) || top <= height {
            continue;
        }
        let branch = tree.ancestors(has.best).take_while(|id| !tree.is_linked(*id));
        let is_new =
            |id: &BlockId| tree.height(*id) <= top && !tree.is_available(*id) && has.has(tree, *id);
        let new: Vec<BlockId> = branch.filter(is_new).collect();
        new.iter().rev().for_each(|id| tree.mark_available(*id));
        claimed.extend(new);
    }
    claimed
}

/// Returns whether a peer's chain is better than the active one, and its next block not too deep
/// for the peer.
fn can_lead(tree: &Tree, tip: BlockId, has: Has) -> bool {
    let best = tree.node(has.best);
    let fork = tree.fork(has.best, tip).map_or(0, |fork| tree.height(fork));
    let next = tree.ancestor(has.best, fork + 1);
    best.work > tree.node(tip).work && !best.failed && next.is_some_and(|next| has.has(tree, next))
}

/// Returns the height up to which a pipeline downloads the chain of a peer above `tip`; the tip's
/// own if the chain has few more blocks, forks below the tip, or has shown only headers so far:
/// until the next block is available, headers alone could hold up all other branches.
pub(super) fn bulk_top(tree: &Tree, tip: BlockId, has: Has) -> u32 {
    let best = tree.node(has.best);
    let tip_height = tree.height(tip);
    let continues = tree.ancestor(has.best, tip_height) == Some(tip);
    let next = tree.ancestor(has.best, tip_height + 1).filter(|_| continues);
    let is_far = !best.failed && !has.is_limited && best.height > tip_height + BULK_BLOCKS;
    if is_far && next.is_some_and(|next| tree.is_available(next)) {
        best.height - NEAR_BLOCKS
    } else {
        tip_height
    }
}
