//! The messages that signatures sign: legacy, BIP 143, and BIP 341 with BIP 342, with every hash
//! type.
//!
//! They are computed here rather than with the `bitcoin` crate: a benchmark chain has ten million
//! of them, and the parts that the inputs share are hashed once.

use std::cell::OnceCell;
use std::sync::LazyLock;

use bitcoin::hashes::{Hash, HashEngine, sha256, sha256d};

use crate::encode::{put_compact, with_length};
use crate::keys::Ring;
use crate::payment::{Payment, Target};
use crate::signature::{SIGHASH_ALL, tagged};

/// Signs no output.
pub(crate) const SIGHASH_NONE: u8 = 2;
/// Signs the output with the input's index.
pub(crate) const SIGHASH_SINGLE: u8 = 3;
/// Added to a hash type: signs no other input.
pub(crate) const SIGHASH_ANYONECANPAY: u8 = 0x80;

static TAP_SIGHASH: LazyLock<sha256::HashEngine> = LazyLock::new(|| tagged(b"TapSighash"));

/// A transaction, divided into the parts that messages consist of.
pub(crate) struct Messages<'a> {
    tx: &'a Payment,
    ring: &'a Ring<'a>,
    /// Number of outputs and the outputs, as encoded in the transaction.
    pub outputs: Vec<u8>,
    /// Where each output begins, and where the last ends.
    output_starts: Vec<usize>,
    /// Outpoints, 36 bytes each.
    pub prevouts: Vec<u8>,
    /// Sequence numbers, 4 bytes each.
    pub sequences: Vec<u8>,
    v0: OnceCell<[[u8; 32]; 3]>,
    v1: OnceCell<[[u8; 32]; 5]>,
}

/// What a message of BIP 341 commits to besides the transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taproot<'a> {
    /// The hash of the leaf that is run, and the index of the last OP_CODESEPARATOR run, or
    /// `u32::MAX` (BIP 342). `None` for the key path.
    pub leaf: Option<([u8; 32], u32)>,
    /// The annex, with its first byte of 0x50.
    pub annex: Option<&'a [u8]>,
}

impl<'a> Messages<'a> {
    pub fn new(tx: &'a Payment, ring: &'a Ring<'a>) -> Self {
        let mut outputs = Vec::with_capacity(9 + 43 * tx.outputs.len());
        put_compact(tx.outputs.len(), &mut outputs);
        let mut output_starts = vec![outputs.len()];
        let mut script = Vec::with_capacity(80);
        for output in &tx.outputs {
            outputs.extend_from_slice(&output.amount.to_le_bytes());
            script.clear();
            match &output.to {
                Target::Lock(lock) => lock.write_script(ring, &mut script),
                Target::Script(bytes) => script.extend_from_slice(bytes),
            }
            put_compact(script.len(), &mut outputs);
            outputs.extend_from_slice(&script);
            output_starts.push(outputs.len());
        }
        let mut prevouts = Vec::with_capacity(36 * tx.inputs.len());
        let mut sequences = Vec::with_capacity(4 * tx.inputs.len());
        for input in &tx.inputs {
            prevouts.extend_from_slice(&input.txid);
            prevouts.extend_from_slice(&input.vout.to_le_bytes());
            sequences.extend_from_slice(&input.sequence.to_le_bytes());
        }
        let v0 = OnceCell::new();
        let v1 = OnceCell::new();
        Messages { tx, ring, outputs, output_starts, prevouts, sequences, v0, v1 }
    }

    /// Returns the outputs without their number.
    fn plain_outputs(&self) -> &[u8] {
        &self.outputs[self.output_starts[0]..]
    }

    fn output(&self, i: usize) -> Option<&[u8]> {
        let end = self.output_starts.get(i + 1)?;
        Some(&self.outputs[self.output_starts[i]..*end])
    }

    fn prevout(&self, i: usize) -> &[u8] {
        &self.prevouts[36 * i..36 * i + 36]
    }

    fn sequence(&self, i: usize) -> &[u8] {
        &self.sequences[4 * i..4 * i + 4]
    }

    /// Returns the message before BIP 143: the hash of the transaction with `code` as the script of
    /// input `i`, and empty scripts in the other inputs; 1 for SIGHASH_SINGLE without its output.
    pub fn legacy(&self, i: usize, code: &[u8], hash_type: u8) -> [u8; 32] {
        let inputs = self.tx.inputs.len();
        let (base, alone) = parts(hash_type);
        let mut text = Vec::with_capacity(64 + 41 * inputs + code.len());
        text.extend_from_slice(&self.tx.version.to_le_bytes());
        let signed = if alone { i..i + 1 } else { 0..inputs };
        put_compact(signed.len(), &mut text);
        for j in signed {
            text.extend_from_slice(self.prevout(j));
            let script = if i == j { code } else { &[] };
            put_compact(script.len(), &mut text);
            text.extend_from_slice(script);
            let others = matches!(base, SIGHASH_NONE | SIGHASH_SINGLE) && i != j;
            text.extend_from_slice(if others { &[0; 4] } else { self.sequence(j) });
        }
        let mut engine = sha256d::Hash::engine();
        engine.input(&text);
        match base {
            SIGHASH_NONE => engine.input(&[0]),
            SIGHASH_SINGLE => {
                let Some(output) = self.output(i) else {
                    let mut one = [0; 32];
                    one[0] = 1;
                    return one;
                };
                let mut outputs = Vec::with_capacity(50 + 9 * i);
                put_compact(i + 1, &mut outputs);
                for _ in 0..i {
                    outputs.extend_from_slice(&[0xff; 8]);
                    outputs.push(0);
                }
                outputs.extend_from_slice(output);
                engine.input(&outputs);
            }
            _ => engine.input(&self.outputs),
        }
        engine.input(&self.tx.lock_time.to_le_bytes());
        engine.input(&u32::from(hash_type).to_le_bytes());
        sha256d::Hash::from_engine(engine).to_byte_array()
    }

