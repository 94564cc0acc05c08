//! The beginning of a SwiftSync: from nothing, or from what an interrupted one has saved.

use std::collections::HashSet;
use std::path::Path;

use apus_coins::{SavedSurvivors, Survivors};
use apus_disk::{Disk, StoreError};
use apus_node::block::step::Step;
use apus_node::fault::Fault;
use apus_node::opened::Node;
use apus_node::progress::{Observer, Watch};
use apus_node::resources::SwiftShare;
use apus_node::sources::Place;
use apus_node::threads;
use apus_swiftsync::{Aggregate, AggregateKind, Salt};

use super::directory::{load, remove_directory, saved_path};
use super::plan::{Mode, Plan};
use super::recent::Recent;
use super::saved::{Key, Saved, SavedUndo};
use super::tally::Gathered;
use super::undo::UndoWritten;
use crate::claim::Claim;
use crate::sealed::{begun_again, unreadable};

/// Of the memory for cached coins, the share that coins to be written may take; the rest is for
/// the blocks under way and for building tables.
const SURVIVORS_PERCENT: usize = 70;

/// Bytes of coins to be written that are held in memory at most. More gains nothing: touching
/// memory for the first time costs as much as writing it out past the page cache, in pieces of
/// 200 KiB. With what [`Recent`] keeps, at most 250 MB for 288 full blocks, and the blocks under
/// way it stays below 500 MiB.
const SURVIVORS_BYTES_MAX: usize = 200 << 20;

/// What a SwiftSync works with, from its beginning to its end.
pub(super) struct Workspace {
    pub key: Key,
    pub salt: Salt,
    pub survivors: Survivors,
    /// The coins that the last blocks spend; `None` if undo data has them.
    pub recent: Option<Recent>,
    pub share: SwiftShare,
}

/// How far a SwiftSync is.
pub(super) struct State {
    pub gathered: Gathered,
    /// Heights of blocks that are done.
    pub done: HashSet<u32>,
    /// A height below which all blocks lie that came without their witnesses; 0 if none did.
    pub stripped_below: u32,
    /// Undo data that was written so far.
    pub undo: Vec<UndoWritten>,
}

impl State {
    /// Nothing is done.
    pub fn new(kind: AggregateKind, salt: &Salt) -> Self {
        let gathered = Gathered::empty(kind, salt);
        Self { gathered, done: HashSet::new(), stripped_below: 0, undo: Vec::new() }
    }
}

/// Takes up what an interrupted run has saved in `directory`, if that was the same work and the
/// blocks that it counts are all stored, or would be deleted again; else begins from nothing. Where
/// saved work is damaged or gone, `observer` is told.
///
/// # Errors
/// One of the last blocks breaks a rule, the disk fails, there is too little memory, or `stop` is
/// raised.
pub(super) fn begin(
    node: &mut Node,
    claim: &Claim,
    plan: &Plan,
    directory: &Path,
    watch: Watch,
) -> Result<(Workspace, State), Fault> {
    let disk = node.dir.disk().clone();
    let target = node.tree.node(plan.target).hash;
    let engine = node.options.script_engine.name();
    let kind = format!("{:?} {:?} {engine}", plan.mode, node.options.aggregate);
    let key = Key { target, kind, hints: claim.digest(watch.stop).ok_or(Fault::Stopped)? };
    let recent = match plan.mode {
        Mode::AssumeValid => Some(Recent::collect(node, plan, watch.stop)?),
        Mode::Full => None,
    };
    let share = share(node, recent.as_ref()).map_err(Fault::Memory)?;
    let memory = share.survivors_bytes;
    let saved = load(&disk, directory)?;
    if saved.is_none() && saved_path(directory).is_file() {
        watch.observer.note(&unreadable(&saved_path(directory), "SwiftSync"));
    }
    if let Some(saved) = saved.filter(|saved| saved.key == key)
        && plan.steps.iter().all(|step| {
            let is_there = matches!(step.place, Place::Stored(_)) || may_lack(node, plan, step);
            is_there || !saved.is_done(node.tree.node(step.id).height)
        })
        && let Some(taken) =
            take_up(&saved, plan, (&disk, directory), memory, recent.as_ref(), watch.observer)
    {
        let (salt, survivors, state) = taken;
        tracing::debug!(
            target: "validation",
            blocks = state.done.len(), "carrying on with an interrupted SwiftSync"
        );
        return Ok((Workspace { key, salt, survivors, recent, share }, state));
    }
    remove_directory(&disk, directory)?;
    let salt = new_salt(directory)?;
    let survivors = Survivors::new(&disk, directory, memory);
    let state = State::new(plan.aggregate, &salt);
    Ok((Workspace { key, salt, survivors, recent, share }, state))
}

/// Whether a block need not be stored, since it would be deleted again and the index knows what it
/// must of it.
fn may_lack(node: &Node, plan: &Plan, step: &Step) -> bool {
    plan.stored_from > 0 && node.record(step.id).tx_count > 0
}

/// A salt that nobody can foresee; `place` is what an error names.
pub(super) fn new_salt(place: &Path) -> Result<Salt, StoreError> {
    Salt::random()
        .map_err(|error| StoreError::new(place, format!("no randomness for a salt: {error}")))
}

/// Workers, and memory for coins, as many and as much as there is room for.
fn share(node: &Node, recent: Option<&Recent>) -> Result<SwiftShare, String> {
    let workers = threads::workers(node.options.threads);
    let survivors = (node.options.dbcache_bytes / 100 * SURVIVORS_PERCENT).min(SURVIVORS_BYTES_MAX);
    SwiftShare::new(workers, survivors, node.tree.len(), recent.map_or(0, Recent::bytes))
}

/// What was saved, ready to be carried on; `None` if it is no longer whole.
fn take_up(
    saved: &Saved,
    plan: &Plan,
    (disk, directory): (&Disk, &Path),
    memory: usize,
    recent: Option<&Recent>,
    observer: &dyn Observer,
) -> Option<(Salt, Survivors, State)> {
    let salt = Salt::new(<[u8; 64]>::try_from(&saved.salt[..]).ok()?);
    let aggregate = Aggregate::from_bytes(plan.aggregate, &salt, &saved.aggregate)?;
    let survivors = SavedSurvivors::from_bytes(&saved.survivors).ok()?;
    let survivors = Survivors::resume(disk, directory, memory, &survivors)
        .inspect_err(|error| observer.note(&begun_again(error, "SwiftSync")))
        .ok()?;
    if let Some(recent) = recent {
        recent.restore(&saved.recent)?;
    }
    let height = plan.chain.height().unwrap_or(0);
    let done = (1..=height).filter(|height| saved.is_done(*height)).collect();
    let written =
        |undo: &SavedUndo| Some(UndoWritten { id: plan.chain.at(undo.height)?, at: undo.at });
    let undo = saved.undo.iter().filter_map(written).collect();
    let gathered = Gathered { aggregate, tally: saved.tally.clone() };
    let stripped_below = saved.stripped_below;
    Some((salt, survivors, State { gathered, done, stripped_below, undo }))
}
