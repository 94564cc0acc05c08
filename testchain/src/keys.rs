//! A fixed set of keys, and signatures that cost two scalar operations.
//!
//! A signature normally costs a multiplication of the curve's base point, 25 to 50 µs, all of it
//! to make a fresh nonce. Test data has no secret to protect, so nonces are made once and used
//! for every message: with `k`, `R = kG` and `r` known, ECDSA is `s = z/k + rd/k` and Schnorr is
//! `s = k + ed`. The signatures are as valid as any other, and cost as much to verify.

use bitcoin::XOnlyPublicKey;
use bitcoin::hashes::{Hash, HashEngine, hash160, sha256};
use bitcoin::key::{Keypair, Parity, TapTweak};
use bitcoin::opcodes;
use bitcoin::script::{Builder, ScriptBuf};
use bitcoin::secp256k1::{All, PublicKey, Scalar, Secp256k1, SecretKey};
use bitcoin::taproot::{LeafVersion, TapLeafHash, TapNodeHash};
use rayon::prelude::*;

use crate::opcodes::{OP_1, OP_CHECKMULTISIG};

/// Distinct nonces, so that the lengths of DER signatures vary as they do on mainnet.
const NONCES: usize = 64;

/// Half the group order, rounded down: the largest "low" S (BIP 146).
const HALF_ORDER: [u8; 32] = [
    0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0x5d, 0x57, 0x6e, 0x73, 0x57, 0xa4, 0x50, 0x1d, 0xdf, 0xe9, 0x2f, 0x46, 0x68, 0x1b, 0x20, 0xa0,
];

/// The keys of a chain, with everything that outputs and signatures need computed in advance.
pub struct Keys {
    all: Vec<Key>,
    nonces: Vec<Nonce>,
    challenge: sha256::HashEngine,
}

/// One key, and the programs of the scripts that it locks.
pub(crate) struct Key {
    pub pk33: [u8; 33],
    pub pk65: [u8; 65],
    pub hash33: [u8; 20],
    pub hash65: [u8; 20],
    /// HASH160 of the P2WPKH program, for P2SH-P2WPKH.
    pub sh_wpkh: [u8; 20],
    /// x-only internal key of both Taproot outputs, and the key in the leaf.
    pub internal: [u8; 32],
    /// Output key without a script tree.
    pub tr_key: [u8; 32],
    /// Output key with one leaf: `<internal> OP_CHECKSIG`.
    pub tr_leaf: [u8; 32],
    pub leaf_hash: [u8; 32],
    pub control: [u8; 33],
    ecdsa_c: Scalar,
    internal_d: Scalar,
    tr_key_d: Scalar,
}

struct Nonce {
    /// x of R, big-endian: ECDSA's r and BIP 340's R.
    r: [u8; 32],
    inverse: SecretKey,
    /// The nonce whose R has an even y.
    even: Scalar,
}

/// A DER signature with its hash type: at most 73 bytes.
pub(crate) struct Der {
    bytes: [u8; 73],
    len: usize,
}

impl Der {
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Keys {
    /// `count` keys (at least 3, at most 65,536) derived from `seed`.
    pub fn new(seed: u64, count: u32) -> Self {
        let count = count.clamp(3, 1 << 16);
        let secp = Secp256k1::new();
        let nonces: Vec<_> = (0..NONCES).map(|i| Nonce::new(&secp, seed, i as u64)).collect();
        let all = (0..count as usize)
            .into_par_iter()
            .map(|i| Key::new(&secp, secret(seed, b"key", i as u64), &nonces[i % NONCES]))
            .collect();
        Keys { all, nonces, challenge: tagged(b"BIP0340/challenge") }
    }

    /// The number of keys.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Key `index`, modulo the number of keys.
    pub(crate) fn key(&self, index: usize) -> &Key {
        &self.all[index % self.all.len()]
    }

    /// ECDSA signature (SIGHASH_ALL) of key `index` on the hash `z`.
    pub(crate) fn ecdsa(&self, index: usize, z: [u8; 32]) -> Der {
        let index = index % self.all.len();
        let (key, nonce) = (&self.all[index], &self.nonces[index % NONCES]);
        let z = Scalar::from_be_bytes(z).expect("a hash is below the group order");
        let mut s = nonce
            .inverse
            .mul_tweak(&z)
            .and_then(|zk| zk.add_tweak(&key.ecdsa_c))
            .expect("neither product nor sum is zero");
        if s.secret_bytes() > HALF_ORDER {
            s = s.negate();
        }
        der(&nonce.r, &s.secret_bytes())
    }

    /// BIP 340 signature for the Taproot output key of key `index` without scripts.
    pub(crate) fn schnorr_key_path(&self, index: usize, sighash: &[u8; 32]) -> [u8; 64] {
        let key = self.key(index);
        self.schnorr(index, &key.tr_key, &key.tr_key_d, sighash)
    }

    /// BIP 340 signature of key `index` for its leaf.
    pub(crate) fn schnorr_leaf(&self, index: usize, sighash: &[u8; 32]) -> [u8; 64] {
        let key = self.key(index);
        self.schnorr(index, &key.internal, &key.internal_d, sighash)
    }

    fn schnorr(&self, index: usize, public: &[u8; 32], d: &Scalar, m: &[u8; 32]) -> [u8; 64] {
        let nonce = &self.nonces[index % self.all.len() % NONCES];
        let mut engine = self.challenge.clone();
        engine.input(&nonce.r);
        engine.input(public);
        engine.input(m);
        let e = sha256::Hash::from_engine(engine).to_byte_array();
        let s = SecretKey::from_slice(&e)
            .and_then(|e| e.mul_tweak(d))
            .and_then(|ed| ed.add_tweak(&nonce.even))
            .expect("neither product nor sum is zero");
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&nonce.r);
        signature[32..].copy_from_slice(&s.secret_bytes());
        signature
    }