    /// Returns the message of BIP 143.
    pub fn segwit_v0(&self, i: usize, code: &[u8], hash_type: u8) -> [u8; 32] {
        let [prevouts, sequences, outputs] = *self.v0.get_or_init(|| {
            [&self.prevouts[..], &self.sequences, self.plain_outputs()]
                .map(|part| sha256d::Hash::hash(part).to_byte_array())
        });
        let (base, alone) = parts(hash_type);
        let some = matches!(base, SIGHASH_NONE | SIGHASH_SINGLE);
        let single = match self.output(i) {
            Some(output) if base == SIGHASH_SINGLE => sha256d::Hash::hash(output).to_byte_array(),
            _ => [0; 32],
        };
        let mut text = Vec::with_capacity(160 + code.len());
        text.extend_from_slice(&self.tx.version.to_le_bytes());
        text.extend_from_slice(if alone { &[0; 32] } else { &prevouts });
        text.extend_from_slice(if alone || some { &[0; 32] } else { &sequences });
        text.extend_from_slice(self.prevout(i));
        put_compact(code.len(), &mut text);
        text.extend_from_slice(code);
        text.extend_from_slice(&self.tx.inputs[i].amount.to_le_bytes());
        text.extend_from_slice(self.sequence(i));
        text.extend_from_slice(if some { &single } else { &outputs });
        text.extend_from_slice(&self.tx.lock_time.to_le_bytes());
        text.extend_from_slice(&u32::from(hash_type).to_le_bytes());
        sha256d::Hash::hash(&text).to_byte_array()
    }

    /// Returns the hash type of a Taproot signature of input `i` for which `hash_type` was asked:
    /// the same, without what BIP 341 does not define, and without SIGHASH_SINGLE if the input has
    /// no output.
    pub fn taproot_type(&self, i: usize, hash_type: u8) -> u8 {
        let base = match hash_type & 3 {
            SIGHASH_SINGLE if self.output(i).is_none() => SIGHASH_ALL,
            0 => SIGHASH_ALL,
            base => base,
        };
        base | hash_type & SIGHASH_ANYONECANPAY
    }

    /// Returns the message of BIP 341 for a hash type that it allows; 0 for SIGHASH_DEFAULT.
    pub fn taproot(&self, i: usize, spend: Taproot<'_>, hash_type: u8) -> [u8; 32] {
        let common = self.v1.get_or_init(|| self.taproot_common());
        let (base, alone) = parts(hash_type);
        let mut engine = TAP_SIGHASH.clone();
        engine.input(&[0, hash_type]);
        engine.input(&self.tx.version.to_le_bytes());
        engine.input(&self.tx.lock_time.to_le_bytes());
        if !alone {
            common[..4].iter().for_each(|hash| engine.input(hash));
        }
        if !matches!(base, SIGHASH_NONE | SIGHASH_SINGLE) {
            engine.input(&common[4]);
        }
        engine.input(&[2 * u8::from(spend.leaf.is_some()) + u8::from(spend.annex.is_some())]);
        if alone {
            let input = &self.tx.inputs[i];
            engine.input(self.prevout(i));
            engine.input(&input.amount.to_le_bytes());
            let script = input.lock.script_of(self.ring);
            engine.input(&with_length(script.as_bytes()));
            engine.input(self.sequence(i));
        } else {
            engine.input(&(i as u32).to_le_bytes());
        }
        if let Some(annex) = spend.annex {
            engine.input(sha256::Hash::hash(&with_length(annex)).as_byte_array());
        }
        if base == SIGHASH_SINGLE {
            let output = self.output(i).expect("asked for by taproot_type");
            engine.input(sha256::Hash::hash(output).as_byte_array());
        }
        if let Some((leaf, separator)) = spend.leaf {
            engine.input(&leaf);
            engine.input(&[0]);
            engine.input(&separator.to_le_bytes());
        }
        sha256::Hash::from_engine(engine).to_byte_array()
    }

    /// Returns the hashes of outpoints, amounts, scripts, sequence numbers and outputs.
    fn taproot_common(&self) -> [[u8; 32]; 5] {
        let mut amounts = Vec::new();
        let mut scripts = Vec::new();
        for input in &self.tx.inputs {
            amounts.extend_from_slice(&input.amount.to_le_bytes());
            scripts.extend_from_slice(&with_length(input.lock.script_of(self.ring).as_bytes()));
        }
        [&self.prevouts[..], &amounts, &scripts, &self.sequences, self.plain_outputs()]
            .map(|part| sha256::Hash::hash(part).to_byte_array())
    }
}

/// Returns which outputs a hash type signs, and whether it signs no other input.
fn parts(hash_type: u8) -> (u8, bool) {
    (hash_type & 0x1f, hash_type & SIGHASH_ANYONECANPAY != 0)
}
