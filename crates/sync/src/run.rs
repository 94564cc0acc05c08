//! Sync: the entry point, and the work that it has in common with a reindex.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apus_chain::{BlockId, Tree};
use apus_disk::{ShareWatch, StoreError};
use apus_host::resources;
use apus_indexes::Upkeep;
use apus_node::block_peers::BlockPeers;
use apus_node::commit::Ledger;
use apus_node::error::SyncError;
use apus_node::memory_share::{InOrderShare, header_bytes};
use apus_node::opened::{Coins, Node, observe, share_of};
use apus_node::options::{AssumeValid, Options};
use apus_node::rebuild::Rebuild;
use apus_node::reconsider::{MarkedChain, reconsider};
use apus_node::run::Run;
use apus_node::scan::{open_sources, scan_into_node};
use apus_node::shared::Shared;
use apus_node::snapshot_chainstate::SnapshotChainstate;
use apus_node::sources::Gap;
use apus_node::system_clock::refuse_clock_behind;
use apus_node::waiting::learn_from_samples;
use apus_node::{mend, rebuild, remedy};
use apus_peers::{
    LanSearch, Peers, Search, doubts, download_hints, find_headers, is_complete, lags, learn_sizes,
    wait_for_news,
};
use apus_progress::Method;
use apus_progress::clock::Stage;
use apus_progress::estimate::estimating::Estimating;
use apus_progress::estimate::estimator::Ran;
use apus_progress::{Observer, Phase, Unobserved, Watch};
use apus_store::BlockSource;

use super::above_tip::above_tip;
use super::claim::Claim;
use super::connect_all::{Course, connect_all};
use super::ending::Ending;
use super::in_order::side::store_side_branches;
use super::indexing::{end_in_place, index};
use super::plan::{Found, SyncPlan, nothing_to_sync};
use super::saved_work::SavedSync;
use super::start_check::{check_mended, check_on_start};
use super::summary::Summary;
use super::unfinished::open_node;
use super::{first_pruning, join, loadtxoutset, shrink, swift};

/// Checks the blocks of all sources, of peers and of the data directory, and connects the best
/// valid chain by the method that [`choose`](super::method::choose) returns.
///
/// Continues from the state of the data directory, or creates the directory. If `watch` asks to
/// stop, the work done so far is saved, and the summary says that the sync was interrupted.
///
/// # Errors
/// The disk fails, a file of the data directory cannot be right, a source cannot be read, the
/// directory is in use, or there are no sources, no peers and no directory with blocks. Blocks that
/// break rules are not errors: they are refused, and the summary lists them.
pub fn sync(options: &Options, sources: &[PathBuf], watch: Watch) -> Result<Summary, SyncError> {
    sync_on(&Run::new(options), sources, watch)
}

/// Does what [`sync`] does, with the caller's handles.
pub fn sync_on(run: &Run, sources: &[PathBuf], watch: Watch) -> Result<Summary, SyncError> {
    let observer = Estimating::new(watch.observer);
    let summary = sync_watched(run, sources, Watch::new(&observer, watch.stop))?;
    Ok(Summary { ran: observer.ran(), ..summary })
}

fn sync_watched(given: &Run, sources: &[PathBuf], watch: Watch) -> Result<Summary, SyncError> {
    remedy::naming_uncommitted(given.options, || {
        let started = Instant::now();
        let inputs = Inputs::open(given.options, sources, watch)?;
        let options =
            &Options { may_lack_files: !inputs.opened.is_empty(), ..given.options.clone() };
        let run = &Run { options, ..given.clone() };
        if options.reconsider {
            let found = reconsider(options, &run.disk)?;
            found.notes().iter().for_each(|note| watch.observer.note(note));
        }
        let node = open_node(run, Coins::InPlace)?;
        first_pruning::refuse(&node)?;
        if let Some(snapshot) = &node.ledger().snapshot {
            announce_snapshot(snapshot, node.tree(), watch.observer);
        }
        if let Some(marked) = MarkedChain::of(node.tree(), node.tip()) {
            watch.observer.note(&format!("Warning: {marked}"));
        }
        let has_other_blocks = inputs.has_other_blocks(options);
        let found = Found::of(&node, inputs.claim.as_ref(), has_other_blocks)?;
        let plan = SyncPlan::new(&found, options)?;
        let (mut node, rebuild) = carry_out(plan, node, run, watch)?;
        watch.observer.meters(&node.meters());
        bound_cache(&mut node);
        let Inputs { claim, opened, lan } = inputs;
        let claim = claim.as_ref();
        let summary = connect_from(&mut node, (&opened, claim), lan, started, watch)
            .map_err(|error| Ending::of_sync(&node, claim).explain(error))?;
        let replaces = rebuild.is_some();
        let summary = end(node, rebuild, summary)?;
        if replaces && !summary.interrupted {
            end_in_place(run, summary, watch)
        } else {
            Ok(summary)
        }
    })
}

