//! Reads the blocks of the active chain and their content by height, and from undo data the coins
//! that inputs spend. The columns of each row are in the order of those described in `columns.rs`.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;

use apus_coins::{Coin, Heights};
use apus_consensus::{Ancestry, HeaderFacts, subsidy};
use apus_export::{Batch, Value};
use apus_hash::Hash;
use apus_node::error::SyncError;
use apus_node::workers::check_stop;
use apus_wire::{BlockView, Header, InputView, Network, TxView, put_compact_size};

use super::columns::ExportTable;
use super::script_type::script_type;
use super::source::Source;
use apus_claims::stored::{ReadBlock, StoredBlock, StoredChain};

/// About how many bytes of blocks an item has.
const ITEM_BYTES: u64 = 2 << 20;
/// The most blocks of an item.
const ITEM_BLOCKS_MAX: usize = 1_000;
/// The bytes of an average transaction, from which the bytes of a block are estimated.
const TX_BYTES: u64 = 500;

/// The source of every table but that of coins, for a range of heights. Each block must be stored,
/// and for the table of inputs its undo data.
pub(super) struct BlockSource<'a> {
    chain: &'a StoredChain,
    network: &'a Network,
    table: ExportTable,
    /// The heights of each item.
    items: Vec<Vec<u32>>,
    stop: &'a AtomicBool,
}

/// Buffers for reading blocks.
#[derive(Default)]
struct Buffers {
    block: Vec<u8>,
    undo: Vec<u8>,
    script: Vec<u8>,
    witness: Vec<u8>,
}

/// A block, and the coins that it spends.
struct Joined<'a> {
    height: u32,
    view: BlockView<&'a [u8]>,
    txids: Vec<Hash>,
    /// The coins that the inputs of all transactions but the coinbase spend, in order; `None` if
    /// the undo data is not stored, or the table does not need it.
    spent: Option<Vec<Coin>>,
}

/// A block with its ancestors.
struct At<'a> {
    blocks: &'a [StoredBlock],
    height: u32,
}

impl<'a> BlockSource<'a> {
    pub fn new(
        chain: &'a StoredChain,
        network: &'a Network,
        table: ExportTable,
        heights: RangeInclusive<u32>,
        stop: &'a AtomicBool,
    ) -> Self {
        let items = items_of(chain, heights);
        Self { chain, network, table, items, stop }
    }

    /// Adds the rows of the block at `height` to `batch`.
    fn read_block(
        &self,
        height: u32,
        buffers: &mut Buffers,
        batch: &mut Batch,
    ) -> Result<(), SyncError> {
        let Buffers { block, undo, script, witness } = buffers;
        let ReadBlock { view, txids } = self.chain.read(height, block)?;
        let spent = match self.table {
            ExportTable::Outputs => None,
            ExportTable::Inputs => stored_coins(self.chain, height, &view, Heights::Needed, undo)?,
            _ => stored_coins(self.chain, height, &view, Heights::Optional, undo)?,
        };
        let joined = Joined { height, view, txids, spent };
        match self.table {
            ExportTable::Blocks => joined.push_block(self, batch),
            ExportTable::Transactions => joined.push_transactions(batch),
            ExportTable::Inputs => joined.push_inputs(script, witness, batch),
            ExportTable::Outputs | ExportTable::Coins => joined.push_outputs(batch),
        }
        Ok(())
    }
}

impl Source for BlockSource<'_> {
    fn items(&self) -> usize {
        self.items.len()
    }

    fn read(&self, index: usize, batch: &mut Batch) -> Result<(), SyncError> {
        let mut buffers = Buffers::default();
        for &height in &self.items[index] {
            check_stop(self.stop)?;
            self.read_block(height, &mut buffers, batch)?;
        }
        Ok(())
    }
}

/// Returns whether a block spends coins and its undo data is not stored.
pub(super) fn lacks_undo(block: &StoredBlock) -> bool {
    block.undo_pos.is_none() && block.tx_count > 1
}

/// Returns the coins that a block spends; `None` if its undo data is not stored.
pub(super) fn stored_coins(
    chain: &StoredChain,
    height: u32,
    view: &BlockView<&[u8]>,
    heights: Heights,
    undo: &mut Vec<u8>,
) -> Result<Option<Vec<Coin>>, SyncError> {
    if lacks_undo(&chain.blocks[height as usize]) {
        Ok(None)
    } else {
        chain.spent(height, view, heights, undo).map(Some)
    }
}

/// Cuts heights into items of about equal work.
pub(super) fn items_of(
    chain: &StoredChain,
    heights: impl IntoIterator<Item = u32>,
) -> Vec<Vec<u32>> {
    let mut items = Vec::new();
    let mut item = Vec::new();
    let mut bytes = 0;
    for height in heights {
        item.push(height);
        bytes += TX_BYTES * u64::from(chain.blocks[height as usize].tx_count);
        if bytes >= ITEM_BYTES || item.len() == ITEM_BLOCKS_MAX {
            items.push(std::mem::take(&mut item));
            bytes = 0;
        }
    }
    if !item.is_empty() {
        items.push(item);
    }
    items
}

