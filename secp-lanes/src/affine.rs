//! Additions of affine points with a single inversion per round: the ladder's tables, and the
//! points of the comb, which are added in a tree.
//!
//! In each round every addition multiplies its denominator into a running product (`chain`), and
//! gets its inverse on the way back. A zero denominator in a lane would spoil that lane of the
//! whole round: if there is one, the round is run again with a check of every denominator, and
//! lanes with a zero are marked as exceptional.

use std::ops::Range;

use crate::chain::{Chain, Number};
use crate::comb::{COMB_PLACES, Comb};
use crate::field::{Fe, Product, ProductFactor, Square, SquareFactor, steps};
use crate::group::{GROUP, Group, Steps, splat};
use crate::point::TripleSquare;
use crate::vector::{ALL, Mask, Op, Vector, Words};
use crate::work::{CombDigits, Work, groups};

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

/// The jobs that fill the ladder's table, round by round, each with the index that it fills.
const TABLE_ROUNDS: [&[(usize, TableJob)]; 3] = [
    // 1 - w, 2
    &[(1, MinusW(0, 0)), (2, Double(0))],
    // 2 - w, 3 + w = 2 - w^2, 3, 2 - 2w, 4
    &[(3, MinusW(2, 0)), (4, MinusW2(2, 0)), (5, Add(2, 0)), (6, MinusW(2, 2)), (9, Double(2))],
    // 3 - w, 4 + w = 3 - w^2, 3 - 2w
    &[(7, MinusW(5, 0)), (8, MinusW2(5, 0)), (10, MinusW(5, 2))],
];

/// The stage that fills the ladder's tables and adds up the points of the comb.
pub struct Rounds<'a> {
    /// The batch.
    pub work: &'a mut Work,
    /// The multiples of G.
    pub comb: &'a Comb,
}

/// An addition of a round.
#[derive(Clone, Copy)]
enum Job {
    /// In the ladder's table, with the index that it fills.
    Table(usize, TableJob),
    /// Of two adjacent points of the comb, by the number of the pair.
    Comb(usize),
}

/// The operands of an addition; limbs of y are signed.
struct Operands<'a> {
    x1: &'a Group,
    y1: &'a Group,
    x2: &'a Group,
    y2: &'a Group,
    /// Whether the second y is to be negated, in all lanes or none.
    negate: Mask,
    /// Whether both are the same point.
    same: bool,
}

/// Memory for intermediate results of an addition.
#[derive(Default)]
struct Memory {
    /// x and y of two points of the comb.
    rows: [[Group; 2]; 2],
    /// The second x, if it is in no table.
    x2: Group,
    denominator: Group,
    inverse: Group,
    numerator: Group,
    slope: Group,
}

/// Where a sum is written; in the ladder's table, beta x too.
struct Sum<'a> {
    x: &'a mut Group,
    y: &'a mut Group,
    beta_x: Option<&'a mut Group>,
}

steps! {
    /// a - b
    Minus(a, b; _mask) => a.sub(b);
    /// 2a
    Twice(a; _mask) => a.double();
    /// -(a + b)
    MinusSum(a, b; _mask) => Fe::small(0).sub(a.add(b));
    /// x^3 + 7, from x^2 and x
    CurveConstant(square, x; _mask) => square.product(x).fold().finish().add(Fe::small(7));
    /// (y2 - y1) a, or (-y2 - y1) a in the lanes of the mask, usable only in products
    Slope(y2, y1, a; mask) => {
        y2.signed_if(mask).sub_signed(y1).product(a).fold().finish_factor()
    };
    /// a^2 - x1 - x2, for the slope a
    ThirdX(slope, x1, x2; _mask) => {
        slope.square().fold().sub::<0>(x1).sub::<0>(x2).finish_signed()
    };
    /// a (x1 - x3) - y1
    ThirdY(slope, x1, x3, y1; _mask) => {
        slope.product(x1.sub(x3)).fold().sub::<0>(y1).finish_signed()
    };
}

