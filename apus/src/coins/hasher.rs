use crate::wire::OutPoint;

/// The two hashes of an outpoint.
#[derive(Clone, Copy)]
pub(super) struct OutPointHash {
    /// The hash of the txid alone, which picks the shard, so that the outputs of a transaction stay
    /// together.
    pub txid: u64,
    /// The hash of the whole outpoint, for the shard's table.
    pub outpoint: u64,
}

/// Hashes outpoints with a secret of this process. Whoever makes transactions can choose their
/// txids, at the cost of work, and must not be able to fill one bucket.
#[derive(Clone, Copy)]
pub(super) struct OutPointHasher {
    keys: [u64; 4],
}

impl OutPointHasher {
    /// A hasher with a new random secret.
    ///
    /// # Panics
    /// If the operating system has no random bytes.
    pub fn new() -> Self {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        let word = |i: usize| -> u64 {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 * i..8 * i + 8]);
            u64::from_le_bytes(word)
        };
        Self { keys: [word(0), word(1), word(2), word(3)] }
    }

    /// Hashes an outpoint.
    #[inline]
    pub fn hash(&self, outpoint: &OutPoint) -> OutPointHash {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = outpoint.txid.0;
        let low = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let high = u64::from_le_bytes([i, j, k, l, m, n, o, p]);
        let txid = fold(low ^ self.keys[0], high ^ self.keys[1]);
        let outpoint = fold(txid ^ self.keys[2], u64::from(outpoint.vout) ^ self.keys[3]);
        OutPointHash { txid, outpoint }
    }
}

/// The exclusive or of the two halves of the product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
