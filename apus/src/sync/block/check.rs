use super::step::BlockFault;
use crate::chain::{BlockId, Tree};
use crate::rules::{BlockContext, CheckedBlock, RuleClass, check_block, check_block_in_context};
use crate::sync::sources::BlockBytes;
use crate::wire::BlockView;

/// Parses a block and checks all rules that need no coins.
///
/// What fails without its place in a chain says nothing of the block, only of these bytes: the
/// hashes of two transactions may pass for one transaction of 64 bytes, with the same merkle root.
/// Core's `ProcessNewBlock` remembers nothing of it either. `was_checked` says that these bytes
/// passed here before they were stored.
pub(crate) fn check_bytes(
    tree: &Tree,
    id: BlockId,
    was_checked: bool,
    bytes: BlockBytes,
) -> Result<CheckedBlock<BlockBytes>, BlockFault> {
    let node = tree.node(id);
    let view = BlockView::parse(bytes)
        .map_err(|error| BlockFault::Damaged(format!("not a block: {error}")))?;
    if view.hash() != node.hash {
        return Err(BlockFault::Damaged(format!("this is not block {}", node.hash)));
    }
    let context = BlockContext {
        network: tree.network(),
        height: node.height,
        parent_median_time_past: tree.parent_median_time_past(id),
    };
    let checked = check_block(view, tree.network())
        .map_err(|error| (error.class == RuleClass::Mutated || !was_checked, error))
        .and_then(|block| match check_block_in_context(&block, &context) {
            Ok(()) => Ok(block),
            Err(error) => Err((error.class == RuleClass::Mutated, error)),
        });
    checked.map_err(|(says_nothing, error)| match says_nothing {
        true => BlockFault::Damaged(error.to_string()),
        false => BlockFault::Rule(error),
    })
}
