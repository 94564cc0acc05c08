//! Basic filters of blocks (BIP158): Golomb-coded sets of scripts.

use apus_hash::{Hash, SipKey};
use apus_wire::opcodes::OP_RETURN;
use apus_wire::put_compact_size;

use super::uniform::sort_uniform;

/// The number of low bits of each difference that are written as they are (Core's
/// `BASIC_FILTER_P`).
pub const BASIC_FILTER_P: u32 = 19;
/// The inverse of the rate of false matches (Core's `BASIC_FILTER_M`).
pub const BASIC_FILTER_M: u64 = 784_931;

/// Collects the scripts of a block, and encodes them as its basic filter. The hashes are keyed by
/// the block's hash.
pub struct BasicFilter<'a> {
    key: SipKey,
    /// The scripts. Those that occur many times are here many times.
    scripts: Vec<&'a [u8]>,
}

impl<'a> BasicFilter<'a> {
    /// Returns the filter, still empty, of the block with this hash; `scripts` is about the number
    /// of scripts that it will get.
    pub fn new(block: &Hash, scripts: usize) -> Self {
        Self { key: siphash_key(block), scripts: Vec::with_capacity(scripts) }
    }

    /// Adds the script of an output that the block creates.
    pub fn add_created(&mut self, script: &'a [u8]) {
        if script.first() != Some(&OP_RETURN) {
            self.add_spent(script);
        }
    }

    /// Adds the script of a coin that the block spends.
    pub fn add_spent(&mut self, script: &'a [u8]) {
        if !script.is_empty() {
            self.scripts.push(script);
        }
    }

    /// Returns the serialised filter: the number of different scripts, and the Golomb-Rice codes of
    /// the differences of their hashes in ascending order.
    pub fn encode(&self) -> Vec<u8> {
        let script = |index: u32| self.scripts[index as usize];
        // Each hash with the index of its script.
        let mut hashes = vec![(0, 0); self.scripts.len()];
        let mut sorted = Vec::new();
        self.key.hash_many(
            self.scripts.len(),
            |index| self.scripts[index],
            |index, hash| hashes[index] = (hash, index as u32),
        );
        // Scripts with one hash are told apart by their bytes.
        let compare = |a: &(u64, u32), b: &(u64, u32)| {
            a.0.cmp(&b.0).then_with(|| script(a.1).cmp(script(b.1)))
        };
        sort_uniform(&mut hashes, &mut sorted, |(hash, _)| *hash, compare);
        hashes.dedup_by(|a, b| a.0 == b.0 && script(a.1) == script(b.1));
        let count = hashes.len() as u64;
        let mut bits = Bits::new(hashes.len());
        let range = count * BASIC_FILTER_M;
        let mut last = 0;
        for (hash, _) in hashes {
            // This keeps the order of the hashes (Core's `FastRange64`).
            let value = ((u128::from(hash) * u128::from(range)) >> 64) as u64;
            bits.put_golomb_rice(value - last);
            last = value;
        }
        bits.finish()
    }
}

pub fn siphash_key(block: &Hash) -> SipKey {
    let word = |at: usize| {
        let bytes: [u8; 8] = block.0[at..at + 8].try_into().expect("8 bytes");
        u64::from_le_bytes(bytes)
    };
    SipKey(word(0), word(8))
}

/// Bytes that are written bit by bit, the highest bit of each byte first.
struct Bits {
    bytes: Vec<u8>,
    /// The bits that are not written yet, in the low bits.
    partial: u64,
    /// Their number, below 32.
    len: u32,
}

impl Bits {
    /// Returns the start of a filter with `count` codes.
    fn new(count: usize) -> Self {
        // A code takes 21 bits on average.
        let mut bytes = Vec::with_capacity(9 + count * 22 / 8);
        put_compact_size(&mut bytes, count as u64);
        Self { bytes, partial: 0, len: 0 }
    }

    /// Writes the quotient by 2^[`BASIC_FILTER_P`] as ones and a zero, and the remainder.
    #[inline]
    fn put_golomb_rice(&mut self, value: u64) {
        let mut quotient = value >> BASIC_FILTER_P;
        while quotient > 0 {
            let ones = quotient.min(32) as u32;
            self.put((1 << ones) - 1, ones);
            quotient -= u64::from(ones);
        }
        // The zero that ends the quotient is the highest bit.
        self.put(value & ((1 << BASIC_FILTER_P) - 1), 1 + BASIC_FILTER_P);
    }

    /// Writes the low `count` bits of `value`, at most 32; its other bits are zero.
    #[inline]
    fn put(&mut self, value: u64, count: u32) {
        self.partial = self.partial << count | value;
        self.len += count;
        if self.len >= 32 {
            self.len -= 32;
            self.bytes.extend_from_slice(&((self.partial >> self.len) as u32).to_be_bytes());
        }
    }

    fn finish(mut self) -> Vec<u8> {
        // Zeros fill the last byte.
        let bytes = ((self.partial << (32 - self.len)) as u32).to_be_bytes();
        self.bytes.extend_from_slice(&bytes[..self.len.div_ceil(8) as usize]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::bip158::GcsFilterWriter;

    use super::*;

    /// Returns the filter of these scripts by rust-bitcoin.
    fn expected(block: &Hash, scripts: &[Vec<u8>]) -> Vec<u8> {
        let word = |at: usize| u64::from_le_bytes(block.0[at..at + 8].try_into().unwrap());
        let mut out = Vec::new();
        let p = BASIC_FILTER_P as u8;
        let mut writer = GcsFilterWriter::new(&mut out, word(0), word(8), BASIC_FILTER_M, p);
        scripts.iter().for_each(|script| writer.add_element(script));
        writer.finish().unwrap();
        out
    }

    #[test]
    fn filters_are_those_of_rust_bitcoin() {
        let block = Hash(std::array::from_fn(|i| 7 * i as u8));
        for count in [0, 1, 2, 3, 50, 300, 5000] {
            let script = |i: u32| [&[0x51][..], &i.to_le_bytes()[..1 + i as usize % 4]].concat();
            let scripts: Vec<Vec<u8>> = (0..count).map(script).collect();
            let mut filter = BasicFilter::new(&block, 0);
            scripts.iter().for_each(|script| filter.add_created(script));
            // The same again changes nothing.
            scripts.iter().for_each(|script| filter.add_spent(script));
            assert_eq!(filter.encode(), expected(&block, &scripts), "{count} scripts");
        }
    }

    #[test]
    fn empty_scripts_and_op_return_are_left_out() {
        let block = Hash([3; 32]);
        let mut filter = BasicFilter::new(&block, 0);
        filter.add_created(&[]);
        filter.add_spent(&[]);
        filter.add_created(&[OP_RETURN, 1, 2]);
        assert_eq!(filter.encode(), [0], "no script");
        // A spent coin never has such a script; Core would add it.
        let mut filter = BasicFilter::new(&block, 0);
        filter.add_spent(&[OP_RETURN]);
        assert_eq!(filter.encode(), expected(&block, &[vec![OP_RETURN]]));
    }

    #[test]
    fn large_quotients_are_written_in_pieces() {
        let mut bits = Bits::new(1);
        bits.put_golomb_rice(70 << BASIC_FILTER_P | 5);
        let mut expected = [&[1][..], &[0xff; 8]].concat();
        // 6 more ones, a zero, 19 bits that end in 101, and zeros up to a whole byte.
        expected.extend([0b1111_1100, 0, 0b0000_0001, 0b0100_0000]);
        assert_eq!(bits.finish(), expected);
    }
}
