//! The blocks that wait to be connected, and their bytes.

use super::assumevalid::Assumed;
use super::node::{Node, step};
use super::sources::Place;
use crate::chain::BlockId;
use crate::store::STORAGE_HEADER_BYTES;

/// Blocks of one branch that are to be connected, none of which is part of the active chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Waiting {
    /// Height of the first block.
    pub first: u32,
    /// The last block.
    pub target: BlockId,
    /// Height of the last block.
    pub last: u32,
    /// Bytes of all these blocks; an estimate for those that are stored.
    pub bytes: u64,
    /// The part of `bytes` whose scripts are checked.
    pub with_scripts: u64,
    /// The part of `bytes` that has no undo data yet.
    pub without_undo: u64,
    /// Bytes that are copied from sources to the block files, storage headers included.
    pub copied: u64,
}

impl Waiting {
    /// The blocks that the best valid chain, up to the height to stop at, has above the active
    /// chain; `None` if the active chain is to stay as it is.
    pub fn of(node: &Node) -> Option<Self> {
        let tip = node.tree.node(node.tip()).height;
        let stop_at = node.options.stop_at_height.unwrap_or(u32::MAX);
        let best = node.tree.best_candidate()?;
        let waits = node.tree.is_better(best, node.tip()) && tip < stop_at;
        Self::up_to(node, best, stop_at).filter(|_| waits)
    }

    /// The blocks above the active chain on the branch of `end`, up to `end` or to height `top`;
    /// `None` if there are none.
    pub fn up_to(node: &Node, end: BlockId, top: u32) -> Option<Self> {
        let fork = node.ledger.active.fork(&node.tree, end).unwrap_or(node.tree.genesis());
        let target = node.tree.ancestor(end, top.min(node.tree.node(end).height))?;
        let (first, last) = (node.tree.node(fork).height + 1, node.tree.node(target).height);
        (first <= last).then(|| Self::between(node, first, target))
    }

    /// The blocks from height `first` to `target`, its ancestor there included.
    pub fn between(node: &Node, first: u32, target: BlockId) -> Self {
        let assumed = Assumed::new(node.options.assumevalid, &node.tree);
        let (mut bytes, mut with_scripts, mut without_undo, mut copied) = (0, 0, 0, 0);
        // All ancestors of a covered block are covered.
        let mut is_covered = false;
        let branch = node.tree.ancestors(target);
        for id in branch.take_while(|id| node.tree.node(*id).height >= first) {
            let Some(step) = step(node, id) else { continue };
            bytes += step.weight;
            is_covered = is_covered || assumed.covers(&node.tree, id);
            with_scripts += if is_covered { 0 } else { step.weight };
            without_undo += if node.record(id).undo_pos().is_none() { step.weight } else { 0 };
            if !matches!(step.place, Place::Stored(_)) {
                copied += step.weight + u64::from(STORAGE_HEADER_BYTES);
            }
        }
        let last = node.tree.node(target).height;
        Self { first, target, last, bytes, with_scripts, without_undo, copied }
    }
}
