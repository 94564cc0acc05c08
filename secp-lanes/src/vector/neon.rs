//! Vectors of NEON, which every ARM processor of 64 bits has, with products of 52-bit numbers by
//! fused multiply-add, as `fma.rs` explains.
//!
//! A Cortex-A76 needs seven cycles to start the two halves of a product of 64-bit numbers, and a
//! product of field elements has 25 of these. The two lanes of a register take seven instructions
//! for it, of which two start in a cycle. By the model of a Neoverse N1, its sibling, a product of
//! field elements takes 67 cycles a lane and 204 in libsecp256k1, a square 48 and 142
//! (`llvm-mca -mcpu=neoverse-n1`).
#![allow(unsafe_code)] // Instructions that read and write memory.

use std::arch::aarch64::{
    float64x2_t, uint64x2_t, vaddq_f64, vaddq_u64, vandq_u64, vbslq_u64, vceqzq_u64, vcombine_u64,
    vcreate_u64, vcvtq_f64_u64, vdupq_n_f64, vdupq_n_s64, vdupq_n_u64, veorq_u64, vfmaq_f64,
    vgetq_lane_u64, vld1q_u64, vorrq_u64, vreinterpretq_s64_u64, vreinterpretq_u64_f64,
    vreinterpretq_u64_s64, vshlq_u64, vshrq_n_s64, vst1q_u64, vsubq_f64, vsubq_u64, vtrn1q_u64,
    vtrn2q_u64, vtstq_u64,
};
use std::arch::asm;

use crate::group::GROUP;

use super::{LANES, Lanes, Limbs, Mask, Numbers, Op, Step, Vector, Words};

/// 2^104 and 1.5 * 2^52 in double precision, and their bits.
const POWER_104: f64 = f64::from_bits(BITS_104);
const POWER_52_AND_HALF: f64 = f64::from_bits(BITS_52_AND_HALF);
const BITS_104: u64 = 0x467 << 52;
const BITS_52_AND_HALF: u64 = 0x433 << 52 | 1 << 51;
const LOW52: u64 = (1 << 52) - 1;

/// Runs instructions, which the compiler takes for unsafe although every processor has them.
macro_rules! neon {
    ($($expression:tt)*) => {{
        // SAFETY: every processor that runs programs for this target has NEON.
        unsafe { $($expression)* }
    }};
}

/// Lanes of a register.
const WIDTH: usize = 2;

/// A vector register: two lanes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Pair(uint64x2_t);

/// Four registers: eight lanes.
#[derive(Clone, Copy)]
pub struct Neon([Pair; LANES / WIDTH]);

/// Runs a computation on [`Neon`] vectors.
#[inline(never)]
pub fn dispatch<O: Op>(op: O) -> O::Output {
    op.run::<Neon>()
}

impl Pair {
    /// Reads a register's lanes of a vector in memory.
    #[inline(always)]
    fn load(from: &Lanes, register: usize) -> Self {
        let lanes = &from.0[WIDTH * register..][..WIDTH];
        // SAFETY: NEON is there, and the slice has two numbers.
        Self(unsafe { vld1q_u64(lanes.as_ptr()) })
    }

    /// Writes a register's lanes of a vector in memory.
    #[inline(always)]
    fn store(self, to: &mut Lanes, register: usize) {
        let lanes = &mut to.0[WIDTH * register..][..WIDTH];
        // SAFETY: NEON is there, and the slice has two numbers.
        unsafe { vst1q_u64(lanes.as_mut_ptr(), self.0) }
    }

    /// Converts a number below 2^52 to double precision.
    #[inline(always)]
    fn double(self) -> float64x2_t {
        neon!(vcvtq_f64_u64(self.0))
    }

    /// Returns 2^104 plus the product, rounded to a multiple of 2^52.
    #[inline(always)]
    fn high(a: Self, b: Self) -> float64x2_t {
        neon!(vfmaq_f64(vdupq_n_f64(POWER_104), a.double(), b.double()))
    }

    /// Returns all ones in the lanes of the mask's two lowest bits.
    #[inline(always)]
    fn spread(mask: Mask) -> uint64x2_t {
        neon!(vtstq_u64(vdupq_n_u64(mask.into()), vcombine_u64(vcreate_u64(1), vcreate_u64(2))))
    }

