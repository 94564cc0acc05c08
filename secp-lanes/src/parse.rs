//! Extracts numbers from the bytes of signatures and keys.

use sha2::{Digest, Sha256};

use crate::field::P;
use crate::vector::Words;
use crate::words::{self, N, P_MINUS_N};

/// The equation that the lanes verify: (a G + b K) / s has the x coordinate r, where K is the point
/// with the x coordinate x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key's x, below p.
    pub x: Words,
    /// Which of the two points with that x is the key.
    pub key: Root,
    /// The x of the sum, below p.
    pub r: Words,
    /// Whether r + n is valid too; it is below p.
    pub plus_n: bool,
    /// Whether the y of the sum must be odd (true) or even; `None` if it does not matter.
    pub sum_odd: Option<bool>,
    /// The factor of G, below n.
    pub a: Words,
    /// The factor of the key, below n; `None` for 1, which needs no ladder.
    pub b: Option<Words>,
    /// The divisor, not zero, below n.
    pub s: Words,
}

/// Which of two points with one x coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The point whose y is odd (true) or even.
    Odd(bool),
    /// The point with this y, if it exists.
    Y(Words),
}

/// Why the lanes need not verify a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A number is out of range, so that the signature is certainly invalid.
    Invalid,
    /// An encoding to which other rules apply.
    Undecided,
}

use Refusal::{Invalid, Undecided};

/// Parses an ECDSA signature: `u1 = z / s`, `u2 = r / s` (SEC 1, section 4.1.4).
///
/// # Errors
/// Invalid if r or s is zero or not below n, or a coordinate is not below p; undecided if the
/// signature is not strict DER (BIP66) or the key is neither compressed nor uncompressed.
pub fn ecdsa(key: &[u8], der: &[u8], message: &[u8; 32]) -> Result<Entry, Refusal> {
    let (r, s) = der_numbers(der).ok_or(Undecided)?;
    let (x, root) = match key.split_first() {
        Some((2 | 3, x)) => (x.try_into().map_err(|_| Undecided)?, Root::Odd(key[0] == 3)),
        Some((4, both)) if both.len() == 64 => {
            let ([x, y], _) = both.as_chunks::<32>() else { return Err(Undecided) };
            (x, Root::Y(below_p(y)?))
        }
        _ => return Err(Undecided),
    };
    let x = below_p(x)?;
    let [r, s] = [below_n(&r)?, below_n(&s)?];
    if r == [0; 4] || s == [0; 4] {
        return Err(Invalid);
    }
    let a = words::modulo_n(&words::from_bytes(message));
    let plus_n = words::below(&r, &P_MINUS_N);
    Ok(Entry { x, key: root, r, plus_n, sum_odd: None, a, b: Some(r), s })
}

/// Parses a BIP340 signature: R = s G - e P, where both R and P have an even y.
///
/// # Errors
/// Invalid if the key or r is not below p, or s is not below n.
pub fn schnorr(key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> Result<Entry, Refusal> {
    let (r_bytes, s_bytes) = signature.split_at(32);
    let [r_bytes, s_bytes]: [&[u8; 32]; 2] =
        [r_bytes.try_into().map_err(|_| Invalid)?, s_bytes.try_into().map_err(|_| Invalid)?];
    let [x, r] = [below_p(key)?, below_p(r_bytes)?];
    let a = below_n(s_bytes)?;
    let mut hash = challenge_tag().clone();
    hash.update(r_bytes);
    hash.update(key);
    hash.update(message);
    let e = words::modulo_n(&words::from_bytes(&hash.finalize().into()));
    Ok(Entry {
        x,
        key: Root::Odd(false),
        r,
        plus_n: false,
        sum_odd: Some(false),
        a,
        b: Some(words::negate_modulo_n(&e)),
        s: [1, 0, 0, 0],
    })
}

/// Parses a Taproot commitment: Q = P + t G, where P has an even y, and Q the given parity.
///
/// # Errors
/// Invalid if a key is not below p, or the tweak is not below n.
pub fn tweak(
    internal: &[u8; 32],
    tweak: &[u8; 32],
    output: &[u8; 32],
    odd: bool,
) -> Result<Entry, Refusal> {
    Ok(Entry {
        x: below_p(internal)?,
        key: Root::Odd(false),
        r: below_p(output)?,
        plus_n: false,
        sum_odd: Some(odd),
        a: below_n(tweak)?,
        b: None,
        s: [1, 0, 0, 0],
    })
}

/// Returns the state of SHA-256 after the two tags of BIP340's challenge.
fn challenge_tag() -> &'static Sha256 {
    static START: std::sync::OnceLock<Sha256> = std::sync::OnceLock::new();
    START.get_or_init(|| {
        let tag = Sha256::digest(b"BIP0340/challenge");
        Sha256::new().chain_update(tag).chain_update(tag)
    })
}

fn below_p(bytes: &[u8; 32]) -> Result<Words, Refusal> {
    let number = words::from_bytes(bytes);
    if words::below(&number, &P) { Ok(number) } else { Err(Invalid) }
}

fn below_n(bytes: &[u8; 32]) -> Result<Words, Refusal> {
    let number = words::from_bytes(bytes);
    if words::below(&number, &N) { Ok(number) } else { Err(Invalid) }
}

/// Returns r and s of a signature in strict DER, without the byte for the sighash type; `None` for
/// anything else, and for numbers of more than 32 bytes.
pub fn der_numbers(der: &[u8]) -> Option<([u8; 32], [u8; 32])> {
    let [0x30, len, rest @ ..] = der else { return None };
    if usize::from(*len) != rest.len() || *len >= 0x80 {
        return None;
    }
    let (r, rest) = der_number(rest)?;
    let (s, rest) = der_number(rest)?;
    rest.is_empty().then_some((r, s))
}

/// Parses a number that is not negative, in its shortest encoding, and returns the rest too.
fn der_number(der: &[u8]) -> Option<([u8; 32], &[u8])> {
    let [0x02, len, rest @ ..] = der else { return None };
    let (number, rest) = rest.split_at_checked(usize::from(*len))?;
    let number = match number {
        [] | [0x80..=0xff, ..] => return None,
        [0] => number,
        [0, 0x80..=0xff, ..] => &number[1..],
        [0, ..] => return None,
        _ => number,
    };
    let mut padded = [0; 32];
    padded[32usize.checked_sub(number.len())?..].copy_from_slice(number);
    Some((padded, rest))
}
