//! The plan of a SwiftSync: its blocks, and all that can be found wrong before the first is read.

use std::collections::HashMap;

use apus_chain::{ActiveChain, BlockId, Tree};
use apus_consensus::{Bip30Check, bip30_check, bip30_overwritten_after};
use apus_hash::Hash;
use apus_node::block::check::History;
use apus_node::block::step::Step;
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::opened::Node;
use apus_node::options::{AssumeValid, Options, Prune, UndoFaults};
use apus_node::pruning::Pruning;
use apus_node::sources::BlockOrigin;
use apus_swiftsync::AggregateKind;
use apus_wire::Network;

use super::undo::{UndoAt, UndoCopies, no_undo};
use super::vouched::vouched_for;
use crate::claim::Claim;

/// Number of blocks, up to the hints' height, that get undo data in either mode: Core never asks
/// for more (`MIN_BLOCKS_TO_KEEP`).
pub(super) const UNDO_BLOCKS_MIN: u32 = 288;

/// The checks of a SwiftSync, and the parts of its sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Checks the rules that need no coins, and for the last blocks all rules except scripts; sums
    /// outpoints.
    AssumeValid,
    /// Checks every rule and script with the coins of undo data; sums outpoints with their coins.
    Full,
}

/// The blocks of a SwiftSync, and what is done with them.
#[derive(Clone)]
pub struct SwiftPlan {
    /// The checks and the sums.
    pub mode: Mode,
    /// The kind of hash that the aggregate uses.
    pub aggregate: AggregateKind,
    /// The block at the hints' height.
    pub target: BlockId,
    /// The target and its ancestors.
    pub chain: ActiveChain,
    /// The blocks from height 1 to the target, in the order in which they are stored in files;
    /// those that peers send come last. In order of height if peers send the coins that blocks
    /// spend.
    pub steps: Vec<Step>,
    /// For each step, where the undo data of its block is; empty with [`Mode::AssumeValid`].
    pub undo: Vec<UndoAt>,
    /// The rev files of the sources; none with [`Mode::AssumeValid`].
    pub undo_copies: UndoCopies,
    /// Whether coins that no peer sends are looked up in the blocks at the end.
    pub looks_up_coins: bool,
    /// How much undo data may be wrong or missing.
    pub undo_faults: UndoFaults,
    /// The lowest height at which blocks that come from sources or peers are stored; pruning would
    /// delete those below (`--prune`). 0 if nothing is pruned meanwhile.
    pub stored_from: u32,
    /// The height below which peers are asked for blocks without witnesses. Such blocks are never
    /// stored.
    pub stripped_below: u32,
    /// Whether the chain has the network's BIP34 block at its height.
    bip34_matches: bool,
}

impl SwiftPlan {
    /// Makes the plan for all blocks up to `target`.
    ///
    /// # Errors
    /// A block or its undo data is not available, or no hints can be complete for the height of
    /// `target`.
    pub fn new(node: &Node, target: BlockId, mode: Mode) -> Result<Self, Fault> {
        let chain = ActiveChain::to(node.tree(), target);
        no_coinbase_between_bip30_twins(node.tree(), &chain)?;
        let mut steps = steps(node, &chain)?;
        let stored_from = match mode {
            Mode::AssumeValid => stored_from(&node.ledger().pruning, &steps),
            // All blocks are stored: undo data may turn out to be another block's, and then blocks
            // are read again.
            Mode::Full => 0,
        };
        steps.sort_by_key(|step| match step.place {
            BlockOrigin::Stored(pos) => (0, pos.file, u64::from(pos.pos)),
            BlockOrigin::Source(place) => (1, place.file, place.offset),
            BlockOrigin::Peers => (2, 0, u64::from(node.tree().node(step.id).height)),
        });
        let stripped_below = if node.options().swiftsync.witness { 0 } else { stored_from };
        let (undo, undo_copies) = match mode {
            Mode::AssumeValid => (Vec::new(), UndoCopies::default()),
            Mode::Full => find_undo(node, &mut steps)?,
        };
        let network = &node.options().network;
        let bip34 = chain.at(network.bip34_height).map(|id| node.tree().node(id).hash);
        let bip34_matches = bip34 == Some(network.bip34_hash);
        Ok(Self {
            mode,
            aggregate: node.options().swiftsync.aggregate,
            target,
            chain,
            steps,
            undo,
            undo_copies,
            looks_up_coins: false,
            undo_faults: node.options().swiftsync.undo_faults,
            stored_from,
            stripped_below,
            bip34_matches,
        })
    }

    /// Returns whether peers send the coins that some of the blocks spend.
    pub fn asks_for_coins(&self) -> bool {
        self.undo.iter().any(|at| matches!(at, UndoAt::Peers))
    }

