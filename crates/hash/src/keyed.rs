//! A 128-bit hash under a secret key.

use std::fmt;

use highway::{HighwayHash as _, HighwayHasher, Key};

/// A secret key of 32 random bytes. It is never displayed: knowing it, one can make different
/// inputs with the same hash.
#[derive(Clone, PartialEq, Eq)]
pub struct HashKey([u8; 32]);

impl HashKey {
    /// Returns the key of a run that is continued.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns a new key.
    ///
    /// # Panics
    /// The operating system provides no random bytes.
    pub fn random() -> Self {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
        Self(bytes)
    }

    /// Returns the secret bytes, to be written to a file that only its owner can read.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the hash of `bytes` (HighwayHash): without the key, other bytes with the same hash
    /// can be found only by chance.
    pub fn hash(&self, bytes: &[u8]) -> [u8; 16] {
        let words = self.0.as_chunks::<8>().0;
        let key = Key(std::array::from_fn(|i| u64::from_le_bytes(words[i])));
        let [low, high] = HighwayHasher::new(key).hash128(bytes);
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_bytes_length_and_key_counts() {
        let key = HashKey::new(std::array::from_fn(|i| i as u8));
        let bytes: Vec<u8> = (0..100).collect();
        let mut seen = std::collections::HashSet::from([key.hash(&bytes)]);
        for bit in 0..8 * bytes.len() {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(key.hash(&other)), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(seen.insert(key.hash(&bytes[..len])), "{len} bytes");
        }
        for bit in 0..256 {
            let mut other = *key.as_bytes();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(HashKey::new(other).hash(&bytes)), "bit {bit} of the key");
        }
        assert_eq!(key.hash(&bytes), key.clone().hash(&bytes));
        assert_eq!(format!("{key:?}"), "HashKey(secret)");
    }

    /// The test vector of HighwayHash's authors for 128 bits and an empty input.
    #[test]
    fn it_is_highwayhash() {
        let key = HashKey::new(std::array::from_fn(|i| i as u8));
        let hash = u128::from_le_bytes(key.hash(&[]));
        let words = [hash as u64, (hash >> 64) as u64];
        assert_eq!(words, [0x0fed_268f_9d8f_fec7, 0x3356_5e76_7f09_3e6f]);
    }
}
