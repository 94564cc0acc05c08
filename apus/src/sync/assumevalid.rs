//! The blocks whose scripts need not be checked, exactly as Core's `ConnectBlock` decides it.

use super::claim::Claim;
use super::options::{AssumeValid, BURIED_SECONDS};
use crate::chain::{BlockId, Tree};
use crate::rules::{Work, equivalent_time};

/// The block at the claim's `height` up to which `option` assumes every block to be valid: the
/// assumed block or an ancestor of it, if the best header has the network's minimum work. If the
/// assumed block is the built-in one, two weeks of work must lie on top as well; one that the user
/// names is taken at the user's word.
///
/// # Errors
/// Words for the condition that is not met, and what to do.
pub(super) fn vouched_for(
    option: AssumeValid,
    tree: &Tree,
    claim: &Claim,
    height: u32,
) -> Result<BlockId, String> {
    let network = tree.network();
    let hash = match option {
        AssumeValid::Nothing => None,
        AssumeValid::BuiltIn => Some(network.default_assume_valid).filter(|hash| !hash.is_zero()),
        AssumeValid::Block(hash) => Some(hash),
    };
    let unmet = |what: String| {
        format!(
            "the blocks up to {} height of {height} cannot be assumed valid: {what}. \
             --assumevalid=0 checks everything (with undo data), and a sync without {} needs no \
             such assumption",
            claim.whose(),
            claim.option()
        )
    };
    let name = "name a block that you know with --assumevalid=HASH";
    let chain = network.chain.name();
    let Some(hash) = hash else {
        return Err(unmet(format!(
            "chain {chain} has no block built in to be assumed valid; {name}"
        )));
    };
    let Some(assumed) = tree.find(&hash).filter(|id| !tree.node(*id).failed) else {
        let what = match tree.find(&hash) {
            None => {
                "is not among the headers of the data directory and the files given with --from"
            }
            Some(_) => "is marked invalid in the block index, or builds on one that is",
        };
        return Err(unmet(format!("block {hash}, the one assumed valid, {what}; {name}")));
    };
    let Some(target) = tree.ancestor(assumed, height) else {
        let at = tree.node(assumed).height;
        return Err(unmet(format!(
            "block {hash}, the one assumed valid, is at height {at} and so no descendant of the \
             block at {} height; name a later one with --assumevalid=HASH",
            claim.whose()
        )));
    };
    let best = tree.best_header();
    let (work, minimum) = (tree.node(best).work, Work::from_hash(&network.minimum_chain_work));
    if work < minimum {
        return Err(unmet(format!(
            "the best header, at height {}, has {work} work, and --minimumchainwork is {minimum}; \
             bring more blocks, or give a lower --minimumchainwork",
            tree.node(best).height
        )));
    }
    if option == AssumeValid::BuiltIn && !is_buried(tree, target, best, BURIED_SECONDS) {
        return Err(unmet(format!(
            "where the assumed block is the one built in, two weeks of work must lie on top of {} \
             height, and the best header is at height {}; bring more blocks, or {name}",
            claim.whose(),
            tree.node(best).height
        )));
    }
    Ok(target)
}

/// The blocks whose scripts are taken as valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assumed {
    /// The blocks that may have their scripts skipped; `None` if every script is checked.
    skip: Option<CommonAncestors>,
}

/// The common ancestors of two blocks, and these two if one is an ancestor of the other.
#[derive(Clone, Copy, Debug)]
struct CommonAncestors {
    /// The block that is assumed valid.
    assumed: BlockId,
    /// The best header.
    best: BlockId,
}

impl Assumed {
    /// The blocks that the option applies to in this tree: none, unless the assumed block's header
    /// is known and the best header has the network's minimum work.
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

    /// Whether the scripts of `id` are skipped: it is the assumed block or an ancestor of it, is in
    /// the best header's chain, and has two weeks of work on top of it.
    pub fn covers(&self, tree: &Tree, id: BlockId) -> bool {
        let Some(CommonAncestors { assumed, best }) = self.skip else { return false };
        let height = tree.node(id).height;
        tree.ancestor(assumed, height) == Some(id)
            && tree.ancestor(best, height) == Some(id)
            && is_buried(tree, id, best, BURIED_SECONDS)
    }
}

/// Whether a block is in the chain of the best header, that header has the network's minimum work,
/// and the work of more than `seconds` and as many blocks as are due in that time lie on top of the
/// block.
///
/// The blocks count by themselves, since the work is measured by the best header's difficulty. On
/// testnet3 and testnet4 a header that comes after 20 minutes has the least difficulty, by which a
/// single ordinary block is the work of years.
pub(super) fn is_buried_below_best(tree: &Tree, id: BlockId, seconds: i64) -> bool {
    let best = tree.best_header();
    let (block, tip) = (tree.node(id), tree.node(best));
    let blocks_due = seconds / i64::from(tree.network().pow_target_spacing);
    tip.work >= Work::from_hash(&tree.network().minimum_chain_work)
        && tree.ancestor(best, block.height) == Some(id)
        && i64::from(tip.height - block.height) >= blocks_due
        && is_buried(tree, id, best, seconds)
}

/// Whether the work of more than `seconds` lies on top of `id` in the best header's chain.
fn is_buried(tree: &Tree, id: BlockId, best: BlockId, seconds: i64) -> bool {
    let (from, to) = (tree.node(id), tree.node(best));
    equivalent_time(to.work, from.work, to.bits, tree.network()) > seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{BlockView, Chain, Header, Network, genesis_block};

    #[test]
    fn a_header_of_least_difficulty_buries_nothing_by_itself() {
        let mut network = Network::new(Chain::Testnet4);
        network.minimum_chain_work = crate::hash::Hash::ZERO;
        let genesis = genesis_block(&network);
        let genesis = *BlockView::parse(&genesis).unwrap().header();
        let (least, hard) = (genesis.bits, 0x1a00_ffff);
        let mut tree = Tree::new(network, genesis);
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
        // The one of least difficulty is no work.
        assert!(!is_buried_below_best(&tree, block, BURIED_SECONDS));
        add(&mut tree, hard);
        assert!(!is_buried_below_best(&tree, block, BURIED_SECONDS));
        add(&mut tree, hard);
        assert!(is_buried_below_best(&tree, block, BURIED_SECONDS));
        // Tests have each block checked by the fast way.
        assert!(is_buried_below_best(&tree, block, -1));
    }
}
