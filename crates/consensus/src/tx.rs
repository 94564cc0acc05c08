use apus_wire::{LOCK_TIME_THRESHOLD, SEQUENCE_FINAL, TxView};

use super::amount::money_range;
use super::error::RuleError;
use super::limits::WEIGHT_MAX;
use super::sigops::WITNESS_SCALE;

/// The largest number of inputs for which comparing each with each is cheaper than sorting.
const QUADRATIC_INPUTS_MAX: usize = 12;

/// Checks the rules that need nothing but the transaction, in order (Core's `CheckTransaction`).
///
/// # Errors
/// Core's reject reason, to be completed by [`RuleError::in_transaction`].
pub(super) fn check_transaction(tx: &TxView) -> Result<(), &'static str> {
    has_inputs_and_outputs(tx)?;
    size_in_limit(tx)?;
    output_amounts_in_range(tx)?;
    inputs_differ(tx)?;
    if tx.is_coinbase() { coinbase_script_length(tx) } else { inputs_spend_something(tx) }
}

/// A transaction MUST have an input and an output.
fn has_inputs_and_outputs(tx: &TxView) -> Result<(), &'static str> {
    if tx.input_count() == 0 {
        return Err("bad-txns-vin-empty");
    }
    if tx.output_count() == 0 {
        return Err("bad-txns-vout-empty");
    }
    Ok(())
}

/// A transaction without its witnesses MUST NOT be larger than a block may be.
fn size_in_limit(tx: &TxView) -> Result<(), &'static str> {
    if tx.base_size() * WITNESS_SCALE as usize > WEIGHT_MAX {
        return Err("bad-txns-oversize");
    }
    Ok(())
}

/// Amounts of outputs MUST NOT be negative, and MUST NOT exceed 21 million bitcoins, alone or
/// together (CVE-2010-5139).
fn output_amounts_in_range(tx: &TxView) -> Result<(), &'static str> {
    let mut total = 0;
    for output in tx.outputs() {
        let amount = output.value();
        if amount < 0 {
            return Err("bad-txns-vout-negative");
        }
        if !money_range(amount) {
            return Err("bad-txns-vout-toolarge");
        }
        total += amount;
        if !money_range(total) {
            return Err("bad-txns-txouttotal-toolarge");
        }
    }
    Ok(())
}

/// A transaction MUST NOT spend an output twice (CVE-2018-17144).
fn inputs_differ(tx: &TxView) -> Result<(), &'static str> {
    let count = tx.input_count();
    let repeated = if count <= QUADRATIC_INPUTS_MAX {
        (1..count).any(|i| {
            let outpoint = tx.input(i).outpoint_bytes();
            (0..i).any(|j| tx.input(j).outpoint_bytes() == outpoint)
        })
    } else {
        let mut outpoints: Vec<&[u8; 36]> = tx.inputs().map(|i| i.outpoint_bytes()).collect();
        outpoints.sort_unstable();
        outpoints.windows(2).any(|pair| pair[0] == pair[1])
    };
    if repeated { Err("bad-txns-inputs-duplicate") } else { Ok(()) }
}

/// A coinbase's scriptSig MUST be 2 to 100 bytes long.
fn coinbase_script_length(tx: &TxView) -> Result<(), &'static str> {
    if (2..=100).contains(&tx.input(0).script_sig().len()) { Ok(()) } else { Err("bad-cb-length") }
}

/// Each input of a transaction that is not a coinbase MUST refer to an output.
fn inputs_spend_something(tx: &TxView) -> Result<(), &'static str> {
    if tx.inputs().any(|input| input.outpoint().is_null()) {
        return Err("bad-txns-prevout-null");
    }
    Ok(())
}

/// Returns whether a transaction's lock time allows it in a block of this height (Core's
/// `IsFinalTx`). `cutoff` is the block's time or, under BIP113, the median time past of its parent.
pub(super) fn is_final(tx: &TxView, height: u32, cutoff: i64) -> bool {
    let lock_time = tx.lock_time();
    if lock_time == 0 {
        return true;
    }
    let limit = if lock_time < LOCK_TIME_THRESHOLD { i64::from(height) } else { cutoff };
    i64::from(lock_time) < limit || tx.inputs().all(|input| input.sequence() == SEQUENCE_FINAL)
}

impl RuleError {
    /// Returns the error for a block whose transaction `txid` breaks a context-free rule.
    #[cold]
    pub(super) fn in_transaction(reason: &'static str, txid: &apus_hash::Hash) -> Self {
        // The space at the end is Core's: the transaction's own debug message, which would follow
        // it, is always empty.
        Self::consensus(reason, format!("Transaction check failed (tx hash {txid}) "))
    }
}
