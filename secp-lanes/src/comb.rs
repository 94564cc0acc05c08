//! The table for multiples of the generator G.
//!
//! A factor u is written as the sum of +-2^j over all bits j: the bit j of (u + 2^bits - 1) / 2
//! gives the sign. A window of w bits then stands for an odd number of absolute value below 2^w,
//! never for zero, and the table has the odd multiples of each window's power of two.

use std::sync::OnceLock;

use crate::field::Fe;
use crate::group::Steps;
use crate::kernel::Kernel;
use crate::point::{Jacobian, Terms};
use crate::vector::{LANES, Limbs, Op, Vector, Words};
use crate::words;

/// The generator G, x and y.
pub const GENERATOR: Row = [
    [0x59f2_815b_16f8_1798, 0x029b_fcdb_2dce_28d9, 0x55a0_6295_ce87_0b07, 0x79be_667e_f9dc_bbac],
    [0x9c47_d08f_fb10_d4b8, 0xfd17_b448_a685_5419, 0x5da4_fbfc_0e11_08a8, 0x483a_da77_26a3_c465],
];

/// The largest number of windows: those of 8 bits.
pub const WINDOWS_MAX: usize = 32;
/// Places for sums of the points of two windows, and one free place.
pub const COMB_PLACES: usize = WINDOWS_MAX / 2 + 1;
/// The fewest bits of a window.
pub const BITS_MIN: u32 = 8;
/// The most bits of a window.
pub const BITS_MAX: u32 = 13;

/// A point: x and y, below p.
pub type Row = [Words; 2];

/// The table of one size of windows.
pub struct Comb {
    /// Bits of a window.
    bits: u32,
    /// Number of windows, which is even.
    windows: usize,
    /// Half of 2^(bits of all windows) - 1, modulo n.
    offset: Words,
    /// (2j + 1) * 2^(bits * i) * G at index i * 2^(bits - 1) + j.
    rows: Vec<Aligned>,
}

/// A row in a cache line of its own.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Aligned(Row);

impl Comb {
    /// Returns the table with windows of this many bits. The first call computes it with this
    /// kernel.
    pub fn shared(bits: u32, kernel: Kernel) -> &'static Self {
        static TABLES: [OnceLock<Comb>; (BITS_MAX - BITS_MIN + 1) as usize] =
            [const { OnceLock::new() }; (BITS_MAX - BITS_MIN + 1) as usize];
        let bits = bits.clamp(BITS_MIN, BITS_MAX);
        TABLES[(bits - BITS_MIN) as usize].get_or_init(|| Self::new(bits, kernel))
    }

    fn new(bits: u32, kernel: Kernel) -> Self {
        let windows = 256u32.div_ceil(2 * bits) as usize * 2;
        let mut offset = [1, 0, 0, 0];
        for _ in 0..bits * windows as u32 {
            offset = words::add_modulo_n(&offset, &offset);
        }
        let offset = words::add_modulo_n(&offset, &words::sub(&words::N, &[1, 0, 0, 0]).0);
        let rows = kernel.run(Build { bits, windows });
        Self { bits, windows, offset: words::half_modulo_n(&offset), rows }
    }

    /// Returns the number of windows.
    pub fn windows(&self) -> usize {
        self.windows
    }

    /// Splits a factor below n into digits, and calls `put` with each window and its bits.
    #[inline(always)]
    pub fn digits(&self, u: &Words, mut put: impl FnMut(usize, u16)) {
        let [w0, w1, w2, w3] = words::add_modulo_n(&words::half_modulo_n(u), &self.offset);
        let padded = [w0, w1, w2, w3, 0, 0];
        let mask = (1 << self.bits) - 1;
        let mut at = 0;
        for window in 0..self.windows {
            let word = at / 64;
            let shift = at % 64;
            let both = u128::from(padded[word + 1]) << 64 | u128::from(padded[word]);
            put(window, ((both >> shift) as u64 & mask) as u16);
            at += self.bits as usize;
        }
    }

    /// Returns the point of a window's bits, and whether it must be negated.
    #[inline(always)]
    pub fn row(&self, window: usize, digit: u16) -> (&Row, bool) {
        let half = 1 << (self.bits - 1);
        let digit = usize::from(digit);
        let negative = digit < half;
        let index = if negative { half - 1 - digit } else { digit - half };
        (&self.rows[window * half + index].0, negative)
    }

    #[cfg(test)]
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().map(|row| &row.0)
    }
}

