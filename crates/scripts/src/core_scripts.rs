//! Checks scripts with Bitcoin Core's engine.

use std::sync::OnceLock;

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

/// A transaction prepared for libbitcoinkernel, so that any number of threads can check its inputs
/// independently, while the hashes that its signatures share are computed only once.
///
/// libbitcoinkernel copies the prepared data at each call. With the spent outputs in it, a
/// transaction of `n` inputs would cost `n` times `n` copies, so only inputs that spend a taproot
/// output, whose signatures commit to all spent outputs, are given them.
pub struct TxScripts<'a> {
    tx: Transaction,
    prevouts: &'a [Prevout<'a>],
    /// The hashes that signatures of version 0 share.
    hashes: PrecomputedTransactionData,
    /// The same with the spent outputs and their hashes, from the first taproot input on.
    with_spent: OnceLock<Option<PrecomputedTransactionData>>,
    flags: ScriptFlags,
}

impl<'a> TxScripts<'a> {
    /// Prepares a transaction that spends these coins, which are in the order of its inputs.
    ///
    /// # Errors
    /// `block-script-verify-flag-failed` if libbitcoinkernel cannot parse the transaction, which it
    /// can if [`BlockView::parse`] could, or if it does not have an input for each coin.
    ///
    /// [`BlockView::parse`]: apus_wire::BlockView::parse
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
        Self::try_new(tx, prevouts, flags).map_err(|error| script_error(error.to_string()))
    }

    fn try_new(
        tx: &[u8],
        prevouts: &'a [Prevout<'a>],
        flags: ScriptFlags,
    ) -> Result<Self, KernelError> {
        let tx = Transaction::new(tx)?;
        if tx.input_count() != prevouts.len() {
            return Err(KernelError::MismatchedOutputsSize);
        }
        let none: [TxOut; 0] = [];
        let hashes = PrecomputedTransactionData::new(&tx, &none)?;
        Ok(Self { tx, prevouts, hashes, with_spent: OnceLock::new(), flags })
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
            (self.flags, self.with_spent())
        } else {
            (self.flags & !flags::TAPROOT, Some(&self.hashes))
        };
        let (Ok(script), Some(data)) = (ScriptPubkey::new(spent.script), data) else {
            return false;
        };
        verify(&script, Some(spent.amount), &self.tx, index, Some(flags), data).is_ok()
    }

    /// Returns the data with the spent outputs; `None` if libbitcoinkernel cannot make it.
    fn with_spent(&self) -> Option<&PrecomputedTransactionData> {
        let make = || {
            let output =
                |spent: &Prevout| Ok(TxOut::new(&ScriptPubkey::new(spent.script)?, spent.amount));
            let spent =
                self.prevouts.iter().map(output).collect::<Result<Vec<_>, KernelError>>()?;
            PrecomputedTransactionData::new(&self.tx, &spent)
        };
        self.with_spent.get_or_init(|| make().ok()).as_ref()
    }

    /// Returns whether some input was checked with the spent outputs of all.
    #[cfg(test)]
    pub(super) fn has_used_spent(&self) -> bool {
        self.with_spent.get().is_some()
    }

    #[cold]
    fn input_error(&self, index: usize) -> RuleError {
        let txid = self.tx.txid().to_string();
        let wtxid = self
            .tx
            .consensus_encode()
            .map_or_else(|_| String::new(), |tx| sha256d(&tx).to_string());
        let spending = self.tx.input(index).map_or_else(
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
