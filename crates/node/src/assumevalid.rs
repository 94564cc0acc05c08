//! The blocks whose scripts need not be checked, chosen exactly as by Core's `ConnectBlock`.

use apus_chain::{BlockId, Tree};
use apus_consensus::{Work, equivalent_time};

use super::options::{AssumeValid, BURIED_SECONDS};

/// The blocks whose scripts are assumed valid.
#[derive(Clone, Copy, Debug)]
pub struct Assumed {
    /// The blocks whose scripts may be skipped; `None` if every script is checked.
    skip: Option<CommonAncestors>,
}

/// The common ancestors of two blocks; if one is an ancestor of the other, it is among them.
#[derive(Clone, Copy, Debug)]
struct CommonAncestors {
    /// The block that is assumed valid.
    assumed: BlockId,
    /// The best header.
    best: BlockId,
}

impl Assumed {
    /// Returns the blocks that the option applies to in this tree: none, unless the assumed block's
    /// header is known and the best header has the network's minimum work.
    pub fn new(option: AssumeValid, tree: &Tree) -> Self {
        let hash = match option {
            AssumeValid::Nothing => None,
            AssumeValid::BuiltIn => Some(tree.network().default_assume_valid),
            AssumeValid::Block(hash) => Some(hash),
        };
        let best = tree.best_header();
        let enough = tree.node(best).work >= Work::from_hash(&tree.network().minimum_chain_work);
        let block = hash.and_then(|hash| tree.find(&hash)).filter(|_| enough);
        Self { skip: block.map(|assumed| CommonAncestors { assumed, best }) }
    }

    /// Returns whether the scripts of `id` are skipped: it is the assumed block or an ancestor of
    /// it, is in the best header's chain, and has two weeks of work on top of it.
    pub fn covers(&self, tree: &Tree, id: BlockId) -> bool {
        let Some(CommonAncestors { assumed, best }) = self.skip else { return false };
        let height = tree.node(id).height;
        tree.ancestor(assumed, height) == Some(id)
            && tree.ancestor(best, height) == Some(id)
            && is_buried(tree, id, best, BURIED_SECONDS)
    }
}

/// Returns whether a block is deeply buried: it is in the chain of the best header, that header has
/// the network's minimum work, and on top of the block lie work of more than `seconds` and as many
/// blocks as are due in that time.
///
/// The blocks are counted separately, since work is measured by the best header's difficulty. On
/// testnet3 and testnet4 a header more than 20 minutes after its parent may have the minimum
/// difficulty, by which a single ordinary block is the work of years.
pub fn is_buried_below_best(tree: &Tree, id: BlockId, seconds: i64) -> bool {
    let best = tree.best_header();
    let block = tree.node(id);
    let tip = tree.node(best);
    let blocks_due = seconds / i64::from(tree.network().pow_target_spacing);
    tip.work >= Work::from_hash(&tree.network().minimum_chain_work)
        && tree.ancestor(best, block.height) == Some(id)
        && i64::from(tip.height - block.height) >= blocks_due
        && is_buried(tree, id, best, seconds)
}

/// Returns whether work of more than `seconds` lies on top of `id` in the chain of the best header.
pub fn is_buried(tree: &Tree, id: BlockId, best: BlockId, seconds: i64) -> bool {
    let from = tree.node(id);
    let to = tree.node(best);
    equivalent_time(to.work, from.work, to.bits, tree.network()) > seconds
}

#[cfg(test)]
mod tests {
    use apus_wire::{Chain, Header, Network};

    use super::*;

    #[test]
    fn a_header_of_least_difficulty_buries_nothing_by_itself() {
        let mut network = Network::new(Chain::Testnet4);
        network.minimum_chain_work = apus_hash::Hash::ZERO;
        let mut tree = Tree::new(network);
        let genesis = tree.header(tree.genesis());
        let least = genesis.bits;
        let hard = 0x1a00_ffff;
        let mut tip = genesis.hash();
        let mut add = |tree: &mut Tree, bits| {
            let header = Header { prev: tip, bits, ..genesis };
            tip = header.hash();
            tree.restore(tip, &header, false).unwrap()
        };
        let block = add(&mut tree, hard);
        add(&mut tree, hard);
        let best = add(&mut tree, least);
        assert!(is_buried(&tree, block, best, BURIED_SECONDS), "by Core's measure of work");
        assert!(!is_buried_below_best(&tree, block, BURIED_SECONDS));
        (3..2_016).for_each(|_| _ = add(&mut tree, hard));
        assert!(!is_buried_below_best(&tree, block, BURIED_SECONDS), "2,015 blocks on top");
        let best = add(&mut tree, hard);
        assert_eq!(tree.node(best).height - tree.node(block).height, 2_016);
        // The header of minimum difficulty adds no work.
        assert!(!is_buried_below_best(&tree, block, BURIED_SECONDS));
        add(&mut tree, hard);
        assert!(!is_buried_below_best(&tree, block, BURIED_SECONDS));
        add(&mut tree, hard);
        assert!(is_buried_below_best(&tree, block, BURIED_SECONDS));
        // With -1, tests check each block by the fast engine.
        assert!(is_buried_below_best(&tree, block, -1));
    }
}
