//! Connects all blocks of the best chain, each by the method that suits it.

use apus_chain::{BlockId, Tree};
use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_node::space;
use apus_progress::Method;
use apus_progress::{Observer, Watch};

use super::claim::Claim;
use super::in_order::activate::{Goal, activate, activate_best_chain, return_to_fork};
use super::join::build::Joined;
use super::method::{ChosenMethod, choose};
use super::saved_work::SavedSync;
use super::unfinished::saved_by;
use super::{join, swift};

/// Number of joins that may end below a damaged or invalid block before all other blocks are
/// connected in order.
const JOINS_BELOW_MAX: u32 = 2;

/// The work of a sync, besides moving the tip.
#[derive(Default)]
pub struct Course {
    /// The method chosen for the first blocks, and the reason for it.
    pub chosen: Option<ChosenMethod>,
    /// What an interrupted SwiftSync has saved.
    pub saved: Option<SavedSync>,
    /// Bytes that joins have written to temporary files; `None` if there was no join.
    pub spilled_bytes: Option<u64>,
    /// Sum of all unspent outputs, in satoshi, if one join has connected all blocks.
    pub left_amount: Option<u64>,
}

/// Chooses the method for the blocks above the tip and connects them by it, and then the blocks
/// after them in order.
///
/// # Errors
/// As for [`super::sync`]; a disk has no room for what the blocks above the tip leave; or `watch`
/// asks to stop, and what was done is saved.
pub fn connect_all(
    node: &mut Node,
    claim: Option<&Claim>,
    course: &mut Course,
    watch: Watch,
) -> Result<(), SyncError> {
    let choice = choose(node, claim)?;
    if let Some(claim) =
        claim.filter(|claim| swift::build::is_past(node.tree(), node.ledger(), claim))
    {
        note_past(node.tree(), node.tip(), claim, watch.observer);
    }
    announce(&choice, watch.observer);
    space::check(node, choice.method == Method::InOrder)?;
    let method = choice.method;
    let target = choice.join_target();
    let before = node.tip();
    course.chosen = Some(choice);
    for other in Method::ALL.into_iter().filter(|other| *other != method) {
        if saved_by(other, node.dir().disk(), node.options())?.is_some() {
            watch.observer.note(&format!(
                "The interrupted {} is given up, since this run takes another method",
                other.name()
            ));
        }
        give_up_saved(node, other)?;
    }
    match method {
        Method::InOrder => {}
        Method::Join => {
            let target = target.expect("a join has a target");
            join_towards(node, Goal::BEST, target, course, watch)?;
        }
        Method::SwiftSync => {
            let claim = claim.expect("SwiftSync is chosen for a claim");
            let built = swift::build::build(node, claim, watch);
            if matches!(built, Err(SyncError::Stopped)) {
                let blocks = swift::build::saved_blocks(node.dir(), node.tree(), claim)?;
                course.saved = Some(SavedSync::SwiftSync(blocks));
            }
            built?;
            if node.tip() != before {
                let (shared, ledger) = node.split();
                ledger.show_tip(&shared, watch.observer);
            }
        }
    }
    activate_best_chain(node, watch)
}

/// Gives up what an interrupted run by a method has saved.
fn give_up_saved(node: &mut Node, method: Method) -> Result<(), SyncError> {
    match method {
        // The UTXO set itself has what a sync in order has done.
        Method::InOrder => {}
        Method::Join => join::build::forget(node)?,
        Method::SwiftSync => swift::directory::forget(node.dir())?,
    }
    Ok(())
}

/// Joins the blocks up to `target`, which is on the way to the goal, and goes on as long as another
/// join is chosen: an interrupted join may end lower than a new one. If a join ends below a block,
/// that block is connected in order, since only a sync in order can refuse it. Blocks after the
/// last join are left to [`activate`].
pub fn join_towards(
    node: &mut Node,
    goal: Goal,
    target: BlockId,
    course: &mut Course,
    watch: Watch,
) -> Result<(), SyncError> {
    let mut next = Some(target);
    let mut ended_below = 0;
    while let Some(target) = next {
        return_to_fork(node, target, watch)?;
        let is_first = node.tip() == node.tree().genesis();
        let spilled = course.spilled_bytes.get_or_insert(0);
        match join::build::build(node, target, spilled, watch)? {
            Joined::Done { left_amount } => {
                course.left_amount = is_first.then_some(left_amount);
                if let Goal::Best { .. } = goal {
                    let (shared, ledger) = node.split();
                    ledger.show_tip(&shared, watch.observer);
                }
            }
            Joined::Below(height) => {
                ended_below += 1;
                activate(node, goal_at(node.tree(), goal, height), watch)?;
            }
        }
        next = match goal {
            _ if ended_below >= JOINS_BELOW_MAX => None,
            Goal::Exactly(last) => Some(last).filter(|last| *last != node.tip()),
            Goal::Best { .. } => next_join(node, watch.observer)?,
        };
    }
    Ok(())
}

