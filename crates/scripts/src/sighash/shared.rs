//! The hashes that the messages of a transaction's inputs share.

use std::ops::Range;

use apus_hash::{Hash, Midstate, Pieces};
use apus_wire::TxView;

/// Hashes of a transaction's outpoints, sequence numbers, and outputs.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    pub prevouts: [u8; 32],
    pub sequences: [u8; 32],
    pub outputs: [u8; 32],
}

/// The hashes that a transaction's inputs share: SHA-256 for Taproot, double SHA-256 for BIP143.
#[derive(Clone, Copy)]
pub struct SharedHashes {
    pub(super) once: Shared,
    pub(super) twice: Shared,
}

impl SharedHashes {
    /// Computes the hashes of each transaction that has a witness, side by side.
    pub fn of_many(txs: &[TxView]) -> Vec<Option<Self>> {
        let with_witness: Vec<TxView> = txs.iter().filter(|tx| tx.has_witness()).copied().collect();
        let mut hashed = Self::of_all(&with_witness);
        txs.iter().map(|tx| if tx.has_witness() { hashed.next() } else { None }).collect()
    }

    /// Computes the hashes of each transaction, side by side.
    pub(super) fn of_all(txs: &[TxView]) -> impl Iterator<Item = Self> + use<> {
        let mut bytes = Vec::new();
        let parts: Vec<Parts> = txs.iter().map(|tx| Parts::new(tx, &mut bytes)).collect();
        let part = |i: usize| -> Pieces { [parts[i / 3].part(i % 3, &bytes), &[], &[]] };
        let once = Midstate::INITIAL.hashes(3 * parts.len(), part);
        let twice = Midstate::INITIAL.hashes(once.len(), |i| [&once[i].0, &[], &[]]);
        (0..parts.len()).map(move |tx| Self {
            once: Shared::new(&once[3 * tx..]),
            twice: Shared::new(&twice[3 * tx..]),
        })
    }
}

impl Shared {
    /// Takes the first three hashes.
    fn new(hashes: &[Hash]) -> Self {
        Self { prevouts: hashes[0].0, sequences: hashes[1].0, outputs: hashes[2].0 }
    }
}

/// The parts of a transaction that are hashed.
struct Parts<'a> {
    prevouts: Range<usize>,
    sequences: Range<usize>,
    outputs: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Collects the parts; those that the transaction does not hold in one piece are appended to
    /// `bytes`.
    fn new(tx: &TxView<'a>, bytes: &mut Vec<u8>) -> Self {
        let start = bytes.len();
        tx.inputs().for_each(|input| bytes.extend_from_slice(input.outpoint_bytes()));
        let end = bytes.len();
        tx.inputs().for_each(|input| bytes.extend(input.sequence().to_le_bytes()));
        Self { prevouts: start..end, sequences: end..bytes.len(), outputs: tx.outputs_bytes() }
    }

    fn part<'b>(&'b self, index: usize, bytes: &'b [u8]) -> &'b [u8] {
        match index {
            0 => &bytes[self.prevouts.clone()],
            1 => &bytes[self.sequences.clone()],
            _ => self.outputs,
        }
    }
}
