//! The work that has been done, and the order in which it becomes durable: block and undo files,
//! then the block index, then coins and best block in one step. If a crash comes in between, the
//! index is ahead of the coins: `Node::stand_at_best_block` starts at the best block of the coins,
//! and the stored blocks after it connect again.
//!
//! While blocks connect in order, [`Ledger::wants_commit`] alone decides when to commit; between
//! commits, [`Ledger::write_index_every`] writes blocks from peers to the index.
//! The loop of a sync in order also commits at the end, when it is stopped, before it gives up on a
//! damaged block, and if the disk is full. docs/design.md, section 10, lists everything that is
//! saved, and when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apus_chain::{ActiveChain, BlockId, Tree};
use apus_coins::CoinsCache;
use apus_disk::StoreError;
use apus_hash::Hash;
use apus_store::{BlockFiles, BlockStatus, IndexDb, IndexRecord, usage};
use apus_wire::BlockView;

use super::block::validate::Validation;
use super::block_records::BlockRecords;
use super::cache_limit::CacheLimit;
use super::checked::Checked;
use super::coin_count::{CoinCount, CoinsAt};
use super::commit_job::{CommitJob, write_coin_count, write_index};
use super::growth::COIN_BYTES;
use super::pruning::Pruning;
use super::publication::Publication;
use super::shared::Shared;
use super::snapshot_chainstate::SnapshotChainstate;
use super::sources::BlockBytes;
use super::tips::Tips;
use super::view::{NewCommit, View};
use apus_host::memory::pressure::Squeeze;
use apus_progress::clock::Stage;
use apus_progress::marks::Mark;
use apus_progress::outcome::Counts;
use apus_progress::{Observer, Phase, Progress};

/// The interval at which blocks that connect in order are committed, and so about the most work
/// that is repeated after a crash. SwiftSync and the join save their work every
/// [`Options::save_every`](super::options::Options::save_every).
const COMMIT_EVERY: Duration = Duration::from_secs(5 * 60);

/// The block index in memory, the active chain, and the part of both that is not yet on disk.
pub struct Ledger {
    /// The records of all blocks.
    pub records: BlockRecords,
    /// The active chain, from whose blocks the UTXO set is made.
    pub active: ActiveChain,
    /// Number of coins in the UTXO set, if known.
    pub coins: Option<i64>,
    /// The work of this run.
    pub done: WorkDone,
    /// Which files are written, and where.
    pub writes: Writes,
    /// The memory for the cache and for blocks in progress.
    pub limit: CacheLimit,
    /// Which block files are pruned.
    pub pruning: Pruning,
    /// The new tips that observers are shown.
    pub tips: Tips,
    /// The second UTXO set of the directory, which bitcoind has loaded from a snapshot.
    pub snapshot: Option<SnapshotChainstate>,
    /// The commits that readers are shown, if there may be readers.
    publication: Option<Publication>,
    commits: Commits,
}

/// The work of a run.
#[derive(Default)]
pub struct WorkDone {
    /// The amount of work.
    pub counts: Counts,
    /// Number of blocks that were disconnected.
    pub disconnected: u64,
    /// The rules that were not checked.
    pub checked: Checked,
}

/// Which files a ledger writes, and where; set when the directory is opened.
pub struct Writes {
    /// Whether anything is written; if not, the directory is only read.
    pub any: bool,
    /// Whether blocks and undo data are stored; if not, blocks are read where they are each time.
    pub blocks: bool,
    /// Whether commits go to a new UTXO set, which replaces `chainstate` at the end.
    pub new_set: bool,
    /// Whether the tables of coins and the blocks are on the same disk.
    pub one_disk: bool,
}

impl Default for Writes {
    fn default() -> Self {
        Self { any: true, blocks: true, new_set: false, one_disk: false }
    }
}

/// The commits of a run.
struct Commits {
    coin_count: Arc<CoinCount>,
    /// The commit that is being written.
    being_written: Option<Committing>,
    last: Instant,
    /// The part of [`Counts::blocks`] that is durable.
    blocks: u64,
    /// Height of the tip whose coins are durable.
    height: u32,
    /// The tip whose coins are durable; `None` if there are none.
    tip: Option<BlockId>,
}

/// A commit that is being written: what it makes durable.
struct Committing {
    blocks: u64,
    height: u32,
    tip: Option<BlockId>,
    coins: Option<i64>,
    /// The number of changed coins.
    changed: usize,
    entries: Vec<BlockId>,
}

