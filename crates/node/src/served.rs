//! What peers are served: the headers and the stored blocks of a directory, in a copy of their own,
//! so that no peer waits for a sync, nor a sync for a peer.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use apus_chain::{ActiveChain, BlockId, Tree};
use apus_disk::StoreError;
use apus_net::{NODE_NETWORK_LIMITED_MIN_BLOCKS, ServedChain};
use apus_store::{BlockReader, BlockStatus, FlatFilePos};
use apus_wire::message::Services;

use super::opened::Node;

/// The headers and the stored blocks of a directory, for any number of threads. The headers take
/// 120 bytes a block, and the places of the blocks 16.
pub struct Served {
    copy: RwLock<Copied>,
    blocks: Arc<BlockReader>,
}

struct Copied {
    tree: Tree,
    active: ActiveChain,
    /// By [`BlockId`]: where the block is, if peers may get it.
    places: Vec<Option<FlatFilePos>>,
    services: Services,
}

impl Served {
    /// Returns what `node` has now.
    pub fn of(node: &Node) -> Self {
        let genesis = node.tree.header(node.tree.genesis());
        let mut copy = Copied {
            tree: Tree::new(node.tree.network().clone(), genesis),
            active: ActiveChain::default(),
            places: Vec::new(),
            services: Services::default(),
        };
        copy.follow(node);
        Self { copy: RwLock::new(copy), blocks: Arc::clone(node.files.reader()) }
    }

    /// Takes over the headers, blocks and active chain that `node` has now.
    pub fn follow(&self, node: &Node) {
        self.copy.write().unwrap_or_else(PoisonError::into_inner).follow(node);
    }

    /// Calls `look` with the chain as it is now.
    pub fn look<T>(&self, look: impl FnOnce(ServedChain<'_>) -> T) -> T {
        let copy = self.copy.read().unwrap_or_else(PoisonError::into_inner);
        look(ServedChain {
            tree: &copy.tree,
            active: &copy.active,
            services: copy.services,
            is_stored: &|id| copy.place(id).is_some(),
        })
    }

    /// Reads the bytes of a block into `block`, whose content is replaced. Returns `false` if the
    /// block is not stored.
    ///
    /// # Errors
    /// The disk fails, or the block was pruned just now.
    pub fn read_block(&self, id: BlockId, block: &mut Vec<u8>) -> Result<bool, StoreError> {
        match self.place(id) {
            Some(pos) => self.blocks.read_block_into(pos, block).map(|()| true),
            None => Ok(false),
        }
    }

    /// Reads a part of the bytes of a block into `piece`, whose content is replaced. Returns
    /// `false` if the block is not stored.
    ///
    /// # Errors
    /// As for [`Served::read_block`], or the block is shorter.
    pub fn read_piece(
        &self,
        id: BlockId,
        part: Range<usize>,
        piece: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        match self.place(id) {
            Some(pos) => self.blocks.read_piece_into(pos, part, piece).map(|()| true),
            None => Ok(false),
        }
    }

    fn place(&self, id: BlockId) -> Option<FlatFilePos> {
        self.copy.read().unwrap_or_else(PoisonError::into_inner).place(id)
    }
}

impl Copied {
    fn place(&self, id: BlockId) -> Option<FlatFilePos> {
        self.places.get(id.index()).copied().flatten()
    }

    fn follow(&mut self, node: &Node) {
        follow_headers(&mut self.tree, &node.tree);
        self.active.clone_from(&node.ledger.active);
        let place = |id: BlockId| {
            let record = node.ledger.record(id);
            let is_valid = record.status.is_valid(BlockStatus::BLOCK_VALID_SCRIPTS);
            let may_be_sent = is_valid || self.active.contains(&self.tree, id);
            record.block_pos().filter(|_| may_be_sent && !self.tree.node(id).failed)
        };
        let known = self.tree.ids().take(node.ledger.records.all.len());
        self.places = known.map(place).collect();
        self.services = services(node);
    }
}

/// Takes over the headers of `tree` into its `copy`, and which of them have failed.
fn follow_headers(copy: &mut Tree, tree: &Tree) {
    for id in tree.ids_after(copy.len()) {
        let block = tree.node(id);
        // The same headers in the same order have the same ids.
        copy.restore(block.hash, &tree.header(id), block.failed);
    }
    for id in tree.ids() {
        if tree.node(id).failed && !copy.node(id).failed {
            copy.mark_failed(id);
        }
    }
}

/// Returns what a node with these blocks may tell peers that it serves (Core's `NODE_NETWORK` or
/// `NODE_NETWORK_LIMITED`).
fn services(node: &Node) -> Services {
    let height = node.tree.node(node.tip()).height;
    let from = node.ledger.blocks_from();
    let has_all = from <= 1;
    let is_pruned = node.ledger.pruning.is_pruned || node.ledger.pruning.mode.is_some();
    let has_last = has_all || height + 1 >= from + NODE_NETWORK_LIMITED_MIN_BLOCKS;
    let mut services = Services::WITNESS;
    if has_last {
        services = services.with(Services::NETWORK_LIMITED);
    }
    if has_all && !is_pruned {
        services = services.with(Services::NETWORK);
    }
    services
}

#[cfg(test)]
mod tests {
    use apus_wire::{BlockView, Chain, Header, Network, genesis_block};

    use super::*;

    /// Adds a header after `parent`.
    fn add(tree: &mut Tree, parent: BlockId, nonce: u32) -> BlockId {
        let prev = tree.node(parent).hash;
        let header = Header { prev, nonce, ..tree.header(parent) };
        tree.restore(header.hash(), &header, false).unwrap()
    }

    #[test]
    fn a_copy_of_the_headers_learns_which_have_failed() {
        let network = Network::new(Chain::Regtest);
        let genesis = *BlockView::parse(genesis_block(&network)).unwrap().header();
        let [mut tree, mut copy] = [(); 2].map(|()| Tree::new(network.clone(), genesis));
        let root = tree.genesis();
        let (good, bad) = (add(&mut tree, root, 1), add(&mut tree, root, 2));
        let child = add(&mut tree, bad, 3);
        follow_headers(&mut copy, &tree);
        assert_eq!(copy.best_header(), child);
        tree.mark_failed(bad);
        // It comes later, and has failed from the start.
        add(&mut tree, child, 4);
        follow_headers(&mut copy, &tree);
        assert_eq!(copy.len(), 5);
        for id in tree.ids() {
            let [copied, block] = [&copy, &tree].map(|tree| tree.node(id));
            assert_eq!((copied.hash, copied.failed), (block.hash, block.failed));
        }
        assert_eq!((tree.best_header(), copy.best_header()), (good, good));
    }
}
