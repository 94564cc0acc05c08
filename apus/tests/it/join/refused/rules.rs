//! One block for each way to break a rule, on a chain of every kind of script.

use apus_node::Options;
use apus_testchain::block::encode_block;
use apus_testchain::{Break, Builder, Parent, every};
use apus_wire::Chain;
use bitcoin::hashes::Hash as _;

use super::{SHAPES, assume_valid, outcome};
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

/// Every rule with `APUS_TEST_ROUNDS=4`, and every fourth without.
#[test]
fn broken_rules_are_refused_where_scripts_are_assumed_valid() {
    let chain = small_chain(203, 50, 9_000);
    let blocks = with_genesis(&chain);
    let mut refused = 0;
    for (number, rule) in Break::ALL.iter().enumerate().skip(every(4) / 2).step_by(every(4)) {
        let broken = chain.broken(*rule).block;
        let time = u32::from_le_bytes(broken[68..72].try_into().unwrap());
        let hash = bitcoin::BlockHash::from_byte_array(hash_of(&broken).0);
        let parent = Parent::new(hash, blocks.len() as u32, vec![time.min(u32::MAX - 10_000)]);
        let child = encode_block(&Builder::block_on(&parent).finish());
        let tip = hash_of(&child);
        let change = |options: &mut Options| assume_valid(options, tip);
        let all = [&blocks[..], &[broken, child]].concat();
        let expected = outcome(&all, Place::in_order, change);
        let shape = SHAPES[(number / 4) % SHAPES.len()];
        let joined = outcome(&all, |place| shape.join(place), change);
        joined.assert_same(&expected, &format!("{rule:?}, {shape:?}"));
        // Where the header is refused, the assumed block above it is not known.
        let is_assumed = joined.summary.counts.scripts == 0;
        refused += u64::from(is_assumed && joined.height() < blocks.len() as u32);
    }
    assert!(refused * every(4) as u64 > Break::ALL.len() as u64 / 3, "{refused} were refused");
}
