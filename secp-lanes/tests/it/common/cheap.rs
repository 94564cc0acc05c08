//! Signatures that cost next to nothing to create, without any multiplication of points.

use secp256k1::ecdsa::Signature;
use secp256k1::{Keypair, Parity, SECP256K1, Scalar, SecretKey};
use sha2::{Digest, Sha256};

use super::{Check, Random};

/// Number of keys, and of nonces.
const KEPT: usize = 64;

/// Keys and nonces that are reused.
pub struct Pool {
    keys: Vec<Secret>,
    nonces: Vec<Secret>,
    challenge: Sha256,
}

/// A number and the point that it is the logarithm of; the y of the point is even.
struct Secret {
    number: SecretKey,
    x: [u8; 32],
}

impl Pool {
    /// Creates keys and nonces from random numbers.
    pub fn new(random: &mut Random) -> Self {
        let tag = Sha256::digest(b"BIP0340/challenge");
        let challenge = Sha256::new().chain_update(tag).chain_update(tag);
        let mut all = || (0..KEPT).map(|_| Secret::new(random)).collect();
        Self { keys: all(), nonces: all(), challenge }
    }

    /// Returns a valid signature, ECDSA or BIP340, of a new message.
    pub fn signed(&self, random: &mut Random) -> Check {
        let key = &self.keys[random.below(KEPT)];
        let nonce = &self.nonces[random.below(KEPT)];
        if random.below(2) == 0 {
            ecdsa(key, nonce, random)
        } else {
            self.schnorr(key, nonce, random)
        }
    }

    /// Signs with s = k + e d.
    fn schnorr(&self, key: &Secret, nonce: &Secret, random: &mut Random) -> Check {
        let message = random.bytes();
        let hash = self.challenge.clone().chain_update(nonce.x).chain_update(key.x);
        let challenge: [u8; 32] = hash.chain_update(message).finalize().into();
        let product = times(&key.number, challenge);
        let s = nonce.number.add_tweak(&product.into()).expect("not zero");
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&nonce.x);
        signature[32..].copy_from_slice(&s.secret_bytes());
        Check::Schnorr { key: key.x, signature, message }
    }
}

/// Chooses any s, and the message for which it is correct: m = s k - r d.
fn ecdsa(key: &Secret, nonce: &Secret, random: &mut Random) -> Check {
    let s = random.key();
    let product = times(&key.number, nonce.x).negate();
    let message = times(&nonce.number, s.secret_bytes()).add_tweak(&product.into());
    let mut compact = [0; 64];
    compact[..32].copy_from_slice(&nonce.x);
    compact[32..].copy_from_slice(&s.secret_bytes());
    let der = Signature::from_compact(&compact).expect("r and s are below n").serialize_der();
    let compressed = [&[2][..], &key.x].concat();
    let message = message.expect("not zero").secret_bytes();
    Check::Ecdsa { key: compressed, der: der.to_vec(), message }
}

/// A product modulo n; the factor is zero or above n only with a chance of 2^-127.
fn times(number: &SecretKey, factor: [u8; 32]) -> SecretKey {
    number.mul_tweak(&Scalar::from_be_bytes(factor).expect("below n")).expect("not zero")
}

impl Secret {
    fn new(random: &mut Random) -> Self {
        let mut number = random.key();
        let (x, parity) = Keypair::from_secret_key(SECP256K1, &number).x_only_public_key();
        if parity == Parity::Odd {
            number = number.negate();
        }
        Self { number, x: x.serialize() }
    }
}