/// The computation of a table's rows.
struct Build {
    bits: u32,
    windows: usize,
}

impl Op for Build {
    type Output = Vec<Aligned>;

    #[inline(always)]
    fn run<V: Vector>(self) -> Vec<Aligned> {
        let bits = self.bits as usize;
        let half = 1 << (bits - 1);
        let powers = powers::<V>(bits * self.windows);
        let mut rows = vec![Aligned(GENERATOR); half * self.windows];
        for window in 0..self.windows {
            rows[window * half] = Aligned(powers[window * bits]);
        }
        let mut sums = Vec::new();
        for level in 0..bits - 1 {
            let count = 1 << level;
            for window in 0..self.windows {
                // Adds 2 * count times the window's point to its first `count` odd multiples.
                let rows = &mut rows[window * half..][..2 * count];
                sums.clear();
                sums.resize(count, Aligned(GENERATOR));
                add_to_all::<V>(&rows[..count], &powers[window * bits + level + 1], &mut sums);
                rows[count..].copy_from_slice(&sums);
            }
        }
        rows
    }
}

/// Returns 2^j * G for all j below `count`.
#[inline(always)]
fn powers<V: Vector>(count: usize) -> Vec<Row> {
    let steps = Steps::<V>::new(1);
    let mut power = Jacobian::default();
    let mut next = Jacobian::default();
    let mut terms = Terms::default();
    let start = [Fe::constant(GENERATOR[0]), Fe::constant(GENERATOR[1]), Fe::<V>::small(1)];
    for (part, to) in start.into_iter().zip([&mut power.x, &mut power.y, &mut power.z]) {
        part.store(&mut to[0]);
    }
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let [x, y, z] = [&power.x, &power.y, &power.z].map(|part| Fe::<V>::load(&part[0]));
        // Z is usable only in products.
        let inverse = z.mul(Fe::small(1)).inverse();
        let square = inverse.sqr();
        let x = x.mul(square);
        let y = y.mul(square.mul(inverse));
        rows.push([x.first(), y.first()]);
        power.double(steps, &mut terms, &mut next);
        std::mem::swap(&mut power, &mut next);
    }
    rows
}

/// Loads x and y of eight points; if there are fewer, the last one is repeated.
#[inline(always)]
fn load_chunk<V: Vector>(points: &[Aligned], chunk: usize) -> [Fe<V>; 2] {
    macro_rules! part {
        ($part:literal: $($lane:literal)*) => {
            [$(&points[(chunk * LANES + $lane).min(points.len() - 1)].0[$part]),*]
        };
    }
    let [x, y] = [part!(0: 0 1 2 3 4 5 6 7), part!(1: 0 1 2 3 4 5 6 7)];
    [Fe::from_words(V::from_rows(x)), Fe::from_words(V::from_rows(y))]
}

/// Adds a point to each of the points, none of which has the same x.
#[inline(always)]
fn add_to_all<V: Vector>(points: &[Aligned], other: &Row, sums: &mut [Aligned]) {
    let [x2, y2] = other.map(Fe::<V>::constant);
    let chunks = points.len().div_ceil(LANES);
    let mut prefix: Vec<Limbs> = vec![Default::default(); chunks];
    let mut product = Fe::<V>::small(1);
    for (chunk, prefix) in prefix.iter_mut().enumerate() {
        product.store(prefix);
        product = product.mul(x2.sub(load_chunk::<V>(points, chunk)[0]));
    }
    let mut inverse = product.inverse();
    for chunk in (0..chunks).rev() {
        let [x1, y1] = load_chunk(points, chunk);
        let slope = y2.sub(y1).mul(inverse.mul(Fe::load(&prefix[chunk])));
        inverse = inverse.mul(x2.sub(x1));
        let x = slope.sqr().sub(x1).sub(x2);
        let y = slope.mul(x1.sub(x.canonical())).sub(y1);
        let mut rows = [[[0; 4]; LANES]; 2];
        V::to_rows(x.canonical().to_words(), &mut rows[0]);
        V::to_rows(y.canonical().to_words(), &mut rows[1]);
        for (lane, sum) in sums[chunk * LANES..].iter_mut().take(LANES).enumerate() {
            sum.0 = [rows[0][lane], rows[1][lane]];
        }
    }
}
