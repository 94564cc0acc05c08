//! Transactions as Bitcoin Core shows them (`TxToUniv`).

use apus_coins::Coin;
use apus_hash::{Hash, sha256d};
use apus_wire::{Chain, InputView, OutputView, TxView};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::json::{Amount, Each, hex, id};
use super::script::{ScriptPubKey, asm};

/// A transaction. Most of it is made while it is printed.
#[derive(Clone, Copy)]
pub struct Transaction<'a> {
    tx: TxView<'a>,
    txid: Hash,
    wtxid: Hash,
    spent: Spent<'a>,
    chain: Chain,
    block: Option<Hash>,
    has_hex: bool,
    /// The length in bytes, if the input is not there.
    bytes_without_inputs: Option<usize>,
}

#[derive(Serialize)]
struct Input {
    #[serde(skip_serializing_if = "Option::is_none")]
    coinbase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    txid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vout: Option<u32>,
    #[serde(rename = "scriptSig", skip_serializing_if = "Option::is_none")]
    script_sig: Option<ScriptSig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    txinwitness: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prevout: Option<Prevout>,
    sequence: u32,
}

#[derive(Serialize)]
struct ScriptSig {
    asm: String,
    hex: String,
}

#[derive(Serialize)]
struct Prevout {
    #[serde(skip_serializing_if = "Option::is_none")]
    generated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    value: Amount,
    #[serde(rename = "scriptPubKey")]
    script: ScriptPubKey,
}

#[derive(Serialize)]
struct Output {
    value: Amount,
    n: usize,
    #[serde(rename = "scriptPubKey")]
    script: ScriptPubKey,
}

/// The coins that a transaction spends, where they are known.
#[derive(Clone, Copy)]
pub enum Spent<'a> {
    /// Nothing.
    Unknown,
    /// These coins, of which the fee follows.
    ForFee(&'a [Coin]),
    /// These coins, which are shown.
    Shown(&'a [Coin]),
}

impl<'a> Spent<'a> {
    fn coins(self) -> Option<&'a [Coin]> {
        match self {
            Self::Unknown => None,
            Self::ForFee(coins) | Self::Shown(coins) => Some(coins),
        }
    }
}

impl<'a> Transaction<'a> {
    /// Describes a transaction of a network.
    pub fn new(tx: TxView<'a>, spent: Spent<'a>, chain: Chain) -> Self {
        Self::with_ids(tx, (tx.txid(), sha256d(tx.bytes())), spent, chain)
    }

    /// Like [`Transaction::new`], with the known txid and wtxid.
    pub fn with_ids(
        tx: TxView<'a>,
        (txid, wtxid): (Hash, Hash),
        spent: Spent<'a>,
        chain: Chain,
    ) -> Self {
        let block = None;
        let bytes_without_inputs = None;
        Self { tx, txid, wtxid, spent, chain, block, has_hex: true, bytes_without_inputs }
    }

    /// Returns the same, without its bytes.
    pub fn without_hex(self) -> Self {
        Self { has_hex: false, ..self }
    }

    /// Returns the same, without the input, so that it has `bytes` bytes.
    pub fn without_inputs(self, bytes: usize) -> Self {
        Self { bytes_without_inputs: Some(bytes), ..self }
    }

    /// Returns the same, with the hash of the block that the transaction is in.
    pub fn in_block(self, block: Hash) -> Self {
        Self { block: Some(block), ..self }
    }
}

impl Serialize for Transaction<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { tx, spent, chain, .. } = *self;
        let is_coinbase = tx.is_coinbase();
        let (base_size, size) = match self.bytes_without_inputs {
            None => (tx.base_size(), tx.bytes().len()),
            Some(bytes) => (bytes, bytes),
        };
        let weight = 3 * base_size + size;
        let has_inputs = self.bytes_without_inputs.is_none();
        let inputs = || tx.inputs().enumerate().filter(|_| has_inputs);
        let input = |(index, input): (usize, InputView)| {
            let coin = match spent {
                Spent::Shown(coins) => coins.get(index),
                Spent::Unknown | Spent::ForFee(_) => None,
            };
            Input::new(&input, is_coinbase, coin, chain)
        };
        let output = |(n, output): (usize, OutputView)| Output::new(n, &output, chain);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("txid", &id(&self.txid))?;
        map.serialize_entry("hash", &id(&self.wtxid))?;
        map.serialize_entry("version", &tx.version())?;
        map.serialize_entry("size", &size)?;
        map.serialize_entry("vsize", &weight.div_ceil(4))?;
        map.serialize_entry("weight", &weight)?;
        map.serialize_entry("locktime", &tx.lock_time())?;
        map.serialize_entry("vin", &Each(|| inputs().map(input)))?;
        map.serialize_entry("vout", &Each(|| tx.outputs().enumerate().map(output)))?;
        if let Some(coins) = spent.coins() {
            map.serialize_entry("fee", &Amount(fee(tx, coins)))?;
        }
        if let Some(block) = &self.block {
            map.serialize_entry("blockhash", &id(block))?;
        }
        if self.has_hex {
            map.serialize_entry("hex", &hex(tx.bytes()))?;
        }
        map.end()
    }
}

pub fn fee(tx: TxView, coins: &[Coin]) -> i64 {
    let paid: i64 = coins.iter().map(|coin| coin.amount as i64).sum();
    paid - tx.outputs().map(|output| output.value()).sum::<i64>()
}

impl Input {
    fn new(input: &InputView, is_coinbase: bool, coin: Option<&Coin>, chain: Chain) -> Self {
        let outpoint = input.outpoint();
        let script = input.script_sig();
        Self {
            coinbase: is_coinbase.then(|| hex(script)),
            txid: (!is_coinbase).then(|| id(&outpoint.txid)),
            vout: (!is_coinbase).then_some(outpoint.vout),
            script_sig: (!is_coinbase)
                .then(|| ScriptSig { asm: asm(script, true), hex: hex(script) }),
            txinwitness: input.witness().map(hex).collect(),
            prevout: coin.map(|coin| Prevout {
                // Undo data of Bitcoin Core before 0.15 lacks them.
                generated: (coin.height > 0).then_some(coin.is_coinbase),
                height: (coin.height > 0).then_some(coin.height),
                value: Amount(coin.amount as i64),
                script: script_of(coin, chain),
            }),
            sequence: input.sequence(),
        }
    }
}

impl Output {
    fn new(n: usize, output: &OutputView, chain: Chain) -> Self {
        let script = ScriptPubKey::new(output.script(), chain);
        Self { value: Amount(output.value()), n, script }
    }
}

/// Describes the script of a coin.
pub fn script_of(coin: &Coin, chain: Chain) -> ScriptPubKey {
    ScriptPubKey::new(&script_bytes(coin), chain)
}

pub fn script_bytes(coin: &Coin) -> Vec<u8> {
    let mut script = Vec::new();
    coin.script.decompress_into(&mut script);
    script
}
