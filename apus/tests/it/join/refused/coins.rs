//! Rules on coins that are there, which only the last pass can check: age, amounts, lock times,
//! scripts. And two faults in one chain, of which the lower counts whichever pass finds it.

use apus_node::{AssumeValid, Options};
use bitcoin::Sequence;

use super::{Kind, MISSING, SHAPES, TRUNK, check, outcome};
use crate::join::draft::{Draft, SUBSIDY, nowhere, out, pay, pay_to};
use crate::support::Place;
use crate::support::blocks::hash;

const FIRST: u32 = TRUNK + 1;
const IMMATURE: &str = "bad-txns-premature-spend-of-coinbase";
const NONFINAL: &str = "bad-txns-nonfinal";
const SCRIPT: &str = "block-script-verify-flag-failed";

/// Spends the coin of a payment in the first block with this sequence number, `blocks` later.
fn relative(draft: &mut Draft, sequence: u32, blocks: u32) {
    let parent = pay([draft.coin(1)], [SUBSIDY]);
    draft.add([parent.clone()]);
    draft.grow(blocks - 1);
    let mut child = pay([out(&parent, 0)], [5]);
    child.input[0].sequence = Sequence(sequence);
    draft.add([child]);
    draft.grow(1);
}

pub const RULES: [Kind; 14] = [
    Kind::refused("a coinbase a block too young", FIRST, IMMATURE, |draft| {
        let coin = draft.coin(FIRST - 99);
        draft.add([pay([coin], [1])]);
        draft.grow(3);
    }),
    Kind::valid("a coinbase just old enough", |draft| {
        let coin = draft.coin(FIRST - 100);
        draft.add([pay([coin], [1])]);
        draft.grow(3);
    }),
    Kind::refused("the coinbase of the last block", FIRST + 5, IMMATURE, |draft| {
        draft.grow(5);
        let coin = draft.coin(FIRST + 4);
        draft.add([pay([coin], [1])]);
        draft.grow(3);
    }),
    Kind::refused("more than is spent, of old coins", FIRST, "bad-txns-in-belowout", |draft| {
        let coins = [draft.coin(1), draft.coin(2)];
        draft.add([pay(coins, [SUBSIDY, SUBSIDY, 1])]);
        draft.grow(3);
    }),
    Kind::refused(
        "more than is spent, of a new coin",
        FIRST + 1,
        "bad-txns-in-belowout",
        |draft| {
            let parent = pay([draft.coin(1)], [7]);
            draft.add([parent.clone()]);
            draft.add([pay([out(&parent, 0)], [8])]);
            draft.grow(3);
        },
    ),
    Kind::refused("more than is spent, in one block", FIRST, "bad-txns-in-belowout", |draft| {
        let parent = pay([draft.coin(1)], [7]);
        let child = pay([out(&parent, 0)], [8]);
        draft.add([parent, child]);
        draft.grow(3);
    }),
    Kind::refused("a coinbase with a satoshi too much", FIRST + 1, "bad-cb-amount", |draft| {
        draft.grow(1);
        let old = pay([draft.coin(1)], [SUBSIDY - 10]);
        let new = pay([draft.coin(2)], [SUBSIDY - 7]);
        draft.push(draft.next().txs([old, new]).coinbase_value(SUBSIDY + 18).finish());
        draft.grow(3);
    }),
    Kind::valid("a coinbase with all fees", |draft| {
        draft.grow(1);
        let old = pay([draft.coin(1)], [SUBSIDY - 10]);
        let new = pay([draft.coin(2)], [SUBSIDY - 7]);
        draft.push(draft.next().txs([old, new]).coinbase_value(SUBSIDY + 17).finish());
        draft.grow(3);
    }),
    Kind::refused("a relative lock a block too long", FIRST + 6, NONFINAL, |draft| {
        relative(draft, 7, 6);
    }),
    Kind::valid("a relative lock just over", |draft| relative(draft, 6, 6)),
    Kind::refused("a relative lock of a time not over", FIRST + 6, NONFINAL, |draft| {
        relative(draft, 1 << 22 | 20, 6);
    }),
    Kind::refused("a script that is false, of an old coin", FIRST + 20, SCRIPT, |draft| {
        let parent = pay_to(&[draft.coin(1)], [(5, vec![0x00])]);
        draft.add([parent.clone()]);
        draft.grow(19);
        draft.add([pay([out(&parent, 0)], [1])]);
    }),
    Kind::refused("a script that is false, of a new coin", FIRST + 1, SCRIPT, |draft| {
        let parent = pay_to(&[draft.coin(1)], [(5, vec![0x00])]);
        draft.add([parent.clone()]);
        draft.add([pay([out(&parent, 0)], [1])]);
        draft.grow(1);
    }),
    Kind::refused("a script that is false, in one block", FIRST, SCRIPT, |draft| {
        let parent = pay_to(&[draft.coin(1)], [(5, vec![0x00])]);
        let child = pay([out(&parent, 0)], [1]);
        draft.add([parent, child]);
        draft.grow(1);
    }),
];

#[test]
fn spends_of_coins_that_break_a_rule() {
    check(&RULES, |_| {});
}

