//! The Elias-Fano code of a block's ascending indices, as in draft BIP 456.
//!
//! The code is CompactSize n, the number of indices; if n > 0, CompactSize m, the last index; then
//! two bit strings, each padded to a byte. The first has the low l = floor(log2((m + 1) / n)) bits
//! of each index. The second has the other bits in unary: for each index, as many zeros as its
//! other bits exceed those of the index before, and a one.
//!
//! The low bits of eight indices take exactly l bytes. The loops below work on such groups.

use apus_wire::put_compact_size;

use super::blocks::{CUT_SHORT, INDEX_TOO_LARGE, NOT_ASCENDING, OUTPUTS_MAX, Wrong, ascends};

const COUNT_TOO_LARGE: Wrong = "there are more indices than fit below the last one";
const FORM: Wrong = "a number does not have 1, 3 or 5 bytes";
const DAMAGED: Wrong = "the code of its indices is damaged";

/// The order of the bits in each byte of the bit strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOrder {
    /// Bit 0 comes first, as in the crate `hintsfile` 0.2.
    Lsb,
    /// Bit 7 comes first, as in the draft's test vectors, `hintsfile` 0.1 and Core's draft branch
    /// of July 2026.
    Msb,
}

/// Appends the code of `unspent`.
///
/// # Errors
/// `unspent` does not ascend, or has an index that no block can have.
pub fn encode(unspent: &[u32], order: BitOrder, out: &mut Vec<u8>) -> Result<(), Wrong> {
    let Some(&last) = unspent.last() else {
        out.push(0);
        return Ok(());
    };
    if !ascends(unspent) {
        return Err(NOT_ASCENDING);
    }
    let shape = Shape::new(unspent.len() as u64, last)?;
    put_compact_size(out, u64::from(shape.n));
    put_compact_size(out, u64::from(shape.m));
    let start = out.len();
    // The last word of the unary part may reach beyond its end.
    out.resize(start + shape.bytes() + WORD_BYTES, 0);
    let (low, high) = out[start..].split_at_mut(shape.low_bytes());
    put_low(unspent, shape.low_bits(), low);
    put_high(unspent, shape.low_bits(), high);
    out.truncate(start + shape.bytes());
    if order == BitOrder::Msb {
        out[start..].iter_mut().for_each(|byte| *byte = byte.reverse_bits());
    }
    Ok(())
}

/// Decodes the indices at the start of `bytes`, which replace the contents of `unspent`, and
/// returns the length of their code.
///
/// # Errors
/// The code is not that of ascending indices of which m is the last.
pub fn decode(bytes: &[u8], order: BitOrder, unspent: &mut Vec<u32>) -> Result<usize, Wrong> {
    let (head, shape) = Shape::read(bytes)?;
    let Some(shape) = shape else {
        unspent.clear();
        return Ok(head);
    };
    let end = head + shape.bytes();
    let (low, high) = bytes.get(head..end).ok_or(CUT_SHORT)?.split_at(shape.low_bytes());
    let right = match order {
        BitOrder::Lsb => shape.decode::<false>(low, high, unspent),
        BitOrder::Msb => shape.decode::<true>(low, high, unspent),
    };
    if right {
        return Ok(end);
    }
    unspent.clear();
    Err(DAMAGED)
}

const WORD_BYTES: usize = 8;
/// The largest number of low bits that an index of a block can have.
const LOW_BITS_MAX: u32 = OUTPUTS_MAX.ilog2();

/// The number n of indices and the last index m, which determine the lengths of the bit strings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    n: u32,
    m: u32,
}

impl Shape {
    fn new(n: u64, m: u32) -> Result<Self, Wrong> {
        if m >= OUTPUTS_MAX {
            return Err(INDEX_TOO_LARGE);
        }
        match u32::try_from(n) {
            Ok(n) if n <= m + 1 => Ok(Self { n, m }),
            _ => Err(COUNT_TOO_LARGE),
        }
    }

    /// Reads n and m. Returns their length in bytes, and `None` if n is 0.
    pub(super) fn read(bytes: &[u8]) -> Result<(usize, Option<Self>), Wrong> {
        let (n, n_len) = read_compact_size(bytes)?;
        if n == 0 {
            return Ok((n_len, None));
        }
        let (m, m_len) = read_compact_size(&bytes[n_len..])?;
        Ok((n_len + m_len, Some(Self::new(u64::from(n), m)?)))
    }

