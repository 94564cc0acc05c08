//! All rules that a block's bytes can be held against without a coin.

use super::step::BlockFault;
use crate::chain::{BlockId, Tree};
use crate::rules::{BlockContext, CheckedBlock, RuleError, check_block, check_block_in_context};
use crate::sync::sources::BlockBytes;
use crate::wire::BlockView;

/// What is known of a block's bytes before they are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum History {
    /// They passed [`check_bytes`] before they were stored.
    CheckedBefore,
    /// Nothing is known of them.
    New,
}

/// Parses a block and checks all rules that need no coins.
///
/// A new block that breaks a rule of [`check_block`] counts as damaged, not as invalid: only these
/// bytes are bad, and not the block's hash, since the hashes of two transactions can pass for one
/// transaction of 64 bytes, with the same merkle root. Core's `ProcessNewBlock` does not remember
/// such a block either.
pub(crate) fn check_bytes(
    tree: &Tree,
    id: BlockId,
    history: History,
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
    let block = check_block(view, tree.network()).map_err(|error| match history {
        History::CheckedBefore => fault(error),
        History::New => BlockFault::Damaged(error.to_string()),
    })?;
    check_block_in_context(&block, &context).map_err(fault)?;
    Ok(block)
}

/// Whether a broken rule makes the block invalid, or only this copy of it bad.
fn fault(error: RuleError) -> BlockFault {
    match error.condemns_hash() {
        true => BlockFault::Rule(error),
        false => BlockFault::Damaged(error.to_string()),
    }
}