impl Ledger {
    /// Returns a ledger without entries.
    pub fn new(
        index: IndexDb,
        coin_count: CoinCount,
        dbcache_bytes: usize,
        squeeze: Arc<Squeeze>,
    ) -> Self {
        Self {
            records: BlockRecords::new(index),
            active: ActiveChain::default(),
            coins: None,
            done: WorkDone::default(),
            writes: Writes::default(),
            limit: CacheLimit::new(dbcache_bytes, squeeze),
            pruning: Pruning::default(),
            tips: Tips::default(),
            snapshot: None,
            publication: None,
            commits: Commits {
                coin_count: Arc::new(coin_count),
                being_written: None,
                last: Instant::now(),
                blocks: 0,
                height: 0,
                tip: None,
            },
        }
    }

    pub fn record(&self, id: BlockId) -> &IndexRecord {
        self.records.get(id)
    }

    /// Returns the record of a block for changing, and marks it as changed.
    pub fn change(&mut self, id: BlockId) -> &mut IndexRecord {
        self.records.change(id)
    }

    /// Returns the height of the tip whose coins are durable.
    pub fn committed_height(&self) -> u32 {
        self.commits.height
    }

    /// Returns the tip whose coins are durable; `None` if there are none.
    pub fn committed_tip(&self) -> Option<BlockId> {
        self.commits.tip
    }

    /// Appends a block to the block files, if blocks are stored and it is not.
    pub fn store_block(
        &mut self,
        shared: &Shared,
        id: BlockId,
        block: &BlockView<BlockBytes>,
    ) -> Result<(), StoreError> {
        self.store_block_in(shared.files, shared.tree, id, block)
    }

    /// Implements [`Ledger::store_block`] without [`Shared`].
    pub fn store_block_in<B: AsRef<[u8]>>(
        &mut self,
        files: &BlockFiles,
        tree: &Tree,
        id: BlockId,
        block: &BlockView<B>,
    ) -> Result<(), StoreError> {
        if self.record(id).block_pos().is_some() || !self.writes.blocks {
            return Ok(());
        }
        let node = tree.node(id);
        let pos = files.append_block(block.bytes(), node.height, node.time)?;
        self.records.note_stored(tree, id, pos, block.tx_count() as u32);
        Ok(())
    }

    /// Makes a block whose checks are finished the tip, and writes its undo data if blocks are
    /// stored.
    pub fn retire(&mut self, shared: &Shared, block: &Validation) -> Result<(), StoreError> {
        let keeps = self.writes.blocks;
        let record = self.change(block.id);
        if keeps {
            let prev = shared.tree.prev_hash(block.id);
            shared.files.write_undo(record, block.prepared.height, &prev, block.undo())?;
        }
        record.status.raise_validity(BlockStatus::BLOCK_VALID_SCRIPTS);
        self.active.push(shared.tree, block.id);
        let view = block.prepared.block.view();
        if let Some(coins) = &mut self.coins {
            *coins += block.coins_gained();
        }
        let with_scripts = block.scripts.is_some();
        self.done.checked.note_connected(block.prepared.height, with_scripts);
        let mark = if with_scripts { Mark::Scripts } else { Mark::Assumed };
        shared.marks.set(block.prepared.height, mark);
        let scripts = if with_scripts { block.input_count() as u64 } else { 0 };
        self.done.counts = Counts {
            blocks: self.done.counts.blocks + 1,
            bytes: self.done.counts.bytes + view.len() as u64,
            transactions: self.done.counts.transactions + view.tx_count() as u64,
            inputs: self.done.counts.inputs + block.input_count() as u64,
            scripts: self.done.counts.scripts + scripts,
        };
        Ok(())
    }

    /// Shows the tip to peers, and to an observer that wants to see each tip.
    pub fn show_tip(&mut self, shared: &Shared, observer: &dyn Observer) {
        if let Some((peers, height)) = shared.peers.zip(self.active.height()) {
            peers.set_height(height);
        }
        if observer.wants_tips() {
            self.tips.show(shared, &self.active, &self.records.all, observer);
        }
    }

