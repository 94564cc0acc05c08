//! Joins that begin above the genesis block, on a UTXO set that is there already.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use apus_hash::Hash;
use apus_node::{AssumeValid, Options};
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_sync as sync;
use apus_testchain::every;
use apus_tools as tools;
use apus_wire::Chain as Network;

use super::draft::{Draft, out, pay};
use super::refused::repeats::{PAYMENTS_AGAIN, REPEATS, without_bip34};
use super::refused::spends::{CROWDED, DOUBLE_SPENDS, NEVER_MADE};
use super::refused::{SHAPES, TRUNK, check_on_base, coins};
use super::source::{Files, VARIED};
use crate::support::Place;
use crate::support::judge::Judge;
use crate::support::outcome::Outcome;
use crate::support::stop_when::StopWhen;
use crate::support::swift::{Mode, World, try_reindex_with, try_sync_with};

/// Who made the UTXO set that a join begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Maker {
    InOrder,
    Join,
    SwiftSync,
    /// Bitcoin Core.
    Engine,
}

impl Maker {
    /// A directory with the first blocks of [`VARIED`], up to `height`.
    fn make(self, height: u32) -> Place {
        let blocks = VARIED.blocks[..=height as usize].to_vec();
        let place = Place::new(Network::Regtest);
        let sources = [place.write("first", &blocks)];
        let sync = |options: Options| {
            assert_eq!(try_sync_with(&options, &sources).unwrap().height, height);
        };
        match self {
            Self::InOrder => sync(place.in_order()),
            Self::Join => sync(place.join()),
            Self::SwiftSync => {
                let world = World::new(Network::Regtest, blocks);
                let hints = world.write_hints(&place, height);
                sync(world.options(&place, Mode::AssumeValid, &hints));
            }
            Self::Engine => {
                let judge = Judge::open(&place).unwrap();
                assert_eq!(judge.process(&blocks[1..]), height as usize);
            }
        }
        place
    }
}

/// Two makers for each height, and all of them with `APUS_TEST_ROUNDS=2`.
#[test]
fn a_join_continues_the_coins_of_every_method() {
    let tip = VARIED.blocks.len() as u32 - 1;
    let makers = [Maker::InOrder, Maker::Join, Maker::SwiftSync, Maker::Engine];
    for (number, height) in [1, 115, 170, tip - 1].into_iter().enumerate() {
        let some = makers.into_iter().enumerate().skip(number % every(2)).step_by(every(2));
        for (index, maker) in some {
            let shape = SHAPES[(number + index) % SHAPES.len()];
            let what = format!("{maker:?} to {height}, then {shape:?}");
            let base = maker.make(height);
            let sources = [base.write("all", VARIED.blocks.iter().rev())];
            let in_order = base.copy();
            let expected = Outcome::of_sync(&in_order, &in_order.in_order(), &sources);
            assert_eq!(expected.summary.best_block, VARIED.tip(), "{what}");
            let joined = Outcome::of_sync(&base, &shape.join(&base), &sources);
            joined.assert_same(&expected, &what);
            let judge = Judge::open(&base).expect("the engine's start-up verification passes");
            assert_eq!(judge.process(&VARIED.next), VARIED.next.len(), "{what}");
        }
    }
}

#[test]
fn a_directory_that_is_at_the_tip_is_left_as_it_is() {
    let place = Maker::InOrder.make(VARIED.blocks.len() as u32 - 1);
    let sources = [VARIED.write(&place, Files::InOrder)];
    let before = Outcome::of_sync(&place, &place.in_order(), &sources);
    let again = Outcome::of_sync(&place, &place.join(), &sources);
    again.assert_same(&before, "nothing to join");
}

#[test]
fn coins_from_below_are_spent_twice() {
    check_on_base(&DOUBLE_SPENDS, |_| {});
}

#[test]
fn coins_from_below_are_not_there() {
    check_on_base(&NEVER_MADE, |_| {});
}

#[test]
fn coins_from_below_may_not_be_spent_so() {
    check_on_base(&coins::RULES, |_| {});
    check_on_base(&coins::AFTER_WORK, |_| {});
}