impl Op for Rounds<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { work, comb } = self;
        let mut memory = Memory::default();
        first_points::<V>(work, &mut memory);
        // The remaining points of the comb, by their places, and a place that is free. In the first
        // round, whose points are looked up, the sum of each pair has the place of that number.
        let mut places: [usize; COMB_PLACES] = std::array::from_fn(|i| i);
        let mut count = comb.windows();
        let mut spare = count / 2;
        for round in 0.. {
            let table = TABLE_ROUNDS.get(round).copied().unwrap_or_default();
            let pairs = count / 2;
            if table.is_empty() && pairs == 0 {
                break;
            }
            let mut sums = places;
            let is_first = round == 0;
            if !is_first {
                // Pairs are added last to first, each into the place that the previous one freed.
                for pair in (0..pairs).rev() {
                    sums[pair] = std::mem::replace(&mut spare, places[2 * pair]);
                }
                if count % 2 == 1 {
                    sums[pairs] = places[count - 1];
                }
            }
            let operands = (!is_first).then_some(&places);
            let plan = RoundPlan { table, operands, sums: &sums[..pairs], comb };
            plan.run::<V>(work, &mut memory);
            (places, count) = (sums, count.div_ceil(2));
        }
        work.sum = places[0];
    }
}

/// Computes the first points of the ladder's tables: (c x, c^2) with c = x^3 + 7.
#[inline(always)]
fn first_points<V: Vector>(work: &mut Work, memory: &mut Memory) {
    let beta = splat(Fe::<V>::constant(BETA));
    for (group, vectors) in groups(&work.signatures) {
        let steps = Steps::<V>::new(vectors.len());
        let Memory { x2: x, denominator: c, slope: square, .. } = memory;
        curve_constants(steps, work, vectors, [x, square, c]);
        let [point_x, beta_x, y] = &mut work.table[group][0];
        steps.run(Product, [x, c], point_x);
        steps.run(Product, [point_x, &beta], beta_x);
        steps.run(Square, [c], y);
    }
}

/// Computes the keys' x, x^2, and x^3 + 7.
#[inline(always)]
pub fn curve_constants<V: Vector>(
    steps: Steps<V>,
    work: &Work,
    vectors: Range<usize>,
    [x, square, c]: [&mut Group; 3],
) {
    for (inputs, x) in work.inputs[vectors].iter().zip(&mut *x) {
        Fe::<V>::from_rows(&inputs.x).store(x);
    }
    steps.run(SquareFactor, [x], square);
    steps.run(CurveConstant, [square, x], c);
}

/// The jobs of a round.
struct RoundPlan<'a> {
    /// The jobs in the ladder's table; the operands of each come before the index that it fills.
    table: &'a [(usize, TableJob)],
    /// The places of the comb's points that are added in pairs; `None` if they are looked up.
    operands: Option<&'a [usize; COMB_PLACES]>,
    /// The places of the sums, one for each pair.
    sums: &'a [usize],
    comb: &'a Comb,
}

/// A group: its index, its vectors, and whether they are signatures.
pub type Place = (usize, Range<usize>, bool);

