//! The keys of a chain: millions of them, each derived from its index.

use std::sync::LazyLock;

use bitcoin::hashes::{Hash, HashEngine, hash160, sha256};
use bitcoin::secp256k1::{PublicKey, Scalar, Secp256k1, SecretKey, SignOnly};
use rayon::prelude::*;

use crate::curve::Point;
use crate::encode::with_length;
use crate::opcodes::{OP_1, OP_CHECKMULTISIG, OP_CHECKSIG};
use crate::series::{BATCH, Series};
use crate::signature::{Nonce, tagged};

/// The most keys that a chain can have, and the number of nonces of a chain with that many keys.
pub const KEYS_MAX: u32 = 1 << 26;

/// The fewest nonces of a chain: as many as small chains have signatures.
const NONCES_MIN: u32 = 1 << 16;

/// The version of the leaves of BIP 342.
pub(crate) const LEAF_VERSION: u8 = 0xc0;

static TAP_LEAF: LazyLock<sha256::HashEngine> = LazyLock::new(|| tagged(b"TapLeaf"));
static TAP_BRANCH: LazyLock<sha256::HashEngine> = LazyLock::new(|| tagged(b"TapBranch"));
static TAP_TWEAK: LazyLock<sha256::HashEngine> = LazyLock::new(|| tagged(b"TapTweak"));

/// The keys of a chain, and the nonces of its signatures.
pub struct Keys {
    keys: Series,
    nonces: Series,
    secp: Secp256k1<SignOnly>,
}

/// Keys, some of them computed in advance.
pub(crate) struct Ring<'a> {
    keys: &'a Keys,
    /// The indices of the keys that were computed in advance, sorted.
    indices: Vec<u32>,
    /// The points of these keys.
    points: Vec<Point>,
}

/// One key.
pub(crate) struct Key<'a> {
    keys: &'a Keys,
    index: u32,
    point: Point,
}

/// A Taproot output, and a leaf of its tree.
pub(crate) struct Leaf {
    /// The script of the leaf.
    pub script: Vec<u8>,
    /// The hash of the leaf.
    pub hash: [u8; 32],
    pub output_key: [u8; 32],
    /// The control block, which the witness of a spend ends with: leaf version and parity, internal
    /// key, path.
    pub control: Vec<u8>,
}

impl Keys {
    /// Creates `count` keys (at least 3, at most [`KEYS_MAX`]) derived from `seed`, and as many
    /// nonces (at least 65,536). Takes 2 ms for few keys, 25 ms for the most.
    pub fn new(seed: u64, count: u32) -> Self {
        let count = count.clamp(3, KEYS_MAX);
        let secp = Secp256k1::signing_only();
        Keys {
            keys: Series::new(&secp, seed, b"key", count),
            nonces: Series::new(&secp, seed, b"nonce", count.max(NONCES_MIN)),
            secp,
        }
    }

    pub fn count(&self) -> u32 {
        self.keys.count()
    }

    /// Returns the compressed encoding of the key of any secret. Takes 20 µs.
    pub(crate) fn public(&self, secret: &SecretKey) -> [u8; 33] {
        PublicKey::from_secret_key(&self.secp, secret).serialize()
    }

    /// Returns all keys, each computed on demand.
    pub(crate) fn ring(&self) -> Ring<'_> {
        Ring { keys: self, indices: Vec::new(), points: Vec::new() }
    }

    /// Returns all keys, of which those with these indices are computed now, in parallel.
    pub(crate) fn ring_of(&self, mut indices: Vec<u32>) -> Ring<'_> {
        indices.par_sort_unstable();
        indices.dedup();
        let batches = indices.par_chunks(BATCH);
        let points = batches.flat_map_iter(|batch| self.keys.points(batch.iter().copied()));
        Ring { keys: self, points: points.collect(), indices }
    }

    /// Returns nonces from number `first` on, computed in parallel.
    pub(crate) fn nonces(&self, first: u32, count: usize) -> Vec<Nonce> {
        let indices: Vec<_> = (0..count as u32).map(|i| first.wrapping_add(i)).collect();
        let batches = indices.par_chunks(BATCH);
        batches.flat_map_iter(|batch| Nonce::batch(&self.nonces, batch)).collect()
    }
}

impl<'a> Ring<'a> {
    /// Returns the keys without those computed in advance.
    pub fn keys(&self) -> &'a Keys {
        self.keys
    }

    /// Returns the key with this index, modulo the number of keys.
    pub fn key(&self, index: u32) -> Key<'a> {
        let point = match self.indices.binary_search(&index) {
            Ok(place) => self.points[place],
            Err(_) => self.keys.keys.points([index].into_iter())[0],
        };
        Key { keys: self.keys, index, point }
    }

    /// Appends `<m> <keys index..index + n> <n> OP_CHECKMULTISIG`.
    pub fn multisig_script(&self, index: u32, m: u8, n: u8, out: &mut Vec<u8>) {
        out.push(OP_1 - 1 + m);
        for i in 0..u32::from(n) {
            out.push(33);
            out.extend_from_slice(&self.key(index.wrapping_add(i)).pk33());
        }
        out.push(OP_1 - 1 + n);
        out.push(OP_CHECKMULTISIG);
    }
}

