//! All blocks of the best chain, each by the way that suits it.

use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_node::outcome::Activated;
use apus_node::progress::{Observer, Watch};
use apus_node::space;

use super::claim::Claim;
use super::in_order::activate::{activate_best_chain, return_to_fork};
use super::join::build::Joined;
use super::method::{Choice, Way, choose};
use super::summary::{ChosenMethod, SavedBlocks};
use super::{join, swift};

/// The number of joins that may end below a block which is damaged or invalid, before the rest goes
/// in order.
const JOINS_BELOW_MAX: u32 = 2;

/// What came of all blocks.
pub struct Went {
    /// The way that the first blocks went, and why.
    pub chosen: ChosenMethod,
    /// Whether somebody asked to stop.
    pub interrupted: bool,
    /// How far an interrupted SwiftSync is.
    pub saved: Option<SavedBlocks>,
    /// Bytes that joins wrote to temporary files.
    pub spilled_bytes: Option<u64>,
}

/// Chooses the way for the blocks above the tip, connects them, and the others in order after that.
///
/// # Errors
/// As for [`super::sync`]; a disk has no room for what the blocks above the tip will leave.
pub fn connect_all(
    node: &mut Node,
    claim: Option<&Claim>,
    watch: Watch,
) -> Result<Went, SyncError> {
    let choice = choose(node, claim)?;
    if let Some(claim) = claim.filter(|claim| swift::build::is_past(node, claim)) {
        note_past(node, claim, watch.observer);
    }
    announce(&choice, watch.observer);
    space::check(node, choice.way == Way::InOrder)?;
    let (chosen, before) = (choice.chosen(), node.tip());
    let mut went = Went { chosen, interrupted: false, saved: None, spilled_bytes: None };
    match (choice.way, claim) {
        (Way::SwiftSync, Some(claim)) => {
            join::build::forget(node)?;
            went.interrupted = swift::build::build(node, claim, watch)? == Activated::Stopped;
            if went.interrupted {
                went.saved = Some(swift::build::saved_blocks(node, claim)?);
            } else if node.tip() != before {
                show_tip(node, watch.observer);
            }
        }
        (Way::Join { .. }, _) => {
            swift::directory::forget(node)?;
            join_all(node, choice, &mut went, watch)?;
        }
        _ => {
            swift::directory::forget(node)?;
            join::build::forget(node)?;
        }
    }
    if !went.interrupted {
        went.interrupted = activate_best_chain(node, watch)? == Activated::Stopped;
    }
    Ok(went)
}

/// Joins blocks, as long as a join is the way: one that was interrupted may end lower than a new
/// one. Where a join ends below a block, that block goes in order, which alone can refuse it.
fn join_all(
    node: &mut Node,
    first: Choice,
    went: &mut Went,
    watch: Watch,
) -> Result<(), SyncError> {
    let mut choice = first;
    let mut ended_below = 0;
    while let Way::Join { target } = choice.way
        && ended_below < JOINS_BELOW_MAX
    {
        if return_to_fork(node, target, watch)? == Activated::Stopped {
            went.interrupted = true;
            break;
        }
        let spilled = went.spilled_bytes.get_or_insert(0);
        match join::build::build(node, target, spilled, watch)? {
            Joined::Done { .. } => show_tip(node, watch.observer),
            Joined::Stopped => {
                went.interrupted = true;
                break;
            }
            Joined::Below(height) => {
                ended_below += 1;
                if connect_up_to(node, height, watch)? == Activated::Stopped {
                    went.interrupted = true;
                    break;
                }
            }
        }
        choice = choose(node, None)?;
        if let Way::Join { .. } = choice.way
            && ended_below < JOINS_BELOW_MAX
        {
            announce(&choice, watch.observer);
        }
    }
    Ok(())
}

/// Connects blocks in order, none above `height`.
fn connect_up_to(node: &mut Node, height: u32, watch: Watch) -> Result<Activated, SyncError> {
    let stop_at_height = node.options.stop_at_height;
    node.options.stop_at_height = Some(stop_at_height.map_or(height, |top| top.min(height)));
    let activated = activate_best_chain(node, watch);
    node.options.stop_at_height = stop_at_height;
    activated
}

/// Shows the tip after many blocks have become part of the chain at once.
fn show_tip(node: &mut Node, observer: &dyn Observer) {
    let (shared, ledger) = node.split();
    ledger.show_tip(&shared, observer);
}

/// Tells the user that hints or a snapshot are of no use any more.
fn note_past(node: &Node, claim: &Claim, observer: &dyn Observer) {
    let height = claim.height(&node.tree).unwrap_or(0);
    observer.note(&format!(
        "{} {} is for height {height}, and the UTXO set is at height {} already: it is not used",
        claim.option(),
        claim.path().display(),
        node.tree.node(node.tip()).height
    ));
}

/// Shows the user which way was chosen.
fn announce(choice: &Choice, observer: &dyn Observer) {
    if let Some(line) = choice.line() {
        observer.note(&line);
    }
}

// The fast way has a fault in builds with debug assertions alone.
#[cfg(all(test, debug_assertions))]
mod tests {
    use apus_disk::Disk;
    use apus_hash::sha256d;
    use apus_node::opened::Coins;
    use apus_node::options::{AssumeValid, Method, Options, ScriptEngine};
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
            let (file, network) = (place.path().join("blocks"), Network::new(Chain::Regtest));
            let mut bytes = Vec::new();
            for block in chain.blocks().chain([&wrong[..]]) {
                bytes.extend_from_slice(&network.magic);
                bytes.extend_from_slice(&(block.len() as u32).to_le_bytes());
                bytes.extend_from_slice(block);
            }
            std::fs::write(&file, bytes).unwrap();
            let options = Options {
                method,
                join_depth: 0,
                assumevalid: AssumeValid::Nothing,
                script_engine: ScriptEngine::Both,
                ..Options::new(place.path().join("data"), network)
            };
            let open = || open_node(&options, &Disk::new(), Coins::InPlace).unwrap();
            let mut node = open();
            let sources = open_sources(&options, std::slice::from_ref(&file)).unwrap();
            scan_into_node(&mut node, &sources, Watch::default()).unwrap();
            node.scripts.is_faulty = true;
            let went = connect_all(&mut node, None, Watch::default()).unwrap();
            assert_eq!((went.chosen.method, went.interrupted), (method, false));
            let [refusal] = &node.refusals[..] else { panic!("{:?}", node.refusals) };
            assert_eq!(refusal.block, Some(hash));
            let reason = &refusal.reason;
            assert!(reason.starts_with("block-script-verify-flag-failed"), "{reason}");
            let difference = node.scripts.difference().cloned();
            assert!(difference.as_ref().is_some_and(|found| found.path.is_file()));
            let tip = node.tip();
            drop(node);
            let node = open();
            assert!(node.tree.node(node.tree.find(&hash).unwrap()).failed, "{method:?}");
            assert_eq!((node.tip(), node.scripts.difference()), (tip, difference.as_ref()));
            assert_eq!(node.options.script_engine, ScriptEngine::Core);
        }
    }
}