impl RoundPlan<'_> {
    #[inline(always)]
    fn run<V: Vector>(&self, work: &mut Work, memory: &mut Memory) {
        let jobs = places(work).map(|(_, _, signatures)| self.jobs(signatures).count()).sum();
        let mut chain = std::mem::take(&mut work.chain);
        let mut careful = false;
        loop {
            chain.clear::<V>(jobs);
            self.forward::<V>(work, memory, careful, &mut chain);
            if chain.invert::<V>() || careful {
                break;
            }
            careful = true;
        }
        self.backward::<V>(work, memory, careful, &mut chain);
        work.chain = chain;
    }

    /// Returns the jobs of a group.
    #[inline(always)]
    fn jobs(&self, signatures: bool) -> impl DoubleEndedIterator<Item = Job> {
        let table = if signatures { self.table } else { &[] };
        let table = table.iter().map(|(to, job)| Job::Table(*to, *job));
        table.chain((0..self.sums.len()).map(Job::Comb))
    }

    /// Multiplies all denominators.
    #[inline(always)]
    fn forward<V: Vector>(
        &self,
        work: &mut Work,
        memory: &mut Memory,
        careful: bool,
        chain: &mut Chain,
    ) {
        for (group, vectors, signatures) in places(work) {
            let steps = Steps::<V>::new(vectors.len());
            for job in self.jobs(signatures) {
                self.prefetch::<V>(work, group.checked_add(1), job);
                self.look_up::<V>(work, &vectors, job, &mut memory.rows, false);
                let Memory { rows, x2, denominator, .. } = memory;
                let (operands, _) = match job {
                    Job::Table(to, job) => table_operands(steps, work, (group, to), job, x2),
                    Job::Comb(pair) => self.comb_operands(work, (group, pair), rows),
                };
                let mut number = operands.denominator();
                let mut marks = [0; GROUP];
                if careful {
                    number.without_zeros(steps, denominator, &mut marks);
                    number = Number::Itself(denominator);
                }
                chain.push(steps, number);
                for (exceptional, mark) in work.exceptional[vectors.clone()].iter_mut().zip(marks) {
                    *exceptional |= mark;
                }
            }
        }
    }

    /// Performs all additions, last to first, with the inverse of the product of denominators.
    #[inline(always)]
    fn backward<V: Vector>(
        &self,
        work: &mut Work,
        memory: &mut Memory,
        careful: bool,
        chain: &mut Chain,
    ) {
        let beta = splat(Fe::<V>::constant(BETA));
        for (group, vectors, signatures) in places(work).rev() {
            let steps = Steps::<V>::new(vectors.len());
            for job in self.jobs(signatures).rev() {
                self.prefetch::<V>(work, group.checked_sub(1), job);
                self.look_up::<V>(work, &vectors, job, &mut memory.rows, true);
                let Memory { rows, x2, denominator, inverse, numerator, slope } = memory;
                let (operands, sum) = match job {
                    Job::Table(to, job) => table_operands(steps, work, (group, to), job, x2),
                    Job::Comb(pair) => self.comb_operands(work, (group, pair), rows),
                };
                let mut number = operands.denominator();
                if careful {
                    // The lanes of zeros are marked already.
                    number.without_zeros(steps, denominator, &mut [0; GROUP]);
                    number = Number::Itself(denominator);
                }
                chain.pop(steps, number, inverse);
                let Operands { x1, y1, x2, y2, negate, same } = operands;
                if same {
                    steps.run(TripleSquare, [x1], numerator);
                    steps.run(ProductFactor, [numerator, inverse], slope);
                } else {
                    steps.run_masked(Slope, [y2, y1, inverse], &[negate; GROUP], slope);
                }
                let Sum { x, y, beta_x } = sum;
                steps.run(ThirdX, [slope, x1, x2], x);
                steps.run(ThirdY, [slope, x1, x, y1], y);
                if let Some(beta_x) = beta_x {
                    steps.run(Product, [x, &beta], beta_x);
                }
            }
        }
    }

    /// Returns the operands of an addition of two points of the comb, and where its sum is written.
    /// The operands are the given points if they were looked up.
    #[inline(always)]
    fn comb_operands<'a>(
        &self,
        work: &'a mut Work,
        (group, pair): (usize, usize),
        [first, second]: &'a [[Group; 2]; 2],
    ) -> (Operands<'a>, Sum<'a>) {
        let points = &mut work.comb[group];
        let ([x1, y1], [x2, y2], [x, y]) = match self.operands {
            None => (first, second, &mut points[self.sums[pair]]),
            Some(places) => {
                let places = [places[2 * pair], places[2 * pair + 1], self.sums[pair]];
                let [first, second, sum] =
                    points.get_disjoint_mut(places).expect("three places of the comb");
                (&*first, &*second, sum)
            }
        };
        (Operands { x1, y1, x2, y2, negate: 0, same: false }, Sum { x, y, beta_x: None })
    }

    /// Looks up the comb's points that a job needs, if any: x, and with `with_y` the signed limbs
    /// of y.
    #[inline(always)]
    fn look_up<V: Vector>(
        &self,
        work: &Work,
        vectors: &Range<usize>,
        job: Job,
        rows: &mut [[Group; 2]; 2],
        with_y: bool,
    ) {
        let (None, Job::Comb(pair)) = (self.operands, job) else { return };
        for (k, digits) in work.comb_digits[vectors.clone()].iter().enumerate() {
            for (window, [x, y]) in (2 * pair..).zip(&mut *rows) {
                let digits = &digits[window];
                self.gather::<V, 0>(window, digits).store(&mut x[k]);
                if with_y {
                    let mut negative = 0;
                    for (lane, digit) in digits.iter().enumerate() {
                        negative |= Mask::from(self.comb.row(window, *digit).1) << lane;
                    }
                    self.gather::<V, 1>(window, digits).signed_if(negative).store(&mut y[k]);
                }
            }
        }
    }

    /// Returns part 0 (x) or 1 (y) of the points of a window's digits.
    #[inline(always)]
    fn gather<V: Vector, const PART: usize>(&self, at: usize, digits: &CombDigits) -> Fe<V> {
        let comb = self.comb;
        let [d0, d1, d2, d3, d4, d5, d6, d7] = *digits;
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

    /// Prefetches the points of the comb that a group needs for a job, if there is such a group: a
    /// few at a time, so that the processor computes in between.
    #[inline(always)]
    fn prefetch<V: Vector>(&self, work: &Work, group: Option<usize>, job: Job) {
        let (None, Some(group), Job::Comb(pair)) = (self.operands, group, job) else { return };
        for digits in work.comb_digits.iter().skip(group * GROUP).take(GROUP) {
            for window in [2 * pair, 2 * pair + 1] {
                for digit in digits[window] {
                    V::prefetch(self.comb.row(window, digit).0);
                }
            }
        }
    }
}

