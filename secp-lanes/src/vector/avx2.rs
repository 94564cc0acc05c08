//! Vectors of AVX2, with the products of `fma` or of `ifma`, and doubles.
#![allow(unsafe_code)] // Vector instructions, which not every processor has.

use std::arch::asm;
use std::arch::x86_64::{
    __m256d, __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_add_epi64, _mm256_add_pd, _mm256_and_si256,
    _mm256_blendv_epi8, _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_cmpeq_epi64,
    _mm256_fmadd_pd, _mm256_fmsub_pd, _mm256_load_si256, _mm256_loadu_si256, _mm256_movemask_pd,
    _mm256_mul_pd, _mm256_or_si256, _mm256_permute2x128_si256, _mm256_set1_epi64x, _mm256_set1_pd,
    _mm256_setr_epi64x, _mm256_setzero_si256, _mm256_sllv_epi64, _mm256_srlv_epi64,
    _mm256_store_si256, _mm256_storeu_si256, _mm256_sub_epi64, _mm256_sub_pd,
    _mm256_unpackhi_epi64, _mm256_unpacklo_epi64, _mm256_xor_si256,
};
use std::marker::PhantomData;

use crate::group::GROUP;

use super::fma::Fma;
use super::{
    Doubles, DoublesOp, DoublesStep, LANES, Lanes, Limbs, Mask, Numbers, Op, Part, Step, Vector,
    Words,
};

/// The instructions that multiply four lanes by four.
pub trait Products: Copy {
    /// [`Numbers::ROUNDS`].
    const ROUNDS: bool;
    /// [`Numbers::LOW_EXTRA`].
    const LOW_EXTRA: u64;
    /// [`Numbers::HIGH_EXTRA`].
    const HIGH_EXTRA: u64;
    /// Whether a step is done for both registers of a vector side by side: while one waits for its
    /// carries, the other one is processed. It needs twice as many registers.
    const SIDE_BY_SIDE: bool;
    /// Returns whether the processor has the instructions, besides AVX2, FMA and BMI2.
    fn are_supported() -> bool;
    /// [`Numbers::factor`].
    fn factor(number: Quad<Self>) -> Quad<Self>;
    /// [`Numbers::mad_low`].
    fn mad_low(sum: Quad<Self>, a: Quad<Self>, b: Quad<Self>) -> Quad<Self>;
    /// [`Numbers::mad_high`].
    fn mad_high(sum: Quad<Self>, a: Quad<Self>, b: Quad<Self>) -> Quad<Self>;
}

/// A vector register of 256 bits: four lanes.
///
/// Safety of every `unsafe` block below: values are created and used only inside [`dispatch`],
/// which runs after the processor's features were detected.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Quad<P>(pub __m256i, PhantomData<P>);

/// Two registers: eight lanes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Eight<P>([Quad<P>; 2]);

/// Vectors with products by FMA.
pub type Avx2 = Eight<Fma>;

/// Proof that the processor has the instructions of [`Eight`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof<P>(PhantomData<P>);

/// Returns a proof if this processor has the instructions.
pub fn detect<P: Products>() -> Option<Proof<P>> {
    let found = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi2")
        && P::are_supported();
    found.then_some(Proof(PhantomData))
}

/// Runs a computation on [`Eight`] vectors.
pub fn dispatch<P: Products, O: Op>(_: Proof<P>, op: O) -> O::Output {
    // SAFETY: the proof says that the features were detected.
    unsafe { with_features::<P, O>(op) }
}

#[target_feature(enable = "avx2,fma,bmi2")]
#[inline(never)]
fn with_features<P: Products, O: Op>(op: O) -> O::Output {
    op.run::<Eight<P>>()
}

/// Runs a computation on [`Avx2`] vectors and [`QuadDoubles`].
pub fn dispatch_doubles<O: DoublesOp>(_: Proof<Fma>, op: O) -> O::Output {
    // SAFETY: the proof says that the features were detected.
    unsafe { doubles_with_features(op) }
}

#[target_feature(enable = "avx2,fma,bmi2")]
#[inline(never)]
fn doubles_with_features<O: DoublesOp>(op: O) -> O::Output {
    op.run::<Avx2, QuadDoubles>()
}

/// Runs a step for the vectors of a group. This function needs no features itself: the compiler
/// (Rust 1.95) ignores `inline(never)` on a function that does.
#[inline(never)]
fn each_apart<P: Products, S: Step<N>, const N: usize>(
    inputs: &[&[Limbs]; N],
    masks: &[Mask; GROUP],
    results: &mut [Limbs],
) {
    // SAFETY: the features were detected (see the type).
    unsafe { each_with_features::<P, S, N>(inputs, masks, results) }
}

