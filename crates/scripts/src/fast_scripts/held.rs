//! Checks that wait until their messages and hashes are computed.

use std::ops::Range;

use apus_hash::hash160_many;

use crate::script::Check;
use crate::sighash::Message;

/// Checks with copies of the bytes that they refer to, each with the index of its input.
#[derive(Default)]
pub(super) struct HeldChecks {
    /// Keys, redeem scripts and signatures.
    pub bytes: Vec<u8>,
    hashes: Vec<HeldHash>,
    pub signatures: Vec<(usize, HeldSignature)>,
    count: usize,
}

/// The check that the HASH160 of some bytes has the expected value.
struct HeldHash {
    input: usize,
    bytes: Range<usize>,
    hash: [u8; 20],
}

/// A signature, CHECKMULTISIG or commitment, as in [`Check`]; ranges refer to
/// [`HeldChecks::bytes`].
pub(super) enum HeldSignature {
    Ecdsa { key: Range<usize>, signature: Range<usize>, message: Message },
    Multisig { keys: Vec<Box<[u8]>>, signatures: Vec<(Box<[u8]>, Message)> },
    Schnorr { key: [u8; 32], signature: [u8; 64], message: Message },
    Tweak { internal: [u8; 32], tweak: [u8; 32], output: [u8; 32], odd: bool },
}

impl HeldChecks {
    /// Returns the number of hashes, signatures and commitments; each signature of a CHECKMULTISIG
    /// counts.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Adds a check of an input.
    pub fn push(&mut self, input: usize, check: Check) {
        self.count += 1;
        let held = match check {
            Check::Hash160 { bytes, hash } => {
                let bytes = self.copied(bytes);
                self.hashes.push(HeldHash { input, bytes, hash: *hash });
                return;
            }
            Check::Ecdsa { key, signature, message } => {
                let key = self.copied(key);
                let signature = self.copied(signature);
                HeldSignature::Ecdsa { key, signature, message }
            }
            Check::Multisig { keys, signatures } => {
                self.count += signatures.len() - 1;
                let keys = keys.into_iter().map(Box::from).collect();
                let boxed = signatures.into_iter().map(|(der, message)| (Box::from(der), message));
                HeldSignature::Multisig { keys, signatures: boxed.collect() }
            }
            Check::Schnorr { key, signature, message } => {
                HeldSignature::Schnorr { key: *key, signature: *signature, message }
            }
            Check::Tweak { internal, tweak, output, odd } => {
                HeldSignature::Tweak { internal: *internal, tweak, output: *output, odd }
            }
        };
        self.signatures.push((input, held));
    }

    fn copied(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Computes all hashes side by side. Calls `each` with the input of each hash, and whether the
    /// hash has the expected value.
    pub fn decide_hashes(&self, mut each: impl FnMut(usize, bool)) {
        let bytes = |i: usize| &self.bytes[self.hashes[i].bytes.clone()];
        let found = hash160_many(self.hashes.len(), bytes);
        for (held, found) in self.hashes.iter().zip(found) {
            each(held.input, held.hash == found);
        }
    }

    /// Drops all checks, before the next batch.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.hashes.clear();
        self.signatures.clear();
        self.count = 0;
    }
}
