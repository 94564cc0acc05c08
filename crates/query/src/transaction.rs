//! Transactions as Bitcoin Core shows them (`TxToUniv`).

use apus_coins::Coin;
use apus_wire::{Chain, InputView, OutputView, TxView};
use serde::Serialize;

use super::json::{Amount, hex};
use super::script::{ScriptPubKey, asm};

/// A transaction.
#[derive(Serialize)]
pub struct Transaction {
    txid: String,
    hash: String,
    version: u32,
    size: usize,
    vsize: usize,
    weight: usize,
    locktime: u32,
    vin: Vec<Input>,
    vout: Vec<Output>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fee: Option<Amount>,
    hex: String,
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
    generated: bool,
    height: u32,
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

/// What is known of the coins that a transaction spends.
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

impl Transaction {
    /// Describes a transaction of a network.
    pub fn new(tx: TxView, spent: Spent, chain: Chain) -> Self {
        let weight = 3 * tx.base_size() + tx.bytes().len();
        let is_coinbase = tx.is_coinbase();
        let input = |(index, input): (usize, InputView)| {
            let coin = match spent {
                Spent::Shown(coins) => coins.get(index),
                Spent::Unknown | Spent::ForFee(_) => None,
            };
            Input::new(&input, is_coinbase, coin, chain)
        };
        Self {
            txid: tx.txid().to_string(),
            hash: apus_hash::sha256d(tx.bytes()).to_string(),
            version: tx.version(),
            size: tx.bytes().len(),
            vsize: weight.div_ceil(4),
            weight,
            locktime: tx.lock_time(),
            vin: tx.inputs().enumerate().map(input).collect(),
            vout: tx
                .outputs()
                .enumerate()
                .map(|(n, output)| Output::new(n, &output, chain))
                .collect(),
            fee: spent.coins().map(|coins| Amount(fee(tx, coins))),
            hex: hex(tx.bytes()),
        }
    }
}

/// Returns the fee of a transaction that spends `coins`.
pub fn fee(tx: TxView, coins: &[Coin]) -> i64 {
    let paid: i64 = coins.iter().map(|coin| coin.amount as i64).sum();
    paid - tx.outputs().map(|output| output.value()).sum::<i64>()
}

impl Input {
    fn new(input: &InputView, is_coinbase: bool, coin: Option<&Coin>, chain: Chain) -> Self {
        let (outpoint, script) = (input.outpoint(), input.script_sig());
        Self {
            coinbase: is_coinbase.then(|| hex(script)),
            txid: (!is_coinbase).then(|| outpoint.txid.to_string()),
            vout: (!is_coinbase).then_some(outpoint.vout),
            script_sig: (!is_coinbase)
                .then(|| ScriptSig { asm: asm(script, true), hex: hex(script) }),
            txinwitness: input.witness().map(hex).collect(),
            prevout: coin.map(|coin| Prevout {
                generated: coin.is_coinbase,
                height: coin.height,
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

/// Returns the script of a coin.
pub fn script_bytes(coin: &Coin) -> Vec<u8> {
    let mut script = Vec::new();
    coin.script.decompress_into(&mut script);
    script
}
