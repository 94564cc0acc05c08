//! Core's optional indexes of the directory: which there are, how far each reaches, and the
//! transactions whose places they name.

use std::sync::Arc;
use std::time::Duration;

use apus_chain::BlockId;
use apus_disk::Disk;
use apus_hash::{Hash, sha256d};
use apus_indexes::{IndexReader, IndexedTx, TxPlace};
use apus_node::options::Options;
use apus_node::view::{Committed, View};
use apus_store::{BlockReader, FlatFilePos, IndexKind};
use apus_wire::{BlockView, HEADER_BYTES, OutPoint, TxView};
use serde::Serialize;

use super::error::{RPC_MISC_ERROR, RpcError, internal};
use super::waiting::Waiting;

/// Bytes that are read of a transaction at first.
const TX_BYTES: usize = 4096;

/// The most blocks that an index which follows the chain is waited for.
const BLOCKS_BEHIND_MAX: u32 = 6;
/// The longest time that it is waited for.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// The time between two looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The indexes of a directory.
pub struct Indexes {
    /// Reads the indexes that exist.
    pub reader: IndexReader,
    /// Those that the running sync builds, or keeps at the tip.
    wanted: Vec<IndexKind>,
}

/// How far an index reaches (Core's `IndexSummary`).
#[derive(Clone, Copy, Serialize)]
pub struct IndexSummary {
    /// Whether that is the last block of the active chain.
    pub synced: bool,
    /// The height of its best block; 0 if it has none yet.
    pub best_block_height: u32,
}

/// A transaction that an index has found.
pub struct Found {
    /// The hash of its block, which may have been disconnected.
    pub block: Hash,
    /// The header of the block, with the transaction as its only one.
    view: BlockView<Vec<u8>>,
}

impl Indexes {
    /// Returns the indexes of the directory of `options`, while a sync with these options runs.
    pub fn of_sync(options: &Options) -> Self {
        let reader = IndexReader::new(&Disk::new(), &options.network_dir());
        Self { reader, wanted: options.indexes.clone() }
    }

    /// Returns the indexes of the directory of `options`, which no program writes to.
    pub fn at_rest(options: &Options) -> Self {
        Self { wanted: Vec::new(), ..Self::of_sync(options) }
    }