    fn low_bits(&self) -> u32 {
        ((self.m + 1) / self.n).ilog2()
    }

    fn low_bytes(&self) -> usize {
        (self.n as usize * self.low_bits() as usize).div_ceil(8)
    }

    /// Returns the number of bits of the unary part: a one for each index, and as many zeros as the
    /// high bits of the last index say.
    fn high_len(&self) -> usize {
        self.n as usize + (self.m >> self.low_bits()) as usize
    }

    /// Returns the length of both bit strings, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.low_bytes() + self.high_len().div_ceil(8)
    }

    /// Returns whether the unary part has one 1 for each index.
    pub(super) fn counts_right(&self, code: &[u8]) -> bool {
        let (words, rest) = code[self.low_bytes()..].as_chunks();
        let ones: u32 = words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).sum();
        ones + rest.iter().map(|byte| byte.count_ones()).sum::<u32>() == self.n
    }

    /// Returns whether the last index is m if the bits of `code` are in this order.
    pub(super) fn ends_right(&self, code: &[u8], order: BitOrder) -> bool {
        let (low, high) = code.split_at(self.low_bytes());
        let bit_0_first = |byte: u8| match order {
            BitOrder::Lsb => byte,
            BitOrder::Msb => byte.reverse_bits(),
        };
        let last_one = (self.high_len() - 1) % 8;
        let high_right = high.last().is_some_and(|byte| bit_0_first(*byte) >> last_one == 1);
        let bits = self.low_bits();
        let at = (self.n as usize - 1) * bits as usize;
        let bytes = low.iter().skip(at / 8).enumerate();
        let word = bytes.fold(0, |word, (i, byte)| word | u32::from(bit_0_first(*byte)) << (8 * i));
        high_right && (word >> (at % 8)) & mask(bits) == self.m & mask(bits)
    }

    /// Decodes the indices, and returns whether the code is right. If it is not, the contents of
    /// `unspent` are arbitrary.
    fn decode<const MSB: bool>(&self, low: &[u8], high: &[u8], unspent: &mut Vec<u32>) -> bool {
        // All elements will be overwritten; the last eight may reach beyond the end.
        unspent.resize(self.n as usize + 8, 0);
        let ones = read_high::<MSB>(high, self.low_bits(), unspent);
        unspent.truncate(self.n as usize);
        if ones != self.n as usize {
            return false;
        }
        read_low::<MSB>(low, self.low_bits(), unspent);
        unspent.last() == Some(&self.m) && ascends(unspent)
    }
}

/// Reads a CompactSize below 2^32, and returns it with its length. As in the crate `hintsfile`, it
/// may be longer than necessary.
pub(super) fn read_compact_size(bytes: &[u8]) -> Result<(u32, usize), Wrong> {
    match *bytes {
        [value @ 0..=0xfc, ..] => Ok((u32::from(value), 1)),
        [0xfd, a, b, ..] => Ok((u32::from(u16::from_le_bytes([a, b])), 3)),
        [0xfe, a, b, c, d, ..] => Ok((u32::from_le_bytes([a, b, c, d]), 5)),
        [0xff, ..] => Err(FORM),
        _ => Err(CUT_SHORT),
    }
}

const fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}

/// For each byte, the number of zeros before its first 1, its second 1, and so on.
static ZEROS_BEFORE: [[u8; 8]; 256] = zeros_before();
/// The number of ones in each byte.
static ONES: [u8; 256] = ones();

const fn zeros_before() -> [[u8; 8]; 256] {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        let mut ones = 0;
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][ones] = (bit - ones) as u8;
                ones += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
}

const fn ones() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).count_ones() as u8;
        byte += 1;
    }
    table
}