    /// Returns whether the block of a step is dropped after it was summed, and not stored.
    pub fn drops(&self, tree: &Tree, step: &Step) -> bool {
        let is_stored = matches!(step.place, BlockOrigin::Stored(_));
        !is_stored && tree.node(step.id).height < self.stored_from
    }

    /// Returns what is known about the block of a step if a peer sends it.
    pub fn history_of_peers(&self, tree: &Tree, step: &Step) -> History {
        if tree.node(step.id).height < self.stripped_below {
            History::Stripped
        } else {
            History::New
        }
    }

    /// Returns what to tell the user about pruning before the first block is read; `None` if there
    /// is nothing to tell.
    pub fn words_on_pruning(
        &self,
        options: &Options,
        pruning: &Pruning,
        claim: &Claim,
    ) -> Option<String> {
        let is_wanted = matches!(options.prune, Some(Prune::Target(_)));
        match (pruning.target(), self.mode) {
            _ if !is_wanted => None,
            (None, _) => Some(
                "All blocks are stored: --prune deletes old ones after the new UTXO set has \
                 replaced the present one"
                    .to_string(),
            ),
            (Some(_), Mode::Full) => Some(
                "All blocks are stored: --prune deletes old ones after every script is \
                 checked"
                    .to_string(),
            ),
            (Some(_), Mode::AssumeValid) => (self.stored_from > 1).then(|| {
                let stripped = match self.stripped_below {
                    0 => "",
                    _ => {
                        ". They are downloaded without witnesses, so their witness commitments \
                         and weights are not checked"
                    }
                };
                format!(
                    "Blocks below height {} are not stored, since --prune would delete them: if \
                     {} turn out wrong, these blocks have to be downloaded again{stripped}",
                    self.stored_from,
                    claim.name()
                )
            }),
        }
    }

    /// Returns whether only BIP30 forbids the coinbase of a block to repeat an earlier one: BIP34
    /// does not rule that out.
    pub fn needs_bip30(&self, network: &Network, height: u32, hash: &Hash) -> bool {
        let bip34 = height > network.bip34_height && self.bip34_matches;
        bip30_check(network, height, hash, bip34) == Bip30Check::LookUp
    }

    /// Returns the last blocks up to the target, in order of height. Their undo data is needed for
    /// reorganisations, and for the check that bitcoind makes at its start.
    pub fn recent(&self) -> impl Iterator<Item = BlockId> + '_ {
        let height = self.chain.height().unwrap_or(0);
        let first = (height + 1).saturating_sub(UNDO_BLOCKS_MIN).max(1);
        (first..=height).filter_map(|height| self.chain.at(height))
    }
}

/// Returns what is checked, and the blocks at the hints' height to try the proof for, best first.
/// There is only one if blocks are assumed valid or the claim is a snapshot. Otherwise only the
/// proof shows which block the hints are for.
///
/// # Errors
/// The claim's height is above the headers or above the height to stop at, its base block is not on
/// the chain, or the blocks cannot be assumed valid as the options ask.
pub fn targets(
    tree: &Tree,
    options: &Options,
    claim: &Claim,
) -> Result<(Mode, Vec<BlockId>), SyncError> {
    let best = tree.best_header();
    let best_height = tree.node(best).height;
    let Some(height) = claim.height(tree) else {
        return Err(claim.error(format!(
            "its base block is not among the headers, which end at height {best_height}: provide \
             more blocks, or a snapshot of a lower height of this chain"
        )));
    };
    let beyond = || {
        let (these_are, others) = match claim {
            Claim::Hints(_) => ("the hints are", "hints"),
            Claim::Snapshot(_) => ("the snapshot is", "a snapshot"),
        };
        claim.error(format!(
            "{these_are} for height {height}, but the best chain of headers ends at \
             {best_height}: provide more blocks, or {others} for a lower height"
        ))
    };
    if options.stop_at_height.is_some_and(|stop| stop < height) {
        return Err(SyncError::WrongOptions(format!(
            "--stopatheight is below {} height of {height}: raise it, or sync without {}",
            claim.whose(),
            claim.option()
        )));
    }
    let base = match claim {
        Claim::Hints(_) => None,
        Claim::Snapshot(file) => tree.find(&file.head().base),
    };
    let header = tree.ancestor(best, height);
    let option = options.assumevalid;
    if option != AssumeValid::Nothing {
        return match vouched_for(option, tree, claim, height) {
            Ok(target) if base.is_some_and(|base| base != target) => Err(claim.error(format!(
                "its base block at height {height} is not on the chain of the block assumed valid"
            ))),
            Ok(target) => Ok((Mode::AssumeValid, vec![target])),
            Err(_) if header.is_none() => Err(beyond()),
            Err(unmet) => Err(SyncError::Input(unmet)),
        };
    }
    if let Some(base) = base {
        return Ok((Mode::Full, vec![base]));
    }
    let branches = tree.branches_at(height);
    match (branches.is_empty(), header) {
        (false, _) => Ok((Mode::Full, branches)),
        // [`SwiftPlan::new`] fails for this block, and names the missing one.
        (true, Some(header)) => Ok((Mode::Full, vec![header])),
        (true, None) => Err(beyond()),
    }
}

