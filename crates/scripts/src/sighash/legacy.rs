//! Messages of bare and P2SH scripts (Core's `SignatureHash` with `SigVersion::BASE`).

use apus_hash::Hash;
use apus_wire::{TxView, put_compact_size};

use super::parts::{
    BLANK_INPUT_BYTES, Blank, OUTPUT_MASK, SIGHASH_ANYONECANPAY, SIGHASH_NONE, SIGHASH_SINGLE,
    put_script, update_script,
};
use super::preimages::{Message, Preimages, WAITING_BYTES_MAX};
use super::tx::TxSighash;

impl TxSighash<'_> {
    /// Adds the message that a signature of this type in the input at `input` signs to `preimages`.
    /// `code` is the script that asks for it, without OP_CODESEPARATOR and without the signature
    /// itself.
    ///
    /// Returns `None` for SIGHASH_SINGLE without an output of the input's index, where the message
    /// is the number 1.
    pub fn legacy(
        &mut self,
        input: usize,
        code: &[u8],
        hash_type: u8,
        preimages: &mut Preimages,
    ) -> Option<Message> {
        let outputs = hash_type & OUTPUT_MASK;
        if outputs == SIGHASH_SINGLE && input >= self.tx.output_count() {
            return None;
        }
        let signs_all = outputs != SIGHASH_SINGLE
            && outputs != SIGHASH_NONE
            && hash_type & SIGHASH_ANYONECANPAY == 0;
        let inputs_bytes = self.tx.input_count() * BLANK_INPUT_BYTES;
        let is_long = inputs_bytes + self.tx.outputs_bytes().len() + code.len() > WAITING_BYTES_MAX;
        Some(if signs_all && is_long {
            preimages.add_work(inputs_bytes + self.tx.outputs_bytes().len() + code.len());
            preimages.push_hashed(self.legacy_all(input, code, hash_type))
        } else {
            preimages.push_twice(|out| self.put_legacy(input, code, hash_type, out))
        })
    }

    /// Hashes a long message that signs all inputs and all outputs. What comes before the input is
    /// hashed once for all inputs, if they ask in order.
    fn legacy_all(&mut self, input: usize, code: &[u8], hash_type: u8) -> Hash {
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
        end(tx, hash_type).iter().for_each(|bytes| message.update(bytes));
        message.finish()
    }

    /// Appends the preimage of a message of any type.
    fn put_legacy(&self, index: usize, code: &[u8], hash_type: u8, out: &mut Vec<u8>) {
        let tx = &self.tx;
        let outputs = hash_type & OUTPUT_MASK;
        let anyone_can_pay = hash_type & SIGHASH_ANYONECANPAY != 0;
        let signs_all_outputs = outputs != SIGHASH_SINGLE && outputs != SIGHASH_NONE;
        out.extend(tx.version().to_le_bytes());
        put_compact_size(out, if anyone_can_pay { 1 } else { tx.input_count() as u64 });
        for (i, input) in tx.inputs().enumerate() {
            if i != index && anyone_can_pay {
                continue;
            }
            out.extend_from_slice(input.outpoint_bytes());
            put_script(out, if i == index { code } else { &[] });
            let sequence = if i == index || signs_all_outputs { input.sequence() } else { 0 };
            out.extend(sequence.to_le_bytes());
        }
        match outputs {
            SIGHASH_NONE => out.push(0),
            SIGHASH_SINGLE => {
                put_compact_size(out, index as u64 + 1);
                // Outputs before it are null: an amount of -1 and an empty script.
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
        out.extend(end(tx, hash_type).as_flattened());
    }
}

/// Returns the end of each preimage: lock time and sighash type.
fn end(tx: &TxView, hash_type: u8) -> [[u8; 4]; 2] {
    [tx.lock_time().to_le_bytes(), u32::from(hash_type).to_le_bytes()]
}
