//! Rules and undo data for the last blocks of a SwiftSync that sums outpoints.
//!
//! The outpoints that the last blocks spend are collected first. A worker that reads one of these
//! outputs in a block keeps its coin. Since that coin comes from a block of the chain, all rules
//! except scripts can be checked with it.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_chain::BlockId;
use apus_coins::Coin;
use apus_hash::Hash;
use apus_node::block::step::Step;
use apus_node::block::validate::{BranchTimes, check_spends};
use apus_node::fault::Fault;
use apus_node::opened::{Node, step};
use apus_node::shared::{NEVER, Shared};
use apus_node::sources::BlockOrigin;
use apus_store::IndexRecord;
use apus_wire::{Cursor, OutPoint, put_compact_size};
use hashbrown::HashMap;
use rayon::prelude::*;

use super::plan::SwiftPlan;
use super::undo;
use super::undo::UndoWritten;

/// Bits of the filter of txids: 2 MiB, which fits in caches. 288 full blocks spend outputs of at
/// most 3 million transactions. One in six of all other transactions then passes the filter, and is
/// looked up in vain.
const FILTER_BITS: usize = 1 << 24;

/// The coins that the last blocks spend.
pub(super) struct Recent {
    blocks: Vec<BlockId>,
    /// For each outpoint that they spend, its index in `coins`.
    wanted: HashMap<OutPoint, u32>,
    filter: Vec<u64>,
    coins: Vec<OnceLock<Coin>>,
}

impl Recent {
    /// Reads the last blocks of `plan`, and collects the outpoints that each spends and does not
    /// create.
    pub fn collect(node: &mut Node, plan: &SwiftPlan, stop: &AtomicBool) -> Result<Self, Fault> {
        let blocks: Vec<BlockId> = plan.recent().collect();
        let steps: Vec<_> = blocks.iter().filter_map(|id| step(node, *id)).collect();
        let (shared, _) = node.split();
        let collected: Result<Vec<Vec<OutPoint>>, Fault> = shared.pool.install(|| {
            let prepare = |step| {
                if stop.load(Relaxed) { Err(Fault::Stopped) } else { shared.prepare(step, stop) }
            };
            steps.into_par_iter().map(|step| Ok(prepare(step)?.external)).collect()
        });
        let mut outpoints: Vec<OutPoint> = collected?.into_iter().flatten().collect();
        outpoints.sort_unstable();
        // Invalid blocks may spend the same outpoint twice.
        outpoints.dedup();
        let mut filter = vec![0; FILTER_BITS / 64];
        let mut wanted = HashMap::with_capacity(outpoints.len());
        for (index, outpoint) in outpoints.into_iter().enumerate() {
            let bit = filter_bit(&outpoint.txid);
            filter[bit / 64] |= 1 << (bit % 64);
            wanted.insert(outpoint, index as u32);
        }
        let coins = std::iter::repeat_with(OnceLock::new).take(wanted.len()).collect();
        Ok(Self { blocks, wanted, filter, coins })
    }

    /// Returns whether the last blocks spend any output.
    pub fn wants_any(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Returns the bytes of memory after every coin was found: the filter, about 100 for each
    /// outpoint with its index, and about 100 for each coin with its script.
    pub fn bytes(&self) -> u64 {
        (self.filter.len() * 8 + self.coins.len() * 200) as u64
    }

    /// Returns whether the last blocks may spend an output of this transaction; false is always
    /// right.
    #[inline]
    pub fn may_want(&self, txid: &Hash) -> bool {
        let bit = filter_bit(txid);
        self.filter[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// Returns whether one of the last blocks spends this outpoint.
    pub fn wants(&self, outpoint: &OutPoint) -> bool {
        self.wanted.contains_key(outpoint)
    }

    /// Keeps the coin with this outpoint if one of the last blocks spends it.
    pub fn keep(&self, outpoint: &OutPoint, coin: impl FnOnce() -> Coin) {
        if let Some(index) = self.wanted.get(outpoint) {
            self.coins[*index as usize].get_or_init(coin);
        }
    }

    /// Encodes the coins kept so far: for each its index as a CompactSize, and the coin as in undo
    /// data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, coin) in self.coins.iter().enumerate() {
            if let Some(coin) = coin.get() {
                put_compact_size(&mut bytes, index as u64);
                coin.encode_undo(&mut bytes);
            }
        }
        bytes
    }

    /// Restores the coins that [`Recent::to_bytes`] has encoded. Returns `None` for other bytes,
    /// and restores no coin.
    pub fn restore(&self, bytes: &[u8]) -> Option<()> {
        let mut cursor = Cursor::new(bytes);
        let mut kept = Vec::new();
        while cursor.remaining() > 0 {
            let index = cursor.compact_size();
            let coin = Coin::decode_undo(&mut cursor);
            kept.push((self.coins.get(index.ok()?)?, coin.ok()?));
        }
        for (slot, coin) in kept {
            slot.get_or_init(|| coin);
        }
        Some(())
    }

    /// Checks all rules except scripts for the last blocks, which are all stored, and writes their
    /// undo data if the stored one is missing or different. Returns what was written, and where.
    ///
    /// # Errors
    /// A block breaks a rule, or `stop` is raised: no undo data is written then. Or the disk fails.
    pub fn write_undo(
        &self,
        shared: &Shared,
        records: &[IndexRecord],
        times: &BranchTimes,
        stop: &AtomicBool,
    ) -> Result<Vec<UndoWritten>, Fault> {
        let encoded: Result<Vec<_>, Fault> = shared.pool.install(|| {
            let check = |id: &BlockId| {
                if stop.load(Relaxed) {
                    Err(Fault::Stopped)
                } else {
                    self.undo_to_write(shared, *id, &records[id.index()], times)
                }
            };
            self.blocks.par_iter().map(check).collect()
        });
        let mut written = Vec::new();
        for (id, payload) in self.blocks.iter().zip(encoded?) {
            let Some(payload) = payload else { continue };
            let file = records[id.index()].file;
            written.push(undo::append(shared, *id, file, &payload)?);
        }
        Ok(written)
    }

    /// Checks one block, and returns its undo data unless the same is stored already.
    fn undo_to_write(
        &self,
        shared: &Shared,
        id: BlockId,
        record: &IndexRecord,
        times: &BranchTimes,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let Some(pos) = record.block_pos() else { return Ok(None) };
        let step = Step { id, place: BlockOrigin::Stored(pos), weight: 0 };
        let prepared = shared.prepare(step, &NEVER)?;
        // An output of this block or of a later one cannot be spent here.
        let coin = |outpoint| self.coin(outpoint).filter(|coin| coin.height < prepared.height);
        let coins: Vec<Coin> = prepared.external.iter().map_while(coin).collect();
        let block = check_spends(shared, id, prepared, coins, None, times)
            .map_err(|refused| Fault::Rule(step, refused.error))?;
        let prev = shared.tree.prev_hash(id);
        let stored = record.undo_pos().map(|pos| shared.files.read_undo(pos, &prev));
        let is_there = matches!(stored, Some(Ok(stored)) if stored == block.undo());
        Ok((!is_there).then(|| block.undo().to_vec()))
    }

    fn coin(&self, outpoint: &OutPoint) -> Option<Coin> {
        self.coins[*self.wanted.get(outpoint)? as usize].get().cloned()
    }
}

fn filter_bit(txid: &Hash) -> usize {
    let [a, b, c, d, ..] = txid.0;
    u32::from_le_bytes([a, b, c, d]) as usize % FILTER_BITS
}
