//! The ladder in double precision: its table, and its result as a number in 52-bit limbs.

use std::marker::PhantomData;

use super::point::DoublesSteps;
use super::{power, unit};
use crate::field::{Fe, R256};
use crate::glv::{Digit, POINTS};
use crate::group::{GROUP, Group};
use crate::ladder::{Arithmetic, Memory, multiple, x_index, y_index};
use crate::point::{Affine, Jacobian, Terms};
use crate::vector::{Doubles, DoublesOp, LANES, Lanes, Limbs, Mask, Vector, Words};
use crate::words;
use crate::work::{Rows, TablePoint, Work, groups, grow};

/// The sign of a double.
const SIGN: u64 = 1 << 63;
const LOW51: u64 = (1 << 51) - 1;

/// The stage that computes the multiples of all vectors of signatures, like `crate::ladder`.
pub struct DoublesLadder<'a> {
    /// The batch.
    pub work: &'a mut Work,
}

/// The table of one vector, by lanes.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Table {
    /// x of each point times 1, beta and beta^2.
    x: [Coordinate; 3 * POINTS.len()],
    /// Twice the y of each point.
    y: [Coordinate; POINTS.len()],
}

/// The bits of a coordinate's limbs in each lane.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Coordinate {
    /// The four lower limbs.
    low: Rows,
    /// The highest limb.
    high: [u64; LANES],
}

impl Default for Table {
    fn default() -> Self {
        let zero = Coordinate::default();
        Self { x: [zero; 3 * POINTS.len()], y: [zero; POINTS.len()] }
    }
}

impl DoublesOp for DoublesLadder<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector, D: Doubles>(self) {
        let work = self.work;
        let mut memory = Memory::default();
        grow(&mut work.doubles_tables, GROUP, Table::default());
        for (group, vectors) in groups(&work.signatures) {
            let tables = &mut work.doubles_tables[..vectors.len()];
            for (k, table) in tables.iter_mut().enumerate() {
                fill::<V, D>(&work.table[group], k, table);
            }
            let arithmetic = InDoubles::<V, D>::new(vectors.len());
            let digits = &work.ladder_digits[vectors.clone()];
            let sum = multiple(&arithmetic, tables, digits, &mut memory);
            let [x, y, z] = &mut work.multiple[group];
            for k in 0..vectors.len() {
                // The Y of these coordinates is twice the Y of the others, and numbers are even.
                half::<V>(&sum.x[k]).double().store(&mut x[k]);
                half::<V>(&sum.y[k]).store(&mut y[k]);
                half::<V>(&sum.z[k]).double().below_2_256().store(&mut z[k]);
            }
        }
    }
}

/// Points in double precision.
struct InDoubles<V, D> {
    steps: DoublesSteps,
    kind: PhantomData<(V, D)>,
}

impl<V: Vector, D: Doubles> InDoubles<V, D> {
    #[inline(always)]
    fn new(vectors: usize) -> Self {
        Self { steps: DoublesSteps(vectors), kind: PhantomData }
    }
}

impl<V: Vector, D: Doubles> Arithmetic for InDoubles<V, D> {
    type Vector = V;
    type Table = Table;

    #[inline(always)]
    fn look_up(
        &self,
        table: &Table,
        digits: [Digit; LANES],
        negate: Mask,
        [x, y]: [&mut Limbs; 2],
    ) {
        let zero = V::splat(0);
        gather(&table.x, digits.map(x_index), zero, x);
        gather(&table.y, digits.map(y_index), V::select(negate, V::splat(SIGN), zero), y);
    }

    #[inline(always)]
    fn start(
        &self,
        points: &Affine,
        _: &[Mask; GROUP],
        infinity: &[Mask; GROUP],
        to: &mut Jacobian,
    ) {
        to.x = points.x;
        to.y = points.y;
        for (z, infinity) in to.z.iter_mut().zip(infinity) {
            Fe::<V>::select(*infinity, Fe::small(0), one()).store(z);
        }
    }

    #[inline(always)]
    fn double(&self, from: &Jacobian, terms: &mut Terms, to: &mut Jacobian) {
        self.steps.double::<D>(from, terms, to);
    }

    #[inline(always)]
    fn add(
        &self,
        from: &Jacobian,
        other: &Affine,
        _: &[Mask; GROUP],
        terms: &mut Terms,
        to: &mut Jacobian,
    ) {
        self.steps.add::<D>(from, other, terms, to);
    }
}

/// Returns the bits of the number 1, as 1 + p.
#[inline(always)]
fn one<V: Vector>() -> Fe<V> {
    let mut one = Fe::small(0);
    one.0[0] = V::splat((1.0 - R256 as f64).to_bits());
    one.0[4] = V::splat(power(256).to_bits());
    one
}

