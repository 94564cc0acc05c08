//! Messages of Taproot (BIP341) and Tapscript (BIP342; Core's `SignatureHashSchnorr`).

use std::sync::LazyLock;

use super::parts::{
    SIGHASH_ALL, SIGHASH_ANYONECANPAY, SIGHASH_NONE, SIGHASH_SINGLE, update_script,
};
use super::tx::{TaprootExtra, TxSighash};
use crate::hash::{Sha256Pieces, sha256};

/// The type of a signature without a byte for its type.
const SIGHASH_DEFAULT: u8 = 0;
/// The bits that tell which outputs are signed.
const TAPROOT_OUTPUT_MASK: u8 = 0x03;

/// What precedes each message: BIP341's tag, and the epoch 0.
static START: LazyLock<Sha256Pieces> = LazyLock::new(|| {
    let mut start = Sha256Pieces::tagged("TapSighash");
    start.update(&[0]);
    start
});

impl TxSighash<'_> {
    /// The message that a signature with this type in the input at `input` signs.
    ///
    /// `None` if consensus does not know the type, and for SIGHASH_SINGLE without an output of the
    /// input's index.
    pub fn taproot(
        &mut self,
        input: usize,
        hash_type: u8,
        extra: TaprootExtra,
    ) -> Option<[u8; 32]> {
        if !matches!(hash_type, 0..=3 | 0x81..=0x83) {
            return None;
        }
        let outputs = match hash_type {
            SIGHASH_DEFAULT => SIGHASH_ALL,
            _ => hash_type & TAPROOT_OUTPUT_MASK,
        };
        if outputs == SIGHASH_SINGLE && input >= self.tx.output_count() {
            return None;
        }
        let (shared, spent) = (self.shared(), self.spent());
        let (tx, this, prevout) = (&self.tx, self.tx.input(input), &self.prevouts[input]);
        let mut message = START.clone();
        message.update(&[hash_type]);
        message.update(&tx.version().to_le_bytes());
        message.update(&tx.lock_time().to_le_bytes());
        if hash_type & SIGHASH_ANYONECANPAY == 0 {
            message.update(&shared.prevouts);
            message.update(&spent.amounts);
            message.update(&spent.scripts);
            message.update(&shared.sequences);
        }
        if outputs != SIGHASH_NONE && outputs != SIGHASH_SINGLE {
            message.update(&shared.outputs);
        }
        let is_script = extra.leaf.is_some();
        message.update(&[u8::from(is_script) << 1 | u8::from(extra.annex.is_some())]);
        if hash_type & SIGHASH_ANYONECANPAY != 0 {
            message.update(this.outpoint_bytes());
            message.update(&prevout.amount.to_le_bytes());
            update_script(&mut |bytes| message.update(bytes), prevout.script);
            message.update(&this.sequence().to_le_bytes());
        } else {
            message.update(&(input as u32).to_le_bytes());
        }
        if let Some(annex) = extra.annex {
            message.update(&annex);
        }
        if outputs == SIGHASH_SINGLE {
            message.update(&sha256(tx.output(input).bytes()));
        }
        if let Some(leaf) = extra.leaf {
            message.update(&leaf);
            // The version of keys, and the position of the last OP_CODESEPARATOR: there is none.
            message.update(&[0, 0xff, 0xff, 0xff, 0xff]);
        }
        Some(message.finish())
    }
}
