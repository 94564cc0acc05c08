use std::cmp::Ordering;
use std::fmt;

/// A 256-bit unsigned integer with wrapping arithmetic, least significant limb first (Core's
/// `arith_uint256`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct U256([u64; 4]);

/// A compact target, decoded (Core's `SetCompact`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Compact {
    /// The value without its sign, modulo 2^256.
    pub value: U256,
    /// Whether the sign bit is set and the mantissa is not zero.
    pub negative: bool,
    /// Whether the value needs more than 256 bits.
    pub overflow: bool,
}

impl U256 {
    pub const ZERO: Self = Self([0; 4]);
    pub const ONE: Self = Self([1, 0, 0, 0]);

    pub fn from_le_bytes(bytes: &[u8; 32]) -> Self {
        let mut limbs = [0; 4];
        for (limb, chunk) in limbs.iter_mut().zip(bytes.chunks_exact(8)) {
            *limb = u64::from_le_bytes(chunk.try_into().expect("8 bytes"));
        }
        Self(limbs)
    }

    pub fn to_be_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, limb) in bytes.chunks_exact_mut(8).zip(self.0.iter().rev()) {
            chunk.copy_from_slice(&limb.to_be_bytes());
        }
        bytes
    }

    /// Decodes a compact target (Core's `SetCompact`).
    pub fn from_compact(bits: u32) -> Compact {
        let size = bits >> 24;
        let mut word = bits & 0x007f_ffff;
        let value = if size <= 3 {
            word >>= 8 * (3 - size);
            Self::from(word)
        } else {
            Self::from(word).shl(8 * (size - 3))
        };
        Compact {
            value,
            negative: word != 0 && bits & 0x0080_0000 != 0,
            overflow: word != 0
                && (size > 34 || (word > 0xff && size > 33) || (word > 0xffff && size > 32)),
        }
    }

    /// Returns the compact form, rounded down to 23 or 24 bits of mantissa (Core's `GetCompact`).
    pub fn to_compact(self) -> u32 {
        let mut size = self.bits().div_ceil(8);
        let mut compact = if size <= 3 {
            (self.0[0] << (8 * (3 - size))) as u32
        } else {
            self.shr(8 * (size - 3)).0[0] as u32
        };
        if compact & 0x0080_0000 != 0 {
            compact >>= 8;
            size += 1;
        }
        compact | size << 24
    }

    /// Returns the position of the highest bit that is set, counted from 1; 0 for zero.
    pub fn bits(self) -> u32 {
        (0..4)
            .rev()
            .find(|&i| self.0[i] != 0)
            .map_or(0, |i| 64 * i as u32 + 64 - self.0[i].leading_zeros())
    }

    /// Returns the number as its lower and upper 64 bits, or `None` if it needs more than 128.
    pub fn to_halves(self) -> Option<[u64; 2]> {
        let [low, high, rest @ ..] = self.0;
        (rest == [0; 2]).then_some([low, high])
    }

    pub fn from_halves([low, high]: [u64; 2]) -> Self {
        Self([low, high, 0, 0])
    }

    /// Returns the lowest 64 bits.
    pub fn low_u64(self) -> u64 {
        self.0[0]
    }

    pub fn shl(self, n: u32) -> Self {
        let limbs = (n / 64) as usize;
        let bits = n % 64;
        let mut out = [0; 4];
        for (i, limb) in out.iter_mut().enumerate().skip(limbs) {
            *limb = self.0[i - limbs] << bits;
            if bits > 0 && i > limbs {
                *limb |= self.0[i - limbs - 1] >> (64 - bits);
            }
        }
        Self(out)
    }

    pub fn shr(self, n: u32) -> Self {
        let limbs = (n / 64) as usize;
        let bits = n % 64;
        let mut out = [0; 4];
        for (i, limb) in out.iter_mut().enumerate().take(4_usize.saturating_sub(limbs)) {
            *limb = self.0[i + limbs] >> bits;
            if bits > 0 && i + limbs < 3 {
                *limb |= self.0[i + limbs + 1] << (64 - bits);
            }
        }
        Self(out)
    }

    pub fn not(self) -> Self {
        Self(self.0.map(|limb| !limb))
    }

    pub fn wrapping_add(self, other: Self) -> Self {
        let mut carry = false;
        Self(std::array::from_fn(|i| {
            let (sum, first) = self.0[i].overflowing_add(other.0[i]);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            carry = first | second;
            sum
        }))
    }

    pub fn wrapping_sub(self, other: Self) -> Self {
        self.wrapping_add(other.not()).wrapping_add(Self::ONE)
    }

    pub fn wrapping_mul(self, factor: u32) -> Self {
        let mut carry = 0u128;
        Self(self.0.map(|limb| {
            let product = u128::from(limb) * u128::from(factor) + carry;
            carry = product >> 64;
            product as u64
        }))
    }

    /// Returns the quotient, rounded down; `None` for a divisor of zero.
    pub fn checked_div(self, divisor: Self) -> Option<Self> {
        if divisor == Self::ZERO {
            return None;
        }
        let mut quotient = Self::ZERO;
        let Some(shift) = self.bits().checked_sub(divisor.bits()) else {
            return Some(quotient);
        };
        let mut rest = self;
        let mut shifted = divisor.shl(shift);
        for bit in (0..=shift).rev() {
            if rest >= shifted {
                rest = rest.wrapping_sub(shifted);
                quotient.0[(bit / 64) as usize] |= 1 << (bit % 64);
            }
            shifted = shifted.shr(1);
        }
        Some(quotient)
    }
}

impl From<u32> for U256 {
    fn from(value: u32) -> Self {
        Self([u64::from(value), 0, 0, 0])
    }
}

impl Ord for U256 {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

impl PartialOrd for U256 {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for U256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().rev().try_for_each(|limb| write!(f, "{limb:016x}"))
    }
}

impl fmt::Debug for U256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
