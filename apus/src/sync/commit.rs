//! What has been done, and the order in which it becomes durable: block and undo files, then the
//! block index, then coins and best block in one step. A crash may come between any two: then the
//! index is ahead of the coins, `Node::stand_at_best_block` starts at the best block of the coins,
//! and the stored blocks after it connect again.
//!
//! While blocks connect in order, [`Ledger::wants_commit`] alone decides when to commit; between
//! commits, blocks of peers are written to the index by [`Ledger::write_index_every`].
//! `activate_best_chain` commits besides that: at the end, when it is stopped, and before it gives
//! up on a damaged block. docs/design.md, section 10, has everything that is saved, and when.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::checked::Checked;
use super::clock::Stage;
use super::coin_count::{CoinCount, CoinsAt};
use super::outcome::Counts;
use super::progress::{Observer, Phase, Progress};
use super::pruning::Pruning;
use super::sources::BlockBytes;
use crate::chain::{ActiveChain, BlockId, Tree};
use crate::coins::{Changes, CoinsCache};
use crate::disk::StoreError;
use crate::hash::Hash;
use crate::store::{BlockFiles, BlockStatus, FlatFilePos, IndexDb, IndexEntry, IndexRecord};
use crate::sync::block::shared::Shared;
use crate::sync::block::validate::Validation;
use crate::wire::BlockView;

/// The time after which blocks that connect in order are committed, and so about the most work that
/// is done again after a crash. SwiftSync saves its progress every
/// [`Options::save_every`](super::options::Options::save_every).
const COMMIT_EVERY: Duration = Duration::from_secs(5 * 60);
/// The share of the cache's bound that is kept after a commit which the bound forced. Less leaves
/// room for more coins before the next commit; more saves look-ups of those dropped.
const KEPT_PERCENT: usize = 60;

/// The most entries that are written to the block index at once: 20 MB of them.
const INDEX_BATCH: usize = 100_000;

/// The block index in memory, the active chain, and what of both is not yet on disk.
pub(super) struct Ledger {
    pub index: IndexDb,
    /// By [`BlockId`]; the header of each is in the tree.
    pub records: Vec<IndexRecord>,
    pub dirty: BTreeSet<BlockId>,
    pub active: ActiveChain,
    pub counts: Counts,
    pub checked: Checked,
    /// Coins in the UTXO set, if known.
    pub coins: Option<i64>,
    coin_count: CoinCount,
    pub cache_bytes_max: usize,
    last_commit: Instant,
    last_index: Instant,
    /// The part of [`Counts::blocks`] that is durable.
    committed_blocks: u64,
    /// Height of the tip whose coins are durable.
    pub committed_height: u32,
    pub pruning: Pruning,
}

impl Ledger {
    /// A ledger without entries.
    pub fn new(index: IndexDb, coin_count: CoinCount, cache_bytes_max: usize) -> Self {
        Self {
            index,
            records: Vec::new(),
            dirty: BTreeSet::new(),
            active: ActiveChain::default(),
            counts: Counts::default(),
            checked: Checked::default(),
            coins: None,
            coin_count,
            cache_bytes_max,
            last_commit: Instant::now(),
            last_index: Instant::now(),
            committed_blocks: 0,
            committed_height: 0,
            pruning: Pruning::default(),
        }
    }

    /// The record of a block.
    pub fn record(&self, id: BlockId) -> &IndexRecord {
        &self.records[id.index()]
    }

    /// The record of a block, to be changed.
    pub fn change(&mut self, id: BlockId) -> &mut IndexRecord {
        self.dirty.insert(id);
        &mut self.records[id.index()]
    }

    /// Makes a record for every header that has none yet.
    pub fn follow(&mut self, tree: &Tree) {
        for id in tree.ids_after(self.records.len()) {
            self.records.push(record_of_header(tree, id));
            self.dirty.insert(id);
        }
    }

    /// Appends a block to the block files.
    pub fn store_block(
        &mut self,
        shared: &Shared,
        id: BlockId,
        block: &BlockView<BlockBytes>,
    ) -> Result<(), StoreError> {
        self.store_block_in(shared.files, shared.tree, id, block)
    }

    /// [`Ledger::store_block`] without [`Shared`].
    pub fn store_block_in<B: AsRef<[u8]>>(
        &mut self,
        files: &BlockFiles,
        tree: &Tree,
        id: BlockId,
        block: &BlockView<B>,
    ) -> Result<(), StoreError> {
        if self.record(id).block_pos().is_some() {
            return Ok(());
        }
        let node = tree.node(id);
        let pos = files.append_block(block.bytes(), node.height, node.time)?;
        self.note_stored(tree, id, pos, block.tx_count() as u32);
        Ok(())
    }

