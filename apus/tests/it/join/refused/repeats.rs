//! Transactions that come again (BIP30), on a network where BIP34 does not rule that out.

use apus_node::Options;
use bitcoin::transaction::Transaction;

use super::{Kind, MISSING, SHAPES, TRUNK, check, compare_on_base, outcome};
use crate::join::draft::{Draft, SUBSIDY, out, pay};
use crate::support::outcome::Outcome;
use crate::support::{Place, blocks};

const FIRST: u32 = TRUNK + 1;
const BIP30: &str = "bad-txns-BIP30";

/// The coinbase of the block at `height`.
fn coinbase(draft: &Draft, height: u32) -> Transaction {
    draft.at(height).txdata[0].clone()
}

pub const REPEATS: [Kind; 14] = [
    Kind::refused("a coinbase that is unspent", FIRST + 1, BIP30, |draft| {
        draft.grow(1);
        draft.add_with_coinbase(&coinbase(draft, 5), []);
        draft.grow(3);
    }),
    Kind::refused("the coinbase of the last block", FIRST + 1, BIP30, |draft| {
        draft.grow(1);
        draft.add_with_coinbase(&coinbase(draft, FIRST), []);
        draft.grow(3);
    }),
    Kind::valid("a coinbase that was spent", |draft| {
        draft.add([pay([draft.coin(5)], [1])]);
        draft.grow(1);
        draft.add_with_coinbase(&coinbase(draft, 5), []);
        draft.grow(3);
    }),
    Kind::valid("a coinbase that was spent by the last block", |draft| {
        draft.add([pay([draft.coin(5)], [1])]);
        draft.add_with_coinbase(&coinbase(draft, 5), []);
    }),
    Kind::refused("a coinbase that its own block spends", FIRST + 1, BIP30, |draft| {
        draft.grow(1);
        let spend = pay([draft.coin(5)], [1]);
        draft.add_with_coinbase(&coinbase(draft, 5), [spend]);
        draft.grow(3);
    }),
    Kind::refused("a coinbase that is spent later", FIRST + 1, BIP30, |draft| {
        draft.grow(1);
        draft.add_with_coinbase(&coinbase(draft, 5), []);
        draft.grow(3);
        draft.add([pay([draft.coin(5)], [1])]);
    }),
    Kind::refused("a coinbase that is spent too young", FIRST + 3, "bad-txns-premature", |draft| {
        draft.add([pay([draft.coin(5)], [1])]);
        draft.grow(1);
        draft.add_with_coinbase(&coinbase(draft, 5), []);
        draft.add([pay([draft.coin(5)], [2])]);
        draft.grow(1);
    }),
    Kind::refused("a coinbase a third time", FIRST + 3, BIP30, |draft| {
        draft.add([pay([draft.coin(5)], [1])]);
        draft.grow(1);
        draft.add_with_coinbase(&coinbase(draft, 5), []);
        draft.add_with_coinbase(&coinbase(draft, 5), []);
        draft.grow(1);
    }),
    Kind::valid("a coinbase, spent, again, spent, and again", |draft| {
        for _ in 0..2 {
            draft.add([pay([draft.coin(5)], [u64::from(draft.height())])]);
            draft.grow(1);
            draft.add_with_coinbase(&coinbase(draft, 5), []);
            draft.grow(99);
        }
        draft.add([pay([draft.coin(5)], [3])]);
    }),
    Kind::refused("a payment that is unspent", FIRST + 1, BIP30, |draft| {
        let payment = pay([draft.coin(5)], [7, 8]);
        draft.add([payment.clone()]);
        draft.add([payment]);
        draft.grow(1);
    }),
    Kind::refused("a payment with one output unspent", FIRST + 2, BIP30, |draft| {
        let payment = pay([draft.coin(5)], [7, 8]);
        draft.add([payment.clone()]);
        draft.add([pay([out(&payment, 0)], [1])]);
        draft.add([payment]);
        draft.grow(1);
    }),
    Kind::refused("a payment that was spent, like its coin", FIRST + 2, MISSING, |draft| {
        let payment = pay([draft.coin(5)], [7]);
        draft.add([payment.clone()]);
        draft.add([pay([out(&payment, 0)], [1])]);
        draft.add([payment]);
        draft.grow(1);
    }),
    Kind::refused("a payment twice in one block", FIRST, MISSING, |draft| {
        let payment = pay([draft.coin(5)], [7]);
        let other = pay([draft.coin(6)], [7]);
        draft.add([payment.clone(), other, payment]);
        draft.grow(1);
    }),
    Kind::refused("spent too early in a block that repeats nothing", FIRST, MISSING, |draft| {
        let parent = pay([draft.coin(1)], [SUBSIDY]);
        let child = pay([out(&parent, 0)], [5]);
        draft.add([child, parent]);
        draft.grow(2);
    }),
];