/// Returns an error if the chain ends between two blocks with the same coinbase that BIP30 exempts.
/// The first coinbase is then a coin like any other, but hints have no number for it.
fn no_coinbase_between_bip30_twins(tree: &Tree, chain: &ActiveChain) -> Result<(), Fault> {
    let height = chain.height().unwrap_or(0);
    let hash_at = |height| chain.at(height).map(|id| tree.node(id).hash);
    match bip30_overwritten_after(height, hash_at) {
        None => Ok(()),
        Some((first, second)) => Err(Fault::Usage(format!(
            "hints for height {height} cannot be complete: they have no number for the coinbase \
             of block {first}, which block {second} overwrites; take hints for height {second} or \
             above"
        ))),
    }
}

/// Returns the lowest height at which blocks are stored; `steps` are in order of height, from 1 on.
fn stored_from(pruning: &Pruning, steps: &[Step]) -> u32 {
    let sizes = steps.iter().rev().map(|step| step.weight);
    pruning.stored_from(steps.len() as u32, sizes)
}

fn steps(node: &Node, chain: &ActiveChain) -> Result<Vec<Step>, Fault> {
    let height = chain.height().unwrap_or(0);
    let ids = (1..=height).filter_map(|height| chain.at(height));
    ids.map(|id| {
        apus_node::opened::step(node, id).ok_or_else(|| {
            let missing = node.tree().node(id);
            Fault::Usage(format!(
                "block {} at height {} is in no source and not in the data directory: SwiftSync \
                 needs every block up to height {height}{}",
                missing.hash,
                missing.height,
                node.options().swiftsync.claim_option().map_or_else(String::new, |option| format!(
                    "; without {option}, the blocks before it are synced"
                )),
            ))
        })
    })
    .collect()
}

/// Finds the undo data of each step's block: in the data directory, where the block index of a
/// source says, or else in the rev file next to a copy of the block. Peers send the other coins, if
/// one offers that; the steps are then sorted by height.
fn find_undo(node: &Node, steps: &mut Vec<Step>) -> Result<(Vec<UndoAt>, UndoCopies), Fault> {
    let copies = UndoCopies::open(&node.shared())?;
    // Records in a rev file are in the order in which the blocks were connected, about that of
    // their heights.
    let mut by_height: Vec<usize> = (0..steps.len()).collect();
    by_height.sort_unstable_by_key(|index| node.tree().node(steps[*index].id).height);
    let mut undo = vec![None; steps.len()];
    let mut before: HashMap<u32, usize> = HashMap::new();
    for index in by_height {
        let id = steps[index].id;
        let from_source = node.sources().copies(id).find(|place| copies.has_file(place.file));
        let from_source = from_source.map(|place| {
            let count = before.entry(place.file).or_default();
            *count += 1;
            UndoAt::Source { file: place.file, guess: *count - 1 }
        });
        let stored = node.record(id).undo_pos().map(UndoAt::Stored);
        undo[index] = stored.or(copies.named(id)).or(from_source);
    }
    if undo.contains(&None) && node.peers().is_some_and(|peers| peers.offers_coins()) {
        let found = undo.into_iter().map(|at| at.unwrap_or(UndoAt::Peers));
        let mut both: Vec<(Step, UndoAt)> = steps.drain(..).zip(found).collect();
        both.sort_by_key(|(step, _)| node.tree().node(step.id).height);
        let undo;
        (*steps, undo) = both.into_iter().unzip();
        return Ok((undo, copies));
    }
    let all: Option<Vec<UndoAt>> = undo.iter().copied().collect();
    let found = all.ok_or_else(|| {
        let missing = undo.iter().zip(&*steps).filter(|(undo, _)| undo.is_none());
        let steps = missing.map(|(_, step)| (node.tree().node(step.id).height, step.place));
        let (first, place) = steps.min_by_key(|(height, _)| *height).expect("one is missing");
        let (path, where_from) = match place {
            BlockOrigin::Stored(pos) => (node.files().undo_path(pos.file), ", stored here"),
            BlockOrigin::Source(place) => {
                (node.sources().files()[place.file as usize].path.to_path_buf(), ", in this source")
            }
            BlockOrigin::Peers => {
                (node.dir().blocks_path().to_path_buf(), ", which a peer has to send")
            }
        };
        no_undo(first, path, where_from)
    })?;
    Ok((found, copies))
}
