//! The multiple u2 * P, by a ladder: three doublings and one addition for each digit of u2.

use crate::field::Fe;
use crate::glv::{DIGITS, Digit, POINTS, ZERO};
use crate::group::{GROUP, Steps};
use crate::point::{Affine, Jacobian, Terms};
use crate::vector::{LANES, Limbs, Mask, Op, Vector};
use crate::work::{Rows, TablePoint, Work, groups};

/// The number of highest digits at which the sum may still be infinity. One digit in 64 is zero:
/// among random signatures one in some 2^20 has four zero digits at the top, and one in some 2^50
/// has so many of them that the sum stays at infinity.
const LATE_START: usize = 8;

/// The stage that computes the multiples of all vectors of signatures.
pub struct Ladder<'a> {
    /// The batch.
    pub work: &'a mut Work,
}

/// The table of one vector, by lanes.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Table {
    /// x of each point times 1, beta and beta^2.
    x: [Rows; 3 * POINTS.len()],
    y: [Rows; POINTS.len()],
}

impl Default for Table {
    fn default() -> Self {
        let zero = Rows::default();
        Self { x: [zero; 3 * POINTS.len()], y: [zero; POINTS.len()] }
    }
}

impl Op for Ladder<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let work = self.work;
        let mut memory = Memory::default();
        for (group, vectors) in groups(&work.signatures) {
            let tables = &mut work.ladder_tables[..vectors.len()];
            for (k, table) in tables.iter_mut().enumerate() {
                fill::<V>(&work.table[group], k, table);
            }
            let steps = Steps::<V>::new(vectors.len());
            let digits = &work.ladder_digits[vectors];
            let Jacobian { x, y, z } = multiple(&steps, tables, digits, &mut memory);
            work.multiple[group] = [*x, *y, *z];
        }
    }
}

/// Memory of a ladder.
#[derive(Default)]
pub struct Memory {
    /// The sum so far, and the next one.
    sums: [Jacobian; 2],
    /// The points of a digit.
    points: Affine,
    terms: Terms,
    /// Points for the lanes that start late.
    starts: Jacobian,
}

/// The representation of numbers and points in a ladder, and its formulas.
pub trait Arithmetic {
    /// The vectors.
    type Vector: Vector;
    /// The table of one vector.
    type Table;
    /// Writes x and y of the points of a vector's digits. The points may be negated in the lanes of
    /// the mask already, or later.
    fn look_up(
        &self,
        table: &Self::Table,
        digits: [Digit; LANES],
        negate: Mask,
        to: [&mut Limbs; 2],
    );
    /// Writes the points, negated in the lanes of `negate`, and infinity (Z = 0) in the lanes of
    /// `infinity`.
    fn start(
        &self,
        points: &Affine,
        negate: &[Mask; GROUP],
        infinity: &[Mask; GROUP],
        to: &mut Jacobian,
    );
    /// Writes twice the point.
    fn double(&self, from: &Jacobian, terms: &mut Terms, to: &mut Jacobian);
    /// Writes the sum with a point, negated in the lanes of the masks.
    fn add(
        &self,
        from: &Jacobian,
        other: &Affine,
        negate: &[Mask; GROUP],
        terms: &mut Terms,
        to: &mut Jacobian,
    );
}

impl<V: Vector> Arithmetic for Steps<V> {
    type Vector = V;
    type Table = Table;

    #[inline(always)]
    fn look_up(&self, table: &Table, digits: [Digit; LANES], _: Mask, [x, y]: [&mut Limbs; 2]) {
        gather::<V>(&table.x, digits.map(x_index)).store(x);
        gather::<V>(&table.y, digits.map(y_index)).store(y);
    }

    #[inline(always)]
    fn start(
        &self,
        points: &Affine,
        negate: &[Mask; GROUP],
        infinity: &[Mask; GROUP],
        to: &mut Jacobian,
    ) {
        to.x = points.x;
        for k in 0..GROUP {
            Fe::<V>::load(&points.y[k]).negate_if(negate[k]).store(&mut to.y[k]);
            Fe::<V>::select(infinity[k], Fe::small(0), Fe::small(1)).store(&mut to.z[k]);
        }
    }

    #[inline(always)]
    fn double(&self, from: &Jacobian, terms: &mut Terms, to: &mut Jacobian) {
        from.double(*self, terms, to);
    }