/// Under a block that is assumed valid a script may be false, and nothing else may be wrong.
#[test]
fn scripts_alone_are_assumed_valid() {
    for name in [
        "a script that is false, of an old coin",
        "a script that is false, of a new coin",
        "a coinbase a block too young",
        "more than is spent, of a new coin",
        "a coinbase with a satoshi too much",
        "a relative lock a block too long",
    ] {
        let kind = RULES.iter().find(|kind| kind.name == name).unwrap();
        let mut draft = Draft::new(TRUNK);
        (kind.make)(&mut draft);
        draft.grow(2_100);
        let assumed = AssumeValid::Block(hash(draft.at(draft.height())));
        let change = |options: &mut Options| options.assumevalid = assumed;
        let expected = outcome(&draft.bytes(), Place::in_order, change);
        let height = match kind.due {
            Some((_, reason)) if reason == SCRIPT => draft.height(),
            due => due.unwrap().0 - 1,
        };
        assert_eq!(expected.height(), height, "{name}");
        assert_eq!(expected.summary.counts.scripts, 0, "{name}");
        let shape = SHAPES[name.len() % SHAPES.len()];
        let joined = outcome(&draft.bytes(), |place| shape.join(place), change);
        joined.assert_same(&expected, &format!("{name}, {shape:?}"));
    }
}

/// The first pass refuses the next block.
fn wrong_by_itself(draft: &mut Draft) {
    let parent = pay([draft.coin(11)], [SUBSIDY]);
    let child = pay([out(&parent, 0)], [5]);
    draft.add([child, parent]);
}

/// The second pass refuses the next block.
fn spends_nothing(draft: &mut Draft) {
    draft.add([pay([nowhere(9)], [1])]);
}

/// The last pass refuses the next block.
fn claims_too_much(draft: &mut Draft) {
    draft.push(draft.next().coinbase_value(SUBSIDY + 1).finish());
}

/// A payment that is met at once, one of a coin that is far away, and later ones of both.
fn busy(draft: &mut Draft, coin: u32) {
    let parent = pay([draft.coin(coin)], [100, 200]);
    draft.add([parent.clone()]);
    draft.add([pay([out(&parent, 0)], [1])]);
    draft.grow(2);
    draft.add([pay([out(&parent, 1)], [1])]);
}

const AMOUNT: &str = "bad-cb-amount";

/// Each has a fault in the sixth and in the twelfth block.
pub const TWO_FAULTS: [Kind; 9] = [
    Kind::refused("first pass, first pass", FIRST + 5, MISSING, |draft| {
        two(draft, wrong_by_itself, wrong_by_itself);
    }),
    Kind::refused("first pass, second pass", FIRST + 5, MISSING, |draft| {
        two(draft, wrong_by_itself, spends_nothing);
    }),
    Kind::refused("first pass, last pass", FIRST + 5, MISSING, |draft| {
        two(draft, wrong_by_itself, claims_too_much);
    }),
    Kind::refused("second pass, first pass", FIRST + 5, MISSING, |draft| {
        two(draft, spends_nothing, wrong_by_itself);
    }),
    Kind::refused("second pass, second pass", FIRST + 5, MISSING, |draft| {
        two(draft, spends_nothing, spends_nothing);
    }),
    Kind::refused("second pass, last pass", FIRST + 5, MISSING, |draft| {
        two(draft, spends_nothing, claims_too_much);
    }),
    Kind::refused("last pass, first pass", FIRST + 5, AMOUNT, |draft| {
        two(draft, claims_too_much, wrong_by_itself);
    }),
    Kind::refused("last pass, second pass", FIRST + 5, AMOUNT, |draft| {
        two(draft, claims_too_much, spends_nothing);
    }),
    Kind::refused("last pass, last pass", FIRST + 5, AMOUNT, |draft| {
        two(draft, claims_too_much, claims_too_much);
    }),
];

fn two(draft: &mut Draft, first: fn(&mut Draft), second: fn(&mut Draft)) {
    busy(draft, 1);
    first(draft);
    busy(draft, 2);
    second(draft);
    busy(draft, 3);
}

#[test]
fn of_two_faults_the_lower_counts() {
    check(&TWO_FAULTS, |_| {});
}

/// The block refused has already met coins of the blocks before it, and made some.
pub const AFTER_WORK: [Kind; 3] = [
    Kind::refused("spends and makes, then spends too early", FIRST + 2, MISSING, |draft| {
        let parent = pay([draft.coin(1)], [100, 200]);
        let late = pay([draft.coin(2)], [5]);
        draft.add([parent.clone()]);
        draft.grow(1);
        let first = pay([out(&parent, 0)], [50]);
        let second = pay([out(&parent, 1)], [60]);
        let of_first = pay([out(&first, 0)], [40]);
        let of_late = pay([out(&late, 0)], [1]);
        draft.add([first, of_first, second, of_late, late]);
        draft.grow(2);
    }),
    Kind::refused("spends and makes, then claims too much", FIRST + 2, AMOUNT, |draft| {
        let parent = pay([draft.coin(1)], [100, 200]);
        draft.add([parent.clone()]);
        draft.grow(1);
        let first = pay([out(&parent, 0)], [50]);
        let of_first = pay([out(&first, 0)], [50]);
        let block = draft.next().txs([first, of_first]);
        draft.push(block.coinbase_value(SUBSIDY + 51).finish());
        draft.grow(2);
    }),
    Kind::refused("spends and makes, then spends nothing", FIRST + 2, MISSING, |draft| {
        let parent = pay([draft.coin(1)], [100, 200]);
        draft.add([parent.clone()]);
        draft.grow(1);
        let first = pay([out(&parent, 0)], [50]);
        let of_first = pay([out(&first, 0)], [50]);
        draft.add([first, of_first, pay([nowhere(1)], [1])]);
        draft.grow(2);
    }),
];

#[test]
fn what_a_refused_block_did_before_is_undone() {
    check(&AFTER_WORK, |_| {});
}
