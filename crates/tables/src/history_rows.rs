//! The rows of a history, from blocks and undo data.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_coins::{Coin, Heights};
use apus_descriptors::{ScriptPlace, Scripts, address};
use apus_export::Batch;
use apus_node::error::SyncError;
use apus_node::workers::check_stop;
use apus_wire::{Chain, InputView, OutPoint, TxView};

use super::blocks::stored_coins;
use super::source::Source;
use apus_claims::stored::{ReadBlock, StoredChain};

/// An output that pays to a wanted script.
#[derive(Clone)]
pub(super) struct Paid {
    value: i64,
    place: ScriptPlace,
    script: Vec<u8>,
}

/// Outputs that pay to wanted scripts.
pub(super) type PaidOutputs = HashMap<OutPoint, Paid>;

/// The rows of a history, in order.
pub(super) struct HistoryRows<'a> {
    pub chain: &'a StoredChain,
    pub network: Chain,
    pub scripts: &'a Scripts,
    /// The heights of each item.
    pub items: Vec<Vec<u32>>,
    /// The outputs that blocks without undo data may spend.
    pub paid: &'a PaidOutputs,
    /// Which scripts of each descriptor were found, by the highest index.
    pub used: &'a Used,
    pub stop: &'a AtomicBool,
}

/// The highest index of each descriptor at which a script was found, plus one.
pub(super) struct Used(pub Vec<std::sync::atomic::AtomicU32>);

/// A row of the table.
struct Row<'a> {
    txid: &'a [u8; 32],
    /// Whether the row is of an input.
    spent: Option<OutPoint>,
    index: usize,
    value: i64,
    is_coinbase: bool,
    place: ScriptPlace,
    script: &'a [u8],
}

/// Buffers for reading blocks.
#[derive(Default)]
struct Buffers {
    block: Vec<u8>,
    undo: Vec<u8>,
    script: Vec<u8>,
}

/// Adds the outputs of the block at `height` that pay to `scripts`. `bytes` is a buffer.
///
/// # Errors
/// The block cannot be read, or is damaged.
pub(super) fn add_paid(
    chain: &StoredChain,
    scripts: &Scripts,
    height: u32,
    bytes: &mut Vec<u8>,
    paid: &mut PaidOutputs,
) -> Result<(), SyncError> {
    let ReadBlock { view, txids } = chain.read(height, bytes)?;
    for (tx, txid) in view.txs().zip(&txids) {
        for (vout, output) in tx.outputs().enumerate() {
            if let Some(place) = scripts.find(output.script()) {
                let outpoint = OutPoint { txid: *txid, vout: vout as u32 };
                let script = output.script().to_vec();
                paid.insert(outpoint, Paid { value: output.value(), place, script });
            }
        }
    }
    Ok(())
}

impl Source for HistoryRows<'_> {
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

impl HistoryRows<'_> {
    fn read_block(
        &self,
        height: u32,
        buffers: &mut Buffers,
        batch: &mut Batch,
    ) -> Result<(), SyncError> {
        let Buffers { block, undo, script } = buffers;
        let ReadBlock { view, txids } = self.chain.read(height, block)?;
        let spent = stored_coins(self.chain, height, &view, Heights::Optional, undo)?;
        let mut coins = spent.as_deref().map(<[Coin]>::iter);
        for (position, (tx, txid)) in view.txs().zip(&txids).enumerate() {
            let is_coinbase = position == 0;
            for (index, input) in tx.inputs().enumerate().filter(|_| !is_coinbase) {
                let coin = coins.as_mut().and_then(Iterator::next);
                let Some((value, place)) = self.spends(&input, coin, script) else { continue };
                let spent = Some(input.outpoint());
                let txid = &txid.0;
                let row = Row { txid, spent, index, value, is_coinbase, place, script };
                self.push(height, &row, batch);
            }
            self.push_outputs(height, (&tx, &txid.0), is_coinbase, batch);
        }
        Ok(())
    }

    /// Returns the amount and the place of the script of the coin that an input spends, if the
    /// script is wanted, and puts the script into `script`. `coin` is the coin, where undo data is
    /// stored.
    fn spends(
        &self,
        input: &InputView,
        coin: Option<&Coin>,
        script: &mut Vec<u8>,
    ) -> Option<(i64, ScriptPlace)> {
        script.clear();
        match coin {
            Some(coin) => {
                coin.script.decompress_into(script);
                self.scripts.find(script).map(|place| (coin.amount as i64, place))
            }
            None => {
                let paid = self.paid.get(&input.outpoint())?;
                script.extend_from_slice(&paid.script);
                Some((paid.value, paid.place))
            }
        }
    }

    fn push_outputs(
        &self,
        height: u32,
        (tx, txid): (&TxView, &[u8; 32]),
        is_coinbase: bool,
        batch: &mut Batch,
    ) {
        for (index, output) in tx.outputs().enumerate() {
            let script = output.script();
            if let Some(place) = self.scripts.find(script) {
                let value = output.value();
                let spent = None;
                let row = Row { txid, spent, index, value, is_coinbase, place, script };
                self.push(height, &row, batch);
            }
        }
    }

    fn push(&self, height: u32, row: &Row, batch: &mut Batch) {
        let block = &self.chain.blocks[height as usize];
        if let Some(index) = row.place.index {
            self.used.0[row.place.descriptor as usize].fetch_max(index + 1, Relaxed);
        }
        let address = address(row.script, self.network);
        batch.push(&[
            height.into(),
            block.facts.time.into(),
            (&block.hash.0).into(),
            row.txid.into(),
            if row.spent.is_some() { "input" } else { "output" }.into(),
            (row.index as u32).into(),
            row.value.into(),
            row.is_coinbase.into(),
            row.spent.as_ref().map(|spent| &spent.txid.0).into(),
            row.spent.as_ref().map(|spent| spent.vout).into(),
            row.place.descriptor.into(),
            row.place.index.into(),
            address.as_deref().into(),
            row.script.into(),
        ]);
    }
}