    #[inline(always)]
    fn add(
        &self,
        from: &Jacobian,
        other: &Affine,
        negate: &[Mask; GROUP],
        terms: &mut Terms,
        to: &mut Jacobian,
    ) {
        from.add(*self, other, negate, terms, to);
    }
}

/// Writes the table of one vector of the group, by lanes.
#[inline(always)]
fn fill<V: Vector>(points: &[TablePoint; POINTS.len()], vector: usize, table: &mut Table) {
    for (i, [x, beta_x, y]) in points.iter().enumerate() {
        let [x, beta_x] = [Fe::<V>::load(&x[vector]), Fe::load(&beta_x[vector])];
        let other = Fe::small(0).sub(x.add(beta_x));
        V::to_rows(x.below_2_256().to_words(), &mut table.x[3 * i]);
        V::to_rows(beta_x.below_2_256().to_words(), &mut table.x[3 * i + 1]);
        V::to_rows(other.below_2_256().to_words(), &mut table.x[3 * i + 2]);
        V::to_rows(Fe::<V>::load(&y[vector]).below_2_256().to_words(), &mut table.y[i]);
    }
}

/// Computes the multiples of a group, which has as many vectors as `digits`.
#[inline(always)]
pub fn multiple<'a, A: Arithmetic>(
    arithmetic: &A,
    tables: &[A::Table],
    digits: &[[[Digit; LANES]; DIGITS]],
    memory: &'a mut Memory,
) -> &'a Jacobian {
    let Memory { sums: [sum, next], points, terms, starts } = memory;
    let mut sum = sum;
    let mut next = next;
    let (negate, mut infinity) = look_up(arithmetic, tables, digits, DIGITS - 1, points);
    arithmetic.start(points, &negate, &infinity, sum);
    for i in (0..DIGITS - 1).rev() {
        for _ in 0..3 {
            arithmetic.double(sum, terms, next);
            std::mem::swap(&mut sum, &mut next);
        }
        let (negate, zero) = look_up(arithmetic, tables, digits, i, points);
        arithmetic.add(sum, points, &negate, terms, next);
        std::mem::swap(&mut sum, &mut next);
        for (k, zero) in zero.iter().enumerate() {
            sum.take::<A::Vector>(k, *zero, next);
        }
        if i >= DIGITS - 1 - LATE_START && infinity != [0; GROUP] {
            arithmetic.start(points, &negate, &zero, starts);
            for k in 0..GROUP {
                sum.take::<A::Vector>(k, infinity[k] & !zero[k], starts);
                infinity[k] &= zero[k];
            }
        }
    }
    sum
}

/// Writes the points of a digit. Returns the lanes to negate, and those whose digit is zero.
#[inline(always)]
fn look_up<A: Arithmetic>(
    arithmetic: &A,
    tables: &[A::Table],
    digits: &[[[Digit; LANES]; DIGITS]],
    i: usize,
    to: &mut Affine,
) -> ([Mask; GROUP], [Mask; GROUP]) {
    let [mut negate, mut zero] = [[0; GROUP]; 2];
    for (k, (digits, table)) in digits.iter().zip(tables).enumerate() {
        let codes = u64::from_le_bytes(digits[i]);
        negate[k] = lowest_bits(codes);
        zero[k] = lowest_bits(codes >> 7);
        arithmetic.look_up(table, digits[i], negate[k], [&mut to.x[k], &mut to.y[k]]);
    }
    (negate, zero)
}

/// Returns the index of a digit's x, of the points times powers of w.
#[inline(always)]
pub fn x_index(digit: Digit) -> usize {
    usize::from(digit >> 1) & 0x3f
}

/// Returns the index of a digit's y.
#[inline(always)]
pub fn y_index(digit: Digit) -> usize {
    // The factor divides by three, for indices up to 63.
    (x_index(digit) * 171) >> 9
}

/// Returns the row of each lane's index.
#[inline(always)]
fn gather<V: Vector>(rows: &[Rows], indices: [usize; LANES]) -> Fe<V> {
    macro_rules! row {
        ($($lane:literal)*) => {
            [$(&rows[indices[$lane]][$lane]),*]
        };
    }
    Fe::from_words(V::from_rows(row!(0 1 2 3 4 5 6 7)))
}

/// Returns the lowest bit of each byte, with that of byte 0 lowest.
#[inline(always)]
fn lowest_bits(bytes: u64) -> Mask {
    // The factor moves bit 8i to bit 56 + i, and no two bits to the same place.
    ((bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56) as Mask
}

const _: () = assert!(ZERO == 0x80);
