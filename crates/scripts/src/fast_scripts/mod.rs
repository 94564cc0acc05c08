//! Checks scripts in batches, whose signatures are verified together.

mod held;
mod inputs;
mod multisig;

use apus_wire::ScriptFlags;
use secp_lanes::{Batch, Kernel, Verdict};

use crate::script::{Checks, Left, signature_checks};
use crate::sighash::{Preimages, TxSighash};
use held::{HeldChecks, HeldSignature};
pub use inputs::FastVerdict;
use inputs::{Inputs, SIGNATURE_WORK};
use multisig::Multisig;

/// The number of signatures, or of messages and hashes that wait for them, at which a batch is
/// verified. A crafted input has hundreds.
const TOGETHER_MAX: usize = 4096;

/// A checker for the scripts of many inputs at once. The module `script` collects the hashes and
/// signatures that they ask for. Messages and commitments are hashed together, and then the
/// signatures are verified together. The verdict is only that a spend is valid, or that Core's
/// engine has to decide.
///
/// The memory is kept from one batch to the next: 7 MB, for at most 4,096 signatures.
pub struct FastScripts {
    preimages: Preimages,
    /// Checks that are not in the batch yet, since their messages may not be hashed.
    held: HeldChecks,
    batch: Batch,
    /// The subject of each verdict of the batch.
    places: Vec<CheckSubject>,
    multisigs: Vec<Multisig>,
    inputs: Inputs,
    signatures: u64,
}

/// The subject of a verdict.
#[derive(Clone, Copy)]
enum CheckSubject {
    /// An input, which is valid only if all its checks hold.
    Input(usize),
    /// A signature of a CHECKMULTISIG, and the key that was tried.
    Multisig { multisig: usize, signature: usize },
}

impl FastScripts {
    /// Creates an empty batch, whose signatures are verified with this kernel, or with the fastest
    /// one.
    pub fn new(kernel: Option<Kernel>) -> Self {
        Self {
            preimages: Preimages::default(),
            held: HeldChecks::default(),
            batch: Batch::new(secp_lanes::Options { kernel, ..secp_lanes::Options::default() }),
            places: Vec::new(),
            multisigs: Vec::new(),
            inputs: Inputs::new(),
            signatures: 0,
        }
    }

    /// Returns whether to [`FastScripts::add`] the next input, or to [`FastScripts::leave`] it,
    /// since Core's engine had to repeat too much of the work on those before. A block may demand
    /// signatures that are not valid, with messages of a megabyte.
    pub fn is_worthwhile(&mut self) -> bool {
        if !self.inputs.has_credit() {
            self.finish();
        }
        self.inputs.count();
        self.inputs.has_credit()
    }

    /// Adds an input that Core's engine has to check.
    pub fn leave(&mut self) {
        self.inputs.push(Some(Left::Work), 0, 0);
    }

    /// Adds the input at index `input` of a transaction.
    pub fn add(&mut self, messages: &mut TxSighash, input: usize, flags: ScriptFlags) {
        let mut checks = Checks::new();
        let before = self.preimages.work();
        let left = signature_checks(messages, input, flags, &mut self.preimages, &mut checks).err();
        let open = if left.is_none() { checks.len() } else { 0 };
        let work = self.preimages.work().wrapping_sub(before);
        let index = self.inputs.push(left, open, work);
        if left.is_none() {
            checks.into_iter().for_each(|check| self.held.push(index, check));
        }
        if (self.places.len() + self.held.len()).max(self.preimages.count()) >= TOGETHER_MAX {
            self.round();
        }
    }