    /// Returns whether it is time to begin a commit: the cache is nearly full and much of it has
    /// changed, a crash would lose too much work, or block files can be pruned after the commit.
    /// False if no block was retired since the last commit, or a cache too small for one block
    /// would be committed forever; while a commit is being written; and if the directory is only
    /// read.
    pub fn wants_commit(&self, cache: &CoinsCache) -> bool {
        self.writes.any
            && self.done.counts.blocks > self.commits.blocks
            && !self.is_committing()
            && (self.limit.is_reached_by_changes(cache)
                || self.commits.last.elapsed() > COMMIT_EVERY
                || self.pruning.waits_for_commit)
    }

    /// Returns about how many bytes of tables the uncommitted coins, and as many as `coming`, will
    /// need on the disk of the blocks; 0 if the tables are on another disk.
    pub fn room_for_coins(&self, cache: &CoinsCache, coming: usize) -> u64 {
        let committing =
            self.commits.being_written.as_ref().map_or(0, |committing| committing.changed);
        if self.writes.one_disk {
            (cache.sizes().changed + committing + coming) as u64 * COIN_BYTES
        } else {
            0
        }
    }

    /// Returns whether a commit is being written.
    pub fn is_committing(&self) -> bool {
        self.commits.being_written.is_some()
    }

    /// Drops clean coins if the cache is full, or will be with as many coins as `coming`. Returns
    /// whether there is space for another block; if not, the commit that is being written must end
    /// first.
    pub fn make_room(&self, cache: &CoinsCache, coming: usize) -> bool {
        if !self.limit.is_over(cache, coming) {
            return true;
        }
        self.limit.shrink(cache);
        !self.is_full(cache, coming)
    }

    /// Returns whether the cache is over its limit, or will be with as many coins as `coming`,
    /// while a commit is being written.
    pub fn is_full(&self, cache: &CoinsCache, coming: usize) -> bool {
        self.is_committing() && self.limit.is_over(cache, coming)
    }

    /// Sets the active chain, whose last block was committed with this number of coins, and the
    /// counts of this run.
    pub fn stand_at(
        &mut self,
        shared: &Shared,
        active: ActiveChain,
        coins: Option<i64>,
        counts: Counts,
    ) {
        self.active = active;
        self.coins = coins;
        self.done.counts = counts;
        self.note_commit(counts.blocks, self.active.height().unwrap_or(0), self.active.tip());
        self.publish(shared, self.active.tip(), coins);
    }

    /// Sets the active chain to that of the chainstate, when the directory is opened.
    pub fn begin_at(&mut self, active: ActiveChain) {
        self.commits.height = active.height().unwrap_or(0);
        self.commits.tip = active.tip();
        self.active = active;
    }

    /// Looks up the number of coins at `best`, the chainstate's best block.
    pub fn find_coins(&mut self, best: Option<&Hash>) -> Result<(), StoreError> {
        self.coins = match best {
            None => Some(0),
            Some(best) => self.commits.coin_count.read(best)?.map(|count| count.coins as i64),
        };
        Ok(())
    }

    /// Saves the number of coins at the block `next`, which is about to become the best block.
    pub fn write_coin_count(&self, shared: &Shared, next: CoinsAt) -> Result<(), StoreError> {
        write_coin_count(&self.commits.coin_count, shared.chainstate.best_block()?, next)
    }

    /// Returns the lowest height from which on every block of the active chain is stored; 1 if all
    /// are.
    pub fn blocks_from(&self) -> u32 {
        let mut above_genesis = (1..=self.active.height().unwrap_or(0)).rev();
        let lacks_block = |height: &u32| {
            self.active.at(*height).is_some_and(|id| self.record(id).block_pos().is_none())
        };
        above_genesis.find(lacks_block).map_or(1, |height| height + 1)
    }

    /// Returns the lowest height from which on every stored block of the active chain has undo
    /// data; 1 if all have.
    pub fn undo_from(&self) -> u32 {
        let above_genesis = (1..=self.active.height().unwrap_or(0)).rev();
        let lacks_undo = |height: &u32| {
            let record = self.active.at(*height).map(|id| self.record(id));
            record.is_some_and(|record| record.block_pos().is_some() && record.undo_pos().is_none())
        };
        above_genesis.into_iter().find(lacks_undo).map_or(1, |height| height + 1)
    }

    /// Shows readers in `view`, from now on, what each commit has made durable; first, what the
    /// directory holds, which must be all committed.
    pub fn publish_in(&mut self, shared: &Shared, view: Arc<View>) {
        let records = shared.tree.ids().zip(self.records.all.iter().copied()).collect();
        let commit = self.new_commit(shared, self.active.tip(), self.coins, records);
        self.publication = Some(Publication::open(view, shared.files, commit));
    }

