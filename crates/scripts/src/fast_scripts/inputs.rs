//! The inputs of a batch, and the work on them.

use crate::script::Left;

/// The verdict on an input's scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastVerdict {
    /// The spend is valid: Core's engine would say so too.
    Valid,
    /// Core's engine has to decide, for this reason.
    Left(Left),
}

/// The most work that may be for nothing, in bytes that are hashed: a millisecond.
const CREDIT_MAX: i64 = 2 << 20;
/// The credit that each input adds: a small part of the work of Core's engine on the smallest
/// one.
const INPUT_CREDIT: i64 = 256;
/// The work of verifying a signature or commitment, in bytes that are hashed in the same time.
pub(super) const SIGNATURE_WORK: i64 = 8 << 10;

/// The inputs of a batch, and a credit: the work that may be done before it is known whether it is
/// for nothing. All work takes from the credit, and work on inputs that turn out to be valid is
/// given back.
pub(super) struct Inputs {
    all: Vec<Input>,
    credit: i64,
}

struct Input {
    left: Option<Left>,
    /// The number of checks that are not known to hold.
    open: usize,
    work: i64,
}

impl Inputs {
    pub fn new() -> Self {
        Self { all: Vec::new(), credit: CREDIT_MAX }
    }

    /// Adds an input with a number of open checks, or one that is left to Core's engine. Returns
    /// its index.
    pub fn push(&mut self, left: Option<Left>, open: usize, work: usize) -> usize {
        let index = self.all.len();
        self.all.push(Input { left, open, work: 0 });
        self.add_work(index, work as i64);
        if open == 0 && left.is_none() {
            self.hold(index);
        }
        index
    }

    /// Returns whether work on the next input may be for nothing.
    pub fn has_credit(&self) -> bool {
        self.credit > 0
    }

    /// Adds to the credit what an input adds to it.
    pub fn count(&mut self) {
        self.credit = (self.credit + INPUT_CREDIT).clamp(-CREDIT_MAX, CREDIT_MAX);
    }

    /// Counts work on an input.
    pub fn add_work(&mut self, index: usize, work: i64) {
        self.all[index].work += work;
        self.credit -= work;
    }

    /// Leaves an input to Core's engine.
    pub fn leave(&mut self, index: usize, left: Left) {
        self.all[index].left = Some(left);
    }

    pub fn is_left(&self, index: usize) -> bool {
        self.all[index].left.is_some()
    }

    /// Notes that a check of an input holds.
    pub fn close(&mut self, index: usize) {
        let input = &mut self.all[index];
        input.open -= 1;
        if input.open == 0 && input.left.is_none() {
            self.hold(index);
        }
    }

    fn hold(&mut self, index: usize) {
        self.credit += self.all[index].work;
    }

    /// Returns the verdicts on all inputs, and drops them.
    pub fn verdicts(&mut self) -> Vec<FastVerdict> {
        let verdict = |input: Input| match (input.left, input.open) {
            (None, 0) => FastVerdict::Valid,
            (None, _) => FastVerdict::Left(Left::Signature),
            (Some(left), _) => FastVerdict::Left(left),
        };
        self.all.drain(..).map(verdict).collect()
    }
}