/// Makes a payment of the coinbase of block 5 and spends all of it, then makes the coinbase again,
/// and lets that mature.
fn spent_and_made_again(draft: &mut Draft) -> Transaction {
    let payment = pay([draft.coin(5)], [7, 8]);
    draft.add([payment.clone()]);
    draft.add([pay([out(&payment, 0), out(&payment, 1)], [1])]);
    draft.add_with_coinbase(&coinbase(draft, 5), []);
    draft.grow(100);
    payment
}

/// Where the blocks begin that come after [`spent_and_made_again`].
const AGAIN: u32 = FIRST + 103;

pub const PAYMENTS_AGAIN: [Kind; 6] = [
    Kind::valid("again", |draft| {
        let payment = spent_and_made_again(draft);
        draft.add([payment]);
        draft.grow(1);
    }),
    Kind::valid("again, and spent", |draft| {
        let payment = spent_and_made_again(draft);
        draft.add([payment.clone()]);
        draft.grow(1);
        draft.add([pay([out(&payment, 1)], [2])]);
    }),
    Kind::valid("again, and spent in its own block", |draft| {
        let payment = spent_and_made_again(draft);
        let spend = pay([out(&payment, 1)], [2]);
        draft.add([payment, spend]);
        draft.grow(1);
    }),
    Kind::refused("again, and spent in its own block before it", AGAIN, MISSING, |draft| {
        let payment = spent_and_made_again(draft);
        let spend = pay([out(&payment, 1)], [2]);
        draft.add([spend, payment]);
        draft.grow(1);
    }),
    Kind::refused("again, and spent twice", AGAIN + 2, MISSING, |draft| {
        let payment = spent_and_made_again(draft);
        draft.add([payment.clone()]);
        draft.add([pay([out(&payment, 1)], [2])]);
        draft.add([pay([out(&payment, 1)], [3])]);
    }),
    Kind::refused("spent between the first and the second time", FIRST + 103, MISSING, |draft| {
        let payment = spent_and_made_again(draft);
        draft.add([pay([out(&payment, 1)], [2])]);
        draft.add([payment]);
    }),
];

/// BIP34 is never in force, so every block is looked at for repeats. Nor is the subsidy halved, so
/// that any block can repeat a coinbase.
pub fn without_bip34(options: &mut Options) {
    options.network.bip34_height = 1_000_000;
    options.network.halving_interval = 1_000_000;
}

#[test]
fn a_transaction_comes_again() {
    check(&REPEATS, without_bip34);
}

#[test]
fn a_payment_comes_again() {
    check(&PAYMENTS_AGAIN, without_bip34);
}

/// The same chains as they are on regtest, where a repeated coinbase lacks the height.
#[test]
fn a_transaction_comes_again_under_bip34() {
    let trunk = Draft::new(TRUNK);
    for kind in REPEATS.iter().chain(&PAYMENTS_AGAIN) {
        let mut draft = trunk.clone();
        (kind.make)(&mut draft);
        let expected = outcome(&draft.bytes(), Place::in_order, |_| {});
        assert!(expected.height() < draft.height(), "{}", kind.name);
        for shape in [SHAPES[0], SHAPES[3]] {
            let joined = outcome(&draft.bytes(), |place| shape.join(place), |_| {});
            joined.assert_same(&expected, &format!("{}, {shape:?}", kind.name));
        }
    }
}

