//! Signatures that cost a few scalar operations, each with a nonce of its own.
//!
//! A signature normally costs a multiplication of the curve's base point, all of it to make a
//! fresh nonce. Here nonces are numbered like keys ([`Series`]), so that `k`, `R = kG` and `1/k`
//! are found in batches: ECDSA is `s = (z + rd)/k` and Schnorr is `s = k + ed`. The signatures are
//! as valid as any other, and cost as much to verify.

use std::sync::LazyLock;

use bitcoin::hashes::{Hash, HashEngine, sha256};
use bitcoin::secp256k1::{Scalar, SecretKey, constants};

use crate::series::Series;

/// The hash type that signs everything: the usual one of ECDSA.
pub(crate) const SIGHASH_ALL: u8 = 1;

/// Half the group order, rounded down: the largest "low" S (BIP 146).
const HALF_ORDER: [u8; 32] = [
    0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0x5d, 0x57, 0x6e, 0x73, 0x57, 0xa4, 0x50, 0x1d, 0xdf, 0xe9, 0x2f, 0x46, 0x68, 0x1b, 0x20, 0xa0,
];

/// The nonce of one signature, with what is derived from it.
#[derive(Clone, Debug)]
pub(crate) struct Nonce {
    /// x of R, big-endian: ECDSA's r and BIP 340's R.
    r: [u8; 32],
    inverse: SecretKey,
    /// The nonce whose R has an even y.
    even: SecretKey,
}

static CHALLENGE: LazyLock<sha256::HashEngine> = LazyLock::new(|| tagged(b"BIP0340/challenge"));

/// A DER signature with its hash type: at most 73 bytes.
pub(crate) struct Der {
    bytes: [u8; 73],
    len: usize,
}

impl Der {
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the signature with the other S, which is as valid.
    pub fn with_other_s(&self) -> Der {
        let number = |at: usize| {
            let digits = &self.bytes[at + 2..at + 2 + usize::from(self.bytes[at + 1])];
            let digits = &digits[digits.len().saturating_sub(32)..];
            let mut number = [0; 32];
            number[32 - digits.len()..].copy_from_slice(digits);
            number
        };
        let s = number(4 + usize::from(self.bytes[3]));
        let other = SecretKey::from_slice(&s).expect("S is not zero").negate();
        der(&number(2), &other.secret_bytes(), self.bytes[self.len - 1])
    }
}

impl Nonce {
    pub fn batch(series: &Series, indices: &[u32]) -> Vec<Nonce> {
        let secrets: Vec<_> = indices.iter().map(|&index| series.secret(index)).collect();
        let inverses = invert(&secrets);
        let points = series.points(indices.iter().copied());
        let parts = secrets.into_iter().zip(inverses).zip(points);
        parts
            .map(|((secret, inverse), point)| Nonce {
                r: point.x_bytes(),
                inverse,
                even: if point.is_odd() { secret.negate() } else { secret },
            })
            .collect()
    }
}

/// Returns an ECDSA signature on the hash `z`, with a low S and the byte of a hash type.
pub(crate) fn ecdsa(secret: &SecretKey, nonce: &Nonce, z: [u8; 32], hash_type: u8) -> Der {
    let z = Scalar::from_be_bytes(z).expect("a hash is below the group order");
    let r = Scalar::from_be_bytes(nonce.r).expect("r is below the group order");
    let mut s = secret
        .mul_tweak(&r)
        .and_then(|rd| rd.add_tweak(&z))
        .and_then(|sum| sum.mul_tweak(&nonce.inverse.into()))
        .expect("neither product nor sum is zero");
    if s.secret_bytes() > HALF_ORDER {
        s = s.negate();
    }
    der(&nonce.r, &s.secret_bytes(), hash_type)
}

/// Returns a BIP 340 signature with a secret whose point has an even second coordinate, and `xonly`
/// as its first one.
pub(crate) fn schnorr(
    secret: SecretKey,
    xonly: &[u8; 32],
    nonce: &Nonce,
    message: &[u8; 32],
) -> [u8; 64] {
    let mut engine = CHALLENGE.clone();
    engine.input(&nonce.r);
    engine.input(xonly);
    engine.input(message);
    let e = sha256::Hash::from_engine(engine).to_byte_array();
    let s = SecretKey::from_slice(&e)
        .and_then(|e| e.mul_tweak(&secret.into()))
        .and_then(|ed| ed.add_tweak(&nonce.even.into()))
        .expect("neither product nor sum is zero");
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&nonce.r);
    signature[32..].copy_from_slice(&s.secret_bytes());
    signature
}

