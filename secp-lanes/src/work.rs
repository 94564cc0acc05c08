//! The memory of a batch: what each stage passes on to the next, one vector of lanes each.

use std::ops::Range;

use crate::chain::Chain;
use crate::comb::{COMB_PLACES, WINDOWS_MAX};
#[cfg(any(target_arch = "x86_64", test))]
use crate::doubles;
use crate::glv::{DIGITS, Digit, POINTS};
use crate::group::{GROUP, Group};
use crate::ladder::Table;
use crate::vector::{LANES, Limbs, Mask, Words};

/// Eight numbers, one row each.
pub type Rows = [Words; LANES];

/// A point of the ladder's table: x, beta x, y.
pub type TablePoint = [Group; 3];

/// A digit of u1 in each lane, as its bits.
pub type CombDigits = [u16; LANES];

/// The inputs of the lanes, one signature each.
#[derive(Clone, Copy, Default)]
pub struct Inputs {
    /// The key's x, below p.
    pub x: Rows,
    /// The required x of the sum, below p.
    pub r: Rows,
    /// The factor of G times `s`.
    pub a: Rows,
    /// The factor of the key times `s`.
    pub b: Rows,
    /// The divisor of both factors, not zero modulo n.
    pub s: Rows,
}

/// The results of the equation, one bit per lane.
#[derive(Clone, Copy, Default)]
pub struct Outcome {
    /// Something exceptional happened: the other fields are meaningless.
    pub exceptional: Mask,
    /// There is a point with the key's x for which the equation holds, with `r`.
    pub holds: Mask,
    /// The y of that point is odd.
    pub key_odd: Mask,
    /// The y of the sum is odd.
    pub sum_odd: Mask,
    /// That point's y, below p.
    pub y: Rows,
    /// Like `holds`, with r + n in place of r; only for lanes that asked for it.
    pub holds_plus_n: Mask,
    /// Like `key_odd`, with r + n.
    pub key_odd_plus_n: Mask,
    /// Like `y`, with r + n.
    pub y_plus_n: Rows,
}

/// The memory of a batch. Vectors of signatures come first, then vectors of tweaks, which begin
/// with a new group.
#[derive(Default)]
pub struct Work {
    /// Vectors of signatures, which have a ladder.
    pub signatures: Range<usize>,
    /// Vectors of tweaks.
    pub tweaks: Range<usize>,
    /// For each vector, the lanes whose equation is tried with r + n too.
    pub plus_n: Vec<Mask>,
    /// The inputs.
    pub inputs: Vec<Inputs>,
    /// The products of all `s` before each vector.
    pub scalar_prefix: Vec<Limbs>,
    /// Digits of u1, least significant first.
    pub comb_digits: Vec<[CombDigits; WINDOWS_MAX]>,
    /// Digits of u2, least significant first.
    pub ladder_digits: Vec<[[Digit; LANES]; DIGITS]>,
    /// The table of the ladder.
    pub table: Vec<[TablePoint; POINTS.len()]>,
    /// The tables of one group, by lanes.
    pub ladder_tables: Vec<Table>,
    /// The same in double precision; empty if the kernel does not use them.
    #[cfg(any(target_arch = "x86_64", test))]
    pub doubles_tables: Vec<doubles::ladder::Table>,
    /// Points of the comb, x and y, which are added up into one.
    pub comb: Vec<[[Group; 2]; COMB_PLACES]>,
    /// The place of their sum.
    pub sum: usize,
    /// The ladder's result: X, Y, and Z, which is usable only in products.
    pub multiple: Vec<[Group; 3]>,
    /// Products of denominators.
    pub chain: Chain,
    /// Lanes in which a denominator was zero.
    pub exceptional: Vec<Mask>,
    /// The results.
    pub outcomes: Vec<Outcome>,
}

impl Work {
    /// Makes room for this many signatures and tweaks.
    pub fn resize(&mut self, signatures: usize, tweaks: usize) {
        self.signatures = 0..signatures.div_ceil(LANES);
        let first = self.signatures.end.next_multiple_of(GROUP);
        self.tweaks = first..first + tweaks.div_ceil(LANES);
        let all = self.tweaks.end.next_multiple_of(GROUP);
        self.plus_n.clear();
        self.plus_n.resize(all, 0);
        self.exceptional.clear();
        self.exceptional.resize(all, 0);
        grow(&mut self.inputs, all, Inputs::default());
        grow(&mut self.scalar_prefix, all, Limbs::default());
        grow(&mut self.comb_digits, all, [[0; LANES]; WINDOWS_MAX]);
        grow(&mut self.ladder_digits, first, [[0; LANES]; DIGITS]);
        let zero = Group::default();
        grow(&mut self.table, first / GROUP, [[zero; 3]; POINTS.len()]);
        grow(&mut self.ladder_tables, GROUP, Table::default());
        grow(&mut self.comb, all / GROUP, [[zero; 2]; COMB_PLACES]);
        grow(&mut self.multiple, first / GROUP, [zero; 3]);
        grow(&mut self.outcomes, all, Outcome::default());
    }
}

/// Returns the groups of vectors, first to last, with the vectors of each.
pub fn groups(
    vectors: &Range<usize>,
) -> impl DoubleEndedIterator<Item = (usize, Range<usize>)> + use<> {
    let end = vectors.end;
    let first = vectors.clone().step_by(GROUP);
    first.map(move |first| (first / GROUP, first..end.min(first + GROUP)))
}

/// Makes a list at least this long.
pub fn grow<T: Clone>(list: &mut Vec<T>, len: usize, fill: T) {
    if list.len() < len {
        list.resize(len, fill);
    }
}