/// Writes a coordinate of each lane's point, with the signs flipped.
#[inline(always)]
fn gather<V: Vector>(from: &[Coordinate], lanes: [usize; LANES], signs: V, to: &mut Limbs) {
    let [i0, i1, i2, i3, i4, i5, i6, i7] = lanes;
    macro_rules! part {
        ($row:ident) => {
            [$row!(i0 0), $row!(i1 1), $row!(i2 2), $row!(i3 3),
             $row!(i4 4), $row!(i5 5), $row!(i6 6), $row!(i7 7)]
        };
    }
    macro_rules! low {
        ($index:ident $lane:literal) => {
            &from[$index].low[$lane]
        };
    }
    macro_rules! high {
        ($index:ident $lane:literal) => {
            from[$index].high[$lane]
        };
    }
    let [l0, l1, l2, l3] = V::from_rows(part!(low));
    let limbs = [l0, l1, l2, l3, V::load(&Lanes(part!(high)))];
    for (limb, to) in limbs.into_iter().zip(to) {
        // An integer sum whose carry is lost.
        limb.add(signs).store(to);
    }
}

/// Writes the table of one vector of the group, by lanes.
#[inline(always)]
fn fill<V: Vector, D: Doubles>(
    points: &[TablePoint; POINTS.len()],
    vector: usize,
    table: &mut Table,
) {
    for (i, [x, beta_x, y]) in points.iter().enumerate() {
        let [x, beta_x] = [Fe::<V>::load(&x[vector]), Fe::load(&beta_x[vector])];
        let y = Fe::<V>::load(&y[vector]);
        let other = Fe::small(0).sub(x.add(beta_x));
        // The fields are in units of limbs, that is, of half the number.
        let mut fields = Group::default();
        for (number, to) in [x, beta_x, other].into_iter().zip(&mut fields) {
            to_fields(number.below_2_256().half(), to);
        }
        to_fields(y.below_2_256(), &mut fields[3]);
        let mut limbs = Group::default();
        DoublesSteps::from_fields::<D>(&fields, &mut limbs);
        let [x, beta_x, other, y] = &limbs;
        write::<V>(x, &mut table.x[3 * i]);
        write::<V>(beta_x, &mut table.x[3 * i + 1]);
        write::<V>(other, &mut table.x[3 * i + 2]);
        write::<V>(y, &mut table.y[i]);
    }
}

/// Splits a number below 2^256 into fields of 51 bits, and the last of 52, each as the bits of a
/// double: 2^52 units of the limb plus the field.
#[inline(always)]
fn to_fields<V: Vector>(number: Fe<V>, to: &mut Limbs) {
    let [l0, l1, l2, l3, l4] = number.0;
    let low = V::splat(LOW51);
    let fields = [
        l0.and(low),
        l0.shr::<51>().or(l1.shl::<1>()).and(low),
        l1.shr::<50>().or(l2.shl::<2>()).and(low),
        l2.shr::<49>().or(l3.shl::<3>()).and(low),
        l3.shr::<48>().or(l4.shl::<4>()),
    ];
    for (i, (field, to)) in fields.into_iter().zip(to).enumerate() {
        field.or(V::splat(power(52 + unit(i)).to_bits())).store(to);
    }
}

#[inline(always)]
fn write<V: Vector>(limbs: &Limbs, to: &mut Coordinate) {
    let [l0, l1, l2, l3, l4] = limbs;
    V::to_rows([V::load(l0), V::load(l1), V::load(l2), V::load(l3)], &mut to.low);
    to.high = l4.0;
}

/// Returns half of the number, below 2^256.
#[inline(always)]
fn half<V: Vector>(limbs: &Limbs) -> Fe<V> {
    let mut rows = Rows::default();
    for (lane, row) in rows.iter_mut().enumerate() {
        let mut units = [0; 5];
        for (i, units) in units.iter_mut().enumerate() {
            *units = (f64::from_bits(limbs[i].0[lane]) * power(-unit(i))) as i64;
        }
        *row = to_words(units);
    }
    Fe::from_rows(&rows)
}

/// Returns the number with these limbs of 51 bits, modulo p and below 2^256.
fn to_words(mut limbs: [i64; 5]) -> Words {
    for i in 0..4 {
        limbs[i + 1] += limbs[i] >> 51;
        limbs[i] &= LOW51 as i64;
    }
    let negative = limbs[4] < 0;
    let [l0, l1, l2, l3, l4] = limbs.map(i64::cast_unsigned);
    // If the number is negative, this is 2^256 more; it is above -2^255 - 2^242.
    let number = [l0 | l1 << 51, l1 >> 13 | l2 << 38, l2 >> 26 | l3 << 25, l3 >> 39 | l4 << 12];
    if negative { words::sub(&number, &[R256, 0, 0, 0]).0 } else { number }
}