#[target_feature(enable = "avx2,fma,bmi2")]
fn each_with_features<P: Products, S: Step<N>, const N: usize>(
    inputs: &[&[Limbs]; N],
    masks: &[Mask; GROUP],
    results: &mut [Limbs],
) {
    if P::SIDE_BY_SIDE {
        super::each::<Eight<P>, S, N>(inputs, masks, results);
    } else {
        super::each::<Quad<P>, S, N>(inputs, masks, results);
    }
}

/// Makes a number depend on others, without any instruction.
#[target_feature(enable = "avx2")]
#[inline]
fn depend(mut number: __m256i, others: [__m256i; 6]) -> __m256i {
    let [a, b, c, d, e, f] = others;
    // SAFETY: there is no instruction.
    unsafe {
        asm!(
            "/* {0} {1} {2} {3} {4} {5} {6} */",
            inout(ymm_reg) number,
            in(ymm_reg) a,
            in(ymm_reg) b,
            in(ymm_reg) c,
            in(ymm_reg) d,
            in(ymm_reg) e,
            in(ymm_reg) f,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    number
}

impl<P> Quad<P> {
    /// Returns the numbers of a register.
    #[inline(always)]
    pub fn of(register: __m256i) -> Self {
        Self(register, PhantomData)
    }

    /// Returns all ones in the lanes of the mask's four lowest bits.
    #[inline(always)]
    fn spread(mask: Mask) -> __m256i {
        // SAFETY: the features were detected (see the type).
        unsafe {
            let bits = _mm256_setr_epi64x(1, 2, 4, 8);
            _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(mask.into()), bits), bits)
        }
    }

    /// Transposes four rows: word `i` of each becomes vector `i`. It is its own inverse.
    #[inline(always)]
    fn transposed([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
        // SAFETY: the features were detected (see the type).
        unsafe {
            // Words 0 and 2, or 1 and 3, of two rows.
            let [even_ab, odd_ab] = [_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)];
            let [even_cd, odd_cd] = [_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d)];
            [
                _mm256_permute2x128_si256::<0x20>(even_ab, even_cd),
                _mm256_permute2x128_si256::<0x20>(odd_ab, odd_cd),
                _mm256_permute2x128_si256::<0x31>(even_ab, even_cd),
                _mm256_permute2x128_si256::<0x31>(odd_ab, odd_cd),
            ]
        }
    }
}

impl<P: Products> Numbers for Quad<P> {
    const ROUNDS: bool = P::ROUNDS;
    const LOW_EXTRA: u64 = P::LOW_EXTRA;
    const HIGH_EXTRA: u64 = P::HIGH_EXTRA;

