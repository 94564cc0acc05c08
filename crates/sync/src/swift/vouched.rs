//! The block up to which a SwiftSync of outpoints assumes all blocks valid.

use apus_chain::{BlockId, Tree};
use apus_consensus::Work;
use apus_node::assumevalid::is_buried;
use apus_node::options::{AssumeValid, BURIED_SECONDS};

use crate::claim::Claim;

/// Returns the block at the claim's `height` up to which `option` assumes all blocks valid: the
/// assumed block or its ancestor. The best header must have the network's minimum work. With the
/// built-in block, there must also be two weeks of work on top of the returned block; a block that
/// the user names needs none.
///
/// # Errors
/// The condition that is not met, in words, and what to do.
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
            "the blocks up to {} height of {height} cannot be assumed valid: {what}. Check \
             everything with --assumevalid=0 (which needs undo data), or sync without {}",
            claim.whose(),
            claim.option()
        )
    };
    let name = "name a block that you know with --assumevalid=HASH";
    let chain = network.chain.name();
    let Some(hash) = hash else {
        return Err(unmet(format!("chain {chain} has no built-in block to assume valid; {name}")));
    };
    let Some(assumed) = tree.find(&hash).filter(|id| !tree.node(*id).failed) else {
        let what = match tree.find(&hash) {
            None => {
                "is not among the headers of the data directory and the files given with --from"
            }
            Some(_) => "is marked invalid in the block index, or builds on one that is",
        };
        return Err(unmet(format!("block {hash}, which is assumed valid, {what}; {name}")));
    };
    let Some(target) = tree.ancestor(assumed, height) else {
        let at = tree.node(assumed).height;
        return Err(unmet(format!(
            "block {hash}, which is assumed valid, is at height {at} and so no descendant of the \
             block at {} height; name a later one with --assumevalid=HASH",
            claim.whose()
        )));
    };
    let best = tree.best_header();
    let work = tree.node(best).work;
    let minimum = Work::from_hash(&network.minimum_chain_work);
    if work < minimum {
        return Err(unmet(format!(
            "the best header, at height {}, has {work} work, but --minimumchainwork is {minimum}; \
             provide more blocks, or give a lower --minimumchainwork",
            tree.node(best).height
        )));
    }
    if option == AssumeValid::BuiltIn && !is_buried(tree, target, best, BURIED_SECONDS) {
        return Err(unmet(format!(
            "the built-in block needs two weeks of work on top of {} height, but the best header \
             is at height {}; provide more blocks, or {name}",
            claim.whose(),
            tree.node(best).height
        )));
    }
    Ok(target)
}