impl Joined<'_> {
    fn push_block(&self, source: &BlockSource, batch: &mut Batch) {
        let height = self.height;
        let view = &self.view;
        let Header { version, prev, merkle_root, time, bits, nonce } = view.header();
        let block = At { blocks: &source.chain.blocks, height };
        let reward: i64 = view.txs().take(1).map(|coinbase| output_value(&coinbase)).sum();
        let fees: Option<i64> = self.fees().map(|fees| fees.iter().sum());
        batch.push(&[
            height.into(),
            (&view.hash().0).into(),
            (*version).into(),
            (&prev.0).into(),
            (&merkle_root.0).into(),
            (*time).into(),
            (block.median_time_past() as u32).into(),
            (*bits).into(),
            (*nonce).into(),
            count(view.len()),
            count(view.base_size()),
            count(view.weight()),
            count(view.tx_count()),
            count(view.input_count()),
            count(view.output_count()),
            subsidy(height, source.network).into(),
            reward.into(),
            fees.into(),
        ]);
    }

    fn push_transactions(&self, batch: &mut Batch) {
        let wtxids = self.view.wtxids();
        let fees = self.fees();
        for (position, tx) in self.view.txs().enumerate() {
            let fee = |before: usize| fees.as_ref().map(|fees| fees[before]);
            let size = tx.bytes().len();
            let weight = 3 * tx.base_size() + size;
            batch.push(&[
                self.height.into(),
                count(position),
                (&self.txids[position].0).into(),
                (&wtxids[position].0).into(),
                (position == 0).into(),
                tx.version().into(),
                tx.lock_time().into(),
                count(size),
                count(weight),
                count(weight.div_ceil(4)),
                count(tx.input_count()),
                count(tx.output_count()),
                output_value(&tx).into(),
                position.checked_sub(1).and_then(fee).into(),
            ]);
        }
    }

    /// Adds a row for each input. `script` and `witness` are buffers.
    fn push_inputs(&self, script: &mut Vec<u8>, witness: &mut Vec<u8>, batch: &mut Batch) {
        let mut coins = self.spent.iter().flatten();
        for (position, tx) in self.view.txs().enumerate() {
            for (index, input) in tx.inputs().enumerate() {
                let coin = if position > 0 { coins.next() } else { None };
                script.clear();
                if let Some(coin) = coin {
                    coin.script.decompress_into(script);
                }
                put_witness(&input, witness);
                let outpoint = input.outpoint();
                let script = coin.map(|_| &script[..]);
                batch.push(&[
                    self.height.into(),
                    (&self.txids[position].0).into(),
                    count(index),
                    coin.map(|_| &outpoint.txid.0).into(),
                    coin.map(|_| outpoint.vout).into(),
                    input.sequence().into(),
                    input.script_sig().into(),
                    (&witness[..]).into(),
                    coin.map_or(Value::Null, amount),
                    coin.map(|coin| coin.height).into(),
                    coin.map(|coin| coin.is_coinbase).into(),
                    script.map(script_type).into(),
                    script.into(),
                ]);
            }
        }
    }

    fn push_outputs(&self, batch: &mut Batch) {
        for (position, tx) in self.view.txs().enumerate() {
            for (index, output) in tx.outputs().enumerate() {
                let script = output.script();
                batch.push(&[
                    self.height.into(),
                    (&self.txids[position].0).into(),
                    count(index),
                    output.value().into(),
                    (position == 0).into(),
                    script_type(script).into(),
                    script.into(),
                ]);
            }
        }
    }

    /// Returns the fees of all transactions but the coinbase, in satoshi; `None` if the coins that
    /// they spend are unknown.
    fn fees(&self) -> Option<Vec<i64>> {
        let mut rest = &self.spent.as_ref()?[..];
        let fee = |tx: TxView| {
            let (coins, others) = rest.split_at(tx.input_count());
            rest = others;
            coins.iter().map(|coin| coin.amount as i64).sum::<i64>() - output_value(&tx)
        };
        Some(self.view.txs().skip(1).map(fee).collect())
    }
}

/// Returns the amount of a coin, which is at most 2.1 × 10^15 satoshi.
pub(super) fn amount(coin: &Coin) -> Value<'static> {
    Value::Number(coin.amount as i64)
}

/// Returns a number of bytes or of parts of a block, which is below 2^32.
fn count(number: usize) -> Value<'static> {
    Value::Number(number as i64)
}

/// Returns the sum of a transaction's outputs, in satoshi.
fn output_value(tx: &TxView) -> i64 {
    tx.outputs().map(|output| output.value()).sum()
}

/// Replaces the content of `out` with the serialised witness of an input; with nothing if the
/// witness has no items.
fn put_witness(input: &InputView, out: &mut Vec<u8>) {
    out.clear();
    let items = input.witness();
    if items.len() > 0 {
        put_compact_size(out, items.len() as u64);
    }
    for item in items {
        put_compact_size(out, item.len() as u64);
        out.extend_from_slice(item);
    }
}

impl Ancestry for At<'_> {
    fn height(&self) -> u32 {
        self.height
    }

    fn at(&self, height: u32) -> HeaderFacts {
        self.blocks[height as usize].facts
    }
}
