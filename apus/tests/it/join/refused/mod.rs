//! Chains that break a rule: the join ends below the fault, and the same block is refused for the
//! same reason as in order.

pub mod coins;
mod files;
mod proof;
pub mod repeats;
mod rules;
pub mod spends;

use std::collections::BTreeSet;

use apus_hash::Hash;
use apus_node::{AssumeValid, Options};
use apus_testchain::every;
use apus_wire::Chain;

use super::draft::Draft;
use crate::support::Place;
use crate::support::blocks::hash;
use crate::support::outcome::Outcome;
use crate::support::swift::try_sync_with;

/// The height of the blocks with a coinbase alone that each kind is built on: the coins of the
/// first 20 have matured.
pub const TRUNK: u32 = 120;

const MISSING: &str = "bad-txns-inputs-missingorspent";

/// A kind of fault.
pub struct Kind {
    pub name: &'static str,
    /// The block that is refused in order, and Core's reason; `None` if the chain is valid.
    due: Option<(u32, &'static str)>,
    make: fn(&mut Draft),
}

impl Kind {
    const fn refused(
        name: &'static str,
        height: u32,
        reason: &'static str,
        make: fn(&mut Draft),
    ) -> Self {
        Self { name, due: Some((height, reason)), make }
    }

    /// Adds the fault to a chain.
    pub fn make(&self, draft: &mut Draft) {
        (self.make)(draft);
    }

    const fn valid(name: &'static str, make: fn(&mut Draft)) -> Self {
        Self { name, due: None, make }
    }
}

/// Workers and memory of a join.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub threads: usize,
    pub dbcache_bytes: usize,
}

/// One window for the whole chain, a window of one block, spans of one window each, and spans of
/// about a block with no memory.
pub const SHAPES: [Shape; 4] = [
    Shape { threads: 1, dbcache_bytes: 100 << 20 },
    Shape { threads: 1, dbcache_bytes: 0 },
    Shape { threads: 3, dbcache_bytes: 100 << 20 },
    Shape { threads: 8, dbcache_bytes: 0 },
];

impl Shape {
    pub fn join(self, place: &Place) -> Options {
        let Self { threads, dbcache_bytes } = self;
        Options { threads, dbcache_bytes, ..place.join() }
    }
}

/// Has the chain up to `tip` assumed valid, but for that block, as if two weeks of work lay on the
/// one before it: then a join checks everything but scripts with notes.
pub fn assume_valid(options: &mut Options, tip: Hash) {
    options.assumevalid = AssumeValid::Block(tip);
    let network = &mut options.network;
    network.minimum_chain_work = Hash::ZERO;
    // The work of one block takes longer than two weeks.
    network.pow_target_timespan *= 3_000;
    network.pow_target_spacing *= 3_000;
}

/// Returns the outcome of a sync of these blocks in a new place, with options after a change.
fn outcome(
    blocks: &[Vec<u8>],
    options: impl Fn(&Place) -> Options,
    change: impl Fn(&mut Options),
) -> Outcome {
    let place = Place::new(Chain::Regtest);
    let mut options = options(&place);
    change(&mut options);
    Outcome::of_sync(&place, &options, &[place.write("blocks", blocks)])
}

/// Makes a chain of each kind, and joins it in two of the shapes, or in all with
/// `APUS_TEST_ROUNDS=2`; and assumed valid, in another one.
fn check(kinds: &[Kind], change: impl Fn(&mut Options)) {
    let trunk = Draft::new(TRUNK);
    for (number, kind) in kinds.iter().enumerate() {
        let mut draft = trunk.clone();
        kind.make(&mut draft);
        let expected = outcome(&draft.bytes(), Place::in_order, &change);
        kind.assert_due(&draft, &expected);
        for shape in SHAPES.iter().cycle().skip(number).step_by(every(2)).take(4 / every(2)) {
            let joined = outcome(&draft.bytes(), |place| shape.join(place), &change);
            joined.assert_same(&expected, &format!("{}, {shape:?}", kind.name));
        }
        draft.grow(1);
        let tip = hash(draft.at(draft.height()));
        let change = |options: &mut Options| {
            change(options);
            assume_valid(options, tip);
        };
        let expected = outcome(&draft.bytes(), Place::in_order, change);
        let shape = SHAPES[(number + 2) % SHAPES.len()];
        let joined = outcome(&draft.bytes(), |place| shape.join(place), change);
        joined.assert_same(&expected, &format!("{}, assumed valid, {shape:?}", kind.name));
    }
}

/// Makes a chain of each kind, and joins it above a UTXO set of some height that was made in order;
/// of four heights with `APUS_TEST_ROUNDS=4`.
pub fn check_on_base(kinds: &[Kind], change: impl Fn(&mut Options)) {
    let trunk = Draft::new(TRUNK);
    for (number, kind) in kinds.iter().enumerate() {
        let mut draft = trunk.clone();
        kind.make(&mut draft);
        let fault = kind.due.map_or(draft.height(), |(height, _)| height);
        let bases = BTreeSet::from([1, TRUNK, (TRUNK + fault) / 2, fault - 1]);
        let first = number % bases.len();
        for (index, base) in
            bases.iter().cycle().skip(first).step_by(every(4)).take(4 / every(4)).enumerate()
        {
            let shape = SHAPES[(number / 4 + index) % SHAPES.len()];
            let due = |expected: &Outcome| kind.assert_due(&draft, expected);
            compare_on_base(kind.name, &draft, *base, shape, &change, due);
        }
    }
}

/// Compares a join above a UTXO set at height `base` with a sync in order above the same, which
/// `check` looks at.
fn compare_on_base(
    name: &str,
    draft: &Draft,
    base: u32,
    shape: Shape,
    change: &impl Fn(&mut Options),
    check: impl Fn(&Outcome),
) {
    let place = Place::new(Chain::Regtest);
    let sources = [place.write("blocks", &draft.bytes())];
    let mut options = Options { stop_at_height: Some(base), ..place.in_order() };
    change(&mut options);
    assert_eq!(try_sync_with(&options, &sources).unwrap().height, base);
    place.shrink();
    let run = |place: Place, mut options: Options| {
        change(&mut options);
        Outcome::of_sync(&place, &options, &sources)
    };
    let copy = place.copy();
    let options = copy.in_order();
    let expected = run(copy, options);
    check(&expected);
    let options = shape.join(&place);
    run(place, options).assert_same(&expected, &format!("{name}, from {base}, {shape:?}"));
}

impl Kind {
    /// Panics unless a sync in order refused what is due, so that the comparison with it says
    /// something.
    fn assert_due(&self, draft: &Draft, outcome: &Outcome) {
        let name = self.name;
        let refusals = outcome.refusals();
        let Some((height, reason)) = self.due else {
            assert_eq!(outcome.height(), draft.height(), "{name}: {refusals:?}");
            assert!(refusals.is_empty(), "{name}: {refusals:?}");
            return;
        };
        assert_eq!(outcome.height(), height - 1, "{name}: {refusals:?}");
        let hash = hash(draft.at(height));
        let found = refusals.iter().find(|(block, _)| *block == Some(hash));
        let (_, found) = found.unwrap_or_else(|| panic!("{name}: {refusals:?}"));
        assert!(found.starts_with(reason), "{name}: '{found}' is not '{reason}'");
    }
}
