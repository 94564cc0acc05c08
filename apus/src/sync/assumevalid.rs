//! Which blocks' scripts need not be checked, exactly as Core decides it in `ConnectBlock`.

use super::options::AssumeValid;
use crate::chain::{BlockId, Tree};
use crate::rules::{Work, equivalent_time};

/// Work that must lie on top of a block before its scripts are skipped, as time.
const BURIED_SECONDS: i64 = 2 * 7 * 24 * 60 * 60;

/// The block at `height` up to which `option` lets every block pass as valid: the assumed block or
/// an ancestor of it, if the best header has the network's minimum work. Under the block that is
/// built in, two weeks of work must lie on top as well; of one that the user names, the user knows.
///
/// # Errors
/// Which of these is not so, and what to do.
pub(super) fn vouched_for(
    option: AssumeValid,
    tree: &Tree,
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
            "the blocks up to the hints' height of {height} cannot be assumed valid: {what}. \
             --assumevalid=0 checks everything (with undo data), and a sync without --hints needs \
             nobody's word"
        )
    };
    let name = "name a block that you know with --assumevalid=HASH";
    let chain = network.chain.name();
    let Some(hash) = hash else {
        return Err(unmet(format!("chain {chain} has no block built in for that; {name}")));
    };
    let Some(assumed) = tree.find(&hash).filter(|id| !tree.node(*id).failed) else {
        let what = match tree.find(&hash) {
            None => {
                "is not among the headers of the data directory and the files given with --from"
            }
            Some(_) => "is marked invalid in the block index, or builds on one that is",
        };
        return Err(unmet(format!("block {hash}, which is to vouch for them, {what}; {name}")));
    };
    let Some(target) = tree.ancestor(assumed, height) else {
        let at = tree.node(assumed).height;
        return Err(unmet(format!(
            "block {hash}, which is to vouch for them, is at height {at} and so no descendant of \
             the block at the hints' height; name a later one with --assumevalid=HASH"
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
    if option == AssumeValid::BuiltIn && !is_buried(tree, target, best) {
        return Err(unmet(format!(
            "under the block that is built in, two weeks of work must lie on top of them, and the \
             best header is at height {}; bring more blocks, or {name}",
            tree.node(best).height
        )));
    }
    Ok(target)
}

/// Blocks whose scripts are taken as valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assumed {
    /// The block that is assumed valid and the best header; none if nothing is skipped.
    below: Option<(BlockId, BlockId)>,
}

impl Assumed {
    /// What the option means in this tree: nothing, unless the block's header is known and the
    /// best header has the network's minimum work.
    pub fn new(option: AssumeValid, tree: &Tree) -> Self {
        let hash = match option {
            AssumeValid::Nothing => None,
            AssumeValid::BuiltIn => Some(tree.network().default_assume_valid),
            AssumeValid::Block(hash) => Some(hash),
        };
        let best = tree.best_header();
        let enough = tree.node(best).work >= Work::from_hash(&tree.network().minimum_chain_work);
        let block = hash.and_then(|hash| tree.find(&hash)).filter(|_| enough);
        Self { below: block.map(|block| (block, best)) }
    }

    /// Whether the scripts of `id` are skipped: it is an ancestor of (or is) the assumed block, is
    /// in the best header's chain, and two weeks of work lie on top of it.
    pub fn covers(&self, tree: &Tree, id: BlockId) -> bool {
        let Some((assumed, best)) = self.below else { return false };
        let height = tree.node(id).height;
        tree.ancestor(assumed, height) == Some(id)
            && tree.ancestor(best, height) == Some(id)
            && is_buried(tree, id, best)
    }
}

/// Whether two weeks of work lie on top of `id` in the best header's chain.
fn is_buried(tree: &Tree, id: BlockId, best: BlockId) -> bool {
    let (from, to) = (tree.node(id), tree.node(best));
    let on_top = equivalent_time(to.work, from.work, to.header.bits, tree.network());
    on_top > BURIED_SECONDS
}
