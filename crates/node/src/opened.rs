//! An opened data directory, with everything that is kept in memory for it.

mod opening;

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use apus_chain::{BlockId, Tree};
use apus_coins::{Chainstate, CoinsCache};
use apus_disk::StoreError;
use apus_hash::Hash;
use apus_store::{BlockFiles, BlockStatus, DataDir, IndexRecord};
use rayon::ThreadPool;

use super::block::scripts::ScriptChecker;
use super::block::step::Step;
use super::block::validate::BranchTimes;
use super::block_peers::BlockPeers;
use super::commit::Ledger;
use super::forecast::Forecast;
use super::options::Options;
use super::rebuild::{self, Rebuild};
use super::refusals::Refusals;
use super::scan::Findings;
use super::shared::Shared;
use super::sources::{BlockOrigin, Sources};
use super::view::View;
use apus_host::memory::pressure::{PressureWatch, Squeeze};
use apus_host::root::Root;
use apus_progress::clock::Clock;
use apus_progress::estimate::plan::Costs;
use apus_progress::marks::Marks;
use apus_progress::meters::Meters;
use apus_progress::outcome::{Refusal, ThreadStates};
use apus_progress::states::StatesWatch;
use apus_progress::{Observer, Phase, Progress};

/// Bytes of an average transaction, for the weight of stored blocks whose size is not known.
const TX_BYTES: u64 = 500;

/// An opened data directory.
pub struct Node {
    /// The options that the directory was opened with.
    options: Options,
    /// The directory, locked.
    dir: DataDir,
    /// The work of this run, and the part of it that is not on disk yet.
    ledger: Ledger,
    /// Data that all threads read while the ledger changes.
    parts: Parts,
    /// The median time past of each block of the branch that was connected last.
    times: BranchTimes,
    /// Blocks that count as available since a peer says that it has them.
    claimed: Vec<BlockId>,
    /// Expectations of blocks yet to be connected.
    forecast: Forecast,
    /// The observed states of threads, once blocks are connected.
    states: Option<StatesWatch>,
    /// How far the run makes itself smaller while the system is short of memory.
    squeeze: Arc<Squeeze>,
    /// Sets `squeeze`, once blocks are connected.
    pressure: Option<PressureWatch>,
    /// The blocks, and parts of source files, that were not taken.
    refusals: Refusals,
    /// The damaged copies of stored blocks that were replaced.
    repaired: Vec<Refusal>,
}

/// The parts of a node that threads read side by side.
struct Parts {
    /// The block and undo files.
    files: BlockFiles,
    /// The UTXO set on disk.
    chainstate: Chainstate,
    /// The coins in memory.
    cache: CoinsCache,
    /// All known headers.
    tree: Tree,
    /// The files given with --from.
    sources: Sources,
    /// The peers that send blocks; `None` if only blocks that are stored or in sources are
    /// connected.
    peers: Option<Arc<dyn BlockPeers>>,
    /// How scripts are checked.
    scripts: ScriptChecker,
    /// The threads for loops over much data.
    pool: ThreadPool,
    /// The times of the stages.
    clock: Arc<Clock>,
    /// The work done on each block.
    marks: Arc<Marks>,
    /// The cost of blocks in each phase, by their contents.
    costs: Costs,
    /// Where the directory's content is shown to readers, if it is.
    view: Option<Arc<View>>,
}

impl Parts {
    fn shared(&self) -> Shared<'_> {
        Shared {
            network: self.tree.network(),
            tree: &self.tree,
            files: &self.files,
            sources: &self.sources,
            chainstate: &self.chainstate,
            cache: &self.cache,
            clock: &self.clock,
            pool: &self.pool,
            peers: self.peers.as_deref(),
            scripts: &self.scripts,
            marks: &self.marks,
            view: self.view.as_deref(),
            costs: &self.costs,
        }
    }
}

/// The UTXO set to work on.
#[derive(Clone, Copy)]
pub enum Coins<'a> {
    /// The UTXO set of the data directory.
    InPlace,
    /// A new UTXO set, which is built next to that of the data directory and replaces it at the
    /// end.
    New(&'a Rebuild),
    /// The UTXO set of the data directory, opened only for reading. Block files may have been
    /// pruned.
    ReadOnly,
}

impl Node {
    /// Finds the indexes that hold pruning back.
    pub fn find_prune_locks(&mut self) -> Result<(), StoreError> {
        self.ledger.pruning.find_lock(self.dir.disk(), &self.options, &self.parts.tree)
    }

    /// Makes blocks and undo data durable, and then their index entries.
    pub fn write_index(&mut self) -> Result<(), StoreError> {
        self.ledger.write_index(&self.parts.files, &self.parts.tree)
    }