    /// Notes where a block of `tx_count` transactions was appended to the block files.
    pub fn note_stored(&mut self, tree: &Tree, id: BlockId, pos: FlatFilePos, tx_count: u32) {
        let has_segwit = tree.node(id).height >= tree.network().segwit_height;
        note_stored(self.change(id), pos, tx_count, has_segwit);
    }

    /// Makes a block whose checks are finished the tip, and writes its undo data.
    pub fn retire(&mut self, shared: &Shared, block: &Validation) -> Result<(), StoreError> {
        let record = self.change(block.id);
        let prev = shared.tree.prev_hash(block.id);
        shared.files.write_undo(record, block.prepared.height, &prev, block.undo())?;
        record.status.raise_validity(BlockStatus::BLOCK_VALID_SCRIPTS);
        self.active.push(shared.tree, block.id);
        let view = block.prepared.block.view();
        if let Some(coins) = &mut self.coins {
            *coins += block.coins_gained();
        }
        let with_scripts = block.script_flags.is_some();
        self.checked.note_connected(block.prepared.height, with_scripts);
        let scripts = if with_scripts { block.input_count() as u64 } else { 0 };
        self.counts = Counts {
            blocks: self.counts.blocks + 1,
            bytes: self.counts.bytes + view.len() as u64,
            transactions: self.counts.transactions + view.tx_count() as u64,
            inputs: self.counts.inputs + block.input_count() as u64,
            scripts: self.counts.scripts + scripts,
        };
        Ok(())
    }

    /// Whether it is time to commit: the cache is full, a crash would lose too much work, or block
    /// files are too many that may go after that. Never before a block was retired since the last
    /// commit, or a cache that is too small for one block would be committed forever.
    pub fn wants_commit(&self, cache: &CoinsCache) -> bool {
        self.counts.blocks > self.committed_blocks
            && (cache.bytes() > self.cache_bytes_max
                || self.last_commit.elapsed() > COMMIT_EVERY
                || self.pruning.waits_for_commit)
    }

    /// Takes `active` for the active chain, whose last block was committed with this number of
    /// coins. `counts` is what this run did for it.
    pub fn stand_at(&mut self, active: ActiveChain, coins: Option<i64>, counts: Counts) {
        self.active = active;
        self.coins = coins;
        self.counts = counts;
        self.note_commit();
    }

    /// Looks up the number of coins at `best`, the chainstate's best block.
    pub fn find_coins(&mut self, best: Option<&Hash>) -> Result<(), StoreError> {
        self.coins = match best {
            None => Some(0),
            Some(best) => self.coin_count.read(best)?.map(|count| count.coins as i64),
        };
        Ok(())
    }

    /// Writes down the number of coins at the block `next`, which is about to become the best.
    pub fn write_coin_count(&self, shared: &Shared, next: CoinsAt) -> Result<(), StoreError> {
        let before = match shared.chainstate.best_block()? {
            Some(best) => self.coin_count.read(&best)?,
            None => None,
        };
        self.coin_count.write([before, Some(next)])
    }

    /// The lowest height such that every block of the active chain from there on is stored; 1 if
    /// all are.
    pub fn blocks_from(&self) -> u32 {
        let mut above_genesis = (1..=self.active.height().unwrap_or(0)).rev();
        let lacks_block = |height: &u32| {
            self.active.at(*height).is_some_and(|id| self.record(id).block_pos().is_none())
        };
        above_genesis.find(lacks_block).map_or(1, |height| height + 1)
    }

    /// The height from which on every block of the active chain that is stored has its undo data;
    /// 1 if all have.
    pub fn undo_from(&self) -> u32 {
        let above_genesis = (1..=self.active.height().unwrap_or(0)).rev();
        let lacks_undo = |height: &u32| {
            let record = self.active.at(*height).map(|id| self.record(id));
            record.is_some_and(|record| record.block_pos().is_some() && record.undo_pos().is_none())
        };
        above_genesis.into_iter().find(lacks_undo).map_or(1, |height| height + 1)
    }

    fn note_commit(&mut self) {
        self.last_commit = Instant::now();
        self.committed_blocks = self.counts.blocks;
        self.committed_height = self.active.height().unwrap_or(0);
    }

