//! Spends of what is not there: spent already, made later, or never made.

use super::{Kind, MISSING, TRUNK, check};
use crate::join::draft::{Draft, SUBSIDY, ground, nowhere, out, pay, pay_to};

/// The height of the first block after the trunk.
const FIRST: u32 = TRUNK + 1;

const fn missing(name: &'static str, height: u32, make: fn(&mut Draft)) -> Kind {
    Kind::refused(name, height, MISSING, make)
}

pub const DOUBLE_SPENDS: [Kind; 13] = [
    missing("an old coin twice in one block", FIRST, |draft| {
        let coin = draft.coin(1);
        draft.add([pay([coin], [SUBSIDY]), pay([coin], [SUBSIDY - 1])]);
    }),
    missing("an old coin by two neighbours", FIRST + 1, |draft| {
        let coin = draft.coin(1);
        draft.add([pay([coin], [SUBSIDY])]);
        draft.add([pay([coin], [SUBSIDY - 1])]);
        draft.grow(3);
    }),
    missing("an old coin by blocks far apart", FIRST + 25, |draft| {
        let coin = draft.coin(1);
        draft.add([pay([coin], [SUBSIDY])]);
        draft.grow(24);
        draft.add([pay([coin], [SUBSIDY - 1])]);
    }),
    missing("an old coin three times", FIRST + 2, |draft| {
        let coin = draft.coin(1);
        for fee in 0..3 {
            draft.add([pay([coin], [SUBSIDY - fee])]);
            draft.grow(1);
        }
    }),
    missing("a new coin by two neighbours", FIRST + 2, |draft| {
        let parent = pay([draft.coin(1)], [SUBSIDY]);
        draft.add([parent.clone()]);
        draft.add([pay([out(&parent, 0)], [5])]);
        draft.add([pay([out(&parent, 0)], [6])]);
        draft.grow(2);
    }),
    missing("a new coin twice in one block", FIRST + 1, |draft| {
        let parent = pay([draft.coin(1)], [SUBSIDY]);
        draft.add([parent.clone()]);
        draft.add([pay([out(&parent, 0)], [5]), pay([out(&parent, 0)], [6])]);
        draft.grow(2);
    }),
    missing("a new coin soon, and again much later", FIRST + 22, |draft| {
        let parent = pay([draft.coin(1)], [SUBSIDY]);
        draft.add([parent.clone()]);
        draft.add([pay([out(&parent, 0)], [5])]);
        draft.grow(20);
        draft.add([pay([out(&parent, 0)], [6])]);
    }),
    missing("a coin of the same block twice", FIRST, |draft| {
        let parent = pay([draft.coin(1)], [SUBSIDY]);
        let twice = [5, 6].map(|amount| pay([out(&parent, 0)], [amount]));
        let [first, second] = twice;
        draft.add([parent, first, second]);
        draft.grow(2);
    }),
    missing("a coin of the same block, and again in the next", FIRST + 1, |draft| {
        let parent = pay([draft.coin(1)], [SUBSIDY]);
        let coin = out(&parent, 0);
        draft.add([parent, pay([coin], [5])]);
        draft.add([pay([coin], [6])]);
        draft.grow(2);
    }),
    missing("a coin of the same block, and again much later", FIRST + 21, |draft| {
        let parent = pay([draft.coin(1)], [SUBSIDY]);
        let coin = out(&parent, 0);
        draft.add([parent, pay([coin], [5])]);
        draft.grow(20);
        draft.add([pay([coin], [6])]);
        draft.grow(2);
    }),
    missing("two double spends, the lower of which counts", FIRST + 4, |draft| {
        let first = draft.coin(1);
        let second = draft.coin(2);
        draft.add([pay([first], [1]), pay([second], [1])]);
        draft.grow(3);
        draft.add([pay([second], [2])]);
        draft.grow(3);
        draft.add([pay([first], [2])]);
    }),
    missing("one of two outputs twice", FIRST + 9, |draft| {
        let parent = pay([draft.coin(1)], [7, 8]);
        draft.add([parent.clone()]);
        draft.grow(3);
        draft.add([pay([out(&parent, 1)], [1])]);
        draft.grow(3);
        draft.add([pay([out(&parent, 0)], [1])]);
        draft.add([pay([out(&parent, 1)], [2])]);
    }),
    missing("a chain of payments whose first is a double spend", FIRST + 2, |draft| {
        let coin = draft.coin(1);
        draft.add([pay([coin], [SUBSIDY])]);
        draft.grow(1);
        let mut tx = pay([coin], [SUBSIDY - 1]);
        for amount in (1..20).rev() {
            draft.add([tx.clone()]);
            tx = pay([out(&tx, 0)], [amount]);
        }
    }),
];