impl Key<'_> {
    /// Returns the compressed encoding.
    pub fn pk33(&self) -> [u8; 33] {
        let mut bytes = [2 + u8::from(self.point.is_odd()); 33];
        bytes[1..].copy_from_slice(&self.point.x_bytes());
        bytes
    }

    /// Returns the uncompressed encoding.
    pub fn pk65(&self) -> [u8; 65] {
        let mut bytes = [4; 65];
        bytes[1..33].copy_from_slice(&self.point.x_bytes());
        bytes[33..].copy_from_slice(&self.point.y_bytes());
        bytes
    }

    /// Returns the x-only encoding (BIP 340): internal key and leaf of [`Key::leaf`], and output
    /// key of a Taproot output without scripts. Validation cannot see that it lacks a tweak (BIP
    /// 86).
    pub fn xonly(&self) -> [u8; 32] {
        self.point.x_bytes()
    }

    /// Returns the HASH160 of the compressed encoding.
    pub fn hash33(&self) -> [u8; 20] {
        hash160::Hash::hash(&self.pk33()).to_byte_array()
    }

    /// Returns the HASH160 of the uncompressed encoding.
    pub fn hash65(&self) -> [u8; 20] {
        hash160::Hash::hash(&self.pk65()).to_byte_array()
    }

    /// Returns the HASH160 of the P2WPKH program, for P2SH-P2WPKH.
    pub fn sh_wpkh(&self) -> [u8; 20] {
        let mut program = [20; 22];
        program[0] = 0;
        program[2..].copy_from_slice(&self.hash33());
        hash160::Hash::hash(&program).to_byte_array()
    }

    pub fn secret(&self) -> SecretKey {
        self.keys.keys.secret(self.index)
    }

    /// Returns the secret of the point with the same first coordinate and an even second one.
    pub fn even_secret(&self) -> SecretKey {
        let secret = self.secret();
        if self.point.is_odd() { secret.negate() } else { secret }
    }

    /// Returns the Taproot output whose only leaf requires a signature of this key, which is the
    /// internal key too.
    pub fn leaf(&self) -> Leaf {
        let script = [&[32], &self.xonly()[..], &[OP_CHECKSIG]].concat();
        self.leaf_of(script, LEAF_VERSION, &[])
    }

    /// Returns the Taproot output with a leaf of any script and version, whose place in the tree is
    /// next to the hashes of `path` (BIP 341), and with this key as the internal one.
    pub fn leaf_of(&self, script: Vec<u8>, version: u8, path: &[[u8; 32]]) -> Leaf {
        let mut engine = TAP_LEAF.clone();
        engine.input(&[version]);
        engine.input(&with_length(&script));
        let hash = sha256::Hash::from_engine(engine).to_byte_array();
        let root = path.iter().fold(hash, |node, other| {
            let mut engine = TAP_BRANCH.clone();
            engine.input(&node.min(*other));
            engine.input(&node.max(*other));
            sha256::Hash::from_engine(engine).to_byte_array()
        });
        let internal = self.xonly();
        let mut engine = TAP_TWEAK.clone();
        engine.input(&internal);
        engine.input(&root);
        let tweak = sha256::Hash::from_engine(engine).to_byte_array();
        let tweak = Scalar::from_be_bytes(tweak).expect("a hash is below the group order");
        let secret = self.even_secret().add_tweak(&tweak).expect("not zero");
        let output = self.keys.public(&secret);
        let parity = output[0] - 2;
        let control = [&[version | parity], &internal[..], path.as_flattened()].concat();
        let output_key = output[1..].try_into().expect("32 bytes");
        Leaf { script, hash, output_key, control }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_advance_are_those_on_demand() {
        let keys = Keys::new(7, 100);
        let ring = keys.ring_of(vec![3, 99, 3, 100, 250]);
        assert_eq!(ring.indices, [3, 99, 100, 250]);
        for index in [3, 4, 99, 100, 250, u32::MAX] {
            let now = keys.ring().key(index);
            let then = ring.key(index);
            assert_eq!(now.pk65(), then.pk65());
            let public = PublicKey::from_secret_key(&keys.secp, &now.secret());
            assert_eq!(now.pk33(), public.serialize());
            assert_eq!(now.pk65(), public.serialize_uncompressed());
            let even = PublicKey::from_secret_key(&keys.secp, &now.even_secret());
            assert_eq!(even.serialize()[0], 2);
            assert_eq!(even.serialize()[1..], now.xonly());
        }
        assert_eq!(ring.key(250).pk33(), ring.key(50).pk33());
    }
}
