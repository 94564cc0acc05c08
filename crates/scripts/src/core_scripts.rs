//! Checks scripts with Bitcoin Core's engine.

use std::sync::{Arc, OnceLock};

use apus_consensus::{CheckedBlock, RuleError};
use apus_hash::sha256d;
use apus_wire::opcodes::OP_1;
use apus_wire::{BlockView, Network, Prevout, ScriptFlags, TxView, flags};
use bitcoinkernel::prelude::*;
use bitcoinkernel::{
    KernelError, PrecomputedTransactionData, ScriptPubkey, Transaction, TxOut, verify,
};

/// Checks the rules that need nothing but the block, in order ([`apus_consensus::check_block`]).
/// Core's engine checks the solution of a signet's block.
///
/// # Errors
/// Those of [`apus_consensus::check_block`]
pub fn check_block<B: AsRef<[u8]>>(
    view: BlockView<B>,
    network: &Network,
) -> Result<CheckedBlock<B>, RuleError> {
    apus_consensus::check_block(view, network, only_input_is_valid)
}

/// Does what [`apus_consensus::VerifyScript`] asks for.
pub(super) fn only_input_is_valid(tx: &[u8], spent: &Prevout, flags: ScriptFlags) -> bool {
    TxScripts::from_bytes(tx, std::slice::from_ref(spent), flags)
        .and_then(|scripts| scripts.check_input(0))
        .is_ok()
}

/// A transaction prepared for libbitcoinkernel: what the checks of all its inputs share, in any
/// number of threads.
///
/// libbitcoinkernel copies the prepared data at each call. With the spent outputs in it, a
/// transaction of `n` inputs would cost `n` times `n` copies, so only inputs that spend a taproot
/// output, whose signatures commit to all spent outputs, are given them.
pub struct PreparedTx {
    tx: Transaction,
    /// The hashes that signatures of version 0 share.
    hashes: PrecomputedTransactionData,
    /// The same with the spent outputs and their hashes, from the first taproot input on.
    with_spent: OnceLock<Option<PrecomputedTransactionData>>,
}

impl PreparedTx {
    /// Prepares a transaction.
    ///
    /// # Errors
    /// `block-script-verify-flag-failed` if libbitcoinkernel cannot parse the transaction, which it
    /// can if [`BlockView::parse`] could.
    ///
    /// [`BlockView::parse`]: apus_wire::BlockView::parse
    pub fn new(tx: &TxView) -> Result<Self, RuleError> {
        Self::from_bytes(tx.bytes())
    }

    fn from_bytes(tx: &[u8]) -> Result<Self, RuleError> {
        let prepared = || {
            let tx = Transaction::new(tx)?;
            let none: [TxOut; 0] = [];
            let hashes = PrecomputedTransactionData::new(&tx, &none)?;
            Ok::<_, KernelError>(Self { tx, hashes, with_spent: OnceLock::new() })
        };
        prepared().map_err(|error| script_error(error.to_string()))
    }

    /// Returns the data with the spent outputs; `None` if libbitcoinkernel cannot make it.
    fn with_spent(&self, prevouts: &[Prevout]) -> Option<&PrecomputedTransactionData> {
        let make = || {
            let output =
                |spent: &Prevout| Ok(TxOut::new(&ScriptPubkey::new(spent.script)?, spent.amount));
            let spent = prevouts.iter().map(output).collect::<Result<Vec<_>, KernelError>>()?;
            PrecomputedTransactionData::new(&self.tx, &spent)
        };
        self.with_spent.get_or_init(|| make().ok()).as_ref()
    }
}

/// The checks of a transaction's inputs by libbitcoinkernel.
pub struct TxScripts<'a> {
    prepared: Arc<PreparedTx>,
    prevouts: &'a [Prevout<'a>],
    flags: ScriptFlags,
}

