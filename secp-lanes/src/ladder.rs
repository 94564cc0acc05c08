//! The multiple u2 * P, by a ladder: for each digit of u2 three doublings and one addition.

use crate::field::Fe;
use crate::glv::{DIGITS, Digit, POINTS, ZERO};
use crate::point::{Affine, Jacobian, both};
use crate::vector::{LANES, Mask, Op, Vector};
use crate::work::{Rows, TablePoint, Work};

/// The highest digits in whose places the sum so far may still be infinity. One digit in 64 is zero,
/// and the highest one more often: among random signatures one in 2^20 has four zero digits at the
/// top, and one in 2^50 so many that the sum stays at infinity.
const LATE_START: usize = 8;

/// Computes the multiples of all vectors of signatures.
pub struct Ladder<'a> {
    /// The batch.
    pub work: &'a mut Work,
}

/// The table of one vector, by lanes.
#[repr(C, align(64))]
struct Table {
    /// x of each point times 1, beta, beta^2.
    x: [Rows; 3 * POINTS.len()],
    y: [Rows; POINTS.len()],
}

impl Op for Ladder<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let work = self.work;
        let zero = [[0; 4]; LANES];
        let table = || Table { x: [zero; 3 * POINTS.len()], y: [zero; POINTS.len()] };
        let mut tables = [table(), table()];
        for vector in (0..work.signature_vectors).step_by(2) {
            for (points, table) in work.table[vector..].iter().zip(&mut tables) {
                fill::<V>(points, table);
            }
            let digits = [&work.ladder_digits[vector], &work.ladder_digits[vector + 1]];
            let point = multiple::<V>(&tables, digits);
            both!(|k| point.x[k].store(&mut work.multiple[vector + k][0]));
            both!(|k| point.y[k].store(&mut work.multiple[vector + k][1]));
            both!(|k| point.z[k].store(&mut work.multiple[vector + k][2]));
        }
    }
}

/// Writes the table by lanes.
#[inline(always)]
fn fill<V: Vector>(points: &[TablePoint; POINTS.len()], table: &mut Table) {
    for (i, [x, beta_x, y]) in points.iter().enumerate() {
        let [x, beta_x] = [Fe::<V>::load(x), Fe::load(beta_x)];
        let other = Fe::small(0).sub(x.add(beta_x));
        V::to_rows(x.below_2_256().to_words(), &mut table.x[3 * i]);
        V::to_rows(beta_x.below_2_256().to_words(), &mut table.x[3 * i + 1]);
        V::to_rows(other.below_2_256().to_words(), &mut table.x[3 * i + 2]);
        V::to_rows(Fe::<V>::load(y).below_2_256().to_words(), &mut table.y[i]);
    }
}

/// The multiples of a pair of vectors.
#[inline(always)]
fn multiple<V: Vector>(tables: &[Table; 2], digits: [&[[Digit; LANES]; DIGITS]; 2]) -> Jacobian<V> {
    let (point, negate, mut infinity) = look_up::<V>(tables, digits, DIGITS - 1);
    let one = Fe::small(1);
    let mut sum = Jacobian {
        x: point.x,
        y: both!(|k| point.y[k].negate_if(negate[k])),
        z: both!(|k| Fe::select(infinity[k], Fe::small(0), one)),
    };
    for i in (0..DIGITS - 1).rev() {
        for _ in 0..3 {
            sum = sum.double();
        }
        let (point, negate, zero) = look_up::<V>(tables, digits, i);
        let next = sum.add(&point, negate);
        sum = Jacobian::select(zero, &sum, &next);
        if i >= DIGITS - 1 - LATE_START {
            let start = both!(|k| infinity[k] & !zero[k]);
            infinity = both!(|k| infinity[k] & zero[k]);
            let first = Jacobian {
                x: point.x,
                y: both!(|k| point.y[k].negate_if(negate[k])),
                z: [one, one],
            };
            sum = Jacobian::select(start, &first, &sum);
        }
    }
    sum
}

/// The points of a digit, the lanes to be negated, and those whose digit is zero.
#[inline(always)]
fn look_up<V: Vector>(
    tables: &[Table; 2],
    digits: [&[[Digit; LANES]; DIGITS]; 2],
    i: usize,
) -> (Affine<V>, [Mask; 2], [Mask; 2]) {
    let codes = both!(|k| u64::from_le_bytes(digits[k][i]));
    let x = both!(|k| gather::<V>(&tables[k].x, digits[k][i], false));
    let y = both!(|k| gather::<V>(&tables[k].y, digits[k][i], true));
    (Affine { x, y }, both!(|k| lowest_bits(codes[k])), both!(|k| lowest_bits(codes[k] >> 7)))
}

/// The row of each lane's digit: of the points times powers of w, or of the points alone.
#[inline(always)]
fn gather<V: Vector>(rows: &[Rows], digits: [Digit; LANES], points: bool) -> Fe<V> {
    macro_rules! row {
        ($($lane:literal)*) => {
            [$({
                let index = usize::from(digits[$lane] >> 1) & 0x3f;
                // The factor makes a third of it, for indices up to 63.
                let index = if points { index * 171 >> 9 } else { index };
                &rows[index][$lane]
            }),*]
        };
    }
    Fe::from_words(V::from_rows(row!(0 1 2 3 4 5 6 7)))
}

/// The lowest bit of each byte, that of byte 0 lowest.
#[inline(always)]
fn lowest_bits(bytes: u64) -> Mask {
    // The factor moves bit 8i to bit 56 + i, and no two bits to the same place.
    ((bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56) as Mask
}

const _: () = assert!(ZERO == 0x80);
