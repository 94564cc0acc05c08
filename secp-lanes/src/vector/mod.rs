//! Eight unsigned 64-bit numbers side by side: the operations that all arithmetic is made of.
//!
//! Algorithms are generic over [`Vector`]; each is an [`Op`], run by a kernel with the processor's
//! features switched on for everything that is inlined into it.

#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod portable;

/// Number of lanes of a vector.
pub const LANES: usize = 8;

/// A vector in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(64))]
pub struct Lanes(pub [u64; LANES]);

/// 256 bits, least significant word first.
pub type Words = [u64; 4];

/// One bit a lane, lane 0 lowest.
pub type Mask = u8;

/// All lanes.
pub const ALL: Mask = 0xff;

/// Eight 64-bit numbers; every operation works on each lane by itself, modulo 2^64.
///
/// A vector type of a processor feature may only be used inside that kernel's `dispatch`, which
/// checks the feature. That is why the types are private to the crate.
pub trait Vector: Copy {
    /// Whether products are compiled into the code around them, which is faster, and takes a
    /// compiler much longer.
    const INLINE: bool;
    /// Runs a computation as a function of its own, with the same vectors.
    fn call<O: Op>(op: O) -> O::Output;
    /// The same number in every lane.
    fn splat(number: u64) -> Self;
    /// Reads a vector.
    fn load(from: &Lanes) -> Self;
    /// Writes a vector.
    fn store(self, to: &mut Lanes);
    /// Sum modulo 2^64.
    fn add(self, other: Self) -> Self;
    /// Difference modulo 2^64.
    fn sub(self, other: Self) -> Self;
    /// Bits that are set in both.
    fn and(self, other: Self) -> Self;
    /// Bits that are set in either.
    fn or(self, other: Self) -> Self;
    /// Bits shifted up.
    fn shl<const BITS: u32>(self) -> Self;
    /// Bits shifted down, zeros from above.
    fn shr<const BITS: u32>(self) -> Self;
    /// Bits shifted down, copies of the sign bit from above.
    fn sar<const BITS: u32>(self) -> Self;
    /// The sum plus the low 52 bits of `a * b`; of the factors only the low 52 bits count.
    fn mad_low(sum: Self, a: Self, b: Self) -> Self;
    /// The sum plus bits 52 to 103 of `a * b`; of the factors only the low 52 bits count.
    fn mad_high(sum: Self, a: Self, b: Self) -> Self;
    /// The lanes of `yes` where the mask has a one, those of `no` elsewhere.
    fn select(mask: Mask, yes: Self, no: Self) -> Self;
    /// Zero minus the number in the lanes of the mask, the number elsewhere.
    fn negate_if(self, mask: Mask) -> Self;
    /// The lanes that are zero.
    fn zeros(self) -> Mask;
    /// Panics, in the tests and for vectors that can afford it, where a number is 2^52 or more: of
    /// a factor the bits above would be lost.
    fn assert_limb(self) {}
    /// The five numbers as they are, which the compiler must not use before it has computed `last`:
    /// so that it keeps the order of products that keeps the processor busy.
    #[inline(always)]
    fn after(numbers: [Self; 5], _last: Self) -> [Self; 5] {
        numbers
    }
    /// Asks for memory that is about to be read.
    fn prefetch<T>(from: &T);
    /// Word `i` of each of eight rows, as vector `i`.
    fn from_rows(rows: [&Words; LANES]) -> [Self; 4];
    /// The reverse of [`Vector::from_rows`].
    fn to_rows(words: [Self; 4], rows: &mut [Words; LANES]);
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
