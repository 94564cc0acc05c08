//! One commit: everything of the ledger and the cache that is not yet durable, as it was at one
//! tip. A thread of its own can write it while blocks after that tip connect.

use std::sync::Arc;

use apus_chain::{BlockId, Tree};
use apus_coins::Changes;
use apus_disk::{OnShare, StoreError};
use apus_hash::Hash;
use apus_store::{BlockFiles, IndexDb, IndexEntry, IndexRecord, Unflushed};

use super::coin_count::{CoinCount, CoinsAt};
use super::shared::Shared;
use super::snapshot_chainstate::SnapshotChainstate;
use apus_progress::clock::Stage;

/// Maximum number of entries that are written to the block index at once: 12 MB of memory.
const INDEX_BATCH: usize = 25_000;

/// A commit that has begun. If it is dropped before it is written, nothing is committed, and the
/// changed coins of the cache stay changed.
pub struct CommitJob<'a> {
    /// The block index on disk.
    pub index: Arc<IndexDb>,
    /// The file with the number of coins.
    pub coin_count: Arc<CoinCount>,
    /// The index entries to write.
    pub entries: Vec<(BlockId, IndexRecord)>,
    /// What must be flushed of the files of these entries, without what is appended while the
    /// commit is written.
    pub unflushed: Unflushed,
    /// A second UTXO set with which bitcoind would not start at the new best block.
    pub left: Option<SnapshotChainstate>,
    /// The hash of the tip, which becomes the best block; `None` if there are no coins to write.
    pub best: Option<Hash>,
    /// The number of coins at the tip, if known.
    pub coins: Option<u64>,
    /// The changed coins.
    pub changes: Changes<'a>,
    /// The size in bytes to which the cache is shrunk afterwards.
    pub kept_bytes: usize,
}

impl CommitJob<'_> {
    /// Makes stored blocks and undo data durable, then their index entries, and then the changed
    /// coins with their best block; before the coins, gives up a second UTXO set with which
    /// bitcoind would not start. Finally drops clean coins to make space in the cache.
    pub fn write(self, shared: &Shared, report: OnShare) -> Result<(), StoreError> {
        let _timer = shared.clock.start(Stage::Commit);
        let changed = self.changes.len();
        tracing::debug!(
            target: "coindb",
            changed,
            entries = self.entries.len(),
            "writing changed coins"
        );
        write_index(&self.index, shared.files, self.unflushed, shared.tree, &self.entries)?;
        if let Some(left) = self.left {
            left.give_up()?;
        }
        let Some(best) = self.best else { return Ok(()) };
        // If nothing has changed, another table would only have to be merged.
        let before = shared.chainstate.best_block()?;
        if changed == 0 && before == Some(best) {
            return Ok(());
        }
        if let Some(coins) = self.coins {
            write_coin_count(&self.coin_count, before, CoinsAt { block: best, coins })?;
        }
        shared.pool.install(|| {
            shared.chainstate.write_reporting(&self.changes, &best, report)?;
            self.changes.end();
            shared.cache.shrink_in_parallel(self.kept_bytes);
            Ok(())
        })?;
        shared.clock.note_commit();
        Ok(())
    }
}

/// Saves the number of coins at the block `next`, which is about to become the best block after
/// `before`.
pub fn write_coin_count(
    coin_count: &CoinCount,
    before: Option<Hash>,
    next: CoinsAt,
) -> Result<(), StoreError> {
    let before = match before {
        Some(best) => coin_count.read(&best)?,
        None => None,
    };
    coin_count.write([before, Some(next)])
}

/// Makes blocks and undo data durable, and then their index entries.
pub fn write_index(
    index: &IndexDb,
    files: &BlockFiles,
    unflushed: Unflushed,
    tree: &Tree,
    entries: &[(BlockId, IndexRecord)],
) -> Result<(), StoreError> {
    let (mut changes, cleared) = files.end_flush(unflushed)?.split_cleared();
    let mut cleared = Some(cleared);
    let mut parts = entries.chunks(INDEX_BATCH).peekable();
    // The first part also has the changes of the files, so there is one even without entries.
    let mut part = parts.next().unwrap_or_default();
    loop {
        if let Some(cleared) = cleared.take_if(|_| parts.peek().is_none()) {
            changes = changes.and(cleared);
        }
        let entry = |(id, record): &(BlockId, IndexRecord)| index_entry(tree, *id, *record);
        let entries: Vec<IndexEntry> = part.iter().map(entry).collect();
        index.write(&changes, &entries)?;
        changes = changes.written();
        match parts.next() {
            Some(next) => part = next,
            None => return Ok(()),
        }
    }
}

pub fn index_entry(tree: &Tree, id: BlockId, record: IndexRecord) -> IndexEntry {
    let node = tree.node(id);
    IndexEntry { hash: node.hash, header: tree.header(id), height: node.height, record }
}
