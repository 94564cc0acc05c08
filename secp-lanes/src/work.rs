//! The memory of a batch: what each stage leaves for the next, a vector of lanes each.

use crate::comb::WINDOWS_MAX;
use crate::field::FeLanes;
use crate::glv::{DIGITS, Digit, POINTS};
use crate::scalar::ScalarLanes;
use crate::vector::{LANES, Lanes, Mask, Words};

/// Eight numbers, a row each.
pub type Rows = [Words; LANES];

/// A point of the ladder's table in memory: x, beta x, y.
pub type TablePoint = [FeLanes; 3];

/// A digit of u1 in each lane: its bits.
pub type CombDigits = [u16; LANES];

/// What the lanes need to know of a signature.
#[derive(Clone, Copy, Default)]
pub struct Inputs {
    /// The key's x, below p.
    pub x: Rows,
    /// What the x of the sum must be, below p.
    pub r: Rows,
    /// The factor of G times `s`.
    pub a: Rows,
    /// The factor of the key times `s`.
    pub b: Rows,
    /// What both are divided by, not zero modulo n.
    pub s: Rows,
}

/// What the equation says, a bit a lane.
#[derive(Clone, Copy, Default)]
pub struct Outcome {
    /// Something exceptional happened: nothing of the others counts.
    pub exceptional: Mask,
    /// There is a point with the key's x for which the equation holds, with `r`.
    pub holds: Mask,
    /// The y of that point is odd.
    pub key_odd: Mask,
    /// The y of the sum is odd.
    pub sum_odd: Mask,
    /// That point's y, below p.
    pub y: Rows,
    /// As `holds`, with r + n in place of r; only lanes that asked for it.
    pub holds_plus_n: Mask,
    /// As `key_odd`, with r + n.
    pub key_odd_plus_n: Mask,
    /// As `y`, with r + n.
    pub y_plus_n: Rows,
}

/// The memory of a batch. Vectors of signatures come first, an even number of them, then vectors of
/// tweaks, an even number too.
#[derive(Default)]
pub struct Work {
    /// Vectors of signatures, which have a ladder.
    pub signature_vectors: usize,
    /// All vectors.
    pub vectors: usize,
    /// Lanes whose equation is to be tried with r + n too, for each vector.
    pub plus_n: Vec<Mask>,
    /// The inputs.
    pub inputs: Vec<Inputs>,
    /// Products of all `s` before a vector's.
    pub scalar_prefix: Vec<ScalarLanes>,
    /// Digits of u1, least significant first.
    pub comb_digits: Vec<[CombDigits; WINDOWS_MAX]>,
    /// Digits of u2, least significant first.
    pub ladder_digits: Vec<[[Digit; LANES]; DIGITS]>,
    /// The table of the ladder.
    pub table: Vec<[TablePoint; POINTS.len()]>,
    /// Points of the comb, which become one: x and y.
    pub comb: Vec<[[FeLanes; 2]; WINDOWS_MAX / 2]>,
    /// The ladder's result: X, Y, Z.
    pub multiple: Vec<[FeLanes; 3]>,
    /// Products of all denominators of a round before one.
    pub prefix: Vec<[FeLanes; 2]>,
    /// Lanes in which a denominator was zero.
    pub exceptional: Vec<Mask>,
    /// The results.
    pub outcomes: Vec<Outcome>,
}

impl Work {
    /// Makes room for so many signatures and tweaks.
    pub fn resize(&mut self, signatures: usize, tweaks: usize) {
        let vectors = |count: usize| count.div_ceil(2 * LANES) * 2;
        self.signature_vectors = vectors(signatures);
        self.vectors = self.signature_vectors + vectors(tweaks);
        let all = self.vectors;
        self.plus_n.clear();
        self.plus_n.resize(all, 0);
        self.exceptional.clear();
        self.exceptional.resize(all, 0);
        grow(&mut self.inputs, all, Inputs::default());
        grow(&mut self.scalar_prefix, self.signature_vectors, [Lanes::default(); 5]);
        grow(&mut self.comb_digits, all, [[0; LANES]; WINDOWS_MAX]);
        grow(&mut self.ladder_digits, self.signature_vectors, [[0; LANES]; DIGITS]);
        let zero = [Lanes::default(); 5];
        grow(&mut self.table, self.signature_vectors, [[zero; 3]; POINTS.len()]);
        grow(&mut self.comb, all, [[zero; 2]; WINDOWS_MAX / 2]);
        grow(&mut self.multiple, all, [zero; 3]);
        grow(&mut self.outcomes, all, Outcome::default());
    }
}

/// Makes a list at least so long.
pub fn grow<T: Clone>(list: &mut Vec<T>, len: usize, fill: T) {
    if list.len() < len {
        list.resize(len, fill);
    }
}