/// The inputs of a sync besides its directory.
struct Inputs {
    claim: Option<Claim>,
    /// The files and directories with blocks.
    opened: Vec<BlockSource>,
    /// The search for nodes on the local network.
    lan: Option<LanSearch>,
}

impl Inputs {
    /// Opens the claim and the sources. One that cannot be opened is an error before anything in
    /// the data directory is created, except for hints that peers send.
    fn open(options: &Options, sources: &[PathBuf], watch: Watch) -> Result<Self, SyncError> {
        if let (Some(sha256), Some(path)) =
            (&options.swiftsync.hints_of_peers, &options.swiftsync.hints)
        {
            download_hints(options, sha256, path, watch)?;
        }
        let claim = Claim::open(options)?;
        let lan = LanSearch::begin(options);
        let has_peers = || Peers::wanted(options, lan.as_ref()).is_some();
        if sources.is_empty() && !holds_blocks(options) && !has_peers() {
            return Err(nothing_to_sync(options));
        }
        let opened = open_sources(options, sources)?;
        Ok(Self { claim, opened, lan })
    }

    /// Returns whether there may be blocks that are not in the directory.
    fn has_other_blocks(&self, options: &Options) -> bool {
        !self.opened.is_empty() || Peers::wanted(options, self.lan.as_ref()).is_some()
    }
}

/// Does what `plan` says with the UTXO set of `node`. Returns the node to connect blocks in, and
/// the rebuild if it builds a new set.
fn carry_out(
    plan: SyncPlan,
    node: Node,
    run: &Run,
    watch: Watch,
) -> Result<(Node, Option<Rebuild>), SyncError> {
    match plan {
        SyncPlan::StartOver => {
            drop(node);
            let rebuild = Rebuild::begin(&run.disk, run.options)?;
            let node = open_node(run, Coins::New(&rebuild))?;
            Ok((node, Some(rebuild)))
        }
        SyncPlan::Continue { mends, gives_up_rebuild } => {
            let node = check_on_start(node, mends, watch)?;
            if gives_up_rebuild {
                watch.observer.note(
                    "The interrupted rebuild of the UTXO set is given up: it needs the blocks \
                     that --prune deletes",
                );
                rebuild::remove(&run.disk, &run.options.network_dir())?;
            }
            Ok((node, None))
        }
    }
}

/// Connects the blocks that are stored, in the sources, and that peers have.
fn connect_from(
    node: &mut Node,
    (opened, claim): (&[BlockSource], Option<&Claim>),
    lan: Option<LanSearch>,
    started: Instant,
    watch: Watch,
) -> Result<Summary, SyncError> {
    let Some(peers) = begin_peers(node, lan, watch.observer)? else {
        if SyncError::unless_stopped(prepare(node, opened, claim, watch))?.is_some() {
            refuse_gap(node)?;
        }
        return connect(node, claim, started, watch);
    };
    node.ask_peers(Arc::clone(&peers) as Arc<dyn BlockPeers>);
    let observer = peers.observer(watch.observer);
    let watch = Watch::new(&observer, watch.stop);
    run_with_peers(node, &peers, (opened, claim), started, watch)
}

/// Tells the user what becomes of a second UTXO set that bitcoind has loaded from a snapshot.
fn announce_snapshot(snapshot: &SnapshotChainstate, tree: &Tree, observer: &dyn Observer) {
    let height = match tree.find(&snapshot.base) {
        Some(base) => format!(" at height {}", tree.height(base)),
        None => String::new(),
    };
    observer.note(&format!(
        "bitcoind works here with a UTXO set from a snapshot of block {}{height}. This sync \
         continues the one in chainstate, which is validated from the first block on; once that \
         passes the snapshot's block, the other one is removed",
        snapshot.base
    ));
}

