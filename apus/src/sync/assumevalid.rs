//! Which blocks' scripts need not be checked, exactly as Core decides it in `ConnectBlock`.

use super::options::AssumeValid;
use crate::chain::{BlockId, Tree};
use crate::rules::{Work, equivalent_time};

/// Work that must lie on top of a block before its scripts are skipped, as time.
const BURIED_SECONDS: i64 = 2 * 7 * 24 * 60 * 60;

/// Whether `option` lets every block up to `target` pass as valid: the assumed block is `target` or
/// builds on it, and the best header has the network's minimum work. Under the block that is built
/// in, two weeks of work must lie on top as well; of one that the user names, the user knows.
///
/// # Errors
/// Why not, and what to do.
pub(super) fn vouches_for(option: AssumeValid, tree: &Tree, target: BlockId) -> Result<(), String> {
    let assumed = Assumed::new(option, tree);
    let height = tree.node(target).height;
    let instead = "--assumevalid=0 checks everything (with undo data), and without --hints a \
                   sync in order needs nobody's word";
    match assumed.below {
        None => Err(format!(
            "nobody vouches for the blocks up to the hints' height of {height}: the block assumed \
             valid is not among the headers, or they lack the network's minimum work; name a block \
             that you know with --assumevalid=HASH; {instead}"
        )),
        Some((block, _)) if tree.ancestor(block, height) != Some(target) => Err(format!(
            "the hints are for height {height}, and the block assumed valid is at {}: name a later \
             one that you know with --assumevalid=HASH; {instead}",
            tree.node(block).height
        )),
        Some((_, best))
            if option == AssumeValid::BuiltIn && !assumed.is_buried(tree, target, best) =>
        {
            Err(format!(
                "two weeks of blocks must lie on top of the hints' height of {height} before it is \
                 assumed valid: bring more blocks, or name it with --assumevalid=HASH; {instead}"
            ))
        }
        Some(_) => Ok(()),
    }
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
            && self.is_buried(tree, id, best)
    }

    fn is_buried(&self, tree: &Tree, id: BlockId, best: BlockId) -> bool {
        let (from, to) = (tree.node(id), tree.node(best));
        let on_top = equivalent_time(to.work, from.work, to.header.bits, tree.network());
        on_top > BURIED_SECONDS
    }
}
