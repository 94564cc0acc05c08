//! CHECKMULTISIG, and the search for the key of each signature.

/// A CHECKMULTISIG whose keys are assigned to its signatures, both in the same order.
///
/// The first half of the signatures try the keys from the first one up, the others from the last
/// one down. If all sets of signers are equally likely, this takes fewer attempts than Core's
/// single direction: for 2 of 3, 8/3 instead of 3, which is the least possible, and for 3 of 5, 5
/// instead of 6. No pair of signature and key is tried again after it has failed.
pub(super) struct Multisig {
    /// The index of its input.
    pub input: usize,
    /// The keys, where a key in an encoding that is not supported here is empty.
    pub keys: Vec<Box<[u8]>>,
    /// The signatures, each with the key to try.
    pub signatures: Vec<Signature>,
    /// Whether its result has been counted.
    pub is_done: bool,
}

/// A signature of a CHECKMULTISIG.
pub(super) struct Signature {
    /// The DER encoding, without the sighash type.
    pub der: Box<[u8]>,
    /// The message that it signs.
    pub message: [u8; 32],
    /// The index of the key to try.
    pub key: usize,
    /// Whether it was found to be valid for that key.
    pub is_valid: bool,
    /// The first key that it may be valid for.
    first: usize,
    /// The end of the keys that it may be valid for.
    end: usize,
}

impl Multisig {
    /// Creates a CHECKMULTISIG of which no key has been tried. Each signature comes without its
    /// sighash type, and with the message that it signs.
    pub fn new(
        input: usize,
        keys: Vec<Box<[u8]>>,
        signatures: impl Iterator<Item = (Box<[u8]>, [u8; 32])>,
    ) -> Self {
        let end = keys.len();
        let untried =
            |(der, message)| Signature { der, message, key: 0, is_valid: false, first: 0, end };
        Self { input, keys, signatures: signatures.map(untried).collect(), is_done: false }
    }

    /// Ends the search: no other key is tried.
    pub fn give_up(&mut self) {
        self.keys.clear();
    }

    /// Records whether a signature is valid for the key that was tried.
    pub fn answer(&mut self, signature: usize, is_valid: bool) {
        let goes_up = self.goes_up(signature);
        let signature = &mut self.signatures[signature];
        signature.is_valid = is_valid;
        match (is_valid, goes_up) {
            (true, _) => (signature.first, signature.end) = (signature.key, signature.key + 1),
            (false, true) => signature.first = signature.key + 1,
            (false, false) => signature.end = signature.key,
        }
    }

    /// Returns whether each signature is valid for a key, and these keys are in the order of the
    /// signatures.
    pub fn holds(&self) -> bool {
        let is_in_order = self.signatures.is_sorted_by(|one, next| one.key < next.key);
        is_in_order && self.signatures.iter().all(|signature| signature.is_valid)
    }

    /// Chooses the key to try for each signature. Returns whether there are enough keys left.
    pub fn advance(&mut self) -> bool {
        let Self { keys, signatures, .. } = self;
        let is_key = |key: &usize| keys.get(*key).is_some_and(|key| !key.is_empty());
        let mut first = 0;
        for signature in signatures.iter_mut() {
            let mut left = first.max(signature.first)..signature.end;
            let Some(key) = left.find(is_key) else { return false };
            (signature.first, first) = (key, key + 1);
        }
        let mut end = keys.len();
        for signature in signatures.iter_mut().rev() {
            let left = signature.first..signature.end.min(end);
            let Some(key) = left.rev().find(is_key) else { return false };
            (signature.end, end) = (key + 1, key);
        }
        for index in 0..self.signatures.len() {
            let goes_up = self.goes_up(index);
            let signature = &mut self.signatures[index];
            signature.key = if goes_up { signature.first } else { signature.end - 1 };
        }
        true
    }

    fn goes_up(&self, signature: usize) -> bool {
        signature < self.signatures.len() / 2
    }
}

#[cfg(test)]
mod tests {
    use apus_testdata::Random;

    use super::*;

    /// Searches for an assignment, where `is_by` says whether a signature is by a key. Returns
    /// whether there is one, and how many pairs were tried.
    fn search(needed: usize, keys: &[bool], is_by: impl Fn(usize, usize) -> bool) -> (bool, usize) {
        let key = |is_key: &bool| Box::from(if *is_key { &[2][..] } else { &[] });
        let signatures = (0..needed).map(|_| (Box::from(&[][..]), [0; 32]));
        let mut multisig = Multisig::new(0, keys.iter().map(key).collect(), signatures);
        let mut pairs = 0;
        while !multisig.holds() {
            if !multisig.advance() {
                return (false, pairs);
            }
            for signature in 0..needed {
                let Signature { key, is_valid, .. } = multisig.signatures[signature];
                assert!(keys[key]);
                if !is_valid {
                    pairs += 1;
                    multisig.answer(signature, is_by(signature, key));
                }
            }
        }
        (true, pairs)
    }

    /// Returns each choice of signers.
    fn choices(needed: usize, keys: usize) -> impl Iterator<Item = Vec<usize>> {
        let signers = move |bits: u32| (0..keys).filter(|key| bits >> key & 1 == 1).collect();
        (0..1 << keys).map(signers).filter(move |signers: &Vec<usize>| signers.len() == needed)
    }

    #[test]
    fn each_choice_of_signers_is_found() {
        for (keys, needed) in (1..=9).flat_map(|keys| (1..=keys).map(move |needed| (keys, needed)))
        {
            for signers in choices(needed, keys) {
                let (found, pairs) = search(needed, &vec![true; keys], |s, key| signers[s] == key);
                assert!(found, "{signers:?} of {keys}");
                assert!(pairs <= needed * (keys - needed + 1), "{signers:?} of {keys}: {pairs}");
            }
        }
    }

    #[test]
    fn attempts_on_average() {
        for (needed, keys, expected) in
            [(1, 1, 1), (1, 2, 3), (2, 2, 2), (2, 3, 8), (3, 4, 16), (3, 5, 50), (4, 7, 266)]
        {
            let pairs = choices(needed, keys)
                .map(|signers| search(needed, &vec![true; keys], |s, key| signers[s] == key).1);
            assert_eq!(pairs.sum::<usize>(), expected, "{needed} of {keys}");
        }
    }

    /// Each signature is by random keys: several, one or none.
    #[test]
    fn what_is_found_is_an_assignment() {
        let mut random = Random(1);
        let mut both = 0;
        let mut neither = 0;
        let mut missed = 0;
        for _ in 0..100_000 {
            let keys = 1 + random.below(6_usize);
            let needed = 1 + random.below(keys);
            let is_key: Vec<bool> = (0..keys).map(|_| random.below(8_u8) > 0).collect();
            let bits = random.next();
            let rare = random.next();
            let is_by = |s: usize, key: usize| (bits | rare) >> (8 * s + key) & 1 == 1;
            let is_by = |s: usize, key: usize| is_key[key] && is_by(s, key);
            let fits =
                |signers: Vec<usize>| signers.iter().enumerate().all(|(s, key)| is_by(s, *key));
            let exists = choices(needed, keys).any(fits);
            let (found, _) = search(needed, &is_key, is_by);
            assert!(exists || !found);
            both += u32::from(found);
            neither += u32::from(!exists);
            missed += u32::from(exists && !found);
        }
        // A missed assignment only costs a run of the engine.
        assert!(both > 20_000 && neither > 20_000 && missed < 5_000, "{both} {neither} {missed}");
    }
}
