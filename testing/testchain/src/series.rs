//! Numbered secrets and their points: millions of them from two small tables.
//!
//! Number `i` is the sum of one entry of each table, secret and point alike. So a coin needs only
//! an index of four bytes, and its key is found with one addition. Test data has no secret to
//! protect.

use bitcoin::hashes::{Hash, sha256};
use bitcoin::secp256k1::{PublicKey, Secp256k1, SecretKey, SignOnly};

use crate::curve::{Point, sums};

/// Points that are computed together in one thread: enough that the division that they share costs
/// little, few enough that blocks keep all threads busy.
pub(crate) const BATCH: usize = 256;

/// Secrets numbered from 0, each with its point.
pub(crate) struct Series {
    count: u32,
    /// The square root of the count, rounded up.
    side: u32,
    /// The entry of number `i` has index `i / side`.
    high: Vec<Entry>,
    /// The entry of number `i` has index `i % side`.
    low: Vec<Entry>,
}

struct Entry {
    secret: SecretKey,
    point: Point,
}

impl Series {
    /// Creates a series of `count` numbers from a seed and a name. Takes 15 ms for a hundred
    /// million.
    pub fn new(secp: &Secp256k1<SignOnly>, seed: u64, name: &[u8], count: u32) -> Self {
        let side = root(count);
        let table = |part: &[u8]| {
            let text = [b"apus testchain ", name, part, &seed.to_le_bytes()].concat();
            table(secp, &text, side)
        };
        Series { count, side, high: table(b" high "), low: table(b" low ") }
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    fn entries(&self, index: u32) -> (&Entry, &Entry) {
        let index = index % self.count;
        let high = index / self.side;
        let low = index % self.side;
        (&self.high[high as usize], &self.low[low as usize])
    }

    /// Returns the secret with this index, modulo the number of secrets.
    pub fn secret(&self, index: u32) -> SecretKey {
        let (high, low) = self.entries(index);
        high.secret.add_tweak(&low.secret.into()).expect("random numbers do not add up to zero")
    }

    /// Returns the points with these indices, modulo the number of secrets.
    pub fn points(&self, indices: impl ExactSizeIterator<Item = u32>) -> Vec<Point> {
        sums(indices.map(|index| {
            let (high, low) = self.entries(index);
            (&high.point, &low.point)
        }))
    }
}

/// Returns the square root, rounded up.
fn root(count: u32) -> u32 {
    (1..).find(|side| u64::from(*side).pow(2) >= u64::from(count)).expect("at most 65,536")
}

/// Returns `count` entries derived from a text. They too are sums of entries of two smaller tables,
/// because each entry of those costs a multiplication of the base point, 20 µs.
fn table(secp: &Secp256k1<SignOnly>, text: &[u8], count: u32) -> Vec<Entry> {
    let side = root(count);
    let entry = |index: u32| {
        let text = [text, &index.to_le_bytes()].concat();
        let secret = SecretKey::from_slice(&sha256::Hash::hash(&text).to_byte_array())
            .expect("a hash is a valid secret key");
        let public = PublicKey::from_secret_key(secp, &secret).serialize_uncompressed();
        Entry { secret, point: Point::from_uncompressed(&public) }
    };
    let entries: Vec<_> = (0..2 * side).map(entry).collect();
    let (high, low) = entries.split_at(side as usize);
    let pairs: Vec<_> = high.iter().flat_map(|a| low.iter().map(move |b| (a, b))).collect();
    let pairs = &pairs[..count as usize];
    let points = sums(pairs.iter().map(|(a, b)| (&a.point, &b.point)));
    let secrets = pairs.iter().map(|(a, b)| a.secret.add_tweak(&b.secret.into()));
    let secrets = secrets.map(|secret| secret.expect("random numbers do not add up to zero"));
    secrets.zip(points).map(|(secret, point)| Entry { secret, point }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn points_are_those_of_the_secrets() {
        let secp = Secp256k1::signing_only();
        for count in [3, 16, 1_000] {
            let series = Series::new(&secp, 5, b"test", count);
            let points = series.points(0..count);
            for (index, point) in (0..count).zip(&points) {
                let public = PublicKey::from_secret_key(&secp, &series.secret(index + count));
                let public = public.serialize_uncompressed();
                assert_eq!(*point, Point::from_uncompressed(&public));
            }
            let different: HashSet<_> = points.iter().map(Point::x_bytes).collect();
            assert_eq!(different.len(), count as usize);
        }
    }
}
