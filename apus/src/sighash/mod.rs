//! The message that a signature signs: legacy, BIP143, and BIP341 with BIP342. The module knows
//! neither blocks nor where coins come from.
//!
//! A [`TxSighash`] is made for each transaction whose signatures are checked. What its inputs share
//! is hashed once, when the first of them asks; of legacy messages, which repeat all inputs, it
//! keeps the state after those before the one that asks.

mod legacy;
mod taproot;
#[cfg(test)]
mod tests;
mod v0;

use legacy::Blank;

use crate::hash::{Sha256Pieces, sha256};
use crate::wire::{Prevout, TxView};

/// Signs all inputs and all outputs.
const SIGHASH_ALL: u8 = 1;
/// Signs no output.
const SIGHASH_NONE: u8 = 2;
/// Signs the output with the index of the input.
const SIGHASH_SINGLE: u8 = 3;
/// Added to the others: signs no other input.
const SIGHASH_ANYONECANPAY: u8 = 0x80;
/// The bits that tell which outputs are signed, in legacy and version 0 messages.
const OUTPUT_MASK: u8 = 0x1f;

/// The messages of one transaction.
pub struct TxSighash<'a> {
    tx: TxView<'a>,
    prevouts: &'a [Prevout<'a>],
    shared: Option<Shared>,
    /// Hashes of the [`Shared`] ones, for BIP143.
    doubled: Option<Shared>,
    spent: Option<Spent>,
    blank: Option<Blank>,
    scratch: Vec<u8>,
}

/// SHA-256 of what the messages of all inputs have in common.
#[derive(Clone, Copy)]
struct Shared {
    prevouts: [u8; 32],
    sequences: [u8; 32],
    outputs: [u8; 32],
}

/// SHA-256 of what Taproot's messages say of the outputs that are spent.
#[derive(Clone, Copy)]
struct Spent {
    amounts: [u8; 32],
    scripts: [u8; 32],
}

/// What a signature in a Taproot input signs besides the transaction.
#[derive(Clone, Copy, Default)]
pub struct TaprootExtra<'a> {
    /// The annex, with its first byte.
    pub annex: Option<&'a [u8]>,
    /// The hash of the leaf that is executed; `None` where the output's key signs.
    pub leaf: Option<[u8; 32]>,
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

    fn shared(&mut self) -> Shared {
        let Self { tx, scratch, .. } = self;
        *self.shared.get_or_insert_with(|| {
            let mut hash_each = |put: fn(&mut Vec<u8>, &crate::wire::InputView)| {
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

    fn doubled(&mut self) -> Shared {
        if let Some(doubled) = self.doubled {
            return doubled;
        }
        let Shared { prevouts, sequences, outputs } = self.shared();
        let [prevouts, sequences, outputs] = [prevouts, sequences, outputs].map(|h| sha256(&h));
        *self.doubled.insert(Shared { prevouts, sequences, outputs })
    }

    fn spent(&mut self) -> Spent {
        let prevouts = self.prevouts;
        *self.spent.get_or_insert_with(|| {
            let (mut amounts, mut scripts) = (Sha256Pieces::default(), Sha256Pieces::default());
            for prevout in prevouts {
                amounts.update(&prevout.amount.to_le_bytes());
                legacy::update_script(&mut |bytes| scripts.update(bytes), prevout.script);
            }
            Spent { amounts: amounts.finish(), scripts: scripts.finish() }
        })
    }
}