    /// Shows readers the chain that ends in `tip`, which is committed with this number of coins.
    fn publish(&mut self, shared: &Shared, tip: Option<BlockId>, coins: Option<i64>) {
        let Some(mut publication) = self.publication.take() else { return };
        publication.show(|records| self.new_commit(shared, tip, coins, records));
        self.publication = Some(publication);
    }

    fn new_commit<'a>(
        &self,
        shared: &Shared<'a>,
        tip: Option<BlockId>,
        coins: Option<i64>,
        records: Vec<(BlockId, IndexRecord)>,
    ) -> NewCommit<'a> {
        NewCommit {
            tree: shared.tree,
            records,
            tip: tip.unwrap_or(shared.tree.genesis()),
            coins: shared.chainstate.view(),
            coin_count: coins.map(|coins| coins as u64),
            files_bytes: usage(&shared.files.infos()),
            is_pruned: self.pruning.is_pruned,
            may_prune: self.pruning.mode.is_some(),
            prune_target: self.pruning.target(),
        }
    }

    /// Tells readers that the data of these blocks is about to be deleted.
    pub fn hide(&self, blocks: &[BlockId]) {
        if let Some(publication) = &self.publication {
            publication.hide(blocks);
        }
    }

    fn note_commit(&mut self, blocks: u64, height: u32, tip: Option<BlockId>) {
        self.commits.last = Instant::now();
        self.commits.blocks = blocks;
        self.commits.height = height;
        self.commits.tip = tip;
    }

    /// Makes everything durable that is not yet: stored blocks, undo data and index entries, and
    /// then the changed coins with the tip as their best block. No block may be in flight, since
    /// the cache already has the coins of such a block.
    pub fn commit(&mut self, shared: &Shared, observer: &dyn Observer) -> Result<(), StoreError> {
        let report = self.report_commit(shared, observer);
        report(0.0);
        let written = self.begin_commit(shared)?.write(shared, &report);
        self.end_commit(shared, written)
    }

    /// Begins a commit. [`CommitJob::write`] writes it, on any thread, while further blocks are
    /// connected; then [`Ledger::end_commit`] must be called. No block may be in flight when it
    /// begins.
    pub fn begin_commit<'a>(&mut self, shared: &Shared<'a>) -> Result<CommitJob<'a>, StoreError> {
        let height = self.active.height().unwrap_or(0);
        let tip = self.active.tip();
        let left = tip.and_then(|tip| self.leave_snapshot(shared.tree, tip));
        let entries = self.take_dirty(shared.tree)?;
        let unflushed = shared.files.begin_flush()?;
        let dirty = entries.iter().map(|(id, _)| *id).collect();
        let kept_bytes = self.limit.kept_bytes();
        let changes = shared.pool.install(|| shared.cache.begin_sync());
        let blocks = self.done.counts.blocks;
        let changed = changes.len();
        let coins = self.coins;
        let committing = Committing { blocks, height, tip, coins, changed, entries: dirty };
        self.commits.being_written = Some(committing);
        Ok(CommitJob {
            index: Arc::clone(&self.records.index),
            coin_count: Arc::clone(&self.commits.coin_count),
            entries,
            unflushed,
            left,
            best: tip.map(|tip| shared.tree.node(tip).hash),
            coins: self.coins.map(|coins| coins as u64),
            changes,
            kept_bytes,
        })
    }

    /// Takes the entries whose current records are not in the index yet.
    fn take_dirty(&mut self, tree: &Tree) -> Result<Vec<(BlockId, IndexRecord)>, StoreError> {
        // The flag is written before entries of blocks that were never stored.
        if self.pruning.has_dropped {
            self.pruning.note_pruned(&self.records.index)?;
        }
        // What the system could not write would be older where it is read again.
        self.records.all.check_written()?;
        tree.check_written()?;
        let mut dirty = std::mem::take(&mut self.records.dirty);
        self.records.dirty.extend(self.unconnected_base(tree).filter(|base| dirty.remove(base)));
        let entries = self.records.to_write(dirty, self.writes.new_set);
        if let Some(publication) = &mut self.publication {
            publication.add(&entries);
        }
        Ok(entries)
    }

    /// Returns the base block of the second UTXO set, if it is stored and has no undo data yet.
    /// bitcoind refuses to start if the index has that block but not the blocks below it, or not
    /// its undo data.
    fn unconnected_base(&self, tree: &Tree) -> Option<BlockId> {
        let base = self.snapshot.as_ref().and_then(|snapshot| tree.find(&snapshot.base))?;
        let record = self.record(base);
        (record.tx_count > 0 && record.undo_pos().is_none()).then_some(base)
    }

    /// Takes the second UTXO set, which bitcoind has loaded from a snapshot, if bitcoind would
    /// refuse to start with it once `tip` is the best block of `chainstate`. It must be given up
    /// after the index is written, and before that best block is.
    pub fn leave_snapshot(&mut self, tree: &Tree, tip: BlockId) -> Option<SnapshotChainstate> {
        if self.writes.new_set {
            return None;
        }
        let left = self.snapshot.take_if(|snapshot| !snapshot.allows(tree, tip))?;
        // Core marked blocks above the base block as valid without having checked their ancestors.
        let proved = |ledger: &Self, id: BlockId| {
            ledger.record(id).status.is_valid(BlockStatus::BLOCK_VALID_SCRIPTS)
        };
        for id in tree.ids().filter(|id| *id != tree.genesis()) {
            let is_based = tree
                .ancestors(id)
                .nth(1)
                .is_some_and(|at| at == tree.genesis() || proved(self, at));
            if proved(self, id) && !is_based {
                self.change(id).status.lower_validity(BlockStatus::BLOCK_VALID_TRANSACTIONS);
            }
        }
        Some(left)
    }

    /// Ends a commit; `written` is the result of [`CommitJob::write`].
    pub fn end_commit(
        &mut self,
        shared: &Shared,
        written: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(committing) = self.commits.being_written.take() else { return written };
        let Committing { blocks, height, tip, coins, entries, .. } = committing;
        if let Err(error) = written {
            self.records.dirty.extend(entries);
            return Err(error);
        }
        self.note_commit(blocks, height, tip);
        self.publish(shared, tip, coins);
        Ok(())
    }

    /// Returns a function that shows an observer the share done of a commit. The number of coins is
    /// that of now: entries of the cache are dropped when it is written.
    fn report_commit<'a>(
        &self,
        shared: &Shared,
        observer: &'a dyn Observer,
    ) -> impl Fn(f64) + Sync + use<'a> {
        let tip = self.active.tip().map(|tip| shared.tree.node(tip));
        let height = tip.map_or(0, |tip| tip.height);
        let time = tip.map_or(0, |tip| tip.time);
        let coins = shared.cache.sizes().entries as u64;
        let begun = Progress { height, time, coins, ..Progress::of(Phase::WritingCoins) };
        begun.share_to(observer)
    }

    /// Calls [`Ledger::write_index`] if it was last called more than `every` ago and no commit is
    /// being written, which also writes the index. Stored blocks are then found again after a
    /// crash, even if their coins were not committed.
    pub fn write_index_every(
        &mut self,
        every: Duration,
        shared: &Shared,
    ) -> Result<(), StoreError> {
        if self.records.last_written.elapsed() < every || self.is_committing() {
            return Ok(());
        }
        let _timer = shared.clock.start(Stage::Store);
        self.write_index(shared.files, shared.tree)
    }

    /// Calls [`Ledger::write_index`] if the next commit would copy the records of many blocks.
    pub fn write_index_of_many(&mut self, shared: &Shared) -> Result<(), StoreError> {
        if !self.records.are_many() || !self.writes.any || self.is_committing() {
            return Ok(());
        }
        let _timer = shared.clock.start(Stage::Store);
        self.write_index(shared.files, shared.tree)
    }

    /// Makes blocks and undo data durable, and then their index entries.
    ///
    /// # Panics
    /// A commit is being written: it could later write older entries of the same blocks.
    pub fn write_index(&mut self, files: &BlockFiles, tree: &Tree) -> Result<(), StoreError> {
        assert!(!self.is_committing(), "the index is written by one at a time");
        self.records.last_written = Instant::now();
        let entries = self.take_dirty(tree)?;
        files
            .begin_flush()
            .and_then(|unflushed| {
                write_index(&self.records.index, files, unflushed, tree, &entries)
            })
            .inspect_err(|_| self.records.dirty.extend(entries.iter().map(|(id, _)| *id)))
    }
}