/// Returns the goal that ends at `height`, on the way to `goal`.
fn goal_at(tree: &Tree, goal: Goal, height: u32) -> Goal {
    match goal {
        Goal::Best { .. } => Goal::Best { up_to: height },
        Goal::Exactly(last) => Goal::Exactly(tree.ancestor(last, height).unwrap_or(last)),
    }
}

/// Returns the target of another join, if one is chosen for the blocks that are left.
fn next_join(node: &Node, observer: &dyn Observer) -> Result<Option<BlockId>, SyncError> {
    let choice = choose(node, None)?;
    let target = choice.join_target();
    match target {
        Some(_) => announce(&choice, observer),
        None => observer.plan(choice.plan()),
    }
    Ok(target)
}

/// Tells the user that the hints or the snapshot are not used, since the tip has reached their
/// height.
fn note_past(tree: &Tree, tip: BlockId, claim: &Claim, observer: &dyn Observer) {
    let height = claim.height(tree).unwrap_or(0);
    observer.note(&format!(
        "{} {} is for height {height} and is not used: the UTXO set is already at height {}",
        claim.option(),
        claim.path().display(),
        tree.node(tip).height
    ));
}

/// Tells the user which method was chosen, and the observer the stages, unless no block waits.
fn announce(choice: &ChosenMethod, observer: &dyn Observer) {
    observer.plan(choice.plan());
    if let Some(line) = choice.line() {
        observer.note(&line);
    }
}

// The test makes the fast engine fail, which is possible only with debug assertions.
#[cfg(all(test, debug_assertions))]
mod tests {
    use apus_hash::sha256d;
    use apus_node::Run;
    use apus_node::block::scripts::ScriptChecker;
    use apus_node::opened::Coins;
    use apus_node::options::{AssumeValid, JoinOptions, Options, ScriptEngine, ScriptOptions};
    use apus_node::scan::{open_sources, scan_into_node};
    use apus_testchain::{Break, Spec};
    use apus_wire::{Chain, Network};

    use super::*;
    use crate::unfinished::open_node;

    #[test]
    fn a_difference_about_a_script_counts_at_once_and_in_later_runs() {
        let chain = apus_testchain::Chain::new(Spec::small(3));
        let wrong = chain.broken(Break::P2pkhSignature).block;
        let hash = sha256d(&wrong[..80]);
        for method in [Method::InOrder, Method::Join] {
            let place = tempfile::tempdir().unwrap();
            let file = place.path().join("blocks");
            let network = Network::new(Chain::Regtest);
            let mut bytes = Vec::new();
            for block in chain.blocks().chain([&wrong[..]]) {
                bytes.extend_from_slice(&network.magic);
                bytes.extend_from_slice(&(block.len() as u32).to_le_bytes());
                bytes.extend_from_slice(block);
            }
            std::fs::write(&file, bytes).unwrap();
            let options = Options {
                method: Some(method),
                assumevalid: AssumeValid::Nothing,
                join: JoinOptions { depth: 0, ..JoinOptions::default() },
                scripts: ScriptOptions { engine: ScriptEngine::Both, ..ScriptOptions::default() },
                ..Options::new(place.path().join("data"), network)
            };
            let open = || open_node(&Run::new(&options), Coins::InPlace).unwrap();
            let mut node = open();
            let sources = open_sources(&options, std::slice::from_ref(&file)).unwrap();
            scan_into_node(&mut node, &sources, Watch::default()).unwrap();
            let mut scripts = ScriptChecker::new(&options, node.dir().disk()).unwrap();
            scripts.is_faulty = true;
            node.check_scripts_by(scripts);
            let mut course = Course::default();
            connect_all(&mut node, None, &mut course, Watch::default()).unwrap();
            assert_eq!(course.chosen.unwrap().method, method);
            let [refusal] = node.refusals() else { panic!("{:?}", node.refusals()) };
            assert_eq!(refusal.block, Some(hash));
            let reason = &refusal.reason;
            assert!(reason.starts_with("block-script-verify-flag-failed"), "{reason}");
            let difference = node.shared().scripts.difference().cloned();
            assert!(difference.as_ref().is_some_and(|found| found.path.is_file()));
            let tip = node.tip();
            drop(node);
            let node = open();
            assert!(node.tree().node(node.tree().find(&hash).unwrap()).failed, "{method:?}");
            assert_eq!(
                (node.tip(), node.shared().scripts.difference()),
                (tip, difference.as_ref())
            );
            assert_eq!(node.options().scripts.engine, ScriptEngine::Core);
        }
    }
}
