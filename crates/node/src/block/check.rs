//! All rules that a block's bytes can be held against without a coin.

use apus_chain::{BlockId, Tree};
use apus_rules::{
    BlockContext, CheckedBlock, RuleError, check_block, check_block_in_context,
    check_stripped_block_in_context,
};
use apus_wire::BlockView;

use super::step::BlockFault;
use crate::sources::BlockBytes;

/// What is known of a block's bytes before they are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum History {
    /// They passed [`check_bytes`] before they were stored.
    CheckedBefore,
    /// Nothing is known of them.
    New,
    /// Nothing is known of them, but that their peer was asked to leave witnesses out.
    Stripped,
}

/// Parses a block and checks all rules that need no coins.
///
/// A new block that breaks a rule of [`check_block`] counts as damaged, not as invalid: only these
/// bytes are bad, and not the block's hash, since the hashes of two transactions can pass for one
/// transaction of 64 bytes, with the same merkle root. Core's `ProcessNewBlock` does not remember
/// such a block either.
pub fn check_bytes(
    tree: &Tree,
    id: BlockId,
    history: History,
    bytes: BlockBytes,
) -> Result<CheckedBlock<BlockBytes>, BlockFault> {
    check_view(tree, id, history, parse(tree, id, bytes)?)
}

/// Parses the bytes that are to be the block `id`, and checks that they are by the hash of their
/// header.
pub fn parse(
    tree: &Tree,
    id: BlockId,
    bytes: BlockBytes,
) -> Result<BlockView<BlockBytes>, BlockFault> {
    let hash = tree.node(id).hash;
    let view = BlockView::parse(bytes)
        .map_err(|error| BlockFault::Damaged(format!("not a block: {error}")))?;
    match view.hash() == hash {
        true => Ok(view),
        false => Err(BlockFault::Damaged(format!("this is not block {hash}"))),
    }
}

/// [`check_bytes`] of a parsed block.
pub fn check_view(
    tree: &Tree,
    id: BlockId,
    history: History,
    view: BlockView<BlockBytes>,
) -> Result<CheckedBlock<BlockBytes>, BlockFault> {
    let node = tree.node(id);
    let context = BlockContext {
        network: tree.network(),
        height: node.height,
        parent_median_time_past: tree.parent_median_time_past(id),
    };
    let block = check_block(view, tree.network()).map_err(|error| match history {
        History::CheckedBefore => fault(error),
        History::New | History::Stripped => BlockFault::Damaged(error.to_string()),
    })?;
    let checked = match history {
        History::CheckedBefore | History::New => check_block_in_context(&block, &context),
        History::Stripped => check_stripped_block_in_context(&block, &context),
    };
    checked.map_err(fault)?;
    Ok(block)
}

/// Whether a broken rule makes the block invalid, or only this copy of it bad.
fn fault(error: RuleError) -> BlockFault {
    match error.condemns_hash() {
        true => BlockFault::Rule(error),
        false => BlockFault::Damaged(error.to_string()),
    }
}
