//! What the messages of a transaction have in common.

use super::parts::{Blank, update_script};
use crate::hash::{Sha256Pieces, sha256};
use crate::wire::{InputView, Prevout, TxView};

/// The messages of one transaction.
pub struct TxSighash<'a> {
    pub(super) tx: TxView<'a>,
    pub(super) prevouts: &'a [Prevout<'a>],
    shared: Option<Shared>,
    /// Hashes of the [`Shared`] ones, for BIP143.
    doubled: Option<Shared>,
    spent: Option<Spent>,
    pub(super) blank: Option<Blank>,
    pub(super) scratch: Vec<u8>,
}

/// SHA-256 of what the messages of all inputs have in common.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    pub prevouts: [u8; 32],
    pub sequences: [u8; 32],
    pub outputs: [u8; 32],
}

/// SHA-256 of what Taproot's messages say of the outputs that are spent.
#[derive(Clone, Copy)]
pub(super) struct Spent {
    pub amounts: [u8; 32],
    pub scripts: [u8; 32],
}

/// What a signature in a Taproot input signs besides the transaction.
#[derive(Clone, Copy, Default)]
pub struct TaprootExtra {
    /// SHA-256 of the annex, as [`annex_hash`] computes it.
    pub annex: Option<[u8; 32]>,
    /// The hash of the leaf that is executed; `None` where the output's key signs.
    pub leaf: Option<[u8; 32]>,
}

/// What messages say of an annex, which has its first byte still.
pub fn annex_hash(annex: &[u8]) -> [u8; 32] {
    let mut hash = Sha256Pieces::default();
    update_script(&mut |bytes| hash.update(bytes), annex);
    hash.finish()
}

impl<'a> TxSighash<'a> {
    /// The messages of a transaction that spends `prevouts`, in the order of its inputs.
    ///
    /// # Panics
    /// The others do, if there are not as many as inputs.
    pub fn new(tx: TxView<'a>, prevouts: &'a [Prevout<'a>]) -> Self {
        let scratch = Vec::new();
        Self { tx, prevouts, shared: None, doubled: None, spent: None, blank: None, scratch }
    }

    /// The transaction.
    pub fn tx(&self) -> &TxView<'a> {
        &self.tx
    }

    /// The outputs that it spends.
    pub fn prevouts(&self) -> &'a [Prevout<'a>] {
        self.prevouts
    }

    pub(super) fn shared(&mut self) -> Shared {
        let Self { tx, scratch, .. } = self;
        *self.shared.get_or_insert_with(|| {
            let mut hash_each = |put: fn(&mut Vec<u8>, &InputView)| {
                scratch.clear();
                tx.inputs().for_each(|input| put(scratch, &input));
                sha256(scratch)
            };
            Shared {
                prevouts: hash_each(|out, input| out.extend_from_slice(input.outpoint_bytes())),
                sequences: hash_each(|out, input| out.extend(input.sequence().to_le_bytes())),
                outputs: sha256(tx.outputs_bytes()),
            }
        })
    }

    pub(super) fn doubled(&mut self) -> Shared {
        if let Some(doubled) = self.doubled {
            return doubled;
        }
        let Shared { prevouts, sequences, outputs } = self.shared();
        let [prevouts, sequences, outputs] = [prevouts, sequences, outputs].map(|h| sha256(&h));
        *self.doubled.insert(Shared { prevouts, sequences, outputs })
    }

    pub(super) fn spent(&mut self) -> Spent {
        let prevouts = self.prevouts;
        *self.spent.get_or_insert_with(|| {
            let (mut amounts, mut scripts) = (Sha256Pieces::default(), Sha256Pieces::default());
            for prevout in prevouts {
                amounts.update(&prevout.amount.to_le_bytes());
                update_script(&mut |bytes| scripts.update(bytes), prevout.script);
            }
            Spent { amounts: amounts.finish(), scripts: scripts.finish() }
        })
    }
}