    /// Computes the hashes and messages of the held checks, and adds their signatures to the batch.
    fn release(&mut self) {
        let Self { preimages, held, batch, places, multisigs, inputs, .. } = self;
        held.decide_hashes(|input, holds| {
            if holds { inputs.close(input) } else { inputs.leave(input, Left::False) }
        });
        let messages = preimages.hash_all();
        let first_new = multisigs.len();
        for (input, signature) in held.signatures.drain(..) {
            if inputs.is_left(input) {
                continue;
            }
            match signature {
                HeldSignature::Ecdsa { key, signature, message } => {
                    let key = &held.bytes[key];
                    let signature = &held.bytes[signature];
                    batch.push_ecdsa(key, signature, messages.of(message));
                }
                HeldSignature::Schnorr { key, signature, message } => {
                    batch.push_schnorr(&key, &signature, messages.of(message));
                }
                HeldSignature::Tweak { internal, tweak, output, odd } => {
                    batch.push_tweak(&internal, &tweak, &output, odd);
                }
                HeldSignature::Multisig { keys, signatures } => {
                    let hashed = |(der, message)| (der, *messages.of(message));
                    let mut multisig =
                        Multisig::new(input, keys, signatures.into_iter().map(hashed));
                    if multisig.advance() {
                        multisigs.push(multisig);
                    }
                    continue;
                }
            }
            places.push(CheckSubject::Input(input));
        }
        held.clear();
        preimages.clear();
        for new in first_new..self.multisigs.len() {
            self.push_untried(new);
        }
    }

    /// Adds the signatures of a CHECKMULTISIG that are not known to be valid, each with the key to
    /// try.
    fn push_untried(&mut self, multisig: usize) {
        let Multisig { keys, signatures, .. } = &self.multisigs[multisig];
        for (index, signature) in signatures.iter().enumerate() {
            if !signature.is_valid {
                self.batch.push_ecdsa(&keys[signature.key], &signature.der, &signature.message);
                self.places.push(CheckSubject::Multisig { multisig, signature: index });
            }
        }
    }

    /// Returns the verdicts on all inputs that were added since the last call, in the same order,
    /// and starts a new batch.
    pub fn decide(&mut self) -> Vec<FastVerdict> {
        self.finish();
        self.inputs.verdicts()
    }

    /// Verifies all that waits, until nothing does.
    fn finish(&mut self) {
        // If a signature does not match the key that was tried, the next key is tried in another
        // round.
        while !self.places.is_empty() || self.held.len() > 0 {
            self.round();
        }
        self.preimages.clear();
        self.multisigs.clear();
    }

    /// Hashes and verifies all that waits, and adds the next keys to try of each CHECKMULTISIG.
    fn round(&mut self) {
        self.release();
        let verdicts = self.batch.verify();
        assert_eq!(verdicts.len(), self.places.len(), "a verdict for each signature");
        self.signatures += verdicts.len() as u64;
        let Self { inputs, multisigs, .. } = self;
        for (verdict, place) in verdicts.iter().zip(self.places.drain(..)) {
            match place {
                CheckSubject::Input(input) => {
                    inputs.add_work(input, SIGNATURE_WORK);
                    match verdict {
                        Verdict::Valid => inputs.close(input),
                        _ => inputs.leave(input, Left::Signature),
                    }
                }
                CheckSubject::Multisig { multisig, signature } => {
                    let multisig = &mut multisigs[multisig];
                    inputs.add_work(multisig.input, SIGNATURE_WORK);
                    match verdict {
                        Verdict::Undecided => multisig.give_up(),
                        verdict => multisig.answer(signature, *verdict == Verdict::Valid),
                    }
                }
            }
        }
        for index in 0..self.multisigs.len() {
            let multisig = &mut self.multisigs[index];
            if multisig.is_done || self.inputs.is_left(multisig.input) {
                continue;
            }
            if multisig.holds() {
                multisig.is_done = true;
                self.inputs.close(multisig.input);
            } else if multisig.advance() {
                self.push_untried(index);
            } else {
                self.inputs.leave(multisig.input, Left::Signature);
            }
        }
    }

    /// Returns the number of signatures and commitments that were verified so far.
    pub fn signatures(&self) -> u64 {
        self.signatures
    }
}