#[test]
fn a_coin_is_spent_twice() {
    check(&DOUBLE_SPENDS, |_| {});
}

pub const NEVER_MADE: [Kind; 14] = [
    missing("made later in the block", FIRST, |draft| {
        let parent = pay([draft.coin(1)], [SUBSIDY]);
        let child = pay([out(&parent, 0)], [5]);
        draft.add([child, parent]);
        draft.grow(2);
    }),
    missing("made later in the block, between good payments", FIRST + 2, |draft| {
        let [a, b, c] = [1, 2, 3].map(|height| pay([draft.coin(height)], [SUBSIDY]));
        let of_c = pay([out(&c, 0)], [5]);
        let of_a = pay([out(&a, 0)], [5]);
        draft.add([a]);
        draft.grow(1);
        draft.add([of_a, b, of_c, c]);
        draft.grow(2);
    }),
    missing("made by the next block", FIRST, |draft| {
        let parent = pay([draft.coin(1)], [SUBSIDY]);
        draft.add([pay([out(&parent, 0)], [5])]);
        draft.add([parent]);
        draft.grow(2);
    }),
    missing("made much later", FIRST + 1, |draft| {
        let parent = pay([draft.coin(1)], [SUBSIDY]);
        draft.grow(1);
        draft.add([pay([out(&parent, 0)], [5])]);
        draft.grow(22);
        draft.add([parent]);
    }),
    missing("spent too early, and again when it is there", FIRST, |draft| {
        let parent = pay([draft.coin(1)], [SUBSIDY]);
        let coin = out(&parent, 0);
        draft.add([pay([coin], [5])]);
        draft.grow(5);
        draft.add([parent]);
        draft.grow(5);
        draft.add([pay([coin], [6])]);
    }),
    missing("an output too many of an old payment", FIRST + 21, |draft| {
        let parent = pay([draft.coin(1)], [7, 8]);
        draft.add([parent.clone()]);
        draft.grow(20);
        draft.add([pay([out(&parent, 2)], [1])]);
    }),
    missing("an output too many of the last block's payment", FIRST + 1, |draft| {
        let parent = pay([draft.coin(1)], [7, 8]);
        draft.add([parent.clone()]);
        draft.add([pay([out(&parent, 2)], [1])]);
        draft.grow(2);
    }),
    missing("an output too many of the same block's payment", FIRST, |draft| {
        let parent = pay([draft.coin(1)], [7, 8]);
        let child = pay([out(&parent, 2)], [1]);
        draft.add([parent, child]);
        draft.grow(2);
    }),
    missing("the output of the highest index", FIRST + 1, |draft| {
        let parent = pay([draft.coin(1)], [7]);
        draft.add([parent.clone()]);
        draft.add([pay([out(&parent, u32::MAX)], [1])]);
        draft.grow(2);
    }),
    missing("an output that nobody can spend", FIRST + 21, |draft| {
        let parent = pay_to(&[draft.coin(1)], [(7, vec![0x6a]), (8, vec![0x51])]);
        draft.add([parent.clone()]);
        draft.grow(20);
        draft.add([pay([out(&parent, 0)], [1])]);
    }),
    missing("an output of the same block that nobody can spend", FIRST, |draft| {
        let parent = pay_to(&[draft.coin(1)], [(7, vec![0x6a]), (8, vec![0x51])]);
        let child = pay([out(&parent, 0)], [1]);
        draft.add([parent, child]);
        draft.grow(2);
    }),
    missing("an output of a payment that never was", FIRST + 3, |draft| {
        draft.grow(3);
        draft.add([pay([nowhere(7)], [1])]);
        draft.grow(3);
    }),
    missing("two payments that never were", FIRST + 3, |draft| {
        draft.grow(3);
        draft.add([pay([nowhere(250)], [1])]);
        draft.grow(3);
        draft.add([pay([nowhere(3)], [1])]);
        draft.grow(20);
    }),
    missing("the genesis block's coinbase", FIRST, |draft| {
        let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
        draft.add([pay([out(&genesis.txdata[0], 0)], [1])]);
        draft.grow(2);
    }),
];

