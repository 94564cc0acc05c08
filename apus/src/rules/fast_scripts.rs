//! Scripts whose signatures are verified many at a time.

use secp_lanes::{Batch, Kernel, Verdict};

use crate::script::{Check, Left, signature_checks};
use crate::sighash::TxSighash;
use crate::wire::ScriptFlags;

/// What is known of an input's scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastVerdict {
    /// The spend is valid: Core's engine would say so too.
    Valid,
    /// Core's engine has to be asked.
    Left(Left),
}

/// The most signatures that are verified together. Crafted inputs have hundreds each.
const TOGETHER_MAX: usize = 4096;

/// Checks the scripts of many inputs at once: `script` says which signatures they ask for, and
/// these are verified together. Says only that a spend is valid, or that Core's engine has to be
/// asked.
///
/// The memory stays from one batch to the next: 3 MB, for at most 4,096 signatures.
pub struct FastScripts {
    batch: Batch,
    /// What each verdict of the batch is about.
    places: Vec<Place>,
    multisigs: Vec<Multisig>,
    inputs: Vec<Input>,
    signatures: u64,
}

/// An input that was added.
struct Input {
    left: Option<Left>,
    /// Checks that are not known to hold.
    open: usize,
}

/// What a verdict is about.
#[derive(Clone, Copy)]
enum Place {
    /// An input, which is valid only if all its checks hold.
    Input(usize),
    /// A signature of a CHECKMULTISIG, and the key that was tried.
    Multisig { multisig: usize, signature: usize },
}

/// A CHECKMULTISIG: an assignment of keys to its signatures is looked for, in which both are in the
/// same order.
struct Multisig {
    input: usize,
    keys: Vec<Box<[u8]>>,
    signatures: Vec<Signature>,
    is_done: bool,
}

struct Signature {
    der: Box<[u8]>,
    message: [u8; 32],
    /// The index of the key that it is tried with.
    key: usize,
    /// Whether it was found to be by that key.
    is_valid: bool,
}

impl FastScripts {
    /// For signatures that are verified with this kernel, or with the fastest one.
    pub fn new(kernel: Option<Kernel>) -> Self {
        Self {
            batch: Batch::new(secp_lanes::Options { kernel, ..secp_lanes::Options::default() }),
            places: Vec::new(),
            multisigs: Vec::new(),
            inputs: Vec::new(),
            signatures: 0,
        }
    }

    /// Adds the input at `input` of a transaction.
    pub fn add(&mut self, messages: &mut TxSighash, input: usize, flags: ScriptFlags) {
        let mut checks = Vec::with_capacity(1);
        let left = signature_checks(messages, input, flags, &mut checks).err();
        let index = self.inputs.len();
        let open = if left.is_none() { checks.len() } else { 0 };
        self.inputs.push(Input { left, open });
        if left.is_none() {
            checks.into_iter().for_each(|check| self.push(index, check));
        }
        if self.places.len() >= TOGETHER_MAX {
            self.round();
        }
    }

    fn push(&mut self, input: usize, check: Check) {
        match check {
            Check::Ecdsa { key, signature, message } => {
                self.batch.push_ecdsa(key, signature, &message);
            }
            Check::Schnorr { key, signature, message } => {
                self.batch.push_schnorr(key, signature, &message);
            }
            Check::Tweak { internal, tweak, output, odd } => {
                self.batch.push_tweak(internal, &tweak, output, odd);
            }
            Check::Multisig { keys, signatures } => {
                let multisig = Multisig::new(input, &keys, &signatures);
                self.multisigs.push(multisig);
                self.push_untried(self.multisigs.len() - 1);
                return;
            }
        }
        self.places.push(Place::Input(input));
    }

    /// Adds the signatures of a CHECKMULTISIG that are not known to be valid, each with its key.
    fn push_untried(&mut self, multisig: usize) {
        let Multisig { keys, signatures, .. } = &self.multisigs[multisig];
        for (index, signature) in signatures.iter().enumerate() {
            if !signature.is_valid {
                self.batch.push_ecdsa(&keys[signature.key], &signature.der, &signature.message);
                self.places.push(Place::Multisig { multisig, signature: index });
            }
        }
    }

    /// The verdicts on all inputs that were added since the last call, in the order in which they
    /// were. What is added next starts a new batch.
    pub fn decide(&mut self) -> Vec<FastVerdict> {
        // A key that does not fit only suggests the next one, so there are more rounds than one.
        while !self.places.is_empty() {
            self.round();
        }
        self.multisigs.clear();
        let verdict = |input: Input| match (input.left, input.open) {
            (None, 0) => FastVerdict::Valid,
            (None, _) => FastVerdict::Left(Left::Signature),
            (Some(left), _) => FastVerdict::Left(left),
        };
        self.inputs.drain(..).map(verdict).collect()
    }

    /// Verifies what waits, and adds the next keys of each CHECKMULTISIG.
    fn round(&mut self) {
        let verdicts = self.batch.verify();
        assert_eq!(verdicts.len(), self.places.len(), "a verdict for each signature");
        self.signatures += verdicts.len() as u64;
        for (verdict, place) in verdicts.iter().zip(self.places.drain(..)) {
            match (place, *verdict) {
                (Place::Input(input), Verdict::Valid) => self.inputs[input].open -= 1,
                (Place::Input(input), _) => self.inputs[input].left = Some(Left::Signature),
                (Place::Multisig { multisig, signature }, Verdict::Valid) => {
                    self.multisigs[multisig].signatures[signature].is_valid = true;
                }
                (Place::Multisig { multisig, .. }, Verdict::Undecided) => {
                    self.multisigs[multisig].give_up();
                }
                (Place::Multisig { .. }, Verdict::Invalid) => {}
            }
        }
        for index in 0..self.multisigs.len() {
            let multisig = &mut self.multisigs[index];
            let input = &mut self.inputs[multisig.input];
            if multisig.is_done || input.left.is_some() {
                continue;
            }
            if multisig.signatures.iter().all(|signature| signature.is_valid) {
                multisig.is_done = true;
                input.open -= 1;
            } else if multisig.advance() {
                self.push_untried(index);
            } else {
                input.left = Some(Left::Signature);
            }
        }
    }

    /// The number of signatures and commitments that were verified so far.
    pub fn signatures(&self) -> u64 {
        self.signatures
    }
}

impl Multisig {
    /// The last keys are tried first, as by Core.
    fn new(input: usize, keys: &[&[u8]], signatures: &[(&[u8], [u8; 32])]) -> Self {
        let first = keys.len() - signatures.len();
        let with_key = |(index, (der, message)): (usize, &(&[u8], [u8; 32]))| Signature {
            der: Box::from(*der),
            message: *message,
            key: first + index,
            is_valid: false,
        };
        Self {
            input,
            keys: keys.iter().map(|key| Box::from(*key)).collect(),
            signatures: signatures.iter().enumerate().map(with_key).collect(),
            is_done: false,
        }
    }

    /// Has no other key tried.
    fn give_up(&mut self) {
        self.keys.clear();
    }

    /// Moves each signature that is not by its key to the one before, and those before it so that
    /// the order stays. Returns whether there are keys enough.
    fn advance(&mut self) -> bool {
        // The keys below are left for the signatures that come before.
        let mut left = self.keys.len();
        for signature in self.signatures.iter_mut().rev() {
            let end = (signature.key + usize::from(signature.is_valid)).min(left);
            let Some(key) = end.checked_sub(1) else { return false };
            signature.is_valid &= key == signature.key;
            (signature.key, left) = (key, key);
        }
        true
    }
}