impl<'a> TxScripts<'a> {
    /// Prepares a transaction that spends these coins, which are in the order of its inputs.
    ///
    /// # Errors
    /// Those of [`PreparedTx::new`] and [`TxScripts::of`].
    pub fn new(
        tx: &TxView,
        prevouts: &'a [Prevout<'a>],
        flags: ScriptFlags,
    ) -> Result<Self, RuleError> {
        Self::from_bytes(tx.bytes(), prevouts, flags)
    }

    fn from_bytes(
        tx: &[u8],
        prevouts: &'a [Prevout<'a>],
        flags: ScriptFlags,
    ) -> Result<Self, RuleError> {
        Self::of(Arc::new(PreparedTx::from_bytes(tx)?), prevouts, flags)
    }

    /// Takes a transaction that is prepared already. All checks of it MUST be given the same coins.
    ///
    /// # Errors
    /// `block-script-verify-flag-failed` if the transaction does not have an input for each coin.
    pub fn of(
        prepared: Arc<PreparedTx>,
        prevouts: &'a [Prevout<'a>],
        flags: ScriptFlags,
    ) -> Result<Self, RuleError> {
        if prepared.tx.input_count() != prevouts.len() {
            return Err(script_error(KernelError::MismatchedOutputsSize.to_string()));
        }
        Ok(Self { prepared, prevouts, flags })
    }

    /// Returns the number of inputs.
    pub fn input_count(&self) -> usize {
        self.prevouts.len()
    }

    /// The input at `index` MUST satisfy the script of the coin that it spends.
    ///
    /// # Errors
    /// `block-script-verify-flag-failed`. Core adds its script interpreter's error in brackets;
    /// libbitcoinkernel does not report it.
    ///
    /// # Panics
    /// If `index` is not below [`TxScripts::input_count`].
    pub fn check_input(&self, index: usize) -> Result<(), RuleError> {
        if self.is_valid(index) { Ok(()) } else { Err(self.input_error(index)) }
    }

    /// Asks libbitcoinkernel, which gives no reason for a script that fails.
    fn is_valid(&self, index: usize) -> bool {
        let spent = &self.prevouts[index];
        // TAPROOT changes the meaning of no other script, and libbitcoinkernel does not take this
        // flag without spent outputs.
        let needs_spent = self.flags & flags::TAPROOT != 0 && is_taproot(spent.script);
        let (flags, data) = if needs_spent {
            (self.flags, self.prepared.with_spent(self.prevouts))
        } else {
            (self.flags & !flags::TAPROOT, Some(&self.prepared.hashes))
        };
        let (Ok(script), Some(data)) = (ScriptPubkey::new(spent.script), data) else {
            return false;
        };
        verify(&script, Some(spent.amount), &self.prepared.tx, index, Some(flags), data).is_ok()
    }

    /// Returns whether some input was checked with the spent outputs of all.
    #[cfg(test)]
    pub(super) fn has_used_spent(&self) -> bool {
        self.prepared.with_spent.get().is_some()
    }

    #[cold]
    fn input_error(&self, index: usize) -> RuleError {
        let tx = &self.prepared.tx;
        let txid = tx.txid().to_string();
        let wtxid = tx.consensus_encode();
        let wtxid = wtxid.map_or_else(|_| String::new(), |tx| sha256d(&tx).to_string());
        let spending = tx.input(index).map_or_else(
            |_| String::new(),
            |input| {
                let outpoint = input.outpoint();
                format!("{}:{}", outpoint.txid(), outpoint.index())
            },
        );
        script_error(format!("input {index} of {txid} (wtxid {wtxid}), spending {spending}"))
    }
}

/// Returns whether the script is that of a taproot output (BIP341): version 1, 32 bytes.
pub fn is_taproot(script: &[u8]) -> bool {
    script.len() == 34 && script[..2] == [OP_1, 32]
}

fn script_error(debug: String) -> RuleError {
    RuleError::consensus("block-script-verify-flag-failed", debug)
}