#[test]
fn a_coin_is_spent_that_is_not_there() {
    check(&NEVER_MADE, |_| {});
}

/// The first byte of txids in the same partition.
const ONE_PARTITION: u8 = 0x5a;

/// Payments whose txids, and those of what spends them, are in one partition. Returns the last
/// payments, each with an output that is not spent.
fn crowd(draft: &mut Draft) -> Vec<bitcoin::OutPoint> {
    let mut unspent = Vec::new();
    for height in 1..=16 {
        let amounts = (0..150).map(|i| (1000 + i, vec![0x51; 1 + i as usize % 9]));
        let parent = ground(pay_to(&[draft.coin(height)], amounts), ONE_PARTITION);
        let child = |vout| ground(pay([out(&parent, vout)], [900, 50]), ONE_PARTITION);
        let children = [3, 149, 77].map(child);
        unspent.extend(children.iter().map(|child| out(child, 1)));
        draft.add([parent]);
        draft.add(children);
    }
    unspent
}

pub const CROWDED: [Kind; 8] = [
    Kind::valid("txids in one partition", |draft| {
        let unspent = crowd(draft);
        draft.grow(1);
        let spent = unspent.iter().step_by(2).copied();
        draft.add([pay_to(&spent.collect::<Vec<_>>(), [(9, vec![0x51])])]);
    }),
    missing("a double spend among txids in one partition", FIRST + 34, |draft| {
        let unspent = crowd(draft);
        draft.add([pay([unspent[5]], [9])]);
        draft.grow(1);
        draft.add([pay([unspent[6]], [9]), pay([unspent[5]], [8])]);
        draft.grow(1);
    }),
    missing("an output too many among txids in one partition", FIRST + 32, |draft| {
        let unspent = crowd(draft);
        let coin = bitcoin::OutPoint { vout: 2, ..unspent[5] };
        draft.add([pay([coin], [9])]);
        draft.grow(1);
    }),
    missing("a spend too early among txids in one partition", FIRST + 32, |draft| {
        let unspent = crowd(draft);
        let late = ground(pay([unspent[7]], [10]), ONE_PARTITION);
        draft.add([pay([out(&late, 0)], [9])]);
        draft.add([late]);
    }),
    Kind::valid("a payment larger than a slice", |draft| {
        let amounts = (0..17_000).map(|i| (1 + i, vec![0x51]));
        let parent = pay_to(&[draft.coin(1)], amounts);
        draft.add([parent.clone()]);
        draft.grow(1);
        draft.add(
            [16_999, 0, 4500, 127, 128, 16_511, 16_512].map(|vout| pay([out(&parent, vout)], [1])),
        );
    }),
    missing("a double spend of a payment larger than a slice", FIRST + 4, |draft| {
        let amounts = (0..17_000).map(|i| (1 + i, vec![0x51]));
        let parent = pay_to(&[draft.coin(1)], amounts);
        draft.add([parent.clone()]);
        draft.grow(1);
        draft.add([16_999, 0, 4500, 16_512].map(|vout| pay([out(&parent, vout)], [1])));
        draft.grow(1);
        draft.add([pay([out(&parent, 4500), out(&parent, 1)], [1])]);
        draft.grow(1);
    }),
    missing("a coin with a long script twice", FIRST + 6, |draft| {
        let coins = long_scripts(draft);
        draft.add([pay([coins[41]], [1])]);
    }),
    Kind::valid("blocks that spend many times their own bytes", |draft| {
        let coins = long_scripts(draft);
        draft.add([pay([coins[99]], [1])]);
    }),
];

/// Makes 100 coins with scripts of 8,900 bytes, and five blocks that spend ten each.
fn long_scripts(draft: &mut Draft) -> Vec<bitcoin::OutPoint> {
    let push = [&[0x4d, 0x08, 0x02][..], &[7; 520]].concat();
    let script = [push.repeat(17), vec![0x51]].concat();
    let parent = pay_to(&[draft.coin(1)], (0..100).map(|i| (i, script.clone())));
    let coins: Vec<bitcoin::OutPoint> = (0..100).map(|vout| out(&parent, vout)).collect();
    draft.add([parent]);
    coins[..50].chunks(10).for_each(|coins| draft.add([pay_to(coins, [(1, vec![0x51])])]));
    coins
}

#[test]
fn all_txids_are_in_one_partition() {
    check(&CROWDED, |_| {});
}
