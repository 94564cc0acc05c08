//! Messages of version 0 witnesses (BIP143; Core's `SignatureHash` with `SigVersion::WITNESS_V0`).

use apus_hash::sha256d;

use super::parts::{OUTPUT_MASK, SIGHASH_ANYONECANPAY, SIGHASH_NONE, SIGHASH_SINGLE, put_script};
use super::preimages::{Message, Preimages};
use super::tx::TxSighash;

impl TxSighash<'_> {
    /// Adds the message that a signature of this type in the input at `input` signs to `preimages`.
    /// `code` is the script that asks for it, without OP_CODESEPARATOR.
    pub fn v0(
        &mut self,
        input: usize,
        code: &[u8],
        hash_type: u8,
        preimages: &mut Preimages,
    ) -> Message {
        let shared = self.shared().twice;
        let tx = &self.tx;
        let this = self.tx.input(input);
        let anyone_can_pay = hash_type & SIGHASH_ANYONECANPAY != 0;
        let outputs = hash_type & OUTPUT_MASK;
        let signs_sequences =
            !anyone_can_pay && outputs != SIGHASH_SINGLE && outputs != SIGHASH_NONE;
        let outputs = match outputs {
            SIGHASH_NONE => [0; 32],
            SIGHASH_SINGLE if input < tx.output_count() => sha256d(tx.output(input).bytes()).0,
            SIGHASH_SINGLE => [0; 32],
            _ => shared.outputs,
        };
        preimages.push_twice(|out| {
            out.extend(tx.version().to_le_bytes());
            out.extend_from_slice(if anyone_can_pay { &[0; 32] } else { &shared.prevouts });
            out.extend_from_slice(if signs_sequences { &shared.sequences } else { &[0; 32] });
            out.extend_from_slice(this.outpoint_bytes());
            put_script(out, code);
            out.extend(self.prevouts[input].amount.to_le_bytes());
            out.extend(this.sequence().to_le_bytes());
            out.extend_from_slice(&outputs);
            out.extend(tx.lock_time().to_le_bytes());
            out.extend(u32::from(hash_type).to_le_bytes());
        })
    }
}