    /// Returns how far an index reaches; `None` if there is no such index, nor will be at the end
    /// of the running sync.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn state(&self, view: &View, kind: IndexKind) -> Result<Option<IndexSummary>, RpcError> {
        let found = self.reader.find(kind).map_err(internal)?;
        if found.is_none() && !self.wanted.contains(&kind) {
            return Ok(None);
        }
        let state = |it: &Committed| {
            // A txindex may have entries in two forms, which are both read.
            let reached = found.iter().flat_map(|index| index.reached());
            let ids = reached.filter_map(|(_, hash)| it.tree.find(&hash));
            let best = ids.max_by_key(|id| it.tree.node(*id).height);
            let height = best.map_or(0, |id| it.tree.node(id).height);
            IndexSummary {
                synced: best.is_some_and(|id| is_synced(it, id)),
                best_block_height: height,
            }
        };
        Ok(view.look(state))
    }

    /// Like [`Indexes::state`], but waits a moment for an index that the running sync keeps at the
    /// tip and that lacks only the last blocks (Core's `BlockUntilSyncedToCurrentChain`).
    ///
    /// # Errors
    /// It cannot be read, or the call is to be made again.
    pub fn caught_up(
        &self,
        view: &View,
        kind: IndexKind,
        waiting: &Waiting,
    ) -> Result<Option<IndexSummary>, RpcError> {
        let state = self.state(view, kind)?;
        let tip = view.look(|it| it.tip().height);
        let Some((tip, behind)) = tip.zip(state.filter(|state| !state.synced)) else {
            return Ok(state);
        };
        let is_near = behind.best_block_height + BLOCKS_BEHIND_MAX >= tip;
        if self.wanted.contains(&kind) && is_near && waiting.since() < WAIT_MAX {
            waiting.again(LOOK_EVERY).map_or(Ok(state), Err)
        } else {
            Ok(state)
        }
    }

    /// Returns the transaction with a txid (Core's `FindTx`); `None` if `txindex` does not have it.
    ///
    /// # Errors
    /// The index cannot be read, or the transaction is not where the index says. Core then answers
    /// that there is no such transaction.
    pub fn transaction(&self, view: &View, txid: &Hash) -> Result<Option<Found>, RpcError> {
        let indexed = self.reader.transactions(txid).map_err(internal)?;
        let places = view.look(|it| places(it, &indexed)).unwrap_or_default();
        let mut not_there = None;
        for IndexedPlace { place, is_of_txid } in places {
            let found = blocks(view).and_then(|blocks| read(&blocks, place));
            match found {
                Some(found) if found.tx().txid() == *txid => return Ok(Some(found)),
                // Another transaction has the same short hash.
                Some(_) if !is_of_txid => {}
                _ => not_there = Some(place.block),
            }
        }
        let Some(FlatFilePos { file, pos }) = not_there else { return Ok(None) };
        Err(internal(format!(
            "txindex has transaction {txid} in the block in blk{file:05}.dat at byte {pos}, where \
             it cannot be read; `apus verify` says whether the block is damaged; if not, remove \
             indexes/txindex and run `apus index txindex`"
        )))
    }

    /// Returns the transaction of the active chain that spends an output (Core's `FindSpender`);
    /// `None` if `txospenderindex` has none.
    ///
    /// # Errors
    /// The index or the block of a transaction cannot be read.
    pub fn spender(&self, view: &View, outpoint: &OutPoint) -> Result<Option<Found>, RpcError> {
        for place in self.reader.spenders(outpoint).map_err(internal)? {
            let found = blocks(view).and_then(|blocks| read(&blocks, place)).ok_or_else(|| {
                let OutPoint { txid, vout } = outpoint;
                let what = format!("IO error finding spending tx for outpoint {txid}:{vout}.");
                RpcError::new(RPC_MISC_ERROR, what)
            })?;
            let is_active = |it: &Committed| {
                let id = it.tree.find(&found.block);
                id.is_some_and(|id| it.active.contains(&it.tree, id))
            };
            let spends = found.tx().inputs().any(|input| input.outpoint() == *outpoint);
            if spends && view.look(is_active) == Some(true) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// The place of a transaction that `txindex` may mean.
struct IndexedPlace {
    place: TxPlace,
    /// Whether the index names the whole txid, and not a short hash of it.
    is_of_txid: bool,
}

/// Returns the places of the transactions that an index names, those in the active chain first. A
/// block that is not stored has none.
fn places(committed: &Committed, indexed: &[IndexedTx]) -> Vec<IndexedPlace> {
    let mut active = Vec::new();
    let mut others = Vec::new();
    for tx in indexed {
        match *tx {
            IndexedTx::At(place) => others.push(IndexedPlace { place, is_of_txid: true }),
            IndexedTx::InBlock { block, offset } => {
                let Some(id) = committed.tree.find(&block) else { continue };
                let Some(block) = committed.record(id).block_pos() else { continue };
                let place = TxPlace { block, offset };
                let is_active = committed.active.contains(&committed.tree, id);
                let places = if is_active { &mut active } else { &mut others };
                places.push(IndexedPlace { place, is_of_txid: false });
            }
        }
    }
    active.extend(others);
    active
}

/// Returns whether the tip is `best` or below it.
fn is_synced(committed: &Committed, best: BlockId) -> bool {
    let tip = committed.tip();
    committed.tree.ancestor(best, tip.height) == Some(committed.tip_id())
}

/// Returns what reads the block files; `None` until the directory is open.
fn blocks(view: &View) -> Option<Arc<BlockReader>> {
    view.look(|committed| Arc::clone(&committed.blocks))
}

/// Reads a transaction and the header of its block; `None` if they cannot be read.
fn read(blocks: &BlockReader, place: TxPlace) -> Option<Found> {
    let end = blocks.block_len(place.block).ok()? as usize;
    let start = HEADER_BYTES + place.offset as usize;
    let mut header = Vec::new();
    let mut tx = Vec::new();
    blocks.read_piece_into(place.block, 0..HEADER_BYTES, &mut header).ok()?;
    for end in [end.min(start + TX_BYTES), end] {
        blocks.read_piece_into(place.block, start..end.max(start), &mut tx).ok()?;
        // One transaction follows.
        let bytes = [&header[..], &[1], &tx].concat();
        if let Ok(view) = BlockView::parse(bytes) {
            return Some(Found { block: sha256d(&header), view });
        }
    }
    None
}

impl Found {
    pub fn tx(&self) -> TxView<'_> {
        self.view.tx(0)
    }
}
