//! CHECKMULTISIG, for whose signatures keys are looked for.

/// A CHECKMULTISIG: an assignment of keys to its signatures is looked for, in which both are in the
/// same order.
pub(super) struct Multisig {
    /// The input that it is in.
    pub input: usize,
    /// The keys; empty where there is none of a form that is read here.
    pub keys: Vec<Box<[u8]>>,
    /// The signatures, with the keys that they are tried with.
    pub signatures: Vec<Signature>,
    /// Whether its result is counted.
    pub is_done: bool,
}

/// A signature of a CHECKMULTISIG.
pub(super) struct Signature {
    /// Without the byte for its type.
    pub der: Box<[u8]>,
    /// What it signs.
    pub message: [u8; 32],
    /// The index of the key that it is tried with.
    pub key: usize,
    /// Whether it was found to be by that key.
    pub is_valid: bool,
}

impl Multisig {
    /// No key has been tried; the last ones will be first, as by Core. Each signature comes without
    /// the byte for its type and with what it signs.
    pub fn new(
        input: usize,
        keys: Vec<Box<[u8]>>,
        signatures: impl Iterator<Item = (Box<[u8]>, [u8; 32])>,
    ) -> Self {
        let key = keys.len();
        let untried = |(der, message)| Signature { der, message, key, is_valid: false };
        Self { input, keys, signatures: signatures.map(untried).collect(), is_done: false }
    }

    /// Has no other key tried.
    pub fn give_up(&mut self) {
        self.keys.clear();
    }

    /// Moves each signature that is not by its key to the one before, and those before it so that
    /// the order stays. Returns whether there are keys enough.
    pub fn advance(&mut self) -> bool {
        // The keys below are left for the signatures that come before.
        let mut left = self.keys.len();
        for signature in self.signatures.iter_mut().rev() {
            let end = (signature.key + usize::from(signature.is_valid)).min(left);
            let is_key = |key: &usize| !self.keys[*key].is_empty();
            let Some(key) = (0..end).rev().find(is_key) else { return false };
            signature.is_valid &= key == signature.key;
            (signature.key, left) = (key, key);
        }
        true
    }
}
