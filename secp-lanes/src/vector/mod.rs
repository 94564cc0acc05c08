//! Eight unsigned 64-bit numbers side by side: the operations that all arithmetic is built on.
//!
//! Algorithms are generic over [`Vector`]; each is an [`Op`], which a kernel runs with the
//! processor's features enabled for everything that is inlined into it.

/// Defines [`Numbers::product`] for numbers of several registers: the columns are added up row by
/// row. By itself the compiler computes all parts of a number first, and keeps them in memory until
/// it adds them up. So a row's factor is made to depend on the columns after the row before, by the
/// type's `after_row`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! product_row_by_row {
    ($($j:literal)*) => {
        #[inline(always)]
        fn product(mut c: [Self; 10], a: [Self; 5], b: [Self; 5]) -> [Self; 10] {
            $(
                let last = [c[$j], c[$j + 1], c[$j + 2], c[$j + 3], c[$j + 4], c[$j + 5]];
                let factor = b[$j].after_row(last);
                c[$j] = Self::mad_low(c[$j], a[0], factor);
                c[$j + 1] = Self::mad_high(c[$j + 1], a[0], factor);
                c[$j + 1] = Self::mad_low(c[$j + 1], a[1], factor);
                c[$j + 2] = Self::mad_high(c[$j + 2], a[1], factor);
                c[$j + 2] = Self::mad_low(c[$j + 2], a[2], factor);
                c[$j + 3] = Self::mad_high(c[$j + 3], a[2], factor);
                c[$j + 3] = Self::mad_low(c[$j + 3], a[3], factor);
                c[$j + 4] = Self::mad_high(c[$j + 4], a[3], factor);
                c[$j + 4] = Self::mad_low(c[$j + 4], a[4], factor);
                c[$j + 5] = Self::mad_high(c[$j + 5], a[4], factor);
            )*
            c
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
#[cfg(target_arch = "x86_64")]
pub mod fma;
#[cfg(target_arch = "x86_64")]
pub mod ifma;
#[cfg(target_arch = "aarch64")]
pub mod neon;
#[cfg(any(test, feature = "testing"))]
pub mod portable;

use crate::group::GROUP;

/// Number of lanes of a vector.
pub const LANES: usize = 8;

/// A vector in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(64))]
pub struct Lanes(pub [u64; LANES]);

/// Numbers of five limbs in memory.
pub type Limbs = [Lanes; 5];

/// 256 bits, least significant word first.
pub type Words = [u64; 4];

/// One bit per lane, lane 0 lowest.
pub type Mask = u8;

/// All lanes.
pub const ALL: Mask = 0xff;

/// Unsigned 64-bit numbers side by side; every operation works on each lane by itself, modulo 2^64.
///
/// A product of two factors, numbers below 2^52, is computed in two halves, `low + 2^52 * high`.
/// Kernels differ in how they round: `low` is at least zero and below 2^52, or from -2^51 to 2^51
/// if [`Numbers::ROUNDS`]; `high` is at least zero and below 2^52.
///
/// Types of a processor feature may only be used inside that kernel's `dispatch`, which checks the
/// feature. That is why the types are private to the crate.
pub trait Numbers: Copy {
    /// Whether the high half of a product is rounded to the nearest number instead of down.
    const ROUNDS: bool;
    /// The extra term that [`Numbers::mad_low`] adds; even.
    const LOW_EXTRA: u64;
    /// The extra term that [`Numbers::mad_high`] adds; even.
    const HIGH_EXTRA: u64;
    /// Returns the same number in every lane.
    fn splat(number: u64) -> Self;
    /// Returns the sum modulo 2^64.
    fn add(self, other: Self) -> Self;
    /// Returns the difference modulo 2^64.
    fn sub(self, other: Self) -> Self;
    /// Returns the bits that are set in both.
    fn and(self, other: Self) -> Self;
    /// Returns the bits that are set in either.
    fn or(self, other: Self) -> Self;
    /// Shifts bits up.
    fn shl<const BITS: u32>(self) -> Self;
    /// Shifts bits down, with zeros from above.
    fn shr<const BITS: u32>(self) -> Self;
    /// Carries between signed columns of weight 2^52 each: to every column is added what the
    /// previous one has above its lowest 52 bits. The previous one is not reduced, so all columns
    /// but the last are correct in their lowest 52 bits only.
    fn carries<const N: usize>(columns: [Self; N]) -> [Self; N];
    /// Returns the lowest 52 bits as a factor, or the number as it is if products ignore other
    /// bits.
    fn factor(self) -> Self;
    /// Adds the product of two numbers of five limbs below 2^52 to ten columns of weight 2^52 each,
    /// which contain [`starts`] or less.
    #[inline(always)]
    fn product(mut c: [Self; 10], a: [Self; 5], b: [Self; 5]) -> [Self; 10] {
        // Five independent instructions separate two that add to the same column.
        macro_rules! row {
            ($($j:literal),*) => {$(
                c[$j] = Self::mad_low(c[$j], a[0], b[$j]);
                c[$j + 1] = Self::mad_low(c[$j + 1], a[1], b[$j]);
                c[$j + 2] = Self::mad_low(c[$j + 2], a[2], b[$j]);
                c[$j + 3] = Self::mad_low(c[$j + 3], a[3], b[$j]);
                c[$j + 4] = Self::mad_low(c[$j + 4], a[4], b[$j]);
                c[$j + 1] = Self::mad_high(c[$j + 1], a[0], b[$j]);
                c[$j + 2] = Self::mad_high(c[$j + 2], a[1], b[$j]);
                c[$j + 3] = Self::mad_high(c[$j + 3], a[2], b[$j]);
                c[$j + 4] = Self::mad_high(c[$j + 4], a[3], b[$j]);
                c[$j + 5] = Self::mad_high(c[$j + 5], a[4], b[$j]);
            )*};
        }
        row!(0, 1, 2, 3, 4);
        c
    }
    /// Returns the sum plus the low half of a product of factors, and [`Numbers::LOW_EXTRA`].
    fn mad_low(sum: Self, a: Self, b: Self) -> Self;
    /// Returns the sum plus the high half of a product of factors, and [`Numbers::HIGH_EXTRA`].
    fn mad_high(sum: Self, a: Self, b: Self) -> Self;
    /// Takes the lanes of `yes` where the mask has a one, and those of `no` elsewhere.
    fn select(mask: Mask, yes: Self, no: Self) -> Self;
    /// Negates the number in the lanes of the mask.
    fn negate_if(self, mask: Mask) -> Self;
    /// Returns the lanes that are zero.
    fn zeros(self) -> Mask;
}

/// Eight 64-bit numbers.
pub trait Vector: Numbers {
    /// Runs a step for each vector of the results, at most [`GROUP`], in a function of its own.
    fn each<S: Step<N>, const N: usize>(
        inputs: [&[Limbs]; N],
        masks: &[Mask; GROUP],
        results: &mut [Limbs],
    );
    /// Runs a step for one vector.
    #[inline(always)]
    fn step<S: Step<N>, const N: usize>(inputs: [[Self; 5]; N]) -> [Self; 5] {
        let mut memory = [Limbs::default(); N];
        let mut slices: [&[Limbs]; N] = [&[]; N];
        for ((input, to), slice) in inputs.iter().zip(&mut memory).zip(&mut slices) {
            store(input, to);
            *slice = std::slice::from_ref(to);
        }
        let mut result = Limbs::default();
        Self::each::<S, N>(slices, &[0; GROUP], std::slice::from_mut(&mut result));
        load(&result)
    }
    /// Reads a vector.
    fn load(from: &Lanes) -> Self;
    /// Writes a vector.
    fn store(self, to: &mut Lanes);
    /// Prefetches memory that is about to be read.
    fn prefetch<T>(from: &T);
    /// Loads eight rows: word `i` of each becomes vector `i`.
    fn from_rows(rows: [&Words; LANES]) -> [Self; 4];
    /// Stores eight rows, the inverse of [`Vector::from_rows`].
    fn to_rows(words: [Self; 4], rows: &mut [Words; LANES]);
}

/// A formula with five limbs for each input and for its result, which a kernel compiles as a
/// function of its own. `run` must be `#[inline(always)]`, as for [`Op`].
pub trait Step<const N: usize> {
    /// Computes the result.
    fn run<V: Numbers>(inputs: [[V; 5]; N], mask: Mask) -> [V; 5];
}

/// Reads five limbs.
#[inline(always)]
pub fn load<V: Vector>(from: &Limbs) -> [V; 5] {
    let mut limbs = [V::splat(0); 5];
    for (limb, from) in limbs.iter_mut().zip(from) {
        *limb = V::load(from);
    }
    limbs
}

/// Writes five limbs.
#[inline(always)]
pub fn store<V: Vector>(limbs: &[V; 5], to: &mut Limbs) {
    for (limb, to) in limbs.iter().zip(to) {
        limb.store(to);
    }
}

/// The numbers that a step takes at once: a vector, or a part of one.
pub trait Part: Numbers {
    /// Number of parts of a vector.
    const PARTS: usize;
    /// Reads a part of a vector.
    fn load_part(from: &Lanes, part: usize) -> Self;
    /// Writes a part of a vector.
    fn store_part(self, to: &mut Lanes, part: usize);
}

impl<V: Vector> Part for V {
    const PARTS: usize = 1;

    #[inline(always)]
    fn load_part(from: &Lanes, _: usize) -> Self {
        Self::load(from)
    }

    #[inline(always)]
    fn store_part(self, to: &mut Lanes, _: usize) {
        self.store(to);
    }
}

/// Runs a step for each vector of the results, as [`Vector::each`] does, one part after another.
#[inline(always)]
pub fn each<P: Part, S: Step<N>, const N: usize>(
    inputs: &[&[Limbs]; N],
    masks: &[Mask; GROUP],
    results: &mut [Limbs],
) {
    // Check the lengths once, and not in the loop.
    let mut inputs = *inputs;
    for input in &mut inputs {
        *input = &input[..results.len()];
    }
    for (k, (result, mask)) in results.iter_mut().zip(masks).enumerate() {
        for part in 0..P::PARTS {
            let mut numbers = [[P::splat(0); 5]; N];
            for (number, input) in numbers.iter_mut().zip(inputs) {
                for (limb, from) in number.iter_mut().zip(&input[k]) {
                    *limb = P::load_part(from, part);
                }
            }
            let limbs = S::run(numbers, mask >> (part * LANES / P::PARTS));
            for (limb, to) in limbs.into_iter().zip(&mut *result) {
                limb.store_part(to, part);
            }
        }
    }
}

/// Double-precision numbers side by side. They round to the nearest number, but only where a method
/// says so: elsewhere results are exact, and the caller makes sure of it.
#[cfg(any(target_arch = "x86_64", test))]
pub trait Doubles: Copy {
    /// Number of registers of a vector.
    const REGISTERS: usize;
    /// Returns the same number in every lane.
    fn splat(number: f64) -> Self;
    /// Reads a register of a vector, the bits of doubles.
    fn load(from: &Lanes, register: usize) -> Self;
    /// Writes a register of a vector.
    fn store(self, to: &mut Lanes, register: usize);
    /// Returns the sum.
    fn add(self, other: Self) -> Self;
    /// Returns the difference.
    fn sub(self, other: Self) -> Self;
    /// Returns the product.
    fn mul(self, other: Self) -> Self;
    /// Returns the product plus a number.
    fn mul_add(self, factor: Self, plus: Self) -> Self;
    /// Returns the product minus a number.
    fn mul_sub(self, factor: Self, minus: Self) -> Self;
    /// Returns the sum, rounded.
    fn add_rounded(self, other: Self) -> Self;
    /// Returns the product plus a number, rounded once.
    fn mul_add_rounded(self, factor: Self, plus: Self) -> Self;
    /// Runs a step for each vector of the results, in a function of its own.
    fn each<S: DoublesStep<N, M>, const N: usize, const M: usize>(
        inputs: [&[Limbs]; N],
        results: [&mut [Limbs]; M],
    );
}

/// A formula with five limbs for each input and each result, like [`Step`].
#[cfg(any(target_arch = "x86_64", test))]
pub trait DoublesStep<const N: usize, const M: usize> {
    /// Computes the results.
    fn run<D: Doubles>(inputs: [[D; 5]; N]) -> [[D; 5]; M];
}

/// A computation like [`Op`] that also uses doubles.
#[cfg(any(target_arch = "x86_64", test))]
pub trait DoublesOp {
    /// The result.
    type Output;
    /// Computes the result with vectors and doubles of these types.
    fn run<V: Vector, D: Doubles>(self) -> Self::Output;
}

/// Runs a step for each vector of the results, as [`Doubles::each`] does.
#[cfg(any(target_arch = "x86_64", test))]
#[inline(always)]
pub fn each_in_doubles<D: Doubles, S: DoublesStep<N, M>, const N: usize, const M: usize>(
    mut inputs: [&[Limbs]; N],
    mut results: [&mut [Limbs]; M],
) {
    let count = results[0].len();
    // Check the lengths once, and not in the loop.
    for input in &mut inputs {
        *input = &input[..count];
    }
    for result in &results {
        assert_eq!(result.len(), count);
    }
    for k in 0..count {
        for register in 0..D::REGISTERS {
            let mut numbers = [[D::splat(0.0); 5]; N];
            for (number, input) in numbers.iter_mut().zip(&inputs) {
                for (limb, from) in number.iter_mut().zip(&input[k]) {
                    *limb = D::load(from, register);
                }
            }
            for (number, result) in S::run(numbers).into_iter().zip(&mut results) {
                for (limb, to) in number.into_iter().zip(&mut result[k]) {
                    limb.store(to, register);
                }
            }
        }
    }
}

/// How many low and high halves of products are added to each column of a product.
pub const COUNTS: [(u64, u64); 10] =
    [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (4, 5), (3, 4), (2, 3), (1, 2), (0, 1)];

/// Returns the start values of the columns of a product.
#[inline(always)]
pub fn starts<V: Numbers>() -> [V; 10] {
    let mut columns = [V::splat(0); 10];
    for (column, (lows, highs)) in columns.iter_mut().zip(COUNTS) {
        *column = V::splat(start::<V>(lows, highs));
    }
    columns
}

/// Returns the start value with which a column ends as the sum of this many low and high halves.
pub fn start<V: Numbers>(lows: u64, highs: u64) -> u64 {
    half_start::<V>(lows, highs).wrapping_mul(2)
}

/// Returns the start value of a column that is doubled on the way.
pub fn half_start<V: Numbers>(lows: u64, highs: u64) -> u64 {
    let low = (V::LOW_EXTRA / 2).wrapping_mul(lows);
    low.wrapping_add((V::HIGH_EXTRA / 2).wrapping_mul(highs)).wrapping_neg()
}

/// A computation that is generic over the vectors that it uses.
///
/// `run` must be `#[inline(always)]`, as must everything that it calls in a hot loop: then it is
/// compiled for the features of the kernel that dispatches it.
pub trait Op {
    /// The result.
    type Output;
    /// Computes the result with vectors of this type.
    fn run<V: Vector>(self) -> Self::Output;
}
