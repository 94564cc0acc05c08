//! Additions of affine points with one inversion for all of a round: the ladder's tables, and the
//! points of the comb, which are added in a tree.
//!
//! In each round every addition puts its denominator into a running product; the inverse of the
//! whole product, taken once, gives back the inverse of each on the way back (Montgomery). A
//! denominator of zero, in a lane, would spoil that lane of the whole round: then the round is run
//! again with every denominator looked at, and lanes with such a one are marked as exceptional.

use crate::comb::Comb;
use crate::field::{Fe, FeLanes, steps};
use crate::point::{Pair, TripleSquare, both, in_order};
use crate::vector::{ALL, Mask, Op, Vector, Words};
use crate::work::{Work, grow};

/// A third root of unity modulo p: (beta x, y) is lambda times (x, y).
pub const BETA: Words =
    [0xc139_6c28_7195_01ee, 0x9cf0_4975_12f5_8995, 0x6e64_479e_ac34_34e9, 0x7ae9_6a2b_657c_0710];

/// An addition in the ladder's table, by indices of `glv::POINTS`.
#[derive(Clone, Copy)]
enum TableJob {
    /// Twice the point.
    Double(usize),
    /// The sum.
    Add(usize, usize),
    /// The first point minus w times the second.
    MinusW(usize, usize),
    /// The first point minus w^2 times the second.
    MinusW2(usize, usize),
}

use TableJob::{Add, Double, MinusW, MinusW2};

/// What makes the ladder's table, round by round, with the index that each job fills.
const TABLE_ROUNDS: [&[(usize, TableJob)]; 3] = [
    // 1 - w, 2
    &[(1, MinusW(0, 0)), (2, Double(0))],
    // 2 - w, 3 + w = 2 - w^2, 3, 2 - 2w, 4
    &[(3, MinusW(2, 0)), (4, MinusW2(2, 0)), (5, Add(2, 0)), (6, MinusW(2, 2)), (9, Double(2))],
    // 3 - w, 4 + w = 3 - w^2, 3 - 2w
    &[(7, MinusW(5, 0)), (8, MinusW2(5, 0)), (10, MinusW(5, 2))],
];

/// Fills the ladder's tables and adds up the points of the comb.
pub struct Rounds<'a> {
    /// The batch.
    pub work: &'a mut Work,
    /// The multiples of G.
    pub comb: &'a Comb,
}

/// Two operands of an addition: x1, x2, and the numerators' y1 and y2; limbs of y are signed.
struct Operands<V> {
    x1: Pair<V>,
    x2: Pair<V>,
    y1: Pair<V>,
    y2: Pair<V>,
}

impl Op for Rounds<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { work, comb } = self;
        for vector in 0..work.signature_vectors {
            first_point::<V>(work, vector);
        }
        // The points of the comb that are left, by their place: the first round makes half as many
        // as there are windows.
        let mut places = [0; crate::comb::WINDOWS_MAX / 2];
        let mut count = comb.windows() / 2;
        for (i, place) in places.iter_mut().enumerate() {
            *place = i;
        }
        for round in 0.. {
            let first = round == 0;
            let table = TABLE_ROUNDS.get(round).copied().unwrap_or_default();
            let pairs = if first { count } else { count / 2 };
            if table.is_empty() && pairs == 0 {
                break;
            }
            let places = &mut places;
            let plan = Plan { first, table, places, pairs, comb };
            plan.run::<V>(work);
            if !first {
                for i in 0..count.div_ceil(2) {
                    places[i] = places[2 * i];
                }
                count = count.div_ceil(2);
            }
        }
    }
}

/// The first point of the ladder's table: (c x, c^2) with c = x^3 + 7.
#[inline(always)]
fn first_point<V: Vector>(work: &mut Work, vector: usize) {
    let x = Fe::<V>::from_rows(&work.inputs[vector].x);
    let c = curve_constant(x);
    let point = &mut work.table[vector][0];
    let x = x.mul(c);
    x.store(&mut point[0]);
    x.mul(Fe::constant(BETA)).store(&mut point[1]);
    c.sqr().store(&mut point[2]);
}

