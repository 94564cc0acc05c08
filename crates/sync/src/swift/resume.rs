//! The beginning of a SwiftSync: from nothing, or from the saved work of an interrupted one.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use apus_coins::{SavedSurvivors, Survivors};
use apus_disk::{Caching, Disk, StoreError};
use apus_host::memory::limit::memory_limit;
use apus_host::root::Root;
use apus_host::threads;
use apus_node::block::step::Step;
use apus_node::block_peers::COIN_RANGE_BLOCKS;
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::forecast::Forecast;
use apus_node::memory_share::{SwiftShare, header_bytes};
use apus_node::opened::Node;
use apus_node::options::Options;
use apus_node::sources::BlockOrigin;
use apus_progress::{Observer, Watch};
use apus_swiftsync::{Aggregate, AggregateKind, Salt};

use super::directory::{load, remove_directory, saved_path};
use super::hinted::WrongHint;
use super::plan::{Mode, SwiftPlan};
use super::recent::Recent;
use super::saved::{Key, Saved, SavedUndo};
use super::tally::Gathered;
use super::undo::UndoWritten;
use crate::claim::Claim;
use apus_node::sealed::{begun_again, unreadable};

/// Share of the memory for cached coins, in per cent, that coins to be written may take. The rest
/// is for blocks in progress and for writing tables.
const SURVIVORS_PERCENT: usize = 70;

/// The part of `--dbcache` that is not for coins, once that leaves more for them than
/// [`SURVIVORS_BYTES`]: with the blocks in progress, and what [`Recent`] keeps, at most 250 MB for
/// 288 full blocks, SwiftSync then stays within 50 MiB of `--dbcache`.
const OTHER_BYTES: usize = 250 << 20;
/// Bytes of coins to be written that are held in memory with the default `--dbcache`.
const SURVIVORS_BYTES: usize = 200 << 20;
/// Bytes of a range of blocks of mainnet ([`RangeBlocks`](super::range_blocks::RangeBlocks)), with
/// the positions of its transactions. There are at most as many ranges as workers.
const RANGE_BYTES: u64 = COIN_RANGE_BLOCKS as u64 * 2_000_000;
/// The coins' file goes through the page cache if this many times its bytes are free: the kernel
/// then need not write it before it is deleted, and no thread waits for the disk.
const FREE_TIMES: u64 = 2;

/// The surroundings of a SwiftSync from beginning to end.
pub(super) struct Workspace {
    pub key: Key,
    pub salt: Salt,
    pub survivors: Survivors,
    /// The coins that the last blocks spend; `None` if undo data has them.
    pub recent: Option<Recent>,
    pub share: SwiftShare,
}

/// Where coins wait to be written.
#[derive(Clone, Copy)]
struct CoinRoom {
    /// Bytes of coins that are held in memory.
    memory: usize,
    /// How the others are written to their file.
    caching: Caching,
}

/// The work of a SwiftSync so far.
pub(super) struct SwiftState {
    pub gathered: Gathered,
    /// Heights of blocks that are done.
    pub done: HashSet<u32>,
    /// A height above all blocks that came without their witnesses; 0 if none did.
    pub stripped_below: u32,
    /// Undo data written so far.
    pub undo: Vec<UndoWritten>,
    /// Heights of blocks that are summed and not checked yet
    /// ([`super::context::Context::puts_off`]).
    pub put_off: BTreeSet<u32>,
    /// The hints that earlier runs have found wrong, as their block alone shows.
    pub wrong_hints: Vec<WrongHint>,
}

impl SwiftState {
    /// Returns the state in which nothing is done.
    pub fn new(kind: AggregateKind, salt: &Salt) -> Self {
        let gathered = Gathered::empty(kind, salt);
        Self {
            gathered,
            done: HashSet::new(),
            stripped_below: 0,
            undo: Vec::new(),
            put_off: BTreeSet::new(),
            wrong_hints: Vec::new(),
        }
    }
}

