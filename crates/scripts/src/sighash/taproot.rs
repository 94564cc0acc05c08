//! Messages of Taproot (BIP341) and Tapscript (BIP342; Core's `SignatureHashSchnorr`).

use super::parts::{SIGHASH_ALL, SIGHASH_ANYONECANPAY, SIGHASH_NONE, SIGHASH_SINGLE, put_script};
use super::preimages::{Message, Preimages};
use super::tx::{TaprootExtra, TxSighash};

/// The first byte of each preimage.
const EPOCH: u8 = 0;
/// The type of a signature without a sighash byte.
const SIGHASH_DEFAULT: u8 = 0;
/// The bits that tell which outputs are signed.
const TAPROOT_OUTPUT_MASK: u8 = 0x03;

impl TxSighash<'_> {
    /// Adds the message that a signature of this type in the input at `input` signs to `preimages`.
    ///
    /// Returns `None` if consensus does not know the type, and for SIGHASH_SINGLE without an output
    /// of the input's index.
    pub fn taproot(
        &mut self,
        input: usize,
        hash_type: u8,
        extra: TaprootExtra,
        preimages: &mut Preimages,
    ) -> Option<Message> {
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
        let shared = self.shared().once;
        let spent = self.spent();
        let single = (outputs == SIGHASH_SINGLE).then(|| self.single(input));
        let tx = &self.tx;
        let this = self.tx.input(input);
        let prevout = &self.prevouts[input];
        Some(preimages.push_tagged(|out| {
            out.extend([EPOCH, hash_type]);
            out.extend(tx.version().to_le_bytes());
            out.extend(tx.lock_time().to_le_bytes());
            if hash_type & SIGHASH_ANYONECANPAY == 0 {
                out.extend_from_slice(&shared.prevouts);
                out.extend_from_slice(&spent.amounts);
                out.extend_from_slice(&spent.scripts);
                out.extend_from_slice(&shared.sequences);
            }
            if outputs != SIGHASH_NONE && outputs != SIGHASH_SINGLE {
                out.extend_from_slice(&shared.outputs);
            }
            let is_script = extra.leaf.is_some();
            out.push(u8::from(is_script) << 1 | u8::from(extra.annex.is_some()));
            if hash_type & SIGHASH_ANYONECANPAY != 0 {
                out.extend_from_slice(this.outpoint_bytes());
                out.extend(prevout.amount.to_le_bytes());
                put_script(out, prevout.script);
                out.extend(this.sequence().to_le_bytes());
            } else {
                out.extend((input as u32).to_le_bytes());
            }
            out.extend(extra.annex.into_iter().flatten());
            out.extend(single.into_iter().flatten());
            if let Some(leaf) = extra.leaf {
                out.extend_from_slice(&leaf);
                const KEY_VERSION: u8 = 0;
                out.push(KEY_VERSION);
                out.extend(extra.code_separator.unwrap_or(u32::MAX).to_le_bytes());
            }
        }))
    }
}