/// x^3 + 7.
#[inline(always)]
pub fn curve_constant<V: Vector>(x: Fe<V>) -> Fe<V> {
    x.sqr().mul(x).add(Fe::small(7))
}

/// The jobs of a round.
struct Plan<'a> {
    /// Whether the points of the comb come from its table.
    first: bool,
    table: &'a [(usize, TableJob)],
    places: &'a [usize; crate::comb::WINDOWS_MAX / 2],
    /// Number of additions of points of the comb.
    pairs: usize,
    comb: &'a Comb,
}

impl Plan<'_> {
    #[inline(always)]
    fn run<V: Vector>(&self, work: &mut Work) {
        let jobs = work.signature_vectors / 2 * self.table.len() + work.vectors / 2 * self.pairs;
        grow(&mut work.prefix, jobs, [FeLanes::default(); 2]);
        let mut product = self.forward::<V>(work, false);
        let mut careful = false;
        if product[0].zeros() | product[1].zeros() != 0 {
            careful = true;
            product = self.forward::<V>(work, true);
        }
        let inverse = product[0].mul(product[1]).inverse();
        self.backward::<V>(work, careful, [inverse.mul(product[1]), inverse.mul(product[0])]);
    }

    /// Asks for the points of two windows of a pair of vectors, if there is such a pair: a few at a
    /// time, between which the processor has something else to do.
    #[inline(always)]
    fn prefetch<V: Vector>(&self, work: &Work, vector: usize, pair: usize) {
        if !self.first || vector >= work.vectors {
            return;
        }
        for digits in &work.comb_digits[vector..vector + 2] {
            for window in [2 * pair, 2 * pair + 1] {
                for digit in digits[window] {
                    V::prefetch(self.comb.row(window, digit).0);
                }
            }
        }
    }

    /// Multiplies all denominators, and stores the product before each.
    #[inline(always)]
    fn forward<V: Vector>(&self, work: &mut Work, careful: bool) -> Pair<V> {
        let mut product = both!(|_k| Fe::<V>::small(1));
        let mut at = 0;
        for vector in (0..work.vectors).step_by(2) {
            if vector < work.signature_vectors {
                for (_, job) in self.table {
                    let mut d = table_denominator::<V>(work, vector, *job);
                    if careful {
                        d = without_zeros(work, vector, d);
                    }
                    store_times(&mut work.prefix[at], &mut product, d);
                    at += 1;
                }
            }
            for pair in 0..self.pairs {
                self.prefetch::<V>(work, vector + 2, pair);
                let [x1, x2] = if self.first {
                    [
                        self.row_x::<V>(work, vector, 2 * pair),
                        self.row_x(work, vector, 2 * pair + 1),
                    ]
                } else {
                    let [a, b] = [self.places[2 * pair], self.places[2 * pair + 1]];
                    [comb_part::<V>(work, vector, a, 0), comb_part(work, vector, b, 0)]
                };
                let mut d = both!(|k| x2[k].sub(x1[k]));
                if careful {
                    d = without_zeros(work, vector, d);
                }
                store_times(&mut work.prefix[at], &mut product, d);
                at += 1;
            }
        }
        product
    }

    /// Performs all additions, last to first, with the inverse of the product of denominators.
    #[inline(always)]
    fn backward<V: Vector>(&self, work: &mut Work, careful: bool, mut inverse: Pair<V>) {
        let mut at = work.signature_vectors / 2 * self.table.len() + work.vectors / 2 * self.pairs;
        for vector in (0..work.vectors).step_by(2).rev() {
            for pair in (0..self.pairs).rev() {
                self.prefetch::<V>(work, vector.wrapping_sub(2), pair);
                at -= 1;
                let [a, b] = [self.places[2 * pair % 16], self.places[(2 * pair + 1) % 16]];
                let operands = if self.first {
                    let [(x1, y1), (x2, y2)] = [
                        self.row::<V>(work, vector, 2 * pair),
                        self.row(work, vector, 2 * pair + 1),
                    ];
                    Operands { x1, x2, y1, y2 }
                } else {
                    let [x1, x2] = [comb_part(work, vector, a, 0), comb_part(work, vector, b, 0)];
                    let [y1, y2] = [comb_part(work, vector, a, 1), comb_part(work, vector, b, 1)];
                    Operands { x1, x2, y1, y2 }
                };
                let mut d = both!(|k| operands.x2[k].sub(operands.x1[k]));
                if careful {
                    d = without_zeros(work, vector, d);
                }
                let numerator = both!(|k| operands.y2[k].sub_signed(operands.y1[k]));
                let slope = slopes(&work.prefix[at], &mut inverse, numerator, d);
                let (x, y) = add(&operands, slope);
                let to = if self.first { pair } else { a };
                both!(|k| x[k].store(&mut work.comb[vector + k][to][0]));
                both!(|k| y[k].store(&mut work.comb[vector + k][to][1]));
            }
            if vector < work.signature_vectors {
                for (to, job) in self.table.iter().rev() {
                    at -= 1;
                    let mut d = table_denominator::<V>(work, vector, *job);
                    if careful {
                        d = without_zeros(work, vector, d);
                    }
                    table_job(work, vector, (*to, *job), at, d, &mut inverse);
                }
            }
        }
    }

    /// The x of a window's points.
    #[inline(always)]
    fn row_x<V: Vector>(&self, work: &Work, vector: usize, window: usize) -> Pair<V> {
        both!(|k| self.gather::<V, 0>(work, vector + k, window))
    }

    /// Part 0 (x) or 1 (y) of the points of a window's digits.
    #[inline(always)]
    fn gather<V: Vector, const PART: usize>(&self, work: &Work, vector: usize, at: usize) -> Fe<V> {
        let comb = self.comb;
        let [d0, d1, d2, d3, d4, d5, d6, d7] = work.comb_digits[vector][at];
        Fe::from_words(V::from_rows([
            &comb.row(at, d0).0[PART],
            &comb.row(at, d1).0[PART],
            &comb.row(at, d2).0[PART],
            &comb.row(at, d3).0[PART],
            &comb.row(at, d4).0[PART],
            &comb.row(at, d5).0[PART],
            &comb.row(at, d6).0[PART],
            &comb.row(at, d7).0[PART],
        ]))
    }

    /// A window's points, with signed limbs of y.
    #[inline(always)]
    fn row<V: Vector>(&self, work: &Work, vector: usize, window: usize) -> (Pair<V>, Pair<V>) {
        let x = self.row_x(work, vector, window);
        let y = both!(|k| {
            let mut negative = 0;
            for (lane, digit) in work.comb_digits[vector + k][window].iter().enumerate() {
                negative |= Mask::from(self.comb.row(window, *digit).1) << lane;
            }
            self.gather::<V, 1>(work, vector + k, window).signed_if(negative)
        });
        (x, y)
    }
}