/// Continues from the saved work in `directory` if its key is the same and all blocks that it
/// counts are stored, or would be pruned anyway. Otherwise starts from nothing. The user is told if
/// saved work is damaged or missing.
pub(super) fn begin(
    node: &mut Node,
    claim: &Claim,
    plan: &SwiftPlan,
    directory: &Path,
    watch: Watch,
) -> Result<(Workspace, SwiftState), Fault> {
    let disk = node.dir().disk().clone();
    let target = node.tree().node(plan.target).hash;
    let engine = node.options().scripts.engine.name();
    let kind = format!("{:?} {:?} {engine}", plan.mode, node.options().swiftsync.aggregate);
    let key = Key { target, kind, hints: claim.digest(watch.stop).ok_or(Fault::Stopped)? };
    let recent = match plan.mode {
        Mode::AssumeValid => Some(Recent::collect(node, plan, watch.stop)?),
        Mode::Full => None,
    };
    let headers = header_bytes(node.tree(), node.view().is_some());
    let share = share(node.options(), headers, recent.as_ref(), plan.asks_for_coins())
        .map_err(Fault::Memory)?;
    let room = CoinRoom { memory: share.survivors_bytes, caching: caching(node.forecast(), plan) };
    let saved = load(&disk, directory)?;
    if saved.is_none() && saved_path(directory).is_file() {
        watch.observer.note(&unreadable(&saved_path(directory), "SwiftSync"));
    }
    if let Some(saved) = saved.filter(|saved| saved.key == key)
        && plan.steps.iter().all(|step| {
            let is_there =
                matches!(step.place, BlockOrigin::Stored(_)) || may_lack(node.ledger(), plan, step);
            is_there || !saved.is_done(node.tree().node(step.id).height)
        })
        && let Some(taken) =
            take_up(&saved, plan, (&disk, directory), room, recent.as_ref(), watch.observer)
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
    let survivors = Survivors::new(&disk, directory, room.memory, room.caching);
    let state = SwiftState::new(plan.aggregate, &salt);
    Ok((Workspace { key, salt, survivors, recent, share }, state))
}

/// Returns whether saved work may count a block that is not stored: pruning would delete it, and
/// the block index has what it needs about it.
fn may_lack(ledger: &Ledger, plan: &SwiftPlan, step: &Step) -> bool {
    plan.stored_from > 0 && ledger.record(step.id).tx_count > 0
}

/// Returns a new random salt. The error, if there are no random bytes, names `place`.
pub(super) fn new_salt(place: &Path) -> Result<Salt, StoreError> {
    Salt::random()
        .map_err(|error| StoreError::new(place, format!("no randomness for a salt: {error}")))
}

/// Returns the number of workers and the memory for coins, as far as memory is available.
/// The headers take `headers` bytes; `keeps_ranges` says whether the blocks of ranges are kept.
fn share(
    options: &Options,
    headers: u64,
    recent: Option<&Recent>,
    keeps_ranges: bool,
) -> Result<SwiftShare, String> {
    let workers = threads::workers(options.threads);
    let cache = options.dbcache_bytes;
    let survivors = cache.saturating_sub(OTHER_BYTES).max(SURVIVORS_BYTES);
    let survivors = survivors.min(cache / 100 * SURVIVORS_PERCENT);
    let ranges = if keeps_ranges { workers as u64 * RANGE_BYTES } else { 0 };
    let held = headers + recent.map_or(0, Recent::bytes) + ranges;
    SwiftShare::new(workers, survivors, held)
}

/// Returns how the file of the coins that are not held in memory is written.
fn caching(forecast: &Forecast, plan: &SwiftPlan) -> Caching {
    let blocks = plan.steps.iter().map(|step| step.weight).sum();
    let coins = forecast.growth.tables(blocks).likely;
    match memory_limit(&Root::system()) {
        Some(limit) if limit.bytes / FREE_TIMES >= coins => Caching::PageCache,
        _ => Caching::Direct,
    }
}

/// Restores the saved work; returns `None` if it is damaged or incomplete.
fn take_up(
    saved: &Saved,
    plan: &SwiftPlan,
    (disk, directory): (&Disk, &Path),
    room: CoinRoom,
    recent: Option<&Recent>,
    observer: &dyn Observer,
) -> Option<(Salt, Survivors, SwiftState)> {
    let salt = Salt::new(<[u8; 64]>::try_from(&saved.salt[..]).ok()?);
    let aggregate = Aggregate::from_bytes(plan.aggregate, &salt, &saved.aggregate)?;
    let survivors = SavedSurvivors::from_bytes(&saved.survivors).ok()?;
    let survivors = Survivors::resume(disk, directory, room.memory, room.caching, &survivors)
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
    let state = SwiftState {
        gathered,
        done,
        stripped_below: saved.stripped_below,
        undo,
        put_off: saved.put_off.iter().copied().collect(),
        wrong_hints: saved.wrong_hints.clone(),
    };
    Some((salt, survivors, state))
}