/// Returns the secret for which the ECDSA signature (r, s) is valid on the hash `z`, where `r` is
/// the first coordinate of the point of `k`.
pub(crate) fn secret_for(k: SecretKey, r: [u8; 32], s: &SecretKey, z: [u8; 32]) -> SecretKey {
    let r = SecretKey::from_slice(&r).expect("r is below the group order");
    let minus_z = SecretKey::from_slice(&z).expect("a hash is a valid secret").negate();
    s.mul_tweak(&k.into())
        .and_then(|sk| sk.add_tweak(&minus_z.into()))
        .and_then(|rd| rd.mul_tweak(&invert_one(&r).into()))
        .expect("neither product nor sum is zero")
}

/// Returns the start of a tagged hash (BIP 340).
pub(crate) fn tagged(tag: &[u8]) -> sha256::HashEngine {
    let tag = sha256::Hash::hash(tag).to_byte_array();
    let mut engine = sha256::HashEngine::default();
    engine.input(&tag);
    engine.input(&tag);
    engine
}

/// Returns the inverses of many numbers, with three products each (Montgomery's trick).
fn invert(numbers: &[SecretKey]) -> Vec<SecretKey> {
    let times = |a: &SecretKey, b: &SecretKey| a.mul_tweak(&Scalar::from(*b)).expect("not zero");
    let Some(first) = numbers.first() else { return Vec::new() };
    let mut products = vec![*first];
    for number in &numbers[1..] {
        products.push(times(products.last().expect("the first"), number));
    }
    let mut inverse = invert_one(products.last().expect("the first"));
    for i in (1..numbers.len()).rev() {
        products[i] = times(&inverse, &products[i - 1]);
        inverse = times(&inverse, &numbers[i]);
    }
    products[0] = inverse;
    products
}

/// Returns `k^-1`, computed as `k^(n-2)`: the library has no inverse.
fn invert_one(k: &SecretKey) -> SecretKey {
    let mut exponent = constants::CURVE_ORDER;
    exponent[31] -= 2;
    let factor = Scalar::from(*k);
    let mut power: Option<SecretKey> = None;
    for bit in (0..256).map(|i| exponent[i / 8] >> (7 - i % 8) & 1) {
        power = power.map(|p| p.mul_tweak(&p.into()).expect("non-zero"));
        if bit == 1 {
            power = Some(power.map_or(*k, |p| p.mul_tweak(&factor).expect("non-zero")));
        }
    }
    power.expect("the exponent is not zero")
}

/// Encodes a signature in DER (BIP 66), followed by its hash type.
pub(crate) fn der(r: &[u8; 32], s: &[u8; 32], hash_type: u8) -> Der {
    let mut out = Der { bytes: [0; 73], len: 2 };
    for number in [r, s] {
        let skip = number.iter().take_while(|&&b| b == 0).count().min(31);
        let digits = &number[skip..];
        let pad = usize::from(digits[0] >= 0x80);
        let at = out.len;
        out.bytes[at] = 2;
        out.bytes[at + 1] = (digits.len() + pad) as u8;
        out.len += 2 + pad + digits.len();
        out.bytes[at + 2 + pad..out.len].copy_from_slice(digits);
    }
    out.bytes[0] = 0x30;
    out.bytes[1] = (out.len - 2) as u8;
    out.bytes[out.len] = hash_type;
    out.len += 1;
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;
    use bitcoin::secp256k1::{Message, PublicKey, Secp256k1};
    use bitcoin::{XOnlyPublicKey, secp256k1};

    #[test]
    fn signatures_verify() -> Result<(), secp256k1::Error> {
        let secp = Secp256k1::new();
        let keys = Keys::new(7, 100);
        let ring = keys.ring();
        for (i, nonce) in (0..200u32).zip(keys.nonces(0, 200)) {
            let hash = sha256::Hash::hash(&i.to_le_bytes()).to_byte_array();
            let message = Message::from_digest(hash);
            let key = ring.key(i);
            let signature = ecdsa(&key.secret(), &nonce, hash, 3);
            let (hash_type, bytes) = signature.as_slice().split_last().unwrap();
            assert_eq!(*hash_type, 3);
            let public = PublicKey::from_slice(&key.pk33())?;
            secp.verify_ecdsa(&message, &secp256k1::ecdsa::Signature::from_der(bytes)?, &public)?;
            let signature = schnorr(key.even_secret(), &key.xonly(), &nonce, &hash);
            let signature = secp256k1::schnorr::Signature::from_slice(&signature)?;
            let public = XOnlyPublicKey::from_slice(&key.xonly())?;
            secp.verify_schnorr(&signature, &message, &public)?;
        }
        Ok(())
    }
}