/// Finds the blocks of the sources and replaces damaged stored blocks. If blocks are missing for
/// the proof of a snapshot, the snapshot is loaded for bitcoind first.
fn prepare(
    node: &mut Node,
    opened: &[BlockSource],
    claim: Option<&Claim>,
    watch: Watch,
) -> Result<(), SyncError> {
    scan_and_mend(node, opened, watch)?;
    loadtxoutset::load_while_missing(node, claim, watch)
}

/// Finds the blocks of the sources, and replaces stored blocks that are known to be damaged.
fn scan_and_mend(node: &mut Node, opened: &[BlockSource], watch: Watch) -> Result<(), SyncError> {
    let scanning = Instant::now();
    scan_into_node(node, opened, watch)?;
    if let Some(time) = node.sources().from_future
        && let Err(behind) = refuse_clock_behind("a block in the files", time)
    {
        if node.tree().len() == 1 {
            return Err(behind);
        }
        watch.observer.note(&format!("Warning: {behind}"));
    }
    if mend::mend_noted(node, watch.stop)? {
        check_mended(node, watch)?;
    }
    node.shared().clock.add(Stage::Headers, scanning.elapsed());
    tracing::debug!(
        target: "validation",
        headers = node.tree().len(), refused = node.refusals().len(), "sources scanned"
    );
    Ok(())
}

/// Returns an error if there is nothing to connect because the blocks of a pruned source begin
/// above the blocks that are known.
fn refuse_gap(node: &Node) -> Result<(), SyncError> {
    let tip = node.tip();
    let best = node.tree().best_candidate();
    let height = node.tree().node(tip).height;
    // A stray block that is not above the tip leaves no gap.
    let is_above = |gap: &&Gap| gap.height.is_none_or(|first| first > height + 1);
    match node.sources().gap.as_ref().filter(is_above) {
        Some(gap) if best.is_none_or(|best| !node.tree().is_better(best, tip)) => {
            Err(SyncError::Input(format!(
                "{gap}, but {} ends at height {}: put the missing file back, or name a source that \
                 has the blocks between them with another --from, or a peer with --connect",
                node.dir().path().display(),
                height
            )))
        }
        _ => Ok(()),
    }
}

/// Starts looking for peers, if the options ask for peers and there is a way to find one. Returns
/// `None` otherwise: only stored blocks and those of sources are connected.
fn begin_peers(
    node: &Node,
    lan: Option<LanSearch>,
    observer: &dyn Observer,
) -> Result<Option<Arc<Peers>>, SyncError> {
    if let Some(options) = Peers::wanted(node.options(), lan.as_ref()) {
        let height = node.tree().node(node.tip()).height;
        let disk = node.dir().disk();
        let squeeze = node.squeeze();
        let peers = Peers::begin(node.options(), options, lan, disk, height, squeeze)?;
        return Ok(Some(Arc::new(peers)));
    }
    if node.options().peers.is_some() {
        let network = node.options().network.chain.name();
        observer.note(&format!(
            "No peer of {network} is known, and none is named with --connect or --addnode: \
             connecting stored blocks"
        ));
    }
    Ok(None)
}

/// Does what [`connect`] does with peers: headers first, then blocks, again and again until no peer
/// has a better chain; with `--follow` until `watch` asks to stop.
fn run_with_peers(
    node: &mut Node,
    peers: &Arc<Peers>,
    (opened, claim): (&[BlockSource], Option<&Claim>),
    started: Instant,
    watch: Watch,
) -> Result<Summary, SyncError> {
    let mut first = None;
    let followed = follow_peers(node, peers, (opened, claim), started, &mut first, watch);
    let ended = SyncError::unless_stopped(followed)?.is_some();
    let follows = node.options().peers.as_ref().is_some_and(|peers| peers.follow);
    // With --follow a sync does not end: it reaches the tip and waits.
    let interrupted = !(ended || follows && is_complete(node));
    let summary = match first {
        Some(first) if !first.interrupted => first.continued(summary(node, started, interrupted)),
        Some(first) => first,
        None => summary(node, started, true),
    };
    let reports = peers.reports();
    let waited_for_peers = peers.waited();
    let above_tip = Some(above_tip(node));
    Ok(Summary { peers: reports, waited_for_peers, above_tip, ..summary })
}

