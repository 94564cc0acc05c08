//! Asks filters (BIP158) whether their blocks have some of many scripts.

use apus_hash::{Hash, SipKey};
use apus_wire::Cursor;
use apus_wire::opcodes::OP_RETURN;

use super::golomb::{BASIC_FILTER_M, BASIC_FILTER_P, siphash_key};

/// Scripts that filters are asked for.
pub struct WantedScripts<'a> {
    scripts: Vec<&'a [u8]>,
}

impl<'a> WantedScripts<'a> {
    /// Returns the scripts as something that filters can be asked for.
    pub fn new(scripts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self { scripts: scripts.into_iter().collect() }
    }

    /// Returns whether the filter of a block has each of these scripts that the block has. Filters
    /// leave out empty scripts, and outputs whose script begins with `OP_RETURN`.
    pub fn are_in_filters(&self) -> bool {
        self.scripts.iter().all(|script| !script.is_empty() && script[0] != OP_RETURN)
    }

    /// Returns whether a filter has one of the scripts, which is true by mistake once in
    /// [`BASIC_FILTER_M`] scripts (Core's `GCSFilter::MatchAny`); `None` if the filter is damaged.
    pub fn any_in(&self, block: &Hash, filter: &[u8]) -> Option<bool> {
        let mut cursor = Cursor::new(filter);
        let count = cursor.compact_size().ok()? as u64;
        let codes = &filter[cursor.position()..];
        if count == 0 || self.scripts.is_empty() {
            return Some(false);
        }
        // A code has at least as many bits as its remainder, and one more.
        if count > 8 * codes.len() as u64 / u64::from(BASIC_FILTER_P + 1) {
            return None;
        }
        let wanted = self.hashes(siphash_key(block), count * BASIC_FILTER_M);
        let mut bits = Bits::new(codes);
        let mut value = 0_u64;
        let mut next = 0;
        for _ in 0..count {
            value = value.checked_add(bits.golomb_rice()?)?;
            while wanted[next] < value {
                next += 1;
                if next == wanted.len() {
                    return Some(false);
                }
            }
            if wanted[next] == value {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Returns the hashes of the scripts below `range`, in ascending order.
    fn hashes(&self, key: SipKey, range: u64) -> Vec<u64> {
        let mut hashes = vec![0; self.scripts.len()];
        key.hash_many(
            self.scripts.len(),
            |index| self.scripts[index],
            |index, hash| {
                hashes[index] = ((u128::from(hash) * u128::from(range)) >> 64) as u64;
            },
        );
        hashes.sort_unstable();
        hashes
    }
}

/// Bytes that are read bit by bit, the highest bit of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    /// The bits that were taken from the bytes and not read yet, from the highest bit down.
    ahead: u64,
    /// Their number.
    len: u32,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, ahead: 0, len: 0 }
    }

    /// Takes bytes until 56 bits are ahead, or all bytes are.
    #[inline]
    fn fill(&mut self) {
        while self.len <= 56 {
            let Some((byte, rest)) = self.bytes.split_first() else { break };
            self.ahead |= u64::from(*byte) << (56 - self.len);
            self.len += 8;
            self.bytes = rest;
        }
    }

    /// Reads a number; `None` if the bytes end before it does.
    #[inline]
    fn golomb_rice(&mut self) -> Option<u64> {
        let mut quotient = 0_u64;
        loop {
            self.fill();
            let ones = self.ahead.leading_ones().min(self.len);
            quotient += u64::from(ones);
            self.skip(ones);
            if self.len > 0 {
                break;
            }
            if self.bytes.is_empty() {
                return None;
            }
        }
        // The zero that ends the quotient is the highest bit.
        self.fill();
        let bits = 1 + BASIC_FILTER_P;
        if self.len < bits {
            return None;
        }
        let remainder = self.ahead >> (64 - bits);
        self.skip(bits);
        Some(quotient << BASIC_FILTER_P | remainder)
    }

    #[inline]
    fn skip(&mut self, count: u32) {
        self.ahead = self.ahead.checked_shl(count).unwrap_or(0);
        self.len -= count;
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::bip158::BlockFilter;
    use bitcoin::hashes::Hash as _;

    use super::*;
    use crate::golomb::BasicFilter;

    fn script(number: u32) -> Vec<u8> {
        [&[0x51][..], &number.to_le_bytes()].concat()
    }

    #[test]
    fn filters_are_asked_as_by_rust_bitcoin() {
        let block = Hash(std::array::from_fn(|i| (i as u8).wrapping_mul(11)));
        let their_block = bitcoin::BlockHash::from_byte_array(block.0);
        for count in [0, 1, 2, 17, 400] {
            let scripts: Vec<Vec<u8>> = (0..count).map(script).collect();
            let mut filter = BasicFilter::new(&block, 0);
            scripts.iter().for_each(|script| filter.add_created(script));
            let bytes = filter.encode();
            let theirs = BlockFilter::new(&bytes);
            for first in (0..count + 5).step_by(3) {
                let asked: Vec<Vec<u8>> = vec![script(900_000 + first), script(first)];
                let ours = WantedScripts::new(asked.iter().map(Vec::as_slice));
                let expected = theirs.match_any(&their_block, asked.iter().map(Vec::as_slice));
                assert_eq!(ours.any_in(&block, &bytes), Some(expected.unwrap()));
                assert_eq!(ours.any_in(&block, &bytes), Some(first < count), "{first} of {count}");
            }
        }
    }

    #[test]
    fn damaged_filters_are_told_from_those_without_the_scripts() {
        let block = Hash([5; 32]);
        let mut filter = BasicFilter::new(&block, 0);
        let scripts: Vec<Vec<u8>> = (0..50).map(script).collect();
        scripts.iter().for_each(|script| filter.add_created(script));
        let bytes = filter.encode();
        let absent = script(1 << 30);
        let wanted = WantedScripts::new([&absent[..]]);
        assert_eq!(wanted.any_in(&block, &bytes), Some(false));
        assert_eq!(wanted.any_in(&block, &[]), None);
        assert_eq!(wanted.any_in(&block, &bytes[..20]), None, "fewer bits than codes");
        assert_eq!(wanted.any_in(&block, &[1, 0xff, 0xff, 0xff]), None, "no end of a quotient");
        assert_eq!(WantedScripts::new([]).any_in(&block, &bytes), Some(false));
        assert!(wanted.are_in_filters());
        assert!(!WantedScripts::new([&[0x6a, 1][..]]).are_in_filters());
        assert!(!WantedScripts::new([&[][..]]).are_in_filters());
    }
}
