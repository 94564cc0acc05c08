//! Blocks that are missing or damaged, and branches next to the best one.

use std::path::PathBuf;

use apus_node::Options;
use apus_testchain::block::encode_block;
use apus_wire::Chain;

use super::{SHAPES, TRUNK};
use crate::join::draft::{Draft, SUBSIDY, nowhere, out, pay};
use crate::support::Place;
use crate::support::outcome::Outcome;

const FIRST: u32 = TRUNK + 1;

/// A chain on the trunk, in which blocks spend coins of the blocks around them and far below.
fn chain() -> Draft {
    let mut draft = Draft::new(TRUNK);
    for coin in 1..=10 {
        let parent = pay([draft.coin(coin)], [100, 200, 300]);
        let child = pay([out(&parent, 0)], [90]);
        draft.add([parent.clone(), child.clone()]);
        draft.add([pay([out(&parent, 1)], [80]), pay([out(&child, 0)], [70])]);
        draft.grow(1);
        draft.add([pay([out(&parent, 2)], [60])]);
    }
    draft
}

/// Syncs the files that `write` makes in order and by joins of every shape, and compares.
fn check(what: &str, write: impl Fn(&Place) -> Vec<PathBuf>) -> Outcome {
    let in_order = Place::new(Chain::Regtest);
    let expected = Outcome::of_sync(&in_order, &in_order.in_order(), &write(&in_order));
    for shape in SHAPES {
        let place = Place::new(Chain::Regtest);
        let joined = Outcome::of_sync(&place, &shape.join(&place), &write(&place));
        joined.assert_same(&expected, &format!("{what}, {shape:?}"));
    }
    expected
}

#[test]
fn a_block_in_the_middle_is_missing() {
    let blocks = chain().bytes();
    for missing in [1, 60, 121, 140, blocks.len() - 1] {
        let found = check(&format!("without block {missing}"), |place| {
            let mut left = blocks.clone();
            left.remove(missing);
            vec![place.write("blocks", &left)]
        });
        assert_eq!(found.height() as usize, missing - 1);
    }
}

fn damaged(blocks: &[Vec<u8>], height: usize) -> Vec<Vec<u8>> {
    let mut blocks = blocks.to_vec();
    let middle = blocks[height].len() / 2;
    blocks[height][middle] ^= 1;
    blocks
}

#[test]
fn a_damaged_block_without_another_copy_ends_the_chain() {
    let blocks = chain().bytes();
    for height in [2, 121, 140] {
        let found = check(&format!("block {height} damaged"), |place| {
            vec![place.write("blocks", &damaged(&blocks, height))]
        });
        assert_eq!(found.height() as usize, height - 1);
    }
}

#[test]
fn a_damaged_block_with_another_copy_is_no_obstacle() {
    let blocks = chain().bytes();
    for height in [2, 121, 140] {
        let found = check(&format!("block {height} damaged in one file"), |place| {
            let good = &blocks[height..=height];
            vec![place.write("one", &damaged(&blocks, height)), place.write("two", good)]
        });
        assert_eq!(found.height() as usize, blocks.len() - 1);
    }
}

#[test]
fn of_two_damaged_blocks_the_one_without_a_copy_ends_the_chain() {
    let blocks = chain().bytes();
    let both = damaged(&damaged(&blocks, 130), 145);
    for (other, tip) in [(130, 144), (145, 129)] {
        let found = check(&format!("another copy of block {other}"), |place| {
            let good = &blocks[other..=other];
            vec![place.write("one", &both), place.write("two", good)]
        });
        assert_eq!(found.height(), tip);
    }
}

/// A fault in the eighth of 20 blocks after the trunk.
fn with_fault(fault: fn(&mut Draft)) -> Draft {
    let mut draft = Draft::new(TRUNK);
    let parent = pay([draft.coin(1)], [100, 200]);
    draft.add([parent.clone()]);
    draft.grow(3);
    draft.add([pay([out(&parent, 1)], [1])]);
    draft.grow(2);
    fault(&mut draft);
    draft.grow(12);
    draft
}

/// What is wrong, and what makes it so in a chain.
type NamedFault = (&'static str, fn(&mut Draft));

const FAULTS: [NamedFault; 3] = [
    ("first pass", |draft| {
        let parent = pay([draft.coin(11)], [SUBSIDY]);
        let child = pay([out(&parent, 0)], [5]);
        draft.add([child, parent]);
    }),
    ("second pass", |draft| draft.add([pay([nowhere(9)], [1])])),
    ("last pass", |draft| draft.push(draft.next().coinbase_value(SUBSIDY + 1).finish())),
];

#[test]
fn an_invalid_branch_of_most_work_stands_next_to_a_valid_one() {
    for (pass, fault) in FAULTS {
        let invalid = with_fault(fault);
        // From the trunk, from a valid block of the other branch, and one too short to win.
        for (from, count, tip) in [(TRUNK, 12, 132), (FIRST + 3, 9, 133), (TRUNK, 3, FIRST + 6)] {
            let what = format!("fault of the {pass}, branch of {count} from {from}");
            let found = check(&what, |place| {
                let branch = invalid.fork(from, "other", count);
                vec![place.write("invalid", &invalid.bytes()), place.write("valid", &branch)]
            });
            assert_eq!(found.height(), tip, "{what}");
        }
    }
}

#[test]
fn two_invalid_branches_stand_next_to_a_valid_one() {
    let longest = with_fault(FAULTS[2].1);
    let mut second = with_fault(FAULTS[1].1);
    second.grow(0);
    let found = check("two invalid branches", |place| {
        let longer = longest.fork(longest.height(), "more", 3);
        let valid = longest.fork(TRUNK, "valid", 9);
        vec![
            place.write("longest", longest.bytes().iter().chain(&longer)),
            place.write("second", &second.bytes()),
            place.write("valid", &valid),
        ]
    });
    assert_eq!(found.height(), TRUNK + 9);
}

/// Of three workers one is at the end of its span when another has read little of the third span.
#[test]
fn a_worker_refuses_a_block_and_then_another_finds_damage() {
    let mut draft = Draft::new(185);
    (FAULTS[0].1)(&mut draft);
    draft.grow(414);
    let blocks = draft.bytes();
    let run = |options: Options, place: &Place| {
        let sources =
            [place.write("one", &damaged(&blocks, 97)), place.write("two", &blocks[97..=97])];
        Outcome::of_sync(place, &Options { threads: 2, ..options }, &sources)
    };
    let in_order = Place::new(Chain::Regtest);
    let join = Place::new(Chain::Regtest);
    let expected = run(in_order.in_order(), &in_order);
    assert_eq!(expected.height(), 185);
    run(join.join(), &join).assert_same(&expected, "refused, and damaged");
}

#[test]
fn stale_blocks_may_spend_the_same_coins() {
    let draft = chain();
    let mut stale = Draft::new(TRUNK);
    for coin in 1..=10 {
        stale.add([pay([stale.coin(coin)], [5])]);
    }
    let found = check("a stale branch with other spends of the same coins", |place| {
        vec![place.write("stale", &stale.bytes()), place.write("blocks", &draft.bytes())]
    });
    assert_eq!(found.height(), draft.height());
    assert!(found.index.contains_key(&crate::support::hash_of(&encode_block(stale.at(FIRST + 9)))));
}