/// Stores the high bits of each index, shifted into place, in `unspent`, and returns the number of
/// ones, or `usize::MAX` if there are more than `unspent` has room for. Each byte stores eight
/// indices, and the next byte overwrites those in excess, so that no branch depends on the data.
fn read_high<const MSB: bool>(high: &[u8], low_bits: u32, unspent: &mut [u32]) -> usize {
    let mut found = 0;
    let mut zeros = 0;
    for byte in high {
        let byte = usize::from(if MSB { byte.reverse_bits() } else { *byte });
        let Some(eight) = unspent.get_mut(found..).and_then(|rest| rest.first_chunk_mut::<8>())
        else {
            return usize::MAX;
        };
        for (index, before) in eight.iter_mut().zip(ZEROS_BEFORE[byte]) {
            *index = (zeros + u32::from(before)) << low_bits;
        }
        let ones = ONES[byte];
        found += usize::from(ones);
        zeros += 8 - u32::from(ones);
    }
    found
}

/// Evaluates `$call` with the number of low bits as the constant `$n`; does nothing for 0 bits.
macro_rules! with_low_bits {
    ($bits:expr, $n:ident => $call:expr) => {
        with_low_bits!($bits, $n => $call, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    ($bits:expr, $n:ident => $call:expr, $($value:literal)*) => {
        match $bits {
            $($value => {
                const $n: usize = $value;
                $call
            })*
            _ => {}
        }
    };
}

const _: () = assert!(LOW_BITS_MAX == 16);

fn read_low<const MSB: bool>(low: &[u8], bits: u32, unspent: &mut [u32]) {
    with_low_bits!(bits, BITS => read_low_of::<BITS, MSB>(low, unspent));
}

fn read_low_of<const BITS: usize, const MSB: bool>(low: &[u8], unspent: &mut [u32]) {
    let (groups, last_bytes) = low.as_chunks::<BITS>();
    let (eights, last) = unspent.as_chunks_mut::<8>();
    for (eight, bytes) in eights.iter_mut().zip(groups) {
        let word = low_word::<MSB>(bytes);
        for (k, index) in eight.iter_mut().enumerate() {
            *index |= (word >> (k * BITS)) as u32 & mask(BITS as u32);
        }
    }
    // If the low bits of the last indices, fewer than eight, take as many bytes as those of eight,
    // they are in `groups`.
    let last_bytes = groups.get(eights.len()).map_or(last_bytes, |group| &group[..]);
    let word = low_word::<MSB>(last_bytes);
    for (k, index) in last.iter_mut().enumerate() {
        *index |= (word >> (k * BITS)) as u32 & mask(BITS as u32);
    }
}

/// Returns at most 16 bytes as one number, whose lowest bit is the first bit.
#[inline]
fn low_word<const MSB: bool>(bytes: &[u8]) -> u128 {
    let mut padded = [0; 16];
    padded[..bytes.len()].copy_from_slice(bytes);
    let word = u128::from_le_bytes(padded);
    if MSB { word.reverse_bits().swap_bytes() } else { word }
}

fn put_low(unspent: &[u32], bits: u32, low: &mut [u8]) {
    with_low_bits!(bits, BITS => put_low_of::<BITS>(unspent, low));
}

fn put_low_of<const BITS: usize>(unspent: &[u32], low: &mut [u8]) {
    for (eight, bytes) in unspent.chunks(8).zip(low.chunks_mut(BITS)) {
        let mut word = 0;
        if let Ok(eight) = <&[u32; 8]>::try_from(eight) {
            for (k, index) in eight.iter().enumerate() {
                word |= u128::from(index & mask(BITS as u32)) << (k * BITS);
            }
        } else {
            for (k, index) in eight.iter().enumerate() {
                word |= u128::from(index & mask(BITS as u32)) << (k * BITS);
            }
        }
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
}

/// Stores the unary part in `high`, which is zeroed and has one word more than the part needs.
fn put_high(unspent: &[u32], low_bits: u32, high: &mut [u8]) {
    let mut store = |at: usize, word: u64| {
        if let Some(bytes) = high.get_mut(at * WORD_BYTES..(at + 1) * WORD_BYTES) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    };
    let mut at = 0;
    let mut word = 0;
    for (i, index) in unspent.iter().enumerate() {
        let bit = (index >> low_bits) as usize + i;
        if bit / 64 != at {
            store(at, word);
            (at, word) = (bit / 64, 0);
        }
        word |= 1 << (bit % 64);
    }
    store(at, word);
}
