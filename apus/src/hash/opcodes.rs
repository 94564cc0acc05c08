//! The hashes that only scripts ask for.

use bitcoin::hashes::{Hash, ripemd160, sha1};

use super::sha256;

/// RIPEMD-160 of a message.
pub fn ripemd160(bytes: &[u8]) -> [u8; 20] {
    ripemd160::Hash::hash(bytes).to_byte_array()
}

/// SHA-1 of a message.
pub fn sha1(bytes: &[u8]) -> [u8; 20] {
    sha1::Hash::hash(bytes).to_byte_array()
}

/// RIPEMD-160 of a message's SHA-256 (Core's `Hash160`).
pub fn hash160(bytes: &[u8]) -> [u8; 20] {
    ripemd160(&sha256(bytes))
}
