use std::fmt;
use std::str::FromStr;

use sha2::digest::generic_array::{GenericArray, typenum::U64};
use sha2::{Digest, Sha256, compress256};

use super::sha256::INITIAL_STATE;

/// 32 bytes of hash in their internal order; shown, as everywhere in Bitcoin, reversed in hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// All zeros: the parent of a genesis block, the txid that a coinbase spends.
    pub const ZERO: Self = Self([0; 32]);

    /// The hash that 64 hex digits show, for constants; fails to compile on anything else.
    pub const fn from_hex(hex: &str) -> Self {
        let digits = hex.as_bytes();
        assert!(digits.len() == 64, "a hash has 64 hex digits");
        let mut bytes = [0; 32];
        let mut i = 0;
        while i < 32 {
            bytes[31 - i] = hex_digit(digits[2 * i]) << 4 | hex_digit(digits[2 * i + 1]);
            i += 1;
        }
        Self(bytes)
    }

    /// Whether every byte is zero (Core's `IsNull`).
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

const fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => panic!("not a hex digit"),
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().rev().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = &'static str;

    fn from_str(hex: &str) -> Result<Self, Self::Err> {
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("a hash is written as 64 hex digits");
        }
        Ok(Self::from_hex(hex))
    }
}

/// Which output a coin is: the transaction and the output's index in it (Core's `COutPoint`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(C)]
pub struct OutPoint {
    /// The transaction that created it.
    pub txid: Hash,
    /// Its index among that transaction's outputs.
    pub vout: u32,
}

impl OutPoint {
    /// The outpoint in the 36 bytes that a transaction's input starts with.
    #[inline]
    pub fn from_bytes(bytes: &[u8; 36]) -> Self {
        let (txid, vout) = bytes.split_at(32);
        let mut outpoint = Self::default();
        outpoint.txid.0.copy_from_slice(txid);
        outpoint.vout = u32::from_le_bytes([vout[0], vout[1], vout[2], vout[3]]);
        outpoint
    }

    /// The 36 bytes of the wire format.
    #[inline]
    pub fn to_bytes(&self) -> [u8; 36] {
        let mut bytes = [0; 36];
        bytes[..32].copy_from_slice(&self.txid.0);
        bytes[32..].copy_from_slice(&self.vout.to_le_bytes());
        bytes
    }

    /// Whether this is what a coinbase spends: nothing (Core's `COutPoint::IsNull`).
    pub fn is_null(&self) -> bool {
        self.vout == u32::MAX && self.txid.is_zero()
    }
}

impl fmt::Display for OutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.txid, self.vout)
    }
}

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// SHA-256 of SHA-256 (Core's `Hash`).
pub fn sha256d(bytes: &[u8]) -> Hash {
    let mut hasher = Sha256d::default();
    hasher.update(bytes);
    hasher.finish()
}

/// SHA-256 of SHA-256 over bytes that come in pieces (Core's `HashWriter`).
#[derive(Clone, Default)]
pub struct Sha256d(Sha256);

impl Sha256d {
    /// Adds bytes.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes added.
    #[inline]
    pub fn finish(self) -> Hash {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0.finalize());
        block[32] = 0x80;
        block[62] = 0x01; // 256 bits
        Hash(compress_all(&[block]))
    }
}

/// Double SHA-256 of exactly 64 bytes, the inner node of every merkle tree.
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

/// The state after whole, already padded blocks, as bytes.
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

    #[test]
    fn hex_is_reversed_both_ways() {
        let hex = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
        let hash: Hash = hex.parse().unwrap();
        assert_eq!(hash.0[0], 0x6f);
        assert_eq!(hash.to_string(), hex);
        assert!("00".parse::<Hash>().is_err());
        assert!("g".repeat(64).parse::<Hash>().is_err());
    }
}