/// Syncs with peers until none of them has a better chain; with `--follow` until `watch` asks to
/// stop. The summary of the first [`run`] is stored in `first`.
fn follow_peers(
    node: &mut Node,
    peers: &Arc<Peers>,
    (opened, claim): (&[BlockSource], Option<&Claim>),
    started: Instant,
    first: &mut Option<Summary>,
    watch: Watch,
) -> Result<(), SyncError> {
    let follows = node.options().peers.as_ref().is_some_and(|peers| peers.follow);
    let mut is_last = false;
    // An announced block is connected at once, without asking all peers for headers first.
    let mut searches = true;
    loop {
        let claim = claim.filter(|_| first.is_none());
        let search = Search {
            fetches: first.is_some(),
            is_last,
            // Hints may need blocks that the files lack.
            has_files: !opened.is_empty() && claim.is_none() && first.is_none(),
            height: claim.and_then(|claim| claim.height(node.tree())).unwrap_or(0),
            // Where there are files, there may be rev files.
            needs_coins: claim.is_some()
                && opened.is_empty()
                && node.options().assumevalid == AssumeValid::Nothing,
        };
        if searches {
            find_headers(node, peers, search, watch)?;
        }
        if first.is_none() {
            // Now that headers are known, files may turn out to lack blocks, and peers can be asked
            // for good copies of damaged ones.
            prepare(node, opened, claim, watch)?;
        }
        if first.is_some() && is_complete(node) {
            if lags(node, peers) {
                watch.observer.note("No peer has the next blocks: waiting for one that has");
            } else if !follows {
                doubts(node, peers).iter().for_each(|words| watch.observer.note(words));
                return Ok(());
            }
            wait_for_news(node, peers, watch)?;
            searches = lags(node, peers);
            continue;
        }
        bound_cache(node);
        learn_sizes(node, watch).map_err(|fault| fault.into_error(node))?;
        match first {
            None => {
                let summary = first.insert(connect(node, claim, started, watch)?);
                if summary.interrupted {
                    return Err(SyncError::Stopped);
                }
            }
            Some(_) => {
                let before = node.tip();
                let quietly = Watch::new(&Unobserved, watch.stop);
                connect_all(node, None, &mut Course::default(), quietly)?;
                let (shared, _) = node.split();
                while shared.merge(shared.pool, ShareWatch::until(watch.stop))? {}
                index(node, Upkeep::Follow, quietly)?;
                if node.tip() != before {
                    let tip = node.tree().node(node.tip());
                    watch.observer.note(&format!("New tip {} at height {}", tip.hash, tip.height));
                }
            }
        }
        node.forget_claims();
        is_last = !follows;
        searches = !follows || lags(node, peers);
    }
}

/// Sets the memory for the coins cache and for blocks in progress, as far as memory is available.
pub fn bound_cache(node: &mut Node) {
    let headers = header_bytes(node.tree(), node.view().is_some());
    node.ledger_mut().limit.share = InOrderShare::new(node.options().dbcache_bytes, headers);
}

/// Returns whether the data directory has a block index, or block files without one.
fn holds_blocks(options: &Options) -> bool {
    let index = options.network_dir().join("blocks/index");
    let is_block_file = |name: &str| name.starts_with("blk") && name.ends_with(".dat");
    let names = options.blocks_path().read_dir().into_iter().flatten().flatten();
    index.is_dir() || names.map(|e| e.file_name()).any(|n| n.to_str().is_some_and(is_block_file))
}

/// Closes the data directory. If a rebuilt chainstate is complete, it replaces the present one.
pub(crate) fn end(
    mut node: Node,
    rebuild: Option<Rebuild>,
    summary: Summary,
) -> Result<Summary, SyncError> {
    if rebuild.is_some() && !summary.interrupted {
        shrink::check_height(&node, &summary.refusals)?;
        let tip = node.tip();
        let (shared, ledger) = node.split();
        ledger.writes.new_set = false;
        write_failed(&shared, ledger)?;
        leave_snapshot(&shared, ledger, tip)?;
    }
    let dir = node.close();
    if let Some(rebuild) = rebuild.filter(|_| !summary.interrupted) {
        rebuild.take_place()?;
    }
    drop(dir);
    Ok(summary)
}