    /// Returns the number unchanged, but the compiler must compute the columns before it uses it.
    #[inline(always)]
    fn after_row(self, [a, b, c, d, e, f]: [Self; 6]) -> Self {
        let mut number = self.0;
        // SAFETY: there is no instruction.
        unsafe {
            asm!(
                "/* {0:v} {1:v} {2:v} {3:v} {4:v} {5:v} {6:v} */",
                inout(vreg) number,
                in(vreg) a.0,
                in(vreg) b.0,
                in(vreg) c.0,
                in(vreg) d.0,
                in(vreg) e.0,
                in(vreg) f.0,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        Self(number)
    }
}

impl Numbers for Pair {
    const ROUNDS: bool = true;
    const LOW_EXTRA: u64 = BITS_52_AND_HALF;
    const HIGH_EXTRA: u64 = BITS_104;

    #[inline(always)]
    fn splat(number: u64) -> Self {
        Self(neon!(vdupq_n_u64(number)))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(neon!(vaddq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(neon!(vsubq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(neon!(vandq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(neon!(vorrq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self) -> Self {
        Self(neon!(vshlq_u64(self.0, vdupq_n_s64(BITS.into()))))
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        Self(neon!(vshlq_u64(self.0, vdupq_n_s64(-i64::from(BITS)))))
    }

    #[inline(always)]
    fn carries<const N: usize>(mut columns: [Self; N]) -> [Self; N] {
        for i in 1..N {
            let below = columns[i - 1].0;
            let above =
                neon!(vreinterpretq_u64_s64(vshrq_n_s64::<52>(vreinterpretq_s64_u64(below))));
            columns[i] = columns[i].add(Self(above));
        }
        columns
    }

    #[inline(always)]
    fn factor(self) -> Self {
        self.and(Self::splat(LOW52))
    }

    product_row_by_row!(0 1 2 3 4);

    #[inline(always)]
    fn mad_low(sum: Self, a: Self, b: Self) -> Self {
        sum.add(Self(neon! {
            let minus_high = vsubq_f64(vdupq_n_f64(POWER_104), Self::high(a, b));
            let low = vfmaq_f64(minus_high, a.double(), b.double());
            vreinterpretq_u64_f64(vaddq_f64(low, vdupq_n_f64(POWER_52_AND_HALF)))
        }))
    }

    #[inline(always)]
    fn mad_high(sum: Self, a: Self, b: Self) -> Self {
        sum.add(Self(neon!(vreinterpretq_u64_f64(Self::high(a, b)))))
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        Self(neon!(vbslq_u64(Self::spread(mask), yes.0, no.0)))
    }

    #[inline(always)]
    fn negate_if(self, mask: Mask) -> Self {
        let signs = Self::spread(mask);
        Self(neon!(vsubq_u64(veorq_u64(self.0, signs), signs)))
    }

    #[inline(always)]
    fn zeros(self) -> Mask {
        let [zero, one] = neon! {
            let zeros = vceqzq_u64(self.0);
            [vgetq_lane_u64::<0>(zeros), vgetq_lane_u64::<1>(zeros)]
        };
        (zero & 1 | one & 2) as Mask
    }
}

impl Neon {
    #[inline(always)]
    fn map(self, f: impl Fn(Pair) -> Pair) -> Self {
        let [a, b, c, d] = self.0;
        Self([f(a), f(b), f(c), f(d)])
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(Pair, Pair) -> Pair) -> Self {
        let [[a, b, c, d], [e, g, h, i]] = [self.0, other.0];
        Self([f(a, e), f(b, g), f(c, h), f(d, i)])
    }

    /// Runs a computation on a register of each vector, for one register after the other.
    #[inline(always)]
    fn columns<const N: usize>(
        mut columns: [Self; N],
        f: impl Fn(usize, [Pair; N]) -> [Pair; N],
    ) -> [Self; N] {
        for register in 0..LANES / WIDTH {
            let results = f(register, columns.map(|column| column.0[register]));
            for (column, result) in columns.iter_mut().zip(results) {
                column.0[register] = result;
            }
        }
        columns
    }
}

impl Numbers for Neon {
    const ROUNDS: bool = Pair::ROUNDS;
    const LOW_EXTRA: u64 = Pair::LOW_EXTRA;
    const HIGH_EXTRA: u64 = Pair::HIGH_EXTRA;

    #[inline(always)]
    fn splat(number: u64) -> Self {
        Self([Pair::splat(number); LANES / WIDTH])
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, Pair::add)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, Pair::sub)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.zip(other, Pair::and)
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.zip(other, Pair::or)
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self) -> Self {
        self.map(Pair::shl::<BITS>)
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        self.map(Pair::shr::<BITS>)
    }

    #[inline(always)]
    fn carries<const N: usize>(columns: [Self; N]) -> [Self; N] {
        Self::columns(columns, |_, columns| Pair::carries(columns))
    }

    #[inline(always)]
    fn factor(self) -> Self {
        self.map(Pair::factor)
    }

    #[inline(always)]
    fn product(c: [Self; 10], a: [Self; 5], b: [Self; 5]) -> [Self; 10] {
        Self::columns(c, |register, c| {
            Pair::product(c, a.map(|a| a.0[register]), b.map(|b| b.0[register]))
        })
    }

    #[inline(always)]
    fn mad_low(sum: Self, a: Self, b: Self) -> Self {
        let [[s0, s1, s2, s3], [a0, a1, a2, a3], [b0, b1, b2, b3]] = [sum.0, a.0, b.0];
        let low = Pair::mad_low;
        Self([low(s0, a0, b0), low(s1, a1, b1), low(s2, a2, b2), low(s3, a3, b3)])
    }

    #[inline(always)]
    fn mad_high(sum: Self, a: Self, b: Self) -> Self {
        let [[s0, s1, s2, s3], [a0, a1, a2, a3], [b0, b1, b2, b3]] = [sum.0, a.0, b.0];
        let high = Pair::mad_high;
        Self([high(s0, a0, b0), high(s1, a1, b1), high(s2, a2, b2), high(s3, a3, b3)])
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        let [[y0, y1, y2, y3], [n0, n1, n2, n3]] = [yes.0, no.0];
        Self([
            Pair::select(mask, y0, n0),
            Pair::select(mask >> 2, y1, n1),
            Pair::select(mask >> 4, y2, n2),
            Pair::select(mask >> 6, y3, n3),
        ])
    }

    #[inline(always)]
    fn negate_if(self, mask: Mask) -> Self {
        let [a, b, c, d] = self.0;
        Self([
            a.negate_if(mask),
            b.negate_if(mask >> 2),
            c.negate_if(mask >> 4),
            d.negate_if(mask >> 6),
        ])
    }

    #[inline(always)]
    fn zeros(self) -> Mask {
        let [a, b, c, d] = self.0.map(Pair::zeros);
        a | b << 2 | c << 4 | d << 6
    }
}

impl Vector for Neon {
    /// Runs the step for one register after the other: the columns and factors of a product need
    /// most of the 32 registers.
    #[inline(never)]
    fn each<S: Step<N>, const N: usize>(
        mut inputs: [&[Limbs]; N],
        masks: &[Mask; GROUP],
        results: &mut [Limbs],
    ) {
        // Check the lengths once, and not in the loop.
        for input in &mut inputs {
            *input = &input[..results.len()];
        }
        for (k, (result, mask)) in results.iter_mut().zip(masks).enumerate() {
            for register in 0..LANES / WIDTH {
                let mut numbers = [[Pair::splat(0); 5]; N];
                for (number, input) in numbers.iter_mut().zip(inputs) {
                    for (limb, from) in number.iter_mut().zip(&input[k]) {
                        *limb = Pair::load(from, register);
                    }
                }
                let limbs = S::run(numbers, *mask >> (WIDTH * register));
                for (limb, to) in limbs.into_iter().zip(&mut *result) {
                    limb.store(to, register);
                }
            }
        }
    }

    #[inline(always)]
    fn load(from: &Lanes) -> Self {
        Self(std::array::from_fn(|register| Pair::load(from, register)))
    }

    #[inline(always)]
    fn store(self, to: &mut Lanes) {
        for (register, pair) in self.0.into_iter().enumerate() {
            pair.store(to, register);
        }
    }

    #[inline(always)]
    fn prefetch<T>(from: &T) {
        let from = std::ptr::from_ref(from);
        // SAFETY: the instruction reads nothing.
        unsafe {
            asm!("prfm pldl1keep, [{0}]", in(reg) from, options(nomem, nostack, preserves_flags));
        }
    }

    #[inline(always)]
    fn from_rows(rows: [&Words; LANES]) -> [Self; 4] {
        let mut words = [Self::splat(0); 4];
        for (register, [even, odd]) in rows.as_chunks::<2>().0.iter().enumerate() {
            for half in 0..2 {
                // SAFETY: NEON is there, and these are two numbers of each row.
                let [even, odd] =
                    [even, odd].map(|row| unsafe { vld1q_u64(row[2 * half..][..2].as_ptr()) });
                words[2 * half].0[register] = Pair(neon!(vtrn1q_u64(even, odd)));
                words[2 * half + 1].0[register] = Pair(neon!(vtrn2q_u64(even, odd)));
            }
        }
        words
    }

    #[inline(always)]
    fn to_rows(words: [Self; 4], rows: &mut [Words; LANES]) {
        for (register, [even, odd]) in rows.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            for half in 0..2 {
                let [low, high] = [0, 1].map(|i| words[2 * half + i].0[register].0);
                // SAFETY: NEON is there, and these are two numbers of each row.
                unsafe {
                    vst1q_u64(even[2 * half..][..2].as_mut_ptr(), vtrn1q_u64(low, high));
                    vst1q_u64(odd[2 * half..][..2].as_mut_ptr(), vtrn2q_u64(low, high));
                }
            }
        }
    }
}