    /// `<m> <keys index..index + n> <n> OP_CHECKMULTISIG`.
    pub(crate) fn multisig_script(&self, index: usize, m: u8, n: u8, out: &mut Vec<u8>) {
        out.push(OP_1 - 1 + m);
        for i in 0..usize::from(n) {
            out.push(33);
            out.extend_from_slice(&self.key(index + i).pk33);
        }
        out.push(OP_1 - 1 + n);
        out.push(OP_CHECKMULTISIG);
    }
}

impl Key {
    fn new(secp: &Secp256k1<All>, d: SecretKey, nonce: &Nonce) -> Self {
        let public = PublicKey::from_secret_key(secp, &d);
        let (pk33, pk65) = (public.serialize(), public.serialize_uncompressed());
        let hash33 = hash160::Hash::hash(&pk33).to_byte_array();
        let mut program = [0, 20].to_vec();
        program.extend_from_slice(&hash33);
        let (xonly, parity) = public.x_only_public_key();
        let even = if parity == Parity::Odd { d.negate() } else { d };
        let tweaked = Keypair::from_secret_key(secp, &d).tap_tweak(secp, None).to_keypair();
        let (tr_key, tr_parity) = XOnlyPublicKey::from_keypair(&tweaked);
        let tr_key_d = tweaked.secret_key();
        let tr_key_d = if tr_parity == Parity::Odd { tr_key_d.negate() } else { tr_key_d };
        let leaf = leaf_script(&xonly.serialize());
        let leaf_hash = TapLeafHash::from_script(&leaf, LeafVersion::TapScript);
        let (tr_leaf, leaf_parity) = xonly.tap_tweak(secp, Some(TapNodeHash::from(leaf_hash)));
        let mut control = [0; 33];
        control[0] = LeafVersion::TapScript.to_consensus() | leaf_parity.to_u8();
        control[1..].copy_from_slice(&xonly.serialize());
        let r = Scalar::from_be_bytes(nonce.r).expect("r is below the group order");
        let c = d.mul_tweak(&r).and_then(|dr| dr.mul_tweak(&nonce.inverse.into()));
        Key {
            hash65: hash160::Hash::hash(&pk65).to_byte_array(),
            sh_wpkh: hash160::Hash::hash(&program).to_byte_array(),
            internal: xonly.serialize(),
            tr_key: tr_key.serialize(),
            tr_leaf: tr_leaf.serialize(),
            leaf_hash: leaf_hash.to_byte_array(),
            control,
            ecdsa_c: c.expect("products of non-zero scalars").into(),
            internal_d: even.into(),
            tr_key_d: tr_key_d.into(),
            pk33,
            pk65,
            hash33,
        }
    }
}

impl Nonce {
    fn new(secp: &Secp256k1<All>, seed: u64, index: u64) -> Self {
        let k = secret(seed, b"nonce", index);
        let (x, parity) = PublicKey::from_secret_key(secp, &k).x_only_public_key();
        let even = if parity == Parity::Odd { k.negate() } else { k };
        Nonce { r: x.serialize(), inverse: invert(&k), even: even.into() }
    }
}

/// The leaf of a Taproot output: `<x-only key> OP_CHECKSIG`.
pub(crate) fn leaf_script(xonly: &[u8; 32]) -> ScriptBuf {
    Builder::new().push_slice(xonly).push_opcode(opcodes::all::OP_CHECKSIG).into_script()
}

/// The start of a tagged hash (BIP 340).
pub(crate) fn tagged(tag: &[u8]) -> sha256::HashEngine {
    let tag = sha256::Hash::hash(tag).to_byte_array();
    let mut engine = sha256::HashEngine::default();
    engine.input(&tag);
    engine.input(&tag);
    engine
}

fn secret(seed: u64, what: &[u8], index: u64) -> SecretKey {
    let text = [b"apus testchain ", what, &seed.to_le_bytes(), &index.to_le_bytes()].concat();
    SecretKey::from_slice(&sha256::Hash::hash(&text).to_byte_array())
        .expect("a hash is a valid secret key")
}

/// `k^-1`, computed as `k^(n-2)`: the library has no inverse, and this happens once for each nonce.
fn invert(k: &SecretKey) -> SecretKey {
    let mut exponent = bitcoin::secp256k1::constants::CURVE_ORDER;
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

/// A signature in DER (BIP 66), followed by the byte of SIGHASH_ALL.
fn der(r: &[u8; 32], s: &[u8; 32]) -> Der {
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
    out.bytes[out.len] = 1;
    out.len += 1;
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::secp256k1::{Message, ecdsa, schnorr};

    #[test]
    fn signatures_verify() {
        let (secp, keys) = (Secp256k1::new(), Keys::new(7, 100));
        for i in 0..200usize {
            let hash = sha256::Hash::hash(&i.to_le_bytes()).to_byte_array();
            let (message, key) = (Message::from_digest(hash), keys.key(i));
            let signature = keys.ecdsa(i, hash);
            let bytes = &signature.as_slice()[..signature.len - 1];
            let signature = ecdsa::Signature::from_der(bytes).unwrap();
            let public = PublicKey::from_slice(&key.pk33).unwrap();
            secp.verify_ecdsa(&message, &signature, &public).unwrap();
            for (signature, public) in [
                (keys.schnorr_key_path(i, &hash), key.tr_key),
                (keys.schnorr_leaf(i, &hash), key.internal),
            ] {
                let signature = schnorr::Signature::from_slice(&signature).unwrap();
                let public = XOnlyPublicKey::from_slice(&public).unwrap();
                secp.verify_schnorr(&signature, &message, &public).unwrap();
            }
        }
    }
}
