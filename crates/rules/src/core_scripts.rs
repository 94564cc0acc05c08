//! Checks scripts with Bitcoin Core's engine.

use apus_hash::sha256d;
use apus_wire::{Prevout, ScriptFlags, TxView};
use bitcoinkernel::prelude::*;
use bitcoinkernel::{
    KernelError, PrecomputedTransactionData, ScriptPubkey, Transaction, TxOut, verify,
};

use super::error::RuleError;

/// A transaction prepared for libbitcoinkernel, so that any number of threads can check its inputs
/// independently, while the hashes that its signatures share are computed only once.
pub struct TxScripts {
    tx: Transaction,
    spent: Vec<TxOut>,
    shared: PrecomputedTransactionData,
    flags: ScriptFlags,
}

impl TxScripts {
    /// Prepares a transaction that spends these coins, which are in the order of its inputs.
    ///
    /// # Errors
    /// `block-script-verify-flag-failed` if libbitcoinkernel cannot parse the transaction, which it
    /// can if [`BlockView::parse`] could.
    ///
    /// [`BlockView::parse`]: apus_wire::BlockView::parse
    pub fn new(tx: &TxView, prevouts: &[Prevout], flags: ScriptFlags) -> Result<Self, RuleError> {
        Self::from_bytes(tx.bytes(), prevouts, flags)
    }

    pub(super) fn from_bytes(
        tx: &[u8],
        prevouts: &[Prevout],
        flags: ScriptFlags,
    ) -> Result<Self, RuleError> {
        Self::try_new(tx, prevouts, flags).map_err(|error| script_error(error.to_string()))
    }

    fn try_new(tx: &[u8], prevouts: &[Prevout], flags: ScriptFlags) -> Result<Self, KernelError> {
        let tx = Transaction::new(tx)?;
        let spent = prevouts
            .iter()
            .map(|prevout| Ok(TxOut::new(&ScriptPubkey::new(prevout.script)?, prevout.amount)))
            .collect::<Result<Vec<_>, KernelError>>()?;
        let shared = PrecomputedTransactionData::new(&tx, &spent)?;
        Ok(Self { tx, spent, shared, flags })
    }

    /// Returns the number of inputs.
    pub fn input_count(&self) -> usize {
        self.spent.len()
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
        let spent = &self.spent[index];
        verify(
            &spent.script_pubkey(),
            Some(spent.value()),
            &self.tx,
            index,
            Some(self.flags),
            &self.shared,
        )
        .map_err(|_| self.input_error(index))
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

fn script_error(debug: String) -> RuleError {
    RuleError::consensus("block-script-verify-flag-failed", debug)
}