#[test]
fn of_two_faults_above_a_base_the_lower_counts() {
    check_on_base(&coins::TWO_FAULTS, |_| {});
}

#[test]
fn coins_from_below_are_in_one_partition() {
    check_on_base(&CROWDED, |_| {});
}

#[test]
fn transactions_from_below_come_again() {
    check_on_base(&REPEATS, without_bip34);
    check_on_base(&PAYMENTS_AGAIN, without_bip34);
}

/// A branch on the trunk that spends coins of it and its own.
fn branch(coins: std::ops::Range<u32>) -> Draft {
    let mut draft = Draft::new(TRUNK);
    for coin in coins {
        let parent = pay([draft.coin(coin)], [100, 200, u64::from(coin)]);
        draft.add([parent.clone(), pay([out(&parent, 0)], [90])]);
        draft.add([pay([out(&parent, 1)], [80])]);
    }
    draft
}

#[test]
fn the_tip_goes_back_to_the_fork_first() {
    // The branches spend some of the same coins.
    let short = branch(1..5);
    let long = branch(3..10);
    for shape in SHAPES {
        let run = |options: &dyn Fn(&Place) -> Options| {
            let place = Place::new(Network::Regtest);
            let first = [place.write("short", &short.bytes())];
            try_sync_with(&options(&place), &first).unwrap();
            let second = [place.write("long", &long.bytes())];
            Outcome::of_sync(&place, &options(&place), &second)
        };
        let expected = run(&Place::in_order);
        assert_eq!(expected.height(), long.height());
        run(&|place| shape.join(place)).assert_same(&expected, &format!("{shape:?}"));
    }
}

/// Scripts of blocks that an interrupted run skipped are not checked again, and the coins of both
/// parts are one set.
#[test]
fn a_reindex_that_was_interrupted_in_order_is_joined_to_its_end() {
    let made = Maker::InOrder.make(VARIED.blocks.len() as u32 - 1);
    made.shrink();
    let expected = Outcome::of(&made, try_reindex_with(&made.in_order()).unwrap());
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let place = made.copy();
        let stop = AtomicBool::new(false);
        let observer = StopWhen(&stop, |progress: &Progress| {
            progress.phase == Phase::Connecting && progress.blocks > 40 * number as u64
        });
        let begun = sync::reindex(&place.in_order(), Watch::new(&observer, &stop)).unwrap();
        assert!(begun.interrupted);
        let options = Options { assumevalid: AssumeValid::Nothing, ..shape.join(&place) };
        let summary = try_reindex_with(&options).unwrap();
        assert_eq!(summary.counts.blocks, u64::from(summary.height - begun.height));
        let joined = Outcome::of(&place, summary);
        joined.assert_holds_same(&expected, &format!("from {}, {shape:?}", begun.height));
    }
}

/// What is left of a UTXO set of another chain does not matter, wherever its blocks are.
#[test]
fn many_runs_of_joins_come_to_the_same() {
    let place = Place::new(Network::Regtest);
    let source: [PathBuf; 1] = [VARIED.write(&place, Files::Shuffled)];
    let heights = [1, 2, 100, 111, 112, 140, 141, 200, VARIED.blocks.len() as u32 - 1];
    for (height, shape) in heights.into_iter().zip(SHAPES.iter().cycle()) {
        let options = Options { stop_at_height: Some(height), ..shape.join(&place) };
        assert_eq!(try_sync_with(&options, &source).unwrap().height, height);
        let alone = Place::new(Network::Regtest);
        let all = [VARIED.write(&alone, Files::InOrder)];
        let options = Options { stop_at_height: Some(height), ..alone.in_order() };
        let expected = try_sync_with(&options, &all).unwrap();
        assert_eq!(place.utxo_hash(), alone.utxo_hash(), "at {height}");
        assert_eq!(expected.best_block, place.stats(tools::UtxoHash::None).best_block);
        assert_ne!(expected.best_block, Hash::ZERO);
    }
}