    #[inline(always)]
    fn splat(number: u64) -> Self {
        // SAFETY: the features were detected (see the type).
        Self::of(unsafe { _mm256_set1_epi64x(number.cast_signed()) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self::of(unsafe { _mm256_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self::of(unsafe { _mm256_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self::of(unsafe { _mm256_and_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self::of(unsafe { _mm256_or_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self::of(unsafe { _mm256_sllv_epi64(self.0, Self::splat(BITS.into()).0) })
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self::of(unsafe { _mm256_srlv_epi64(self.0, Self::splat(BITS.into()).0) })
    }

    #[inline(always)]
    fn carries<const N: usize>(mut columns: [Self; N]) -> [Self; N] {
        // AVX2 has no arithmetic right shift of 64-bit numbers. With 2^63 added, a column is not
        // negative (columns are between -2^60 and 2^60), and has 2^11 more above its lowest 52
        // bits, which do not change; the next column takes 2^11 off.
        for i in 0..N {
            let from_below = if i == 0 { 0 } else { 1 << 11 };
            let offset = if i == N - 1 { 0 } else { 1 << 63 };
            columns[i] = columns[i].add(Self::splat(u64::wrapping_sub(offset, from_below)));
            if i > 0 {
                columns[i] = columns[i].add(columns[i - 1].shr::<52>());
            }
        }
        columns
    }

    #[inline(always)]
    fn factor(self) -> Self {
        P::factor(self)
    }

    #[inline(always)]
    fn mad_low(sum: Self, a: Self, b: Self) -> Self {
        P::mad_low(sum, a, b)
    }

    #[inline(always)]
    fn mad_high(sum: Self, a: Self, b: Self) -> Self {
        P::mad_high(sum, a, b)
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self::of(unsafe { _mm256_blendv_epi8(no.0, yes.0, Self::spread(mask)) })
    }

    #[inline(always)]
    fn negate_if(self, mask: Mask) -> Self {
        let signs = Self::spread(mask);
        // SAFETY: the features were detected (see the type).
        Self::of(unsafe { _mm256_sub_epi64(_mm256_xor_si256(self.0, signs), signs) })
    }

    #[inline(always)]
    fn zeros(self) -> Mask {
        // SAFETY: the features were detected (see the type).
        unsafe {
            let zeros = _mm256_cmpeq_epi64(self.0, _mm256_setzero_si256());
            _mm256_movemask_pd(_mm256_castsi256_pd(zeros)) as Mask
        }
    }
}

impl<P: Products> Part for Quad<P> {
    const PARTS: usize = 2;

    #[inline(always)]
    fn load_part(from: &Lanes, part: usize) -> Self {
        let part: &[u64; 4] = &from.0.as_chunks().0[part];
        // SAFETY: the features were detected; the part is 32 bytes, aligned.
        Self::of(unsafe { _mm256_load_si256(std::ptr::from_ref(part).cast()) })
    }

    #[inline(always)]
    fn store_part(self, to: &mut Lanes, part: usize) {
        let part: &mut [u64; 4] = &mut to.0.as_chunks_mut().0[part];
        // SAFETY: the features were detected; the part is 32 bytes, aligned.
        unsafe { _mm256_store_si256(std::ptr::from_mut(part).cast(), self.0) }
    }
}

impl<P: Products> Eight<P> {
    /// Returns the number unchanged, but the compiler must compute the columns before it uses it.
    #[inline(always)]
    fn after_row(self, [a, b, c, d, e, f]: [Self; 6]) -> Self {
        let half = |i: usize| [a.0[i].0, b.0[i].0, c.0[i].0, d.0[i].0, e.0[i].0, f.0[i].0];
        let [low, high] = self.0;
        // SAFETY: the features were detected (see the type).
        unsafe { Self([Quad::of(depend(low.0, half(0))), Quad::of(depend(high.0, half(1)))]) }
    }
}

impl<P: Products> Numbers for Eight<P> {
    const ROUNDS: bool = P::ROUNDS;
    const LOW_EXTRA: u64 = P::LOW_EXTRA;
    const HIGH_EXTRA: u64 = P::HIGH_EXTRA;

    #[inline(always)]
    fn splat(number: u64) -> Self {
        Self([Quad::splat(number); 2])
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self([self.0[0].add(other.0[0]), self.0[1].add(other.0[1])])
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self([self.0[0].sub(other.0[0]), self.0[1].sub(other.0[1])])
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self([self.0[0].and(other.0[0]), self.0[1].and(other.0[1])])
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self([self.0[0].or(other.0[0]), self.0[1].or(other.0[1])])
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self) -> Self {
        Self([self.0[0].shl::<BITS>(), self.0[1].shl::<BITS>()])
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        Self([self.0[0].shr::<BITS>(), self.0[1].shr::<BITS>()])
    }

    #[inline(always)]
    fn carries<const N: usize>(mut columns: [Self; N]) -> [Self; N] {
        for half in 0..2 {
            let quads = Quad::carries(columns.map(|column| column.0[half]));
            for i in 0..N {
                columns[i].0[half] = quads[i];
            }
        }
        columns
    }

    #[inline(always)]
    fn factor(self) -> Self {
        Self([self.0[0].factor(), self.0[1].factor()])
    }

    product_row_by_row!(0 1 2 3 4);

    #[inline(always)]
    fn mad_low(sum: Self, a: Self, b: Self) -> Self {
        let [[s0, s1], [a0, a1], [b0, b1]] = [sum.0, a.0, b.0];
        Self([Quad::mad_low(s0, a0, b0), Quad::mad_low(s1, a1, b1)])
    }

    #[inline(always)]
    fn mad_high(sum: Self, a: Self, b: Self) -> Self {
        let [[s0, s1], [a0, a1], [b0, b1]] = [sum.0, a.0, b.0];
        Self([Quad::mad_high(s0, a0, b0), Quad::mad_high(s1, a1, b1)])
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        let [[y0, y1], [n0, n1]] = [yes.0, no.0];
        Self([Quad::select(mask, y0, n0), Quad::select(mask >> 4, y1, n1)])
    }

    #[inline(always)]
    fn negate_if(self, mask: Mask) -> Self {
        Self([self.0[0].negate_if(mask), self.0[1].negate_if(mask >> 4)])
    }

    #[inline(always)]
    fn zeros(self) -> Mask {
        self.0[0].zeros() | self.0[1].zeros() << 4
    }
}

impl<P: Products> Vector for Eight<P> {
    #[inline(always)]
    fn each<S: Step<N>, const N: usize>(
        inputs: [&[Limbs]; N],
        masks: &[Mask; GROUP],
        results: &mut [Limbs],
    ) {
        each_apart::<P, S, N>(&inputs, masks, results);
    }

    #[inline(always)]
    fn load(from: &Lanes) -> Self {
        Self([Quad::load_part(from, 0), Quad::load_part(from, 1)])
    }

    #[inline(always)]
    fn store(self, to: &mut Lanes) {
        self.0[0].store_part(to, 0);
        self.0[1].store_part(to, 1);
    }

    #[inline(always)]
    fn prefetch<T>(from: &T) {
        // SAFETY: every x86-64 processor has the instruction, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(from).cast()) }
    }

    #[inline(always)]
    fn from_rows(rows: [&Words; LANES]) -> [Self; 4] {
        // SAFETY: the features were detected; each row is 32 readable bytes.
        let row = |i: usize| unsafe { _mm256_loadu_si256(std::ptr::from_ref(rows[i]).cast()) };
        let [a0, a1, a2, a3] = Quad::<P>::transposed([row(0), row(1), row(2), row(3)]);
        let [b0, b1, b2, b3] = Quad::<P>::transposed([row(4), row(5), row(6), row(7)]);
        let both = |low: __m256i, high: __m256i| Self([Quad::of(low), Quad::of(high)]);
        [both(a0, b0), both(a1, b1), both(a2, b2), both(a3, b3)]
    }

    #[inline(always)]
    fn to_rows([w0, w1, w2, w3]: [Self; 4], rows: &mut [Words; LANES]) {
        for half in 0..2 {
            let words = [w0.0[half].0, w1.0[half].0, w2.0[half].0, w3.0[half].0];
            let transposed = Quad::<P>::transposed(words);
            for (row, words) in rows[4 * half..].iter_mut().zip(transposed) {
                // SAFETY: the features were detected; each row is 32 writable bytes.
                unsafe { _mm256_storeu_si256(std::ptr::from_mut(row).cast(), words) };
            }
        }
    }
}

/// A vector register of 256 bits: four doubles. It is used like [`Quad`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct QuadDoubles(__m256d);

#[inline(never)]
fn each_doubles_apart<S: DoublesStep<N, M>, const N: usize, const M: usize>(
    inputs: [&[Limbs]; N],
    results: [&mut [Limbs]; M],
) {
    // SAFETY: the features were detected (see the type).
    unsafe { each_doubles_with_features::<S, N, M>(inputs, results) }
}

#[target_feature(enable = "avx2,fma,bmi2")]
fn each_doubles_with_features<S: DoublesStep<N, M>, const N: usize, const M: usize>(
    inputs: [&[Limbs]; N],
    results: [&mut [Limbs]; M],
) {
    super::each_in_doubles::<QuadDoubles, S, N, M>(inputs, results);
}

impl Doubles for QuadDoubles {
    const REGISTERS: usize = 2;

    #[inline(always)]
    fn splat(number: f64) -> Self {
        // SAFETY: the features were detected (see the type).
        Self(unsafe { _mm256_set1_pd(number) })
    }

    #[inline(always)]
    fn load(from: &Lanes, register: usize) -> Self {
        let register = Quad::<Fma>::load_part(from, register).0;
        // SAFETY: the features were detected (see the type).
        Self(unsafe { _mm256_castsi256_pd(register) })
    }

    #[inline(always)]
    fn store(self, to: &mut Lanes, register: usize) {
        // SAFETY: the features were detected (see the type).
        let bits = unsafe { _mm256_castpd_si256(self.0) };
        Quad::<Fma>::of(bits).store_part(to, register);
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self(unsafe { _mm256_add_pd(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self(unsafe { _mm256_sub_pd(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self(unsafe { _mm256_mul_pd(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, plus: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self(unsafe { _mm256_fmadd_pd(self.0, factor.0, plus.0) })
    }

    #[inline(always)]
    fn mul_sub(self, factor: Self, minus: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        Self(unsafe { _mm256_fmsub_pd(self.0, factor.0, minus.0) })
    }

    #[inline(always)]
    fn add_rounded(self, other: Self) -> Self {
        self.add(other)
    }

    #[inline(always)]
    fn mul_add_rounded(self, factor: Self, plus: Self) -> Self {
        self.mul_add(factor, plus)
    }

    #[inline(always)]
    fn each<S: DoublesStep<N, M>, const N: usize, const M: usize>(
        inputs: [&[Limbs]; N],
        results: [&mut [Limbs]; M],
    ) {
        each_doubles_apart::<S, N, M>(inputs, results);
    }
}
