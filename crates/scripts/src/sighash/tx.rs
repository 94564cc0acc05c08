//! The messages of one transaction, and the hashes that they share.

use std::sync::OnceLock;

use apus_hash::{Sha256Pieces, sha256};
use apus_wire::{Prevout, TxView};

use super::parts::{Blank, update_script};
use super::shared::SharedHashes;

/// The messages of one transaction, with the hashes that its inputs share.
pub struct TxSighash<'a> {
    pub(super) tx: TxView<'a>,
    pub(super) prevouts: &'a [Prevout<'a>],
    shared: Option<SharedHashes>,
    spent: Option<Spent>,
    /// Hashes that other threads may have computed already.
    common: Option<&'a TxHashes>,
    spares_core: bool,
    /// The input for which the hash of its output was computed last, and the hash.
    single: Option<(usize, [u8; 32])>,
    pub(super) blank: Option<Blank>,
}

/// The hashes that the inputs of a transaction share, for several threads that check some of its
/// inputs each. Each hash is computed when the first thread needs it.
#[derive(Default)]
pub struct TxHashes {
    shared: OnceLock<SharedHashes>,
    spent: OnceLock<Spent>,
}

/// SHA-256 of the amounts and of the scripts of the spent outputs, for Taproot's messages.
#[derive(Clone, Copy)]
pub(super) struct Spent {
    pub amounts: [u8; 32],
    pub scripts: [u8; 32],
}

/// The data that a signature in a Taproot input signs besides the transaction.
#[derive(Clone, Copy, Default)]
pub struct TaprootExtra {
    /// SHA-256 of the annex, as [`annex_hash`] computes it.
    pub annex: Option<[u8; 32]>,
    /// The hash of the leaf that is executed; `None` for a spend by the output's key.
    pub leaf: Option<[u8; 32]>,
    /// The position in the leaf of the last OP_CODESEPARATOR that was executed, in opcodes.
    pub code_separator: Option<u32>,
}

/// Returns the hash of an annex in Taproot's messages. `annex` includes its first byte.
pub fn annex_hash(annex: &[u8]) -> [u8; 32] {
    let mut hash = Sha256Pieces::default();
    update_script(&mut |bytes| hash.update(bytes), annex);
    hash.finish()
}

impl<'a> TxSighash<'a> {
    /// Prepares the messages of a transaction that spends `prevouts`, in the order of its inputs.
    /// `shared` are the hashes that the inputs share, if they are already known.
    ///
    /// # Panics
    /// The other functions panic if there are fewer `prevouts` than inputs.
    pub fn new(tx: TxView<'a>, prevouts: &'a [Prevout<'a>], shared: Option<SharedHashes>) -> Self {
        let spent = None;
        let common = None;
        let single = None;
        let blank = None;
        let spares_core = false;
        Self { tx, prevouts, shared, spent, common, spares_core, single, blank }
    }

    /// Shares hashes with other threads. All MUST be given the same transaction and coins.
    pub fn with_common(self, common: Option<&'a TxHashes>) -> Self {
        Self { common, ..self }
    }

    /// Has the fast engine run scripts that Core's engine runs faster, since asking Core's engine
    /// costs more for this transaction.
    pub fn sparing_core(self, spares_core: bool) -> Self {
        Self { spares_core, ..self }
    }

    /// Returns whether scripts run here that Core's engine runs faster.
    pub(crate) fn spares_core(&self) -> bool {
        self.spares_core
    }

    /// Returns the transaction.
    pub fn tx(&self) -> &TxView<'a> {
        &self.tx
    }

    /// Returns the outputs that the transaction spends.
    pub fn prevouts(&self) -> &'a [Prevout<'a>] {
        self.prevouts
    }

    pub(super) fn shared(&mut self) -> SharedHashes {
        let Self { tx, common, .. } = *self;
        let hash = || SharedHashes::of_all(&[tx]).next().expect("one for each transaction");
        let known = || common.map_or_else(hash, |common| *common.shared.get_or_init(hash));
        *self.shared.get_or_insert_with(known)
    }

    /// Returns SHA-256 of the output with the index of an input. The signatures of an input may ask
    /// for it thousands of times, and it may have a megabyte.
    pub(super) fn single(&mut self, input: usize) -> [u8; 32] {
        match self.single {
            Some((known, hash)) if known == input => hash,
            _ => self.single.insert((input, sha256(self.tx.output(input).bytes()))).1,
        }
    }

    pub(super) fn spent(&mut self) -> Spent {
        let Self { prevouts, common, .. } = *self;
        let hash = || Spent::new(prevouts);
        let known = || common.map_or_else(hash, |common| *common.spent.get_or_init(hash));
        *self.spent.get_or_insert_with(known)
    }
}

impl Spent {
    fn new(prevouts: &[Prevout]) -> Self {
        let mut amounts = Sha256Pieces::default();
        let mut scripts = Sha256Pieces::default();
        for prevout in prevouts {
            amounts.update(&prevout.amount.to_le_bytes());
            update_script(&mut |bytes| scripts.update(bytes), prevout.script);
        }
        Self { amounts: amounts.finish(), scripts: scripts.finish() }
    }
}
