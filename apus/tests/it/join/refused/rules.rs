//! One block for each way to break a rule, on a chain of every kind of script.

use apus::wire::Chain;
use apus_testchain::{Break, every};

use super::SHAPES;
use crate::support::outcome::Outcome;
use crate::support::swift::small_chain;
use crate::support::{Place, hash_of, with_genesis};

/// Every rule with `APUS_TEST_ROUNDS=4`, and every fourth without.
#[test]
fn every_broken_rule_is_refused_for_the_same_reason() {
    let chain = small_chain(203, 50, 9_000);
    let blocks = with_genesis(&chain);
    let place = Place::new(Chain::Regtest);
    let expected = Outcome::of_sync(&place, &place.in_order(), &[place.write("blocks", &blocks)]);
    for (number, rule) in Break::ALL.iter().enumerate().step_by(every(4)) {
        let broken = chain.broken(*rule);
        let shape = SHAPES[number % SHAPES.len()];
        let what = format!("{rule:?}, {shape:?}");
        let place = Place::new(Chain::Regtest);
        let sources = [place.write("blocks", blocks.iter().chain([&broken.block]))];
        let joined = Outcome::of_sync(&place, &shape.join(&place), &sources);
        let [(block, reason)] = &joined.refusals()[..] else {
            panic!("{what}: one refusal was due, not {:?}", joined.refusals())
        };
        assert_eq!(*block, Some(hash_of(&broken.block)), "{what}");
        crate::broken_rules::assert_refused_for(*rule, broken.reason, reason);
        assert_eq!(joined.summary.best_block, expected.summary.best_block, "{what}");
        assert_eq!(joined.coins.hash, expected.coins.hash, "{what}");
        assert!(joined.undo == expected.undo, "{what}: undo data");
    }
}
