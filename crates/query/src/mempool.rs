//! The methods about transactions that no block holds, answered as by a node whose mempool is
//! empty, so that clients carry on. Apus relays no transactions.

use apus_hash::Hash;
use bitcoin::Transaction;
use bitcoin::consensus::encode::deserialize;
use bitcoin::hashes::Hash as _;
use serde::Serialize;
use serde_json::{Map, Value};

use super::amount::{check_amount, check_fee_rate};
use super::error::{
    RPC_DESERIALIZATION_ERROR, RPC_INVALID_ADDRESS_OR_KEY, RPC_INVALID_PARAMETER, RpcError,
    internal,
};
use super::json::{Amount, Json, from_hex, json};
use super::params::{array, boolean, hash, integer, text};
use super::source::Call;

/// Core's default of `-minrelaytxfee` and `-incrementalrelayfee`, in satoshis per 1,000 bytes.
pub const RELAY_FEE: Amount = Amount(100);

/// There are no connections for this (Core's `RPC_CLIENT_P2P_DISABLED`).
const P2P_DISABLED: i32 = -31;
/// A transaction is in the chain (Core's `RPC_VERIFY_ALREADY_IN_UTXO_SET`).
const ALREADY_IN_UTXO_SET: i32 = -27;
/// Core's `MAX_PACKAGE_COUNT`.
const PACKAGE_MAX: usize = 25;
/// The most blocks for which Core estimates a fee.
const TARGET_MAX: i32 = 1008;

/// Returns the state of a mempool that is empty.
pub fn getmempoolinfo(_: &Call) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    struct Info {
        loaded: bool,
        size: u64,
        bytes: u64,
        usage: u64,
        total_fee: Amount,
        maxmempool: u64,
        mempoolminfee: Amount,
        minrelaytxfee: Amount,
        incrementalrelayfee: Amount,
        unbroadcastcount: u64,
        permitbaremultisig: bool,
        maxdatacarriersize: u64,
        limitclustercount: u64,
        limitclustersize: u64,
        optimal: bool,
    }
    Ok(json(&Info {
        loaded: true,
        size: 0,
        bytes: 0,
        usage: 0,
        total_fee: Amount(0),
        maxmempool: 300_000_000,
        mempoolminfee: RELAY_FEE,
        minrelaytxfee: RELAY_FEE,
        incrementalrelayfee: RELAY_FEE,
        unbroadcastcount: 0,
        permitbaremultisig: true,
        maxdatacarriersize: 100_000,
        limitclustercount: 64,
        limitclustersize: 101_000,
        optimal: true,
    }))
}

/// Returns the txids of the mempool: none.
pub fn getrawmempool(call: &Call) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    struct WithSequence {
        txids: [(); 0],
        mempool_sequence: u64,
    }
    let flag = |index| match call.param(index) {
        Value::Null => Ok(false),
        flag => boolean(flag),
    };
    match (flag(0)?, flag(1)?) {
        (true, true) => Err(RpcError::new(
            RPC_INVALID_PARAMETER,
            "Verbose results cannot contain mempool sequence values.",
        )),
        (true, false) => Ok(json(&Map::new())),
        (false, true) => Ok(json(&WithSequence { txids: [], mempool_sequence: 1 })),
        (false, false) => Ok(json(&[(); 0])),
    }
}

pub use getmempoolentry as getmempoolancestors;
pub use getmempoolentry as getmempoolcluster;
pub use getmempoolentry as getmempooldescendants;

/// Refuses a transaction that is not in the mempool, as all are.
pub fn getmempoolentry(call: &Call) -> Result<Json, RpcError> {
    hash(call.param(0), "txid")?;
    Err(RpcError::new(RPC_INVALID_ADDRESS_OR_KEY, "Transaction not in mempool"))
}

/// Decodes a transaction; `shown` is what the error repeats of it.
fn decode(value: &Value, shown: &str) -> Result<Transaction, RpcError> {
    let bytes = from_hex(text(value)?).filter(|bytes| !bytes.is_empty());
    let decoded = bytes.and_then(|bytes| deserialize(&bytes).ok());
    decoded.filter(|tx: &Transaction| !tx.input.is_empty()).ok_or_else(|| {
        let what = format!("TX decode failed{shown} Make sure the tx has at least one input.");
        RpcError::new(RPC_DESERIALIZATION_ERROR, what)
    })
}

