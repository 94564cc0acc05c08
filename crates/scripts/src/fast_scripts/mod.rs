//! Checks scripts in batches, whose signatures are verified together.

mod held;
mod multisig;

use apus_wire::ScriptFlags;
use secp_lanes::{Batch, Kernel, Verdict};

use crate::script::{Checks, Left, signature_checks};
use crate::sighash::{Preimages, TxSighash};
use held::{Held, HeldSignature};
use multisig::Multisig;

/// The verdict on an input's scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastVerdict {
    /// The spend is valid: Core's engine would say so too.
    Valid,
    /// Core's engine has to decide, for this reason.
    Left(Left),
}

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
    held: Held,
    batch: Batch,
    /// What each verdict of the batch refers to.
    places: Vec<Place>,
    multisigs: Vec<Multisig>,
    inputs: Vec<Input>,
    signatures: u64,
}

/// An input that was added.
struct Input {
    left: Option<Left>,
    /// The number of checks that are not known to hold.
    open: usize,
}

/// What a verdict refers to.
#[derive(Clone, Copy)]
enum Place {
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
            held: Held::default(),
            batch: Batch::new(secp_lanes::Options { kernel, ..secp_lanes::Options::default() }),
            places: Vec::new(),
            multisigs: Vec::new(),
            inputs: Vec::new(),
            signatures: 0,
        }
    }

    /// Adds the input at index `input` of a transaction.
    pub fn add(&mut self, messages: &mut TxSighash, input: usize, flags: ScriptFlags) {
        let mut checks = Checks::new();
        let left = signature_checks(messages, input, flags, &mut self.preimages, &mut checks).err();
        let index = self.inputs.len();
        let open = if left.is_none() { checks.len() } else { 0 };
        self.inputs.push(Input { left, open });
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
            if holds { inputs[input].open -= 1 } else { inputs[input].left = Some(Left::False) }
        });
        let messages = preimages.hash_all();
        let first_new = multisigs.len();
        for (input, signature) in held.signatures.drain(..) {
            if inputs[input].left.is_some() {
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
            places.push(Place::Input(input));
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
                self.places.push(Place::Multisig { multisig, signature: index });
            }
        }
    }

    /// Returns the verdicts on all inputs that were added since the last call, in the same order,
    /// and starts a new batch.
    pub fn decide(&mut self) -> Vec<FastVerdict> {
        // If a signature does not match the key that was tried, the next key is tried in another
        // round.
        while !self.places.is_empty() || self.held.len() > 0 {
            self.round();
        }
        self.preimages.clear();
        self.multisigs.clear();
        let verdict = |input: Input| match (input.left, input.open) {
            (None, 0) => FastVerdict::Valid,
            (None, _) => FastVerdict::Left(Left::Signature),
            (Some(left), _) => FastVerdict::Left(left),
        };
        self.inputs.drain(..).map(verdict).collect()
    }

    /// Hashes and verifies all that waits, and adds the next keys to try of each CHECKMULTISIG.
    fn round(&mut self) {
        self.release();
        let verdicts = self.batch.verify();
        assert_eq!(verdicts.len(), self.places.len(), "a verdict for each signature");
        self.signatures += verdicts.len() as u64;
        for (verdict, place) in verdicts.iter().zip(self.places.drain(..)) {
            match (place, *verdict) {
                (Place::Input(input), Verdict::Valid) => self.inputs[input].open -= 1,
                (Place::Input(input), _) => self.inputs[input].left = Some(Left::Signature),
                (Place::Multisig { multisig, .. }, Verdict::Undecided) => {
                    self.multisigs[multisig].give_up();
                }
                (Place::Multisig { multisig, signature }, verdict) => {
                    self.multisigs[multisig].answer(signature, verdict == Verdict::Valid);
                }
            }
        }
        for index in 0..self.multisigs.len() {
            let multisig = &mut self.multisigs[index];
            let input = &mut self.inputs[multisig.input];
            if multisig.is_done || input.left.is_some() {
                continue;
            }
            if multisig.holds() {
                multisig.is_done = true;
                input.open -= 1;
            } else if multisig.advance() {
                self.push_untried(index);
            } else {
                input.left = Some(Left::Signature);
            }
        }
    }

    /// Returns the number of signatures and commitments that were verified so far.
    pub fn signatures(&self) -> u64 {
        self.signatures
    }
}
