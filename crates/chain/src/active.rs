use super::tree::{BlockId, Tree};

/// The chain whose coins the chainstate holds: one block for each height (Core's `CChain`).
#[derive(Default, Clone)]
pub struct ActiveChain {
    by_height: Vec<BlockId>,
}

impl ActiveChain {
    /// Returns the chain from the genesis block to `tip`.
    pub fn to(tree: &Tree, tip: BlockId) -> Self {
        let mut chain = Self::default();
        chain.set_tip(tree, tip);
        chain
    }

    /// Returns the last block; `None` before the genesis block is connected.
    pub fn tip(&self) -> Option<BlockId> {
        self.by_height.last().copied()
    }

    /// Returns the height of the last block; `None` before the genesis block is connected.
    pub fn height(&self) -> Option<u32> {
        self.by_height.len().checked_sub(1).map(|height| height as u32)
    }

    /// Returns the block at `height`; `None` above the last block.
    pub fn at(&self, height: u32) -> Option<BlockId> {
        self.by_height.get(height as usize).copied()
    }

    /// Returns whether `id` is part of the chain.
    pub fn contains(&self, tree: &Tree, id: BlockId) -> bool {
        self.at(tree.node(id).height) == Some(id)
    }

    /// Makes `id`, which builds on the tip, the new tip.
    pub fn push(&mut self, tree: &Tree, id: BlockId) {
        debug_assert_eq!(tree.node(id).prev, self.tip());
        self.by_height.push(id);
    }

    /// Makes `id` the tip (Core's `CChain::SetTip`). Takes time for the blocks that differ alone.
    pub fn set_tip(&mut self, tree: &Tree, id: BlockId) {
        let new = tree.ancestors(id).take_while(|block| !self.contains(tree, *block));
        let new: Vec<BlockId> = new.collect();
        self.by_height.truncate(tree.node(id).height as usize + 1 - new.len());
        self.by_height.extend(new.into_iter().rev());
    }

    /// Removes the tip and returns it, so that its parent becomes the tip.
    pub fn pop(&mut self) -> Option<BlockId> {
        self.by_height.pop()
    }

    /// Returns the last block that this chain and the branch ending in `id` have in common.
    pub fn fork(&self, tree: &Tree, id: BlockId) -> Option<BlockId> {
        tree.ancestors(id).find(|ancestor| self.contains(tree, *ancestor))
    }
}
