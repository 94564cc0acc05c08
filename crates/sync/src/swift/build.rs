//! SwiftSync on each branch that the claim may be for, until one is proved.

use std::sync::atomic::AtomicBool;

use apus_chain::{BlockId, Tree};
use apus_disk::StoreError;
use apus_node::block::step::Step;
use apus_node::block_peers::GivesUp;
use apus_node::commit::Ledger;
use apus_node::context::Context;
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::mend::take_another_copy;
use apus_node::opened::{Node, step};
use apus_node::sources::{BlockOrigin, Sources};
use apus_peers::{download, store_left_after};
use apus_progress::Watch;
use apus_store::DataDir;

use super::attempt::{Ended, attempt};
use super::directory::{forget, saved};
use super::fault;
use super::plan;
use super::plan::{Mode, SwiftPlan};
use super::undo::no_undo;
use crate::claim::Claim;
use crate::saved_work::SavedBlocks;
use apus_node::sealed::begun_again;

/// How often peers are asked for the coins that a block spends: the one that had them may be lost,
/// and another found.
const ASKED_TIMES: u32 = 2;

/// Builds the chainstate of `node`, which has no coins yet, up to the height of `claim`, and makes
/// the block there the tip. If it is interrupted, the next call continues.
///
/// If blocks are not assumed valid, hints are tried on every available block at their height.
///
/// # Errors
/// The claim, blocks or undo data are wrong or incomplete; the disk fails; or `watch` asks to stop.
/// No coins are committed then; stored blocks are kept.
pub fn build(node: &mut Node, claim: &Claim, watch: Watch) -> Result<(), SyncError> {
    let (mode, mut targets) = plan::targets(node.tree(), node.options(), claim)?;
    // Begins with the branch of an interrupted run: those before it have failed there.
    let saved = saved(node.dir(), claim)?.map(|saved| saved.key.target);
    let at = targets.iter().position(|id| Some(node.tree().node(*id).hash) == saved);
    targets.rotate_left(at.unwrap_or(0));
    let mut first_error = None;
    // Hints and undo data are corrected only where no branch agrees with them as they are.
    let are_branches = targets.len() > 1;
    let as_they_are = targets.iter().filter(|_| are_branches).map(|target| (*target, false));
    let corrected = targets.iter().map(|target| (*target, true));
    for (target, corrects) in as_they_are.chain(corrected) {
        let fault = match build_branch(node, claim, target, (mode, corrects), watch) {
            Ok(()) => return Ok(()),
            Err(fault) => fault,
        };
        let ends = !fault::is_of_branch(&fault);
        let keeps = fault::keeps_progress(&fault, node.dir());
        let error = fault::into_error(fault, node, claim);
        if !ends {
            // Stored blocks are good even if the claim is wrong.
            node.write_index()?;
        }
        if !keeps {
            forget(node.dir())?;
        }
        if ends {
            return Err(error);
        }
        let block = node.tree().node(target).hash;
        tracing::debug!(target: "validation", %block, %error, "not what the hints are for");
        first_error.get_or_insert(error);
    }
    let error = first_error.unwrap_or_else(|| {
        claim.error(format!("there is no block at the height of {}", claim.name()))
    });
    let height = claim.height(node.tree()).unwrap_or(0);
    Err(match (mode, &targets[..]) {
        (_, [_, _, ..]) => error.with(&Context::FirstOfBranches {
            branches: targets.len(),
            height,
            claim: claim.name(),
        }),
        (Mode::AssumeValid, [target]) if is_of_claim(&error) => {
            let block = node.tree().node(*target).hash;
            error.with(&Context::AssumedChain { block, height })
        }
        _ => error,
    })
}

/// Does what [`build`] does, for one block at the height of the claim; `corrects` says whether
/// hints and undo data are corrected.
fn build_branch(
    node: &mut Node,
    claim: &Claim,
    target: BlockId,
    (mode, corrects): (Mode, bool),
    watch: Watch,
) -> Result<(), Fault> {
    let mut is_said = false;
    let mut is_second = false;
    let mut asked = 0;
    loop {
        store_base(node, watch.stop)?;
        store_recent(node, target, mode, watch)?;
        let mut plan = SwiftPlan::new(node, target, mode)?;
        plan.looks_up_coins = asked == ASKED_TIMES;
        let words = plan
            .words_on_pruning(node.options(), &node.ledger().pruning, claim)
            .filter(|_| !std::mem::replace(&mut is_said, true));
        words.iter().for_each(|words| watch.observer.note(words));
        let result = attempt(node, claim, &plan, corrects, watch);
        let stored = store_left_after(node, plan.stored_from, result.as_ref().err());
        match result {
            Ok(Ended::Committed) => {
                node.change_tree(|tree| tree.settle_on(plan.target));
                return Ok(stored?);
            }
            Err(_) if stored.is_err() => return Ok(stored?),
            Ok(Ended::LacksCoins(lacking)) => {
                asked += 1;
                if asked > ASKED_TIMES || asked == ASKED_TIMES && !corrects {
                    return Err(no_coins(node.dir(), node.tree(), &lacking));
                }
                if asked == ASKED_TIMES {
                    watch.observer.note(&words_on_look_up(lacking.len()));
                }
            }
            // Another copy may be good; the next attempt continues from the saved work.
            Err(Fault::Damaged(step, what)) if may_have_another_copy(node.sources(), &step) => {
                take_another_copy(node, step, &what, watch.stop)?;
            }
            // Starts over once only, since a faulty disk could damage the saved work forever.
            Err(fault) => {
                let damage = fault::damage_to_saved(&fault, node.dir()).filter(|_| !is_second);
                let Some(error) = damage else { return Err(fault) };
                watch.observer.note(&begun_again(error, "SwiftSync"));
                is_second = true;
                forget(node.dir())?;
            }
        }
    }
}