/// Part 0 (x) or 1 (y) of a point of the comb.
#[inline(always)]
fn comb_part<V: Vector>(work: &Work, vector: usize, point: usize, part: usize) -> Pair<V> {
    both!(|k| Fe::load(&work.comb[vector + k][point][part]))
}

/// Part 0 (x), 1 (beta x) or 2 (y) of a point of the ladder's table.
#[inline(always)]
fn table_part<V: Vector>(work: &Work, vector: usize, point: usize, part: usize) -> Pair<V> {
    both!(|k| Fe::load(&work.table[vector + k][point][part]))
}

/// Stores the product, then multiplies it.
#[inline(always)]
fn store_times<V: Vector>(prefix: &mut [FeLanes; 2], product: &mut Pair<V>, d: Pair<V>) {
    both!(|k| product[k].store(&mut prefix[k]));
    *product = both!(|k| product[k].mul(d[k]));
}

/// The slopes of lines, from numerators and denominators: the inverse of a denominator comes from
/// the inverse of the product up to it, which loses it.
#[inline(always)]
fn slopes<V: Vector>(
    prefix: &[FeLanes; 2],
    inverse: &mut Pair<V>,
    numerator: Pair<V>,
    d: Pair<V>,
) -> Pair<V> {
    let mut last = d[1];
    let one = in_order!(last, |k| inverse[k].after(last).mul(Fe::load(&prefix[k])));
    *inverse = in_order!(last, |k| inverse[k].after(last).mul(d[k]));
    in_order!(last, |k| numerator[k].after(last).mul(one[k]))
}

