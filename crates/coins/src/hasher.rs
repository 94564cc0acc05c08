use apus_hash::{Hash, HashKey};
use apus_wire::OutPoint;

/// The two hashes of an outpoint.
#[derive(Clone, Copy)]
pub(super) struct OutPointHash {
    /// The hash of only the txid, which selects the shard, so that the outputs of a transaction
    /// stay together.
    pub txid: u64,
    /// The hash of the whole outpoint, for the shard's table.
    pub outpoint: u64,
}

/// Hashes txids with a secret of this process, in a few nanoseconds. A miner can choose txids, at
/// the cost of work, and must not be able to fill one bucket.
///
/// Only the first 16 bytes are hashed: finding two txids that agree in them costs 2^64 hashes.
#[derive(Clone, Copy)]
pub struct TxidHasher {
    keys: [u64; 2],
}

impl TxidHasher {
    /// Returns a hasher with a new random secret.
    ///
    /// # Panics
    /// The operating system provides no random bytes.
    pub fn random() -> Self {
        Self { keys: random_words() }
    }

    /// Returns the hasher with the first half of `key` as its secret, by which txids get the same
    /// hashes wherever the key is known.
    pub fn of(key: &HashKey) -> Self {
        let words = key.as_bytes().as_chunks::<8>().0;
        Self { keys: [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])] }
    }

    /// Hashes a txid. All 64 bits of the hash can be used.
    #[inline]
    pub fn hash(&self, txid: &Hash) -> u64 {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = txid.0;
        let low = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let high = u64::from_le_bytes([i, j, k, l, m, n, o, p]);
        fold(low ^ self.keys[0], high ^ self.keys[1])
    }
}

/// Hashes outpoints with a secret of this process, as [`TxidHasher`] hashes txids.
#[derive(Clone, Copy)]
pub(super) struct OutPointHasher {
    txids: TxidHasher,
    keys: [u64; 2],
}

impl OutPointHasher {
    /// Returns a hasher with a new random secret.
    ///
    /// # Panics
    /// The operating system provides no random bytes.
    pub fn new() -> Self {
        Self { txids: TxidHasher::random(), keys: random_words() }
    }

    /// Hashes an outpoint.
    #[inline]
    pub fn hash(&self, outpoint: &OutPoint) -> OutPointHash {
        let txid = self.txids.hash(&outpoint.txid);
        let outpoint = fold(txid ^ self.keys[0], u64::from(outpoint.vout) ^ self.keys[1]);
        OutPointHash { txid, outpoint }
    }
}

fn random_words() -> [u64; 2] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    let both = u128::from_le_bytes(bytes);
    [both as u64, (both >> 64) as u64]
}

/// Returns the exclusive or of the two halves of the product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_first_128_bits_changes_half_of_the_hash() {
        let hasher = TxidHasher::random();
        let txid = Hash(apus_hash::sha256(b"a transaction"));
        let hash = hasher.hash(&txid);
        let mut changed = 0;
        for bit in 0..128 {
            let mut other = txid;
            other.0[bit / 8] ^= 1 << (bit % 8);
            let difference = (hasher.hash(&other) ^ hash).count_ones();
            assert!(difference > 0, "bit {bit}");
            changed += difference;
        }
        assert!((24 * 128..40 * 128).contains(&changed), "{changed} bits changed");
        assert_ne!(TxidHasher::random().hash(&txid), hash, "another secret");
    }
}