/// Returns all groups.
#[inline(always)]
pub fn places(work: &Work) -> impl DoubleEndedIterator<Item = Place> + use<> {
    let signatures = groups(&work.signatures).map(|(group, vectors)| (group, vectors, true));
    signatures.chain(groups(&work.tweaks).map(|(group, vectors)| (group, vectors, false)))
}

impl Operands<'_> {
    /// Returns the denominator of the slope of the line through the points.
    #[inline(always)]
    fn denominator(&self) -> Number<'_> {
        if self.same { Number::Twice(self.y1) } else { Number::Difference(self.x2, self.x1) }
    }
}

/// Returns the operands of an addition in the ladder's table, and where its sum is written.
#[inline(always)]
fn table_operands<'a, V: Vector>(
    steps: Steps<V>,
    work: &'a mut Work,
    (group, to): (usize, usize),
    job: TableJob,
    memory: &'a mut Group,
) -> (Operands<'a>, Sum<'a>) {
    let (table, rest) = work.table[group].split_at_mut(to);
    let [x, beta_x, y] = &mut rest[0];
    let (Double(first) | Add(first, _) | MinusW(first, _) | MinusW2(first, _)) = job;
    let [x1, _, y1] = &table[first];
    let (second, x2, negate) = match job {
        Double(_) => (first, x1, 0),
        Add(_, b) => (b, &table[b][0], 0),
        MinusW(_, b) => (b, &table[b][1], ALL),
        MinusW2(_, b) => {
            // The three roots of unity sum to zero.
            steps.run(MinusSum, [&table[b][0], &table[b][1]], memory);
            (b, &*memory, ALL)
        }
    };
    let y2 = &table[second][2];
    let operands = Operands { x1, y1, x2, y2, negate, same: matches!(job, Double(_)) };
    (operands, Sum { x, y, beta_x: Some(beta_x) })
}
