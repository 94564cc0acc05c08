//! The blocks that wait to be connected, their bytes, and what they leave on the disk.

use std::iter::repeat_n;

use super::shared::Shared;
use apus_chain::BlockId;
use apus_store::STORAGE_HEADER_BYTES;
use apus_wire::BlockView;
use rayon::prelude::*;

use super::assumevalid::Assumed;
use super::block::step::Step;
use super::growth::{Growth, Sample};
use super::opened::{Node, step};
use super::sources::{BlockBytes, BlockOrigin};

/// About how many blocks are read to estimate what all of them leave on the disk. It takes a hard
/// disk a second or two, and more of them would tell little more.
const SAMPLES: u64 = 64;

/// Blocks of one branch that are to be connected, none of which is part of the active chain.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Waiting {
    /// Height of the first block.
    pub first: u32,
    /// The last block.
    pub target: BlockId,
    /// Height of the last block.
    pub last: u32,
    /// Bytes of all these blocks; an estimate for blocks that only peers have.
    pub bytes: u64,
    /// The part of `bytes` whose scripts are checked.
    pub with_scripts: u64,
    /// The part of `bytes` that has no undo data yet.
    pub without_undo: u64,
    /// Bytes that are copied from sources or downloaded from peers to the block files, storage
    /// headers included.
    pub copied: u64,
    /// The part of `copied` that peers have; an estimate.
    pub from_peers: u64,
}

impl Waiting {
    /// Returns the blocks of the best valid chain, up to the height to stop at, above the active
    /// chain; `None` if the active chain is to stay as it is.
    pub fn of(node: &Node) -> Option<Self> {
        let tip = node.tree().node(node.tip()).height;
        let stop_at = node.options().stop_at_height.unwrap_or(u32::MAX);
        let best = node.tree().best_candidate()?;
        let waits = node.tree().is_better(best, node.tip()) && tip < stop_at;
        Self::up_to(node, best, stop_at).filter(|_| waits)
    }

    /// Returns the blocks above the active chain on the branch of `end`, up to `end` or to height
    /// `top`; `None` if there are none.
    pub fn up_to(node: &Node, end: BlockId, top: u32) -> Option<Self> {
        let fork = node.ledger().active.fork(node.tree(), end).unwrap_or(node.tree().genesis());
        let target = node.tree().ancestor(end, top.min(node.tree().node(end).height))?;
        let first = node.tree().node(fork).height + 1;
        let last = node.tree().node(target).height;
        (first <= last).then(|| Self::between(node, first, target))
    }

    /// Returns the blocks from height `first` to `target` on the branch of `target`.
    pub fn between(node: &Node, first: u32, target: BlockId) -> Self {
        let assumed = Assumed::new(node.options().assumevalid, node.tree());
        let mut bytes = 0;
        let mut with_scripts = 0;
        let mut without_undo = 0;
        let mut copied = 0;
        let mut from_peers = 0;
        // All ancestors of a covered block are covered.
        let mut is_covered = false;
        let branch = node.tree().ancestors(target);
        for id in branch.take_while(|id| node.tree().node(*id).height >= first) {
            let Some(step) = step(node, id) else { continue };
            bytes += step.weight;
            is_covered = is_covered || assumed.covers(node.tree(), id);
            with_scripts += if is_covered { 0 } else { step.weight };
            without_undo += if node.record(id).undo_pos().is_none() { step.weight } else { 0 };
            let record = step.weight + u64::from(STORAGE_HEADER_BYTES);
            copied += if matches!(step.place, BlockOrigin::Stored(_)) { 0 } else { record };
            from_peers += if step.place == BlockOrigin::Peers { record } else { 0 };
        }
        let last = node.tree().node(target).height;
        Self { first, target, last, bytes, with_scripts, without_undo, copied, from_peers }
    }

    /// Returns the blocks that can be read without peers, the last one first.
    fn readable(self, node: &Node) -> impl Iterator<Item = Step> {
        let branch = node.tree().ancestors(self.target);
        let branch = branch.take_while(move |id| node.tree().node(*id).height >= self.first);
        branch.filter_map(|id| step(node, id)).filter(|step| step.place != BlockOrigin::Peers)
    }
}

/// Estimates what the blocks that wait leave on the disk, from samples at equal distances in bytes.
/// A block that cannot be read or parsed is left out; connecting it will report
/// that.
pub fn learn_from_samples(node: &mut Node) {
    let Some(waiting) = Waiting::of(node) else { return };
    let bytes: u64 = waiting.readable(node).map(|step| step.weight).sum();
    let every = (bytes / SAMPLES).max(1);
    let mut before = 0;
    let mut sampled = Vec::new();
    for step in waiting.readable(node) {
        let marks = (before + step.weight) / every - before / every;
        before += step.weight;
        if marks > 0 {
            sampled.push((step, marks as usize));
        }
    }
    let shared = node.shared();
    let sample = |&(step, marks): &(Step, usize)| {
        let height = shared.tree.node(step.id).height;
        repeat_n(view(&shared, &step).map(|view| Sample::of(&view, height)), marks).flatten()
    };
    let samples: Vec<_> =
        shared.pool.install(|| sampled.par_iter().flat_map_iter(sample).collect());
    node.forecast_mut().growth = Growth::of(&samples);
}

fn view(shared: &Shared, step: &Step) -> Option<BlockView<BlockBytes>> {
    let bytes = match step.place {
        BlockOrigin::Stored(pos) => shared.files.read_block(pos).ok()?,
        BlockOrigin::Source(place) => shared.sources.read(place).ok()?,
        BlockOrigin::Peers => return None,
    };
    BlockView::parse(bytes).ok()
}
