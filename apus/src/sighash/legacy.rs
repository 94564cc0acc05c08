//! Messages of bare and P2SH scripts (Core's `SignatureHash` with `SigVersion::BASE`).

use super::parts::{
    BLANK_INPUT_BYTES, Blank, OUTPUT_MASK, SIGHASH_ANYONECANPAY, SIGHASH_NONE, SIGHASH_SINGLE,
    update_script,
};
use super::tx::TxSighash;
use crate::hash::Sha256d;
use crate::wire::{TxView, put_compact_size};

impl TxSighash<'_> {
    /// The message that a signature with this type in the input at `input` signs, if `code` is the
    /// script that asks for it, without OP_CODESEPARATOR and without the signature itself.
    ///
    /// `None` for SIGHASH_SINGLE without an output of the input's index, where the message is the
    /// number 1.
    pub fn legacy(&mut self, input: usize, code: &[u8], hash_type: u8) -> Option<[u8; 32]> {
        let outputs = hash_type & OUTPUT_MASK;
        if outputs == SIGHASH_SINGLE && input >= self.tx.output_count() {
            return None;
        }
        let of_all = outputs != SIGHASH_SINGLE && outputs != SIGHASH_NONE;
        Some(if of_all && hash_type & SIGHASH_ANYONECANPAY == 0 {
            self.legacy_all(input, code, hash_type)
        } else {
            self.legacy_other(input, code, hash_type)
        })
    }

    /// The message of a type that signs all inputs and all outputs.
    fn legacy_all(&mut self, input: usize, code: &[u8], hash_type: u8) -> [u8; 32] {
        let Self { tx, blank, .. } = self;
        let blank = blank.get_or_insert_with(|| Blank::new(tx));
        let mut message = blank.before(tx, input);
        let this = tx.input(input);
        message.update(this.outpoint_bytes());
        update_script(&mut |bytes| message.update(bytes), code);
        message.update(&this.sequence().to_le_bytes());
        message.update(&blank.inputs[(input + 1) * BLANK_INPUT_BYTES..]);
        let (count, len) = &blank.output_count;
        message.update(&count[..*len]);
        message.update(tx.outputs_bytes());
        end(message, tx, hash_type)
    }

    /// The message of a type that leaves inputs or outputs out.
    fn legacy_other(&mut self, index: usize, code: &[u8], hash_type: u8) -> [u8; 32] {
        let tx = self.tx;
        let outputs = hash_type & OUTPUT_MASK;
        let anyone_can_pay = hash_type & SIGHASH_ANYONECANPAY != 0;
        let signs_all_outputs = outputs != SIGHASH_SINGLE && outputs != SIGHASH_NONE;
        let out = &mut self.scratch;
        out.clear();
        out.extend(tx.version().to_le_bytes());
        put_compact_size(out, if anyone_can_pay { 1 } else { tx.input_count() as u64 });
        for (i, input) in tx.inputs().enumerate() {
            if i != index && anyone_can_pay {
                continue;
            }
            out.extend_from_slice(input.outpoint_bytes());
            update_script(
                &mut |bytes| out.extend_from_slice(bytes),
                if i == index { code } else { &[] },
            );
            let sequence = if i == index || signs_all_outputs { input.sequence() } else { 0 };
            out.extend(sequence.to_le_bytes());
        }
        match outputs {
            SIGHASH_NONE => out.push(0),
            SIGHASH_SINGLE => {
                put_compact_size(out, index as u64 + 1);
                // Those before it are null: an amount of -1 and an empty script.
                for _ in 0..index {
                    out.extend((-1_i64).to_le_bytes());
                    out.push(0);
                }
                out.extend_from_slice(tx.output(index).bytes());
            }
            _ => {
                put_compact_size(out, tx.output_count() as u64);
                out.extend_from_slice(tx.outputs_bytes());
            }
        }
        let mut message = Sha256d::default();
        message.update(out);
        end(message, &tx, hash_type)
    }
}

/// Ends a message with lock time and type.
fn end(mut message: Sha256d, tx: &TxView, hash_type: u8) -> [u8; 32] {
    message.update(&tx.lock_time().to_le_bytes());
    message.update(&u32::from(hash_type).to_le_bytes());
    message.finish().0
}
