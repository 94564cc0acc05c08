//! Messages of bare and P2SH scripts (Core's `SignatureHash` with `SigVersion::BASE`).

use super::{OUTPUT_MASK, SIGHASH_ANYONECANPAY, SIGHASH_NONE, SIGHASH_SINGLE, TxSighash};
use crate::hash::Sha256d;
use crate::wire::{TxView, compact_size, put_compact_size};

/// Bytes of an input whose script is left out.
const BLANK_INPUT_BYTES: usize = 36 + 1 + 4;

/// What the messages that sign all inputs and outputs have in common.
pub(super) struct Blank {
    /// All inputs, their scripts left out.
    inputs: Vec<u8>,
    /// The number of outputs, and its length.
    output_count: ([u8; 9], usize),
    /// The message up to the input of this index.
    start: Sha256d,
    before: usize,
}

impl Blank {
    fn new(tx: &TxView) -> Self {
        let mut inputs = Vec::with_capacity(tx.input_count() * BLANK_INPUT_BYTES);
        for input in tx.inputs() {
            inputs.extend_from_slice(input.outpoint_bytes());
            inputs.push(0);
            inputs.extend(input.sequence().to_le_bytes());
        }
        let output_count = compact_size(tx.output_count() as u64);
        Self { inputs, output_count, start: Self::first(tx), before: 0 }
    }

    fn first(tx: &TxView) -> Sha256d {
        let mut start = Sha256d::default();
        start.update(&tx.version().to_le_bytes());
        update_compact_size(&mut |bytes| start.update(bytes), tx.input_count());
        start
    }

    /// The state of the message before the input at `index`. Inputs that ask in their order hash
    /// each of those before them once, and not again for each.
    fn before(&mut self, tx: &TxView, index: usize) -> Sha256d {
        if self.before > index {
            (self.start, self.before) = (Self::first(tx), 0);
        }
        let between = self.before * BLANK_INPUT_BYTES..index * BLANK_INPUT_BYTES;
        self.start.update(&self.inputs[between]);
        self.before = index;
        self.start.clone()
    }
}

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

/// Hashes a script as it is serialised: after its length.
pub(super) fn update_script(update: &mut impl FnMut(&[u8]), script: &[u8]) {
    update_compact_size(update, script.len());
    update(script);
}

fn update_compact_size(update: &mut impl FnMut(&[u8]), value: usize) {
    let (bytes, len) = compact_size(value as u64);
    update(&bytes[..len]);
}
