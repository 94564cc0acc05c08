//! The blocks of a join, and what is known about them before the first is read.

use apus_chain::{ActiveChain, BlockId, Tree};
use apus_consensus::{Bip30Check, bip30_check, is_bip30_repeat};
use apus_join::BlockKind;
use apus_node::assumevalid::Assumed;
use apus_node::block::step::Step;
use apus_node::block::validate::BranchTimes;
use apus_node::opened::{Node, step};

/// The blocks of a join, from the one after the chainstate's best block on.
pub struct JoinPlan {
    /// Height of the first block.
    pub first_height: u32,
    /// In order of height.
    pub steps: Vec<Step>,
    /// The chain that ends in the last block.
    pub chain: ActiveChain,
    /// Its median times past.
    pub times: BranchTimes,
    /// The blocks whose scripts are assumed valid.
    pub assumed: Assumed,
    /// Whether blocks, undo data and saved work are written.
    pub keeps: bool,
    /// For each step, what its block may do to a transaction that exists already.
    kinds: Vec<BlockKind>,
}

impl JoinPlan {
    /// Creates the plan for the blocks after the tip up to its descendant `target`. The plan ends
    /// below the first block that is not available.
    pub fn new(node: &Node, target: BlockId) -> Self {
        let first_height = node.tree().node(node.tip()).height + 1;
        let whole = ActiveChain::to(node.tree(), target);
        let ids = (first_height..=node.tree().node(target).height).map_while(|h| whole.at(h));
        let steps: Vec<Step> = ids.map_while(|id| step(node, id)).collect();
        let assumed = Assumed::new(node.options().assumevalid, node.tree());
        let keeps = node.ledger().writes.blocks;
        Self { keeps, ..Self::of_steps(node.tree(), &whole, first_height, steps, assumed) }
    }

    /// Creates the plan for the blocks of `steps`, the first of which is at `first_height` of the
    /// chain `whole`. Nothing is written.
    pub fn of_steps(
        tree: &Tree,
        whole: &ActiveChain,
        first_height: u32,
        steps: Vec<Step>,
        assumed: Assumed,
    ) -> Self {
        let below = whole.at(first_height - 1).unwrap_or(tree.genesis());
        let top = steps.last().map_or(below, |step| step.id);
        let network = tree.network();
        let bip34 = whole.at(network.bip34_height).map(|id| tree.node(id).hash);
        let bip34_matches = bip34 == Some(network.bip34_hash);
        let kinds = steps.iter().map(|step| kind(tree, step.id, bip34_matches)).collect();
        Self {
            first_height,
            steps,
            times: BranchTimes::of(tree, top),
            chain: ActiveChain::to(tree, top),
            assumed,
            keeps: false,
            kinds,
        }
    }

    /// Returns the height of the block at `index` of the steps.
    pub fn height(&self, index: usize) -> u32 {
        self.first_height + index as u32
    }

    /// Returns the index of the block at `height` among the steps.
    pub fn index(&self, height: u32) -> usize {
        (height - self.first_height) as usize
    }

    /// Returns the number of blocks that are assumed valid, from the first on.
    pub fn assumed_blocks(&self, tree: &Tree) -> usize {
        self.steps.partition_point(|step| self.assumed.covers(tree, step.id))
    }

    /// Returns what the block at `height` may do to a transaction that exists already.
    pub fn kind(&self, height: u32) -> BlockKind {
        height
            .checked_sub(self.first_height)
            .and_then(|index| self.kinds.get(index as usize))
            .map_or(BlockKind::Once, |kind| *kind)
    }

    /// Returns the height after that of the last block.
    pub fn end_height(&self) -> u32 {
        self.height(self.steps.len())
    }

    /// Returns the height of a step's block; `None` if the plan does not have it.
    pub fn height_of(&self, step: Step) -> Option<u32> {
        let index = self.steps.iter().position(|known| known.id == step.id)?;
        Some(self.height(index))
    }

    /// Looks up again where each block is, after some were stored or lost. Returns the height of
    /// the first block that is no longer available.
    pub fn find_places_again(&mut self, node: &Node) -> Option<u32> {
        for (index, known) in self.steps.iter_mut().enumerate() {
            match step(node, known.id) {
                Some(found) => known.place = found.place,
                None => return Some(self.first_height + index as u32),
            }
        }
        None
    }

    /// Ends the plan below the block at `height`.
    pub fn end_below(&mut self, tree: &Tree, height: u32) {
        self.steps.truncate(self.index(height.max(self.first_height)));
        let top = self.chain.at(self.end_height() - 1).unwrap_or(tree.genesis());
        self.chain = ActiveChain::to(tree, top);
    }
}

/// Returns what the block may do to a transaction that exists already (BIP30).
fn kind(tree: &Tree, id: BlockId, bip34_matches: bool) -> BlockKind {
    let network = tree.network();
    let node = tree.node(id);
    if is_bip30_repeat(node.height, &node.hash) {
        return BlockKind::Repeat;
    }
    let bip34 = node.height > network.bip34_height && bip34_matches;
    match bip30_check(network, node.height, &node.hash, bip34) {
        Bip30Check::LookUp => BlockKind::LookUp,
        Bip30Check::Exempt | Bip30Check::Implied => BlockKind::Once,
    }
}