/// Returns the fault for blocks whose coins no peer has sent, and that are too many to look up.
fn no_coins(dir: &DataDir, tree: &Tree, lacking: &[BlockId]) -> Fault {
    let first = lacking.first().map_or(0, |id| tree.height(*id));
    let others = lacking.len().saturating_sub(1);
    let why = format!(", and no peer sends the coins that it and {others} other blocks spend");
    no_undo(first, dir.blocks_path(), &why)
}

fn words_on_look_up(blocks: usize) -> String {
    let spenders = match blocks {
        1 => "1 block spends".to_string(),
        _ => format!("{blocks} blocks spend"),
    };
    format!(
        "No peer sends the coins that {spenders}: they are looked up in the stored blocks, which \
         are read once more"
    )
}

/// Stores the base block of bitcoind's second UTXO set, if a source has it. The index on disk does
/// not name that block until it is connected, but the saved work of an interrupted run may count it
/// as stored.
fn store_base(node: &mut Node, stop: &AtomicBool) -> Result<(), StoreError> {
    let base = node.ledger().snapshot.as_ref().and_then(|loaded| node.tree().find(&loaded.base));
    let Some(step) = base.and_then(|base| step(node, base)) else { return Ok(()) };
    let (shared, ledger) = node.split();
    match step.place {
        BlockOrigin::Source(_) => match shared.checked(step, stop) {
            Ok(block) => ledger.store_block(&shared, step.id, block.view()),
            // The worker that reads the block reports what is wrong with it.
            Err(_) => Ok(()),
        },
        BlockOrigin::Stored(_) | BlockOrigin::Peers => Ok(()),
    }
}

/// Downloads and stores those of the last blocks up to `target` that only peers have. SwiftSync
/// reads the last blocks first, and again at the end.
fn store_recent(node: &mut Node, target: BlockId, mode: Mode, watch: Watch) -> Result<(), Fault> {
    if mode == Mode::Full {
        return Ok(());
    }
    let ancestors = node.tree().ancestors(target).take(plan::UNDO_BLOCKS_MIN as usize);
    let mut recent: Vec<BlockId> = ancestors.collect();
    recent.reverse();
    download(node, &recent, GivesUp::Nothing, watch)
}

/// Returns whether there may be another copy of a block whose bytes at this place are damaged. For
/// a stored block this is always so: the search reports which copies are missing.
fn may_have_another_copy(sources: &Sources, step: &Step) -> bool {
    matches!(step.place, BlockOrigin::Stored(_)) || sources.copies(step.id).nth(1).is_some()
}

/// Returns how many blocks of a SwiftSync are saved.
pub fn saved_blocks(dir: &DataDir, tree: &Tree, claim: &Claim) -> Result<SavedBlocks, StoreError> {
    let saved = saved(dir, claim)?;
    let done = saved.map_or(0, |saved| saved.blocks_done());
    Ok(SavedBlocks { done, total: claim.height(tree).unwrap_or(0) })
}

/// Returns whether the error says that the claim is wrong.
fn is_of_claim(error: &SyncError) -> bool {
    matches!(error, SyncError::Hints { .. } | SyncError::Snapshot { .. })
}

/// Returns whether the tip is at or above the height of the claim, so that the claim is not used.
pub fn is_past(tree: &Tree, ledger: &Ledger, claim: &Claim) -> bool {
    let wanted = claim.height(tree);
    ledger.active.height().zip(wanted).is_some_and(|(height, wanted)| height >= wanted)
}

/// Returns whether there are coins already, but not up to the height of the claim. SwiftSync then
/// builds a new UTXO set next to the present one.
pub fn has_to_start_over(tree: &Tree, ledger: &Ledger, claim: &Claim) -> bool {
    ledger.active.height().is_some_and(|height| height > 0) && !is_past(tree, ledger, claim)
}
