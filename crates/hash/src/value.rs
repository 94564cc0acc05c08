use std::fmt;
use std::str::FromStr;

/// A hash of 32 bytes. As everywhere in Bitcoin, its hex form shows the bytes in reverse order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The hash of zeros: the parent of a genesis block, and the txid that a coinbase spends.
    pub const ZERO: Self = Self([0; 32]);

    /// Parses a hash from 64 hex digits. It is meant for constants, where anything else does not
    /// compile.
    ///
    /// # Panics
    /// `hex` is not 64 hex digits.
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

    /// Returns whether every byte is zero (Core's `IsNull`).
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

/// The error for text that is not a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a hash has 64 hex digits")]
pub struct ParseHashError;

impl FromStr for Hash {
    type Err = ParseHashError;

    fn from_str(hex: &str) -> Result<Self, Self::Err> {
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ParseHashError);
        }
        Ok(Self::from_hex(hex))
    }
}

/// The two hex digits of each byte.
const DIGITS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut all = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        all[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    all
};

/// Returns bytes as hex digits, in their order.
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = vec![0; 2 * bytes.len()];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&DIGITS[usize::from(*byte)]);
    }
    String::from_utf8(digits).expect("digits")
}

#[cfg(test)]
mod tests {
    use super::*;

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