/// A chain in which BIP34 comes into force at height 50, and the coinbase of block 20 is that of
/// the block at `again` too. Core does not look for repeats there, and the later coin replaces the
/// earlier one, if that is unspent. `add` may add blocks between the two, and then on top.
fn repeated_under_bip34(again: u32, add: impl Fn(&mut Draft, u32)) -> Draft {
    let coinbase_again = coinbase(&Draft::new(again), again);
    let mut whole = Draft::new(19);
    whole.add_with_coinbase(&coinbase_again, []);
    add(&mut whole, again - 1);
    whole.grow_to(again);
    assert_eq!(coinbase(&whole, again), coinbase_again);
    add(&mut whole, u32::MAX);
    whole.grow(2);
    whole
}

/// BIP34 comes into force at block 50 of this chain.
fn with_bip34_from_50(draft: &Draft) -> impl Fn(&mut Options) {
    let bip34_hash = blocks::hash(draft.at(50));
    move |options| {
        options.network.bip34_height = 50;
        options.network.bip34_hash = bip34_hash;
    }
}

/// Spends the coinbase of block 20 at `height`, unless that is above `last`. At each height the
/// payment is another one.
fn spend_at(draft: &mut Draft, height: u32, last: u32) {
    if (draft.height() + 1..=last).contains(&height) {
        draft.grow_to(height - 1);
        draft.add([pay([draft.coin(20)], [u64::from(height)])]);
    }
}

#[test]
fn a_coinbase_from_before_bip34_comes_again_where_nobody_looks() {
    for spent_at in [None, Some(120), Some(215), Some(216)] {
        let draft = repeated_under_bip34(115, |draft, last| {
            spent_at.iter().for_each(|height| spend_at(draft, *height, last));
        });
        let change = with_bip34_from_50(&draft);
        let expected = outcome(&draft.bytes(), Place::in_order, &change);
        for shape in SHAPES {
            let joined = outcome(&draft.bytes(), |place| shape.join(place), &change);
            joined.assert_same(&expected, &format!("spent at {spent_at:?}, {shape:?}"));
        }
    }
}

/// The coin of block 20 is in the UTXO set that a join begins with, or spent there, when block 125
/// makes it again.
#[test]
fn a_coinbase_from_below_comes_again_where_nobody_looks() {
    let heights: [&[u32]; 5] = [&[], &[122], &[122, 225], &[225], &[130]];
    for (number, spent_at) in heights.into_iter().enumerate() {
        let draft = repeated_under_bip34(125, |draft, last| {
            spent_at.iter().for_each(|height| spend_at(draft, *height, last));
        });
        let change = with_bip34_from_50(&draft);
        for (index, base) in [119, 121, 123, 124].into_iter().enumerate() {
            let shape = SHAPES[(number + index) % SHAPES.len()];
            let name = format!("spent at {spent_at:?}");
            compare_on_base(&name, &draft, base, shape, &change, |_| {});
        }
    }
}

/// Block 121 spends the coinbase of block 20, and block 226 does so once more, after block 125 has
/// made that coinbase again: with the same payment, whose coin was spent between the two.
#[test]
fn a_payment_from_below_comes_again_where_nobody_looks() {
    let draft = repeated_under_bip34(125, |draft, last| {
        let payment = pay([draft.coin(20)], [7]);
        if last < u32::MAX {
            draft.grow_to(120);
            draft.add([payment.clone()]);
            draft.grow(1);
            draft.add([pay([out(&payment, 0)], [5])]);
        } else {
            draft.grow_to(225);
            draft.add([payment]);
        }
    });
    let change = with_bip34_from_50(&draft);
    for (base, shape) in [(121, SHAPES[0]), (122, SHAPES[3]), (122, SHAPES[1]), (123, SHAPES[2])] {
        let assert_valid = |expected: &Outcome| assert_eq!(expected.height(), draft.height());
        compare_on_base("a payment", &draft, base, shape, &change, assert_valid);
    }
}
