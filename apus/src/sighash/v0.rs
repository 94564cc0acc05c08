//! Messages of version 0 witnesses (BIP143; Core's `SignatureHash` with `SigVersion::WITNESS_V0`).

use super::parts::{
    OUTPUT_MASK, SIGHASH_ANYONECANPAY, SIGHASH_NONE, SIGHASH_SINGLE, update_script,
};
use super::tx::TxSighash;
use crate::hash::{Sha256d, sha256d};

impl TxSighash<'_> {
    /// The message that a signature with this type in the input at `input` signs, if `code` is the
    /// script that asks for it, without OP_CODESEPARATOR.
    pub fn v0(&mut self, input: usize, code: &[u8], hash_type: u8) -> [u8; 32] {
        let shared = self.doubled();
        let (tx, this) = (&self.tx, self.tx.input(input));
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
        let mut message = Sha256d::default();
        message.update(&tx.version().to_le_bytes());
        message.update(if anyone_can_pay { &[0; 32] } else { &shared.prevouts });
        message.update(if signs_sequences { &shared.sequences } else { &[0; 32] });
        message.update(this.outpoint_bytes());
        update_script(&mut |bytes| message.update(bytes), code);
        message.update(&self.prevouts[input].amount.to_le_bytes());
        message.update(&this.sequence().to_le_bytes());
        message.update(&outputs);
        message.update(&tx.lock_time().to_le_bytes());
        message.update(&u32::from(hash_type).to_le_bytes());
        message.finish().0
    }
}