/// Replaces zeros by ones, and marks their lanes.
#[inline(always)]
pub fn without_zeros<V: Vector>(work: &mut Work, at: usize, d: Pair<V>) -> Pair<V> {
    let zeros = both!(|k| d[k].zeros());
    both!(|k| work.exceptional[at + k] |= zeros[k]);
    both!(|k| Fe::select(zeros[k], Fe::small(1), d[k]))
}

/// x1, x2 and y2's sign of an addition in the ladder's table; for a doubling x twice.
#[inline(always)]
fn table_xs<V: Vector>(work: &Work, vector: usize, job: TableJob) -> ([Pair<V>; 2], usize, Mask) {
    match job {
        Double(a) => ([table_part(work, vector, a, 0), table_part(work, vector, a, 0)], a, 0),
        Add(a, b) => ([table_part(work, vector, a, 0), table_part(work, vector, b, 0)], b, 0),
        MinusW(a, b) => ([table_part(work, vector, a, 0), table_part(work, vector, b, 1)], b, ALL),
        MinusW2(a, b) => {
            // The three roots of unity sum up to zero.
            let [x, beta_x] = [table_part(work, vector, b, 0), table_part(work, vector, b, 1)];
            let sum = both!(|k| Fe::small(0).sub(x[k].add(beta_x[k])));
            ([table_part(work, vector, a, 0), sum], b, ALL)
        }
    }
}

#[inline(always)]
fn table_denominator<V: Vector>(work: &Work, vector: usize, job: TableJob) -> Pair<V> {
    if let Double(a) = job {
        return both!(|k| Fe::<V>::load(&work.table[vector + k][a][2]).double());
    }
    let ([x1, x2], _, _) = table_xs::<V>(work, vector, job);
    both!(|k| x2[k].sub(x1[k]))
}

/// Fills a place of the ladder's table.
#[inline(always)]
fn table_job<V: Vector>(
    work: &mut Work,
    vector: usize,
    (to, job): (usize, TableJob),
    at: usize,
    d: Pair<V>,
    inverse: &mut Pair<V>,
) {
    let ([x1, x2], second, negative) = table_xs::<V>(work, vector, job);
    let (Double(first) | Add(first, _) | MinusW(first, _) | MinusW2(first, _)) = job;
    let y1 = table_part(work, vector, first, 2);
    let y2 = table_part(work, vector, second, 2);
    let numerator = if let Double(_) = job {
        both!(|k| Fe::step(TripleSquare, [&x1[k]], 0))
    } else {
        both!(|k| y2[k].signed_if(negative).sub_signed(y1[k]))
    };
    let slope = slopes(&work.prefix[at], inverse, numerator, d);
    let (x, y) = add(&Operands { x1, x2, y1, y2 }, slope);
    let beta_x = both!(|k| x[k].after(y[1]).mul(Fe::constant(BETA)));
    both!(|k| x[k].store(&mut work.table[vector + k][to][0]));
    both!(|k| beta_x[k].store(&mut work.table[vector + k][to][1]));
    both!(|k| y[k].store(&mut work.table[vector + k][to][2]));
}

steps! {
    /// a^2 - x1 - x2, for the slope a
    ThirdX(slope, x1, x2; _mask) => {
        slope.square().fold().sub::<0>(x1).sub::<0>(x2).finish_signed()
    };
    /// a (x1 - x3) - y1
    ThirdY(slope, x1, x3, y1; _mask) => {
        slope.product(x1.sub(x3)).fold().sub::<0>(y1).finish_signed()
    };
}

/// The sum of two points, from the slope of the line through them.
#[inline(always)]
fn add<V: Vector>(operands: &Operands<V>, slope: Pair<V>) -> (Pair<V>, Pair<V>) {
    let Operands { x1, x2, y1, .. } = operands;
    let mut last = slope[1];
    let x = in_order!(last, |k| Fe::step(ThirdX, [&slope[k].after(last), &x1[k], &x2[k]], 0));
    let y = in_order!(last, |k| {
        Fe::step(ThirdY, [&slope[k].after(last), &x1[k], &x[k], &y1[k]], 0)
    });
    (x, y)
}