    /// Shows readers all headers that are known by now.
    pub fn publish_headers(&self) {
        if let Some(view) = &self.parts.view {
            view.follow_headers(&self.parts.tree);
        }
    }

    /// Returns the parts that threads share, and the ledger, which may be changed at the same time.
    pub fn split(&mut self) -> (Shared<'_>, &mut Ledger) {
        (self.parts.shared(), &mut self.ledger)
    }

    /// Returns the parts that threads share.
    pub fn shared(&self) -> Shared<'_> {
        self.parts.shared()
    }

    /// Returns what the work on this directory measures.
    pub fn meters(&self) -> Meters {
        Meters {
            clock: Arc::clone(&self.parts.clock),
            marks: Arc::clone(&self.parts.marks),
            scripts: Arc::clone(self.parts.scripts.tally()),
        }
    }

    /// Makes the run smaller from now on while the system is short of memory.
    pub fn watch_memory(&mut self) {
        let squeeze = &self.squeeze;
        self.pressure
            .get_or_insert_with(|| PressureWatch::begin(Root::system(), Arc::clone(squeeze)));
    }

    /// Returns how far the run makes itself smaller while the system is short of memory.
    pub fn squeeze(&self) -> &Arc<Squeeze> {
        &self.squeeze
    }

    /// Returns the last block of the active chain.
    pub fn tip(&self) -> BlockId {
        self.ledger.active.tip().unwrap_or(self.parts.tree.genesis())
    }

    /// Returns the best block of the UTXO set in the data directory, even if another set is being
    /// built next to it.
    pub fn tip_in_use(&self) -> Result<BlockId, StoreError> {
        if !self.ledger.writes.new_set {
            return Ok(self.tip());
        }
        let chainstate = self.chainstate_in_use()?;
        let best = chainstate.best_block()?;
        best.map_or(Ok(self.parts.tree.genesis()), |hash| self.find_best_block(&chainstate, hash))
    }

    /// Opens the UTXO set in the data directory for reading, while another one is being built.
    fn chainstate_in_use(&self) -> Result<Chainstate, StoreError> {
        Chainstate::open_read_only(self.dir.disk(), &self.dir.chainstate_path())
    }

    /// Returns the hash of the best block of the UTXO set in the data directory.
    fn best_block_in_use(&self) -> Result<Option<Hash>, StoreError> {
        if self.ledger.writes.new_set {
            self.chainstate_in_use()?.best_block()
        } else {
            self.parts.chainstate.best_block()
        }
    }

    /// Marks pruned blocks outside the active chain as no longer available.
    pub fn forget_pruned(&mut self) {
        for id in self.ledger.pruning.take_side_blocks() {
            if !self.ledger.active.contains(&self.parts.tree, id) {
                self.parts.tree.mark_missing(id);
            }
        }
    }

    /// Returns the best block of a UTXO set in the data directory, whose hash is `hash`.
    fn find_best_block(&self, chainstate: &Chainstate, hash: Hash) -> Result<BlockId, StoreError> {
        let what = match self.parts.tree.find(&hash).map(|id| (id, self.parts.tree.node(id))) {
            Some((id, block)) if !block.failed => return Ok(id),
            Some((_, block)) => {
                let remedy = if chainstate.dir().ends_with(rebuild::DIRECTORY) {
                    "remove this directory, and run `apus reindex`, which starts from the beginning"
                } else {
                    "if another program marked it, `apus sync --reconsider` removes the mark; \
                     otherwise `apus reindex` rebuilds the chainstate from the blocks"
                };
                let height = block.height;
                format!(
                    "its best block {hash}, at height {height}, is marked invalid in the block \
                     index; {remedy}"
                )
            }
            None => {
                let headers = self.parts.tree.node(self.parts.tree.best_header()).height;
                return Err(not_indexed(chainstate, &hash, &self.dir.index_path(), headers));
            }
        };
        Err(StoreError::new(chainstate.dir(), what))
    }

    /// Marks a block and all its descendants as failed, in the block index too.
    pub fn mark_failed(&mut self, id: BlockId) {
        for failed in self.parts.tree.mark_failed(id) {
            self.ledger.change(failed).status.0 |= BlockStatus::BLOCK_FAILED_VALID;
        }
    }

    /// Lists a block, or bytes of a source, as not taken.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.refusals.listed.push(refusal);
    }

    /// Returns the refusals since they were last taken.
    pub fn refusals(&self) -> &[Refusal] {
        &self.refusals.listed
    }

    /// Returns all refusals so far, and clears them ([`Refusals::take`]).
    pub fn take_refusals(&mut self) -> Vec<Refusal> {
        self.refusals.take(&self.parts.tree)
    }

    /// Returns the list of damaged copies of stored blocks that were replaced.
    pub fn repaired(&mut self) -> &mut Vec<Refusal> {
        &mut self.repaired
    }

    /// Returns what a scan of sources adds to, and the ledger.
    pub fn findings(&mut self) -> (Findings<'_>, &mut Ledger) {
        let Self { parts: Parts { tree, sources, .. }, refusals, ledger, .. } = self;
        (Findings { tree, sources, refusals }, ledger)
    }

    /// Changes the tree. The ledger then has a record of each header.
    pub fn change_tree<T>(&mut self, change: impl FnOnce(&mut Tree) -> T) -> T {
        let changed = change(&mut self.parts.tree);
        self.ledger.records.follow(&self.parts.tree);
        changed
    }

    /// Counts blocks as available that peers say they have: `claim` marks them in the tree, and
    /// returns them.
    pub fn claim(&mut self, claim: impl FnOnce(&mut Tree) -> Vec<BlockId>) {
        let claimed = claim(&mut self.parts.tree);
        self.claimed.extend(claimed);
    }

    /// Forgets that blocks were available which peers have and which are not stored: what is not
    /// here after a pipeline is awaited without it.
    pub fn forget_claims(&mut self) {
        let mut claimed = std::mem::take(&mut self.claimed);
        // A block is unlinked after all that build on it.
        claimed.sort_by_key(|id| Reverse(self.parts.tree.node(*id).height));
        for id in claimed {
            let is_active = self.ledger.active.contains(&self.parts.tree, id);
            if !is_active && step(self, id).is_some_and(|step| step.place == BlockOrigin::Peers) {
                self.parts.tree.mark_missing(id);
            }
        }
    }

    /// Forgets a source's bad copy of a block. Another copy is tried; without one, the block is no
    /// longer available. The bad copy does not count when the first of two equal chains is chosen.
    pub fn forget_copy(&mut self, id: BlockId, place: super::sources::SourcePlace) {
        match self.parts.sources.forget(id, place) {
            // Peers may have a good one.
            None if self.parts.peers.is_some() => {}
            None => self.parts.tree.mark_missing(id),
            Some(_) => {
                let mut order = self.parts.sources.in_order(self.parts.tree.ids());
                // Blocks that peers have, or have sent.
                let others = |id: &BlockId| {
                    self.parts.sources.place(*id).is_none() && self.parts.tree.is_available(*id)
                };
                order.extend(self.parts.tree.ids().filter(others));
                self.parts.tree.mark_available_in_order(&order);
            }
        }
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the options, to go on with others.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Returns the directory, which is locked.
    pub fn dir(&self) -> &DataDir {
        &self.dir
    }

    pub fn files(&self) -> &BlockFiles {
        &self.parts.files
    }

    /// Returns the UTXO set on disk.
    pub fn chainstate(&self) -> &Chainstate {
        &self.parts.chainstate
    }

    /// Returns all known headers.
    pub fn tree(&self) -> &Tree {
        &self.parts.tree
    }

    /// Returns the work of this run.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the work of this run, for changing.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Returns the files given with --from.
    pub fn sources(&self) -> &Sources {
        &self.parts.sources
    }

    /// Returns what is expected of blocks yet to be connected.
    pub fn forecast(&self) -> &Forecast {
        &self.forecast
    }

    /// Returns what is expected of blocks yet to be connected, to learn more about them.
    pub fn forecast_mut(&mut self) -> &mut Forecast {
        &mut self.forecast
    }

    /// Returns where the directory's content is shown to readers, if it is.
    pub fn view(&self) -> Option<&Arc<View>> {
        self.parts.view.as_ref()
    }

    /// Returns the peers that send blocks, if there are any.
    pub fn peers(&self) -> Option<&Arc<dyn BlockPeers>> {
        self.parts.peers.as_ref()
    }

    /// Asks these peers for blocks from now on.
    pub fn ask_peers(&mut self, peers: Arc<dyn BlockPeers>) {
        self.parts.peers = Some(peers);
    }

    /// Checks scripts by `scripts` from now on.
    pub fn check_scripts_by(&mut self, scripts: ScriptChecker) {
        self.options.scripts.engine = scripts.engine();
        self.parts.scripts = scripts;
    }

    /// Drops all coins in memory, which must be committed or not be wanted.
    pub fn drop_cache(&mut self) {
        self.parts.cache = CoinsCache::new();
    }

    /// Returns the median times past of the branch of `last`, which is to be connected.
    pub fn times_of_branch(&mut self, last: BlockId) -> BranchTimes {
        self.times.follow(&self.parts.tree, last);
        self.times.clone()
    }

    /// Watches what the threads do, from now on.
    pub fn watch_threads(&mut self) -> &StatesWatch {
        self.states.get_or_insert_with(StatesWatch::begin)
    }

    /// Returns what the threads were seen doing.
    pub fn thread_states(&self) -> ThreadStates {
        self.states.as_ref().map_or_else(ThreadStates::default, StatesWatch::seen)
    }

    /// Closes everything but the directory, which stays locked until it is dropped.
    pub fn close(self) -> DataDir {
        self.dir
    }

    pub fn record(&self, id: BlockId) -> &IndexRecord {
        self.ledger.record(id)
    }
}

