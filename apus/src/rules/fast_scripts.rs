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

/// Checks the scripts of many inputs at once: `script` says which signatures they ask for, and
/// these are verified together. Says only that a spend is valid, or that Core's engine has to be
/// asked.
///
/// The memory stays from one batch to the next: 4 MB for 512 inputs.
pub struct FastScripts {
    batch: Batch,
    /// Where the verdict of each check is to be noted; as many as the batch has.
    places: Vec<Place>,
    multisigs: Vec<Multisig>,
    verdicts: Vec<FastVerdict>,
    signatures: u64,
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
            verdicts: Vec::new(),
            signatures: 0,
        }
    }

    /// Adds the input at `input` of a transaction.
    pub fn add(&mut self, messages: &mut TxSighash, input: usize, flags: ScriptFlags) {
        let mut checks = Vec::with_capacity(1);
        let left = signature_checks(messages, input, flags, &mut checks).err();
        let index = self.verdicts.len();
        self.verdicts.push(left.map_or(FastVerdict::Valid, FastVerdict::Left));
        if left.is_none() {
            checks.into_iter().for_each(|check| self.push(index, check));
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
        std::mem::take(&mut self.verdicts)
    }

    fn round(&mut self) {
        let verdicts = self.batch.verify();
        self.signatures += verdicts.len() as u64;
        for (verdict, place) in verdicts.iter().zip(self.places.drain(..)) {
            match (place, *verdict) {
                (Place::Input(_), Verdict::Valid) => {}
                (Place::Input(input), _) => {
                    self.verdicts[input] = FastVerdict::Left(Left::Signature);
                }
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
            if multisig.signatures.iter().all(|signature| signature.is_valid) {
                continue;
            }
            if self.verdicts[multisig.input] == FastVerdict::Valid && multisig.advance() {
                self.push_untried(index);
            } else {
                self.verdicts[multisig.input] = FastVerdict::Left(Left::Signature);
            }
        }
    }

    /// The number of signatures and commitments that were verified so far.
    pub fn signatures(&self) -> u64 {
        self.signatures
    }
}

impl Multisig {
    fn new(input: usize, keys: &[&[u8]], signatures: &[(&[u8], [u8; 32])]) -> Self {
        let with_key = |(key, (der, message)): (usize, &(&[u8], [u8; 32]))| Signature {
            der: Box::from(*der),
            message: *message,
            key,
            is_valid: false,
        };
        Self {
            input,
            keys: keys.iter().map(|key| Box::from(*key)).collect(),
            signatures: signatures.iter().enumerate().map(with_key).collect(),
        }
    }

    /// Has no other key tried.
    fn give_up(&mut self) {
        self.keys.clear();
    }

    /// Moves each signature that is not by its key to the next one, and those after it so that the
    /// order stays. Returns whether there are keys enough.
    fn advance(&mut self) -> bool {
        let mut next = 0;
        for signature in &mut self.signatures {
            let key = (signature.key + usize::from(!signature.is_valid)).max(next);
            signature.is_valid &= key == signature.key;
            signature.key = key;
            next = key + 1;
        }
        next <= self.keys.len()
    }
}
