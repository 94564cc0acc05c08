use std::sync::atomic::{AtomicBool, Ordering};

use bitcoinkernel::prelude::*;
use bitcoinkernel::{
    KernelError, PrecomputedTransactionData, ScriptPubkey, Transaction, TxOut, verify,
};

use super::RuleError;
use super::spend::Prevout;
use crate::hash::{Hash, sha256d};
use crate::wire::{Network, ScriptFlags, TxView, flags};

/// The flags that a block's scripts are checked with (Core's `GetBlockScriptFlags`): P2SH, segwit
/// and taproot always, but for the blocks that broke them; the others from their heights on.
pub fn script_flags(network: &Network, height: u32, hash: &Hash) -> ScriptFlags {
    let exception = network.script_flag_exceptions.iter().find(|(block, _)| block == hash);
    let mut script_flags =
        exception.map_or(flags::P2SH | flags::WITNESS | flags::TAPROOT, |(_, flags)| *flags);
    for (flag, from) in [
        (flags::DERSIG, network.bip66_height),
        (flags::CHECKLOCKTIMEVERIFY, network.bip65_height),
        (flags::CHECKSEQUENCEVERIFY, network.csv_height),
        (flags::NULLDUMMY, network.segwit_height),
    ] {
        if height >= from {
            script_flags |= flag;
        }
    }
    script_flags
}

/// Every input of a transaction MUST satisfy the script of the coin that it spends.
///
/// # Errors
/// `block-script-verify-flag-failed` for the first input that does not.
pub fn check_tx_scripts(
    tx: &TxView,
    prevouts: &[Prevout],
    flags: ScriptFlags,
) -> Result<(), RuleError> {
    let scripts = TxScripts::new(tx, prevouts, flags)?;
    (0..prevouts.len()).try_for_each(|input| scripts.check_input(input))
}

/// Whether the linker has put [`random_init`] in the place of Core's `RandomInit`.
static RANDOM_INIT_REPLACED: AtomicBool = AtomicBool::new(false);

/// Does next to nothing, in the place of Core's `RandomInit`, for which the linker calls this in
/// programs (build.rs). A static variable of libbitcoinkernel calls it before `main`, and it
/// strengthens the seed of Core's random generator for 100 ms. Verifying scripts needs no
/// randomness; whatever else asks Core's generator for a number has it seeded in full then
/// (`ProcRand` calls `SeedStartup` first).
#[unsafe(export_name = "__wrap__Z10RandomInitv")]
pub extern "C" fn random_init() {
    RANDOM_INIT_REPLACED.store(true, Ordering::Relaxed);
}

/// Whether this process has started without seeding Core's random generator.
pub fn random_init_was_replaced() -> bool {
    RANDOM_INIT_REPLACED.load(Ordering::Relaxed)
}

/// A transaction made ready for libbitcoinkernel, so that its inputs can be checked apart from
/// each other, by any number of threads, hashing what they share only once.
pub struct TxScripts {
    tx: Transaction,
    spent: Vec<TxOut>,
    shared: PrecomputedTransactionData,
    flags: ScriptFlags,
}

impl TxScripts {
    /// Takes a transaction and the coins that it spends, in input order.
    ///
    /// # Errors
    /// `block-script-verify-flag-failed` if libbitcoinkernel refuses the transaction itself, which
    /// it does to none that [`BlockView::parse`] lets through.
    ///
    /// [`BlockView::parse`]: crate::wire::BlockView::parse
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

    /// Number of inputs.
    pub fn input_count(&self) -> usize {
        self.spent.len()
    }

    /// The input at `index` MUST satisfy the script of the coin that it spends.
    ///
    /// # Errors
    /// `block-script-verify-flag-failed`. Core adds its script interpreter's error in brackets,
    /// which libbitcoinkernel does not tell.
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