    /// Makes everything durable that is not yet: stored blocks, undo data and index entries, and
    /// then the changed coins with the tip as their best block. No block may be in flight, since
    /// the cache already has the coins of such a block.
    pub fn commit(&mut self, shared: &Shared, observer: &dyn Observer) -> Result<(), StoreError> {
        let _timer = shared.clock.start(Stage::Commit);
        let report = self.report_commit(shared, observer);
        report(0.0);
        let (changed, bytes) = (shared.cache.changed(), shared.cache.bytes());
        tracing::debug!(changed, bytes, blocks = self.counts.blocks, "writing changed coins");
        self.write_index(shared.files, shared.tree)?;
        let best = self.active.tip().map(|tip| shared.tree.node(tip).hash);
        // Without anything new, another table would only have to be merged.
        let is_new = changed > 0 || shared.chainstate.best_block()? != best;
        if let Some(best) = best.filter(|_| is_new) {
            if let Some(coins) = self.coins {
                self.write_coin_count(shared, CoinsAt { block: best, coins: coins as u64 })?;
            }
            let write =
                |changes: &Changes| shared.chainstate.write_reporting(changes, &best, &report);
            shared.pool.install(|| shared.cache.sync(write))?;
        }
        if shared.cache.bytes() > self.cache_bytes_max {
            shared.cache.shrink_to(self.cache_bytes_max / 100 * KEPT_PERCENT);
        }
        self.note_commit();
        Ok(())
    }

    /// Returns a function that shows an observer which share of a commit is done. The number of
    /// coins is taken now, since the cache is locked while it is written.
    fn report_commit<'a>(
        &self,
        shared: &Shared,
        observer: &'a dyn Observer,
    ) -> impl Fn(f64) + Sync + use<'a> {
        let tip = self.active.tip().map(|tip| shared.tree.node(tip));
        let height = tip.map_or(0, |tip| tip.height);
        let time = tip.map_or(0, |tip| tip.time);
        let coins = shared.cache.len() as u64;
        let begun = Progress { height, time, coins, ..Progress::of(Phase::WritingCoins) };
        begun.share_to(observer)
    }

    /// [`Ledger::write_index`], if it was done last more than `every` ago: what is stored is then
    /// found again after a crash, whatever was committed.
    pub fn write_index_every(
        &mut self,
        every: Duration,
        shared: &Shared,
    ) -> Result<(), StoreError> {
        if self.last_index.elapsed() < every {
            return Ok(());
        }
        let _timer = shared.clock.start(Stage::Store);
        self.write_index(shared.files, shared.tree)
    }

    /// Makes blocks and undo data durable, and then their index.
    pub fn write_index(&mut self, files: &BlockFiles, tree: &Tree) -> Result<(), StoreError> {
        self.last_index = Instant::now();
        let (mut changes, cleared) = files.flush()?.split_cleared();
        let mut cleared = Some(cleared);
        let dirty: Vec<BlockId> = std::mem::take(&mut self.dirty).into_iter().collect();
        let mut parts = dirty.chunks(INDEX_BATCH).peekable();
        // The first part names the files, too, so there is one even without entries.
        let mut part = parts.next().unwrap_or_default();
        loop {
            if let Some(cleared) = cleared.take_if(|_| parts.peek().is_none()) {
                changes = changes.and(cleared);
            }
            let entry = |id: &BlockId| index_entry(tree, *id, *self.record(*id));
            let entries: Vec<IndexEntry> = part.iter().map(entry).collect();
            if let Err(error) = self.index.write(&changes, &entries) {
                self.dirty.extend(dirty);
                return Err(error);
            }
            changes = changes.written();
            match parts.next() {
                Some(next) => part = next,
                None => return Ok(()),
            }
        }
    }
}

/// The entry of a block in the index.
pub(super) fn index_entry(tree: &Tree, id: BlockId, record: IndexRecord) -> IndexEntry {
    let node = tree.node(id);
    IndexEntry { hash: node.hash, header: tree.header(id), height: node.height, record }
}

/// The record of a block of which only the header is known.
pub(super) fn record_of_header(tree: &Tree, id: BlockId) -> IndexRecord {
    let node = tree.node(id);
    let mut status = BlockStatus(BlockStatus::BLOCK_VALID_TREE);
    if node.failed {
        status.0 |= BlockStatus::BLOCK_FAILED_VALID;
    }
    IndexRecord { status, ..IndexRecord::default() }
}

/// Notes in its record where a checked block of `tx_count` transactions is stored.
pub(super) fn note_stored(
    record: &mut IndexRecord,
    pos: FlatFilePos,
    tx_count: u32,
    has_segwit: bool,
) {
    (record.file, record.data_pos) = (pos.file, pos.pos);
    record.tx_count = tx_count;
    record.status.0 |= BlockStatus::BLOCK_HAVE_DATA;
    if has_segwit {
        record.status.0 |= BlockStatus::BLOCK_OPT_WITNESS;
    }
    record.status.raise_validity(BlockStatus::BLOCK_VALID_TRANSACTIONS);
}
