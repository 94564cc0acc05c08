//! All rules that a block can be checked against without coins.

use apus_chain::Tree;
use apus_consensus::{
    BlockContext, CheckedBlock, RuleError, check_block_in_context, check_stripped_block_in_context,
};
use apus_scripts::check_block;
use apus_wire::BlockView;

use super::step::Step;
use crate::fault::Fault;
use crate::sources::BlockBytes;

/// The knowledge of a block's bytes before they are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum History {
    /// The bytes passed [`check_bytes`] before they were stored.
    CheckedBefore,
    /// Nothing is known of the bytes.
    New,
    /// Nothing is known of the bytes, except that the peer was asked to leave out witnesses.
    Stripped,
}

/// Parses a block and checks all rules that need no coins.
///
/// A new block that breaks a rule of [`check_block`] counts as damaged, not as invalid: the bytes
/// are bad, but the block with this hash may be valid, since two transaction hashes can pass for
/// one transaction of 64 bytes, with the same merkle root. Core's `ProcessNewBlock` does not
/// remember such a block either.
pub fn check_bytes(
    tree: &Tree,
    step: Step,
    history: History,
    bytes: BlockBytes,
) -> Result<CheckedBlock<BlockBytes>, Fault> {
    check_view(tree, step, history, parse(tree, step, bytes)?)
}

/// Parses the bytes that should be the block of a step, and checks the hash of their header.
pub fn parse(tree: &Tree, step: Step, bytes: BlockBytes) -> Result<BlockView<BlockBytes>, Fault> {
    let hash = tree.node(step.id).hash;
    let view = BlockView::parse(bytes)
        .map_err(|error| Fault::Damaged(step, format!("not a block: {error}")))?;
    if view.hash() == hash {
        Ok(view)
    } else {
        Err(Fault::Damaged(step, format!("this is not block {hash}")))
    }
}

/// Checks a parsed block as [`check_bytes`] does.
pub fn check_view(
    tree: &Tree,
    step: Step,
    history: History,
    view: BlockView<BlockBytes>,
) -> Result<CheckedBlock<BlockBytes>, Fault> {
    let node = tree.node(step.id);
    let context = BlockContext {
        network: tree.network(),
        height: node.height,
        parent_median_time_past: tree.parent_median_time_past(step.id),
    };
    let block = check_block(view, tree.network()).map_err(|error| match history {
        History::CheckedBefore => fault(step, error),
        History::New | History::Stripped => Fault::Damaged(step, error.to_string()),
    })?;
    let checked = match history {
        History::CheckedBefore | History::New => check_block_in_context(&block, &context),
        History::Stripped => check_stripped_block_in_context(&block, &context),
    };
    checked.map_err(|error| fault(step, error))?;
    Ok(block)
}

/// Returns the fault for a broken rule: the block is invalid, or only this copy is bad.
fn fault(step: Step, error: RuleError) -> Fault {
    if error.condemns_hash() {
        Fault::Rule(step, error)
    } else {
        Fault::Damaged(step, error.to_string())
    }
}
