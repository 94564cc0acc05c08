//! Rules and undo data for the last blocks of a SwiftSync that sums outpoints: the outpoints that
//! they spend are collected first, and whoever comes upon such an output keeps its coin. It was
//! created by a block of the chain, so that every rule but the scripts can be checked with it.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use rayon::prelude::*;

use super::fault::Fault;
use super::plan::Plan;
use crate::chain::BlockId;
use crate::coins::Coin;
use crate::hash::Hash;
use crate::store::{IndexEntry, UndoRecord};
use crate::sync::block::shared::Shared;
use crate::sync::block::spends::check_spends;
use crate::sync::block::step::Step;
use crate::sync::node::{Node, step};
use crate::sync::sources::Place;
use crate::wire::{Cursor, OutPoint, put_compact_size};

/// Bits of the first look at a txid: with at most 3 million transactions of interest, as 288 full
/// blocks spend from, one in six of the others is looked up in vain. 2 MiB, which caches hold.
const FILTER_BITS: usize = 1 << 24;

/// The coins that the last blocks spend.
pub(super) struct Recent {
    blocks: Vec<BlockId>,
    /// Index in `coins`, which follows the outpoints' order.
    wanted: HashMap<OutPoint, u32>,
    filter: Vec<u64>,
    coins: Vec<OnceLock<Coin>>,
}

impl Recent {
    /// Reads the last blocks of `plan` and notes what they spend and do not create themselves.
    pub fn collect(node: &mut Node, plan: &Plan) -> Result<Self, Fault> {
        let blocks: Vec<BlockId> = plan.recent().collect();
        let steps: Vec<_> = blocks.iter().filter_map(|id| step(node, *id)).collect();
        let (shared, _) = node.split();
        let collected: Result<Vec<Vec<OutPoint>>, Fault> = shared.pool.install(|| {
            let prepare = |step| shared.check_only(step).map_err(|e| Fault::of_block(step, e));
            steps.into_par_iter().map(|step| Ok(prepare(step)?.external)).collect()
        });
        let mut outpoints: Vec<OutPoint> = collected?.into_iter().flatten().collect();
        outpoints.sort_unstable();
        // Blocks that are not valid may spend one twice.
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

    /// Whether there is anything to look out for.
    pub fn wants_any(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Memory that it takes once every coin is found, at about 100 bytes an outpoint and its place,
    /// and 100 a coin and its script.
    pub fn bytes(&self) -> u64 {
        (self.filter.len() * 8 + self.coins.len() * 200) as u64
    }

    /// Whether outputs of this transaction may be wanted.
    #[inline]
    pub fn may_want(&self, txid: &Hash) -> bool {
        let bit = filter_bit(txid);
        self.filter[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// Whether one of the last blocks spends this.
    pub fn wants(&self, outpoint: &OutPoint) -> bool {
        self.wanted.contains_key(outpoint)
    }

    /// Keeps a coin if it is wanted.
    pub fn keep(&self, outpoint: &OutPoint, coin: impl FnOnce() -> Coin) {
        if let Some(index) = self.wanted.get(outpoint) {
            self.coins[*index as usize].get_or_init(coin);
        }
    }

    /// The coins kept so far: for each its index as CompactSize and its form in undo data.
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

    /// Takes back what [`Recent::to_bytes`] wrote; nothing if it was anything else.
    pub fn restore(&self, bytes: &[u8]) -> Option<()> {
        let mut cursor = Cursor::new(bytes);
        let mut kept = Vec::new();
        while cursor.remaining() > 0 {
            let (index, coin) = (cursor.compact_size(), Coin::decode_undo(&mut cursor));
            kept.push((self.coins.get(index.ok()?)?, coin.ok()?));
        }
        for (slot, coin) in kept {
            slot.get_or_init(|| coin);
        }
        Some(())
    }

    /// Checks every rule of the last blocks, which are all stored, but the scripts, and writes
    /// their undo data where there is none that says the same; where it is. `times` are the median
    /// times past of the chain, by height.
    ///
    /// # Errors
    /// A block breaks a rule; then nothing is written.
    pub fn write_undo(
        &self,
        shared: &Shared,
        entries: &[IndexEntry],
        times: &Arc<Vec<u32>>,
    ) -> Result<Vec<(BlockId, u32)>, Fault> {
        let encoded: Result<Vec<_>, Fault> = shared.pool.install(|| {
            let check = |id: &BlockId| self.undo_to_write(shared, *id, &entries[id.index()], times);
            self.blocks.par_iter().map(check).collect()
        });
        let mut written = Vec::new();
        for (id, payload) in self.blocks.iter().zip(encoded?) {
            let Some(payload) = payload else { continue };
            let entry = &entries[id.index()];
            let (file, height, prev) = (entry.file, entry.height, &entry.header.prev);
            let undo = UndoRecord { file, height, prev, payload: &payload };
            written.push((*id, shared.files.append_undo(undo).map_err(Fault::Store)?));
        }
        Ok(written)
    }

    /// The undo data of one block that keeps the rules, unless it is there.
    fn undo_to_write(
        &self,
        shared: &Shared,
        id: BlockId,
        entry: &IndexEntry,
        times: &Arc<Vec<u32>>,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let Some(pos) = entry.block_pos() else { return Ok(None) };
        let step = Step { id, place: Place::Stored(pos), weight: 0 };
        let prepared = shared.check_only(step).map_err(|e| Fault::of_block(step, e))?;
        // An output of this block or a later one is not there to be spent yet.
        let coin = |outpoint| self.coin(outpoint).filter(|coin| coin.height < prepared.height);
        let coins: Vec<Coin> = prepared.external.iter().map_while(coin).collect();
        let block = check_spends(shared, times, id, prepared, coins, None)
            .map_err(|refused| Fault::Rule(step, refused.0))?;
        let stored = entry.undo_pos().map(|pos| shared.files.read_undo(pos, &entry.header.prev));
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