/// Returns the error for a UTXO set whose best block is not in the block index `index`, which ends
/// at height `headers`: the two belong to different states of a directory.
pub fn not_indexed(chainstate: &Chainstate, best: &Hash, index: &Path, headers: u32) -> StoreError {
    let what = format!(
        "its best block {best}{} is not in the block index in {}, which ends at height {headers}: \
         `apus reindex --index` looks for it in the block files, and rebuilds the index if it is \
         there",
        about_height(chainstate),
        index.display(),
    );
    StoreError::new(chainstate.dir(), what)
}

/// Returns words for the height of a UTXO set whose best block is not known: that of its newest
/// coin among the first million by key. Keys are hashes, so these coins are as new as any others.
/// Empty if there is no coin.
pub fn about_height(chainstate: &Chainstate) -> String {
    let mut scan = chainstate.scan_txids(&Hash::ZERO, &Hash([0xff; 32]));
    let coins = std::iter::from_fn(|| scan.next_coin().ok().flatten());
    let newest = coins.take(1_000_000).map(|(_, coin)| coin.height).max();
    newest.map_or_else(String::new, |height| format!(", at about height {height},"))
}

/// Returns the error for an empty UTXO set. A join or a SwiftSync may have been interrupted, which
/// commits its coins at the end, and which another method would give up.
pub fn no_coins(dir: &DataDir) -> StoreError {
    let is_unfinished =
        ["join", "swiftsync"].iter().any(|name| dir.path().join(name).join("progress").is_file());
    let what = if is_unfinished {
        "the UTXO set is empty until a sync that was interrupted ends: finish it (`apus status` \
         says how)"
    } else {
        "the UTXO set is empty: no block is connected; run `apus sync` to connect stored blocks, \
         blocks from peers, or blocks from files given with --from"
    };
    StoreError::new(dir.chainstate_path(), what)
}