/// Marks in the index the blocks that the rebuild refused.
fn write_failed(shared: &Shared, ledger: &mut Ledger) -> Result<(), StoreError> {
    let Shared { tree, files, .. } = *shared;
    let failed: Vec<_> = tree.ids().filter(|id| tree.node(*id).failed).collect();
    if failed.is_empty() {
        return Ok(());
    }
    for id in failed {
        ledger.change(id);
    }
    ledger.write_index(files, tree)
}

/// Gives up a second UTXO set if bitcoind could not start with it next to the rebuilt one.
fn leave_snapshot(shared: &Shared, ledger: &mut Ledger, tip: BlockId) -> Result<(), StoreError> {
    if let Some(left) = ledger.leave_snapshot(shared.tree, tip) {
        ledger.write_index(shared.files, shared.tree)?;
        left.give_up()?;
    }
    Ok(())
}

/// Connects the best chain and merges the tables, after the blocks of the sources were found.
pub(crate) fn connect(
    node: &mut Node,
    claim: Option<&Claim>,
    started: Instant,
    watch: Watch,
) -> Result<Summary, SyncError> {
    let mut course = Course::default();
    let connected = connect_and_merge(node, claim, &mut course, watch);
    let interrupted = SyncError::unless_stopped(connected)?.is_none();
    let may_carry_on = claim.is_none() && node.options().method != Some(Method::InOrder);
    let Course { chosen, mut saved, spilled_bytes, .. } = course;
    if interrupted && may_carry_on {
        let join = join::directory::unfinished(node.dir().disk(), node.options())?;
        saved = join.map(SavedSync::Join);
    }
    if let Some(claim) = claim.filter(|_| chosen.is_none())
        && !swift::build::is_past(node.tree(), node.ledger(), claim)
    {
        let blocks = swift::build::saved_blocks(node.dir(), node.tree(), claim)?;
        saved = Some(SavedSync::SwiftSync(blocks));
    }
    let above_tip = Some(above_tip(node));
    let summary = summary(node, started, interrupted);
    Ok(Summary { above_tip, chosen, saved, spilled_bytes, ..summary })
}

/// Connects the best chain, stores side branches, and merges the tables.
fn connect_and_merge(
    node: &mut Node,
    claim: Option<&Claim>,
    course: &mut Course,
    watch: Watch,
) -> Result<(), SyncError> {
    if watch.is_stopped() {
        return Err(SyncError::Stopped);
    }
    node.publish_headers();
    let (shared, ledger) = node.split();
    ledger.prune(&shared)?;
    let observer = node.watch_threads().observer(watch.observer);
    let watch = Watch::new(&observer, watch.stop);
    node.watch_memory();
    learn_from_samples(node);
    connect_all(node, claim, course, watch)?;
    store_side_branches(node, watch)?;
    if watch.is_stopped() {
        return Err(SyncError::Stopped);
    }
    observe(watch.observer, Phase::Merging, node);
    let report = share_of(watch.observer, Phase::Merging, node);
    let (shared, _) = node.split();
    let timer = shared.clock.start(Stage::Merge);
    let is_settled = shared.settle(ShareWatch { report: &report, stop: watch.stop })?;
    drop(timer);
    if is_settled { index(node, Upkeep::Settle, watch) } else { Err(SyncError::Stopped) }
}

/// Returns the summary of the work on `node` since `started`, and takes the refusals from `node`.
pub fn summary(node: &mut Node, started: Instant, interrupted: bool) -> Summary {
    let tip = node.tree().node(node.tip());
    Summary {
        height: tip.height,
        best_block: tip.hash,
        coins: node.ledger().coins.map(|coins| coins as u64),
        chosen: None,
        above_tip: None,
        disconnected: node.ledger().done.disconnected,
        spilled_bytes: None,
        counts: node.ledger().done.counts,
        scripts: node.shared().scripts.counts(),
        script_difference: node.shared().scripts.difference().cloned(),
        elapsed: started.elapsed(),
        cpu: resources::cpu_time(),
        peak_memory: resources::peak_memory(),
        interrupted,
        saved: None,
        checked: node.ledger().done.checked.clone(),
        undo_from: node.ledger().undo_from(),
        pruned: node.ledger().pruned(node.files()),
        refusals: node.take_refusals(),
        repaired: std::mem::take(node.repaired()),
        stages: node.shared().clock.stages(),
        waits: node.shared().clock.waits(),
        waited_for_peers: Duration::ZERO,
        ran: Ran::default(),
        states: node.thread_states(),
        peers: Vec::new(),
    }
}
