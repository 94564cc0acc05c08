//! The hashes that only scripts use.

use bitcoin::hashes::{Hash, sha1};

use super::ripemd160::{ripemd160, ripemd160_many};
use super::{Midstate, sha256};

/// Returns the SHA-1 of a message.
pub fn sha1(bytes: &[u8]) -> [u8; 20] {
    sha1::Hash::hash(bytes).to_byte_array()
}

/// Returns the RIPEMD-160 of the SHA-256 of a message (Core's `Hash160`).
pub fn hash160(bytes: &[u8]) -> [u8; 20] {
    ripemd160(&sha256(bytes))
}

/// Returns the [`hash160`] of `count` messages, in order; `message` returns a message by its index.
/// They are hashed in parallel.
pub fn hash160_many<'a>(count: usize, message: impl Fn(usize) -> &'a [u8]) -> Vec<[u8; 20]> {
    ripemd160_many(&Midstate::INITIAL.hashes(count, |i| [message(i), &[], &[]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_each_alone() {
        let messages: Vec<Vec<u8>> = (0..200).map(|len| vec![len; usize::from(len)]).collect();
        for count in [0, 1, 2, 15, 16, 17, 200] {
            let expected: Vec<_> = messages[..count].iter().map(|bytes| hash160(bytes)).collect();
            assert_eq!(hash160_many(count, |i| &messages[i]), expected);
        }
    }
}
