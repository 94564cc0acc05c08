/// Number of 64-bit words of a number.
const WORDS: usize = 48;
/// Number of bytes of a number.
pub(super) const NUM_BYTES: usize = 384;
/// 2^3072 minus the modulus, which is the largest safe prime of 3072 bits.
pub(super) const PRIME_DIFF: u64 = 1_103_717;

/// An integer modulo 2^3072 - 1103717, least significant word first. Any value below 2^3072 may
/// represent its remainder.
#[derive(Clone)]
pub(super) struct Num3072([u64; WORDS]);

impl Num3072 {
    /// Returns the number 1.
    pub fn one() -> Self {
        let mut words = [0; WORDS];
        words[0] = 1;
        Self(words)
    }

    /// Returns the number with these little-endian bytes.
    pub fn from_bytes(bytes: &[u8; NUM_BYTES]) -> Self {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        Self(words)
    }

    /// Returns the bytes of the remainder, little endian.
    pub fn to_bytes(&self) -> [u8; NUM_BYTES] {
        let mut reduced = self.clone();
        if self.0[0] >= PRIME_DIFF.wrapping_neg() && self.0[1..].iter().all(|w| *w == u64::MAX) {
            reduced.0 = [0; WORDS];
            reduced.0[0] = self.0[0].wrapping_add(PRIME_DIFF);
        }
        let mut bytes = [0; NUM_BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(reduced.0) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Multiplies this number by another.
    pub fn multiply(&mut self, other: &Self) {
        let mut product = [0; 2 * WORDS];
        multiply_wide(&self.0, &other.0, &mut product);
        self.reduce(&product);
    }

    /// Returns the number whose product with this one is 1; 0 for 0.
    ///
    /// By Fermat's little theorem this is the number to the power of the prime minus 2, whose
    /// binary digits are 3051 ones and the 21 bits of 993433. That takes about 3,100
    /// multiplications, once for each set, so a faster way is not worth its code.
    pub fn inverse(&self) -> Self {
        const ONES: u32 = 3051;
        const LOW_BITS: u32 = 21;
        const LOW: u64 = (1 << LOW_BITS) - PRIME_DIFF - 2;
        // The divisor of a set from which nothing was removed.
        if self.0 == Self::one().0 {
            return self.clone();
        }
        // `power` is self to the power of 2^ones - 1.
        let mut power = self.clone();
        let mut ones = 1;
        for bit in (0..ONES.ilog2()).rev() {
            let half = power.clone();
            power.square_times(ones);
            power.multiply(&half);
            ones *= 2;
            if ONES >> bit & 1 == 1 {
                power.square_times(1);
                power.multiply(self);
                ones += 1;
            }
        }
        for bit in (0..LOW_BITS).rev() {
            power.square_times(1);
            if LOW >> bit & 1 == 1 {
                power.multiply(self);
            }
        }
        power
    }

    fn square_times(&mut self, times: u32) {
        for _ in 0..times {
            let factor = self.clone();
            self.multiply(&factor);
        }
    }

    /// Sets this number to the remainder of a product; 2^3072 has the remainder [`PRIME_DIFF`].
    fn reduce(&mut self, product: &[u64; 2 * WORDS]) {
        let (low, high) = product.split_at(WORDS);
        let mut carry = 0;
        for ((word, low), high) in self.0.iter_mut().zip(low).zip(high) {
            (*word, carry) = multiply_add(*high, PRIME_DIFF, *low, carry);
        }
        // The carry is at most PRIME_DIFF. If the addition carries again, a small number is left,
        // so there is no third carry.
        while carry != 0 {
            let mut add = carry * PRIME_DIFF;
            carry = 0;
            for word in &mut self.0 {
                let (sum, overflow) = word.overflowing_add(add);
                (*word, add) = (sum, u64::from(overflow));
                if add == 0 {
                    break;
                }
            }
            carry += add;
        }
    }
}

/// Returns the low and the high word of `a * b + c + d`, which cannot overflow them.
#[inline(always)]
fn multiply_add(a: u64, b: u64, c: u64, d: u64) -> (u64, u64) {
    let sum = u128::from(a) * u128::from(b) + u128::from(c) + u128::from(d);
    (sum as u64, (sum >> 64) as u64)
}

fn multiply_wide(a: &[u64; WORDS], b: &[u64; WORDS], product: &mut [u64; 2 * WORDS]) {
    for (i, a) in a.iter().enumerate() {
        let mut carry = 0;
        for (word, b) in product[i..i + WORDS].iter_mut().zip(b) {
            (*word, carry) = multiply_add(*a, *b, *word, carry);
        }
        product[i + WORDS] = carry;
    }
}
