//! The parts of messages: sighash types, scripts, and the inputs of legacy messages.

use apus_hash::Sha256d;
use apus_wire::{TxView, compact_size, put_compact_size};

/// Signs all inputs and all outputs.
pub(super) const SIGHASH_ALL: u8 = 1;
/// Signs no output.
pub(super) const SIGHASH_NONE: u8 = 2;
/// Signs the output with the index of the input.
pub(super) const SIGHASH_SINGLE: u8 = 3;
/// Added to the other types: signs no other input.
pub(super) const SIGHASH_ANYONECANPAY: u8 = 0x80;
/// The bits that tell which outputs are signed, in legacy and version 0 messages.
pub(super) const OUTPUT_MASK: u8 = 0x1f;

/// The size of an input without its script, in bytes.
pub(super) const BLANK_INPUT_BYTES: usize = 36 + 1 + 4;

/// The parts that all messages which sign all inputs and outputs have in common.
pub(super) struct Blank {
    /// All inputs, with empty scripts.
    pub inputs: Vec<u8>,
    /// The number of outputs as a compact size, and the length of that in bytes.
    pub output_count: ([u8; 9], usize),
    /// The hash state of the message before the input with the index `before`.
    start: Sha256d,
    before: usize,
}

impl Blank {
    pub fn new(tx: &TxView) -> Self {
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

    /// Returns the hash state of the message before the input at `index`. If inputs ask in order,
    /// each one is hashed only once.
    pub fn before(&mut self, tx: &TxView, index: usize) -> Sha256d {
        if self.before > index {
            (self.start, self.before) = (Self::first(tx), 0);
        }
        let between = self.before * BLANK_INPUT_BYTES..index * BLANK_INPUT_BYTES;
        self.start.update(&self.inputs[between]);
        self.before = index;
        self.start.clone()
    }
}

/// Hashes a script as it is serialised: after its length.
pub(super) fn update_script(update: &mut impl FnMut(&[u8]), script: &[u8]) {
    update_compact_size(update, script.len());
    update(script);
}

/// Appends a script as it is serialised.
pub(super) fn put_script(out: &mut Vec<u8>, script: &[u8]) {
    put_compact_size(out, script.len() as u64);
    out.extend_from_slice(script);
}

fn update_compact_size(update: &mut impl FnMut(&[u8]), value: usize) {
    let (bytes, len) = compact_size(value as u64);
    update(&bytes[..len]);
}
