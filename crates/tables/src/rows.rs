//! The rows of each table. Their columns are in the order of those described in `tables.rs`.

use apus_coins::Coin;
use apus_export::{Batch, Value};
use apus_hash::Hash;
use apus_wire::{Header, InputView, OutPoint, OutputView};

use super::script_type::script_type;

/// A row of the table of coins.
pub(super) struct CoinRow<'a> {
    pub outpoint: &'a OutPoint,
    pub coin: &'a Coin,
    /// The coin's script, uncompressed.
    pub script: &'a [u8],
}

impl CoinRow<'_> {
    #[inline]
    pub fn push_to(&self, batch: &mut Batch) {
        let Self { outpoint, coin, script } = *self;
        batch.push(&[
            (&outpoint.txid.0).into(),
            outpoint.vout.into(),
            amount(coin),
            coin.is_coinbase.into(),
            coin.height.into(),
            script.into(),
        ]);
    }
}

/// A row of the table of blocks.
pub(super) struct BlockRow<'a> {
    pub height: u32,
    pub hash: Hash,
    pub header: &'a Header,
    pub median_time: u32,
    pub size: usize,
    pub stripped_size: usize,
    pub weight: usize,
    pub transactions: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub subsidy: i64,
    pub reward: i64,
    pub fees: Option<i64>,
}

impl BlockRow<'_> {
    pub fn push_to(&self, batch: &mut Batch) {
        let Header { version, ref prev, ref merkle_root, time, bits, nonce } = *self.header;
        batch.push(&[
            self.height.into(),
            (&self.hash.0).into(),
            version.into(),
            (&prev.0).into(),
            (&merkle_root.0).into(),
            time.into(),
            self.median_time.into(),
            bits.into(),
            nonce.into(),
            count(self.size),
            count(self.stripped_size),
            count(self.weight),
            count(self.transactions),
            count(self.inputs),
            count(self.outputs),
            self.subsidy.into(),
            self.reward.into(),
            self.fees.into(),
        ]);
    }
}

/// A row of the table of transactions.
pub(super) struct TransactionRow<'a> {
    pub height: u32,
    pub position: usize,
    pub txid: &'a Hash,
    pub wtxid: &'a Hash,
    pub version: u32,
    pub lock_time: u32,
    pub size: usize,
    pub weight: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub output_value: i64,
    pub fee: Option<i64>,
}

impl TransactionRow<'_> {
    #[inline]
    pub fn push_to(&self, batch: &mut Batch) {
        batch.push(&[
            self.height.into(),
            count(self.position),
            (&self.txid.0).into(),
            (&self.wtxid.0).into(),
            (self.position == 0).into(),
            self.version.into(),
            self.lock_time.into(),
            count(self.size),
            count(self.weight),
            count(self.weight.div_ceil(4)),
            count(self.inputs),
            count(self.outputs),
            self.output_value.into(),
            self.fee.into(),
        ]);
    }
}

/// A row of the table of inputs.
pub(super) struct InputRow<'a> {
    pub height: u32,
    pub txid: &'a Hash,
    pub index: usize,
    pub input: InputView<'a>,
    /// The serialised witness; empty if it has no items.
    pub witness: &'a [u8],
    /// The coin that the input spends, and its script, uncompressed; `None` for a coinbase's input.
    pub spent: Option<(&'a Coin, &'a [u8])>,
}

impl InputRow<'_> {
    #[inline]
    pub fn push_to(&self, batch: &mut Batch) {
        let outpoint = self.input.outpoint();
        let coin = self.spent.map(|(coin, _)| coin);
        let script = self.spent.map(|(_, script)| script);
        batch.push(&[
            self.height.into(),
            (&self.txid.0).into(),
            count(self.index),
            coin.map(|_| &outpoint.txid.0).into(),
            coin.map(|_| outpoint.vout).into(),
            self.input.sequence().into(),
            self.input.script_sig().into(),
            self.witness.into(),
            coin.map_or(Value::Null, amount),
            coin.map(|coin| coin.height).into(),
            coin.map(|coin| coin.is_coinbase).into(),
            script.map(script_type).into(),
            script.into(),
        ]);
    }
}

/// A row of the table of outputs.
pub(super) struct OutputRow<'a> {
    pub height: u32,
    pub txid: &'a Hash,
    pub index: usize,
    pub is_coinbase: bool,
    pub output: OutputView<'a>,
}

impl OutputRow<'_> {
    #[inline]
    pub fn push_to(&self, batch: &mut Batch) {
        batch.push(&[
            self.height.into(),
            (&self.txid.0).into(),
            count(self.index),
            self.output.value().into(),
            self.is_coinbase.into(),
            script_type(self.output.script()).into(),
            self.output.script().into(),
        ]);
    }
}

/// Returns the amount of a coin, which is at most 2.1 × 10^15 satoshi.
fn amount(coin: &Coin) -> Value<'static> {
    Value::Number(coin.amount as i64)
}

/// Returns a number of bytes or of parts of a block, which is below 2^32.
fn count(number: usize) -> Value<'static> {
    Value::Number(number as i64)
}
