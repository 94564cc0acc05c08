use sha2::digest::generic_array::{GenericArray, typenum::U64};
use sha2::{Digest, Sha256, compress256};

use super::state::INITIAL_STATE;
use crate::Hash;

/// Returns the SHA-256 of a message.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns the double SHA-256 of a message (Core's `Hash`).
pub fn sha256d(bytes: &[u8]) -> Hash {
    let mut hasher = Sha256d::default();
    hasher.update(bytes);
    hasher.finish()
}

/// Double SHA-256 of a message that arrives in pieces (Core's `HashWriter`).
#[derive(Clone, Default)]
pub struct Sha256d(Sha256);

impl Sha256d {
    /// Adds the next piece of the message.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the hash of the message.
    #[inline]
    pub fn finish(self) -> Hash {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0.finalize());
        block[32] = 0x80;
        block[62] = 0x01; // 256 bits
        Hash(compress_all(&[block]))
    }
}

/// SHA-256 of a message that arrives in pieces (Core's `HashWriter::GetSHA256`).
#[derive(Clone, Default)]
pub struct Sha256Pieces(Sha256);

impl Sha256Pieces {
    /// Starts a tagged hash (BIP340): the hash of `tag`, twice, precedes the message.
    pub fn tagged(tag: &str) -> Self {
        let tag = sha256(tag.as_bytes());
        let mut pieces = Self::default();
        pieces.update(&tag);
        pieces.update(&tag);
        pieces
    }

    /// Adds the next piece of the message.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the hash of the message.
    #[inline]
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// Returns the double SHA-256 of 64 bytes, as in the inner nodes of a merkle tree.
#[inline]
pub fn sha256d_64(bytes: &[u8; 64]) -> Hash {
    const PADDING: [u8; 64] = {
        let mut block = [0; 64];
        block[0] = 0x80;
        block[62] = 0x02; // 512 bits
        block
    };
    let mut block = [0; 64];
    block[..32].copy_from_slice(&compress_all(&[*bytes, PADDING]));
    block[32] = 0x80;
    block[62] = 0x01;
    Hash(compress_all(&[block]))
}

/// Returns the SHA-256 of a message that is already padded.
#[inline]
fn compress_all<const N: usize>(blocks: &[[u8; 64]; N]) -> [u8; 32] {
    let mut state = INITIAL_STATE;
    let blocks: [GenericArray<u8, U64>; N] = blocks.map(GenericArray::from);
    compress256(&mut state, &blocks);
    let mut out = [0; 32];
    for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_agree_with_bitcoin_hashes() {
        for len in [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let expected = bitcoin::hashes::sha256d::Hash::hash(&bytes);
            use bitcoin::hashes::Hash as _;
            assert_eq!(sha256d(&bytes).0, expected.to_byte_array());
            if let Ok(block) = <&[u8; 64]>::try_from(&bytes[..]) {
                assert_eq!(sha256d_64(block), sha256d(&bytes));
            }
        }
    }
}