/// Returns between one and 25 transactions in hex.
fn package(value: &Value) -> Result<&[Value], RpcError> {
    let all = array(value)?;
    if all.is_empty() || all.len() > PACKAGE_MAX {
        let what = format!("Array must contain between 1 and {PACKAGE_MAX} transactions.");
        return Err(RpcError::new(RPC_INVALID_PARAMETER, what));
    }
    Ok(all)
}

fn decode_all(package: &[Value]) -> Result<Vec<Transaction>, RpcError> {
    let decode = |tx: &Value| decode(tx, &format!(": {}", tx.as_str().unwrap_or_default()));
    package.iter().map(decode).collect()
}

fn not_relayed() -> RpcError {
    RpcError::new(P2P_DISABLED, "Apus relays no transactions: send it through another node")
}

/// Refuses to send a transaction. As by Core, one that has an unspent output is in the chain.
pub fn sendrawtransaction(call: &Call) -> Result<Json, RpcError> {
    check_amount(call.param(2))?;
    let tx = decode(call.param(0), ".")?;
    check_fee_rate(call.param(1))?;
    if is_in_utxo_set(call, &tx)? {
        return Err(RpcError::new(ALREADY_IN_UTXO_SET, "Transaction outputs already in utxo set"));
    }
    Err(not_relayed())
}

/// Returns whether an output of the transaction is unspent.
fn is_in_utxo_set(call: &Call, tx: &Transaction) -> Result<bool, RpcError> {
    let txid = Hash(tx.compute_txid().to_byte_array());
    let coins = call.source.look(|committed| committed.coins.clone())?;
    Ok(coins.scan_txids(&txid, &txid).next_coin().map_err(internal)?.is_some())
}

/// Refuses to send transactions.
pub fn submitpackage(call: &Call) -> Result<Json, RpcError> {
    let package = package(call.param(0))?;
    check_fee_rate(call.param(1))?;
    check_amount(call.param(2))?;
    decode_all(package)?;
    Err(not_relayed())
}

/// Returns that no transaction would be accepted. As by Core, the reason is another one for
/// coinbases, and for those that have an unspent output.
pub fn testmempoolaccept(call: &Call) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    struct Tested {
        txid: String,
        wtxid: String,
        allowed: bool,
        #[serde(rename = "reject-reason")]
        reject_reason: &'static str,
        #[serde(rename = "reject-details")]
        reject_details: &'static str,
    }
    let package = package(call.param(0))?;
    check_fee_rate(call.param(1))?;
    let mut tested = Vec::new();
    for tx in decode_all(package)? {
        let reason = if tx.is_coinbase() {
            "coinbase"
        } else if is_in_utxo_set(call, &tx)? {
            "txn-already-known"
        } else {
            "no-mempool"
        };
        tested.push(Tested {
            txid: tx.compute_txid().to_string(),
            wtxid: tx.compute_wtxid().to_string(),
            allowed: false,
            reject_reason: reason,
            reject_details: reason,
        });
    }
    Ok(json(&tested))
}

/// Returns that no fee can be estimated.
pub fn estimatesmartfee(call: &Call) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    struct Estimate {
        errors: [&'static str; 1],
        blocks: u32,
    }
    let wrong = |what: String| Err(RpcError::new(RPC_INVALID_PARAMETER, what));
    let target = integer::<i32>(call.param(0))?;
    if !(1..=TARGET_MAX).contains(&target) {
        return wrong(format!("Invalid conf_target, must be between 1 and {TARGET_MAX}"));
    }
    let mode = call.param(1).as_str().unwrap_or("unset").to_lowercase();
    if !["unset", "economical", "conservative"].contains(&mode.as_str()) {
        return wrong(
            "Invalid estimate_mode parameter, must be one of: \"unset\", \"economical\", \
             \"conservative\""
                .to_string(),
        );
    }
    Ok(json(&Estimate { errors: ["Insufficient data or no feerate found"], blocks: 0 }))
}

/// Returns the transactions that are preferred: none.
pub fn getprioritisedtransactions(_: &Call) -> Result<Json, RpcError> {
    Ok(json(&Map::new()))
}