/// Returns the step for a block, with its place and weight; `None` if its bytes are not available.
pub fn step(node: &Node, id: BlockId) -> Option<Step> {
    let record = node.record(id);
    if let Some(pos) = record.block_pos() {
        let known = node.forecast.stored_size(&node.ledger.records, &node.parts.files, id);
        let weight = known.unwrap_or_else(|| 81 + u64::from(record.tx_count) * TX_BYTES);
        return Some(Step { id, place: BlockOrigin::Stored(pos), weight });
    }
    if let Some(place) = node.parts.sources.place(id) {
        return Some(Step { id, place: BlockOrigin::Source(place), weight: u64::from(place.len) });
    }
    let has_peers = node.parts.peers.is_some() && node.parts.tree.is_available(id);
    has_peers.then(|| {
        let weight = node.forecast.sizes.expected(node.parts.tree.node(id).height);
        Step { id, place: BlockOrigin::Peers, weight }
    })
}

/// Returns the refusal of a step's block: the reason, and where its bytes are.
pub fn refusal(shared: &Shared, step: &Step, reason: String) -> Refusal {
    let block = Some(shared.tree.node(step.id).hash);
    match step.place {
        BlockOrigin::Source(place) => Refusal { block, ..shared.sources.refusal(place, reason) },
        BlockOrigin::Stored(pos) => Refusal {
            path: Some(shared.files.block_path(pos.file)),
            offset: Some(u64::from(pos.pos)),
            block,
            reason,
        },
        BlockOrigin::Peers => Refusal { path: None, offset: None, block, reason },
    }
}

/// Shows an observer the start of a phase in which no block is connected.
pub fn observe(observer: &dyn Observer, phase: Phase, node: &Node) {
    share_of(observer, phase, node)(0.0);
}

/// Returns a function that shows an observer the share done of a phase in which no block is
/// connected.
pub fn share_of<'a>(
    observer: &'a dyn Observer,
    phase: Phase,
    node: &Node,
) -> impl Fn(f64) + Sync + use<'a> {
    let tip = node.parts.tree.node(node.tip());
    let begun = Progress {
        height: tip.height,
        time: tip.time,
        blocks: node.ledger.done.counts.blocks,
        bytes: node.ledger.done.counts.bytes,
        coins: node.parts.cache.sizes().entries as u64,
        ..Progress::of(phase)
    };
    begun.share_to(observer)
}
