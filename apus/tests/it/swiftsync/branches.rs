//! Several branches reach the hints' height: SwiftSync takes the one with the assumed block, or
//! tries each, whichever comes first.

use std::path::PathBuf;

use apus_swiftsync::{Format, Numbering};
use apus_sync::SavedSync;
use apus_testchain::block::encode_block;
use apus_testchain::{Break, Builder, Chain};

use super::refusals::{Blame, Due, assert_due, assert_nothing_committed};
use super::stop::StopSoon;
use crate::support::judge::Judge;
use crate::support::model::encode;
use crate::support::swift::{MODES, Mode, World, signed_chain, small_chain, try_sync_with};
use crate::support::{Place, with_genesis};

/// Whether the other branch comes with its undo data.
const WITH_UNDO: [bool; 2] = [false, true];

/// The first source: blocks of the other branch, with or without their undo data.
fn listed_first(place: &Place, other: &World, with_undo: bool) -> PathBuf {
    if with_undo {
        other.write_source(place, "other", &other.file_order())
    } else {
        place.write("other", &other.blocks)
    }
}

/// Panics if a SwiftSync marked a block as invalid.
fn failed_blocks(place: &Place) -> usize {
    place.index().into_values().filter(|(_, status, _)| status.is_failed()).count()
}

/// Runs SwiftSync with hints for `world` while `other` comes first; `best` is the chain at which a
/// sync in order ends. The engine then opens the directory.
fn check(world: &World, other: &World, best: &World, failed: usize, what: &str) {
    let right = best.in_order().utxo_hash();
    for mode in MODES {
        for with_undo in WITH_UNDO {
            let what = format!("{what}, {mode:?}, undo data of the other: {with_undo}");
            let place = world.place();
            let hints = world.write_hints(&place, world.height());
            let mut sources = vec![listed_first(&place, other, with_undo)];
            sources.extend(world.sources(&place, mode, &world.file_order()));
            let summary = world.try_swift(&place, mode, &hints, &sources);
            let summary = summary.unwrap_or_else(|error| panic!("{what}: {error}"));
            let tip = (summary.height, summary.best_block);
            assert_eq!(tip, (best.height(), best.tip()), "{what}");
            assert_eq!(place.utxo_hash(), right, "{what}");
            assert_eq!(failed_blocks(&place), failed, "{what}: blocks marked invalid");
            assert!(!place.swift_dir().exists(), "{what}");
            let judge = Judge::open(&place).expect("the engine opens it");
            assert_eq!(judge.tip(), tip, "{what}");
            drop(judge);
            // A second run changes nothing.
            let summary = place.sync(&sources);
            assert_eq!((summary.height, summary.best_block), tip, "{what}, once more");
        }
    }
}

#[test]
fn a_branch_of_equal_height_listed_first_does_not_matter() {
    let chain = small_chain(171, 40, 5_000);
    let world = World::of(&chain);
    let height = chain.height();
    let other = World::of(&chain.fork(height - 5, 5, 1));
    assert_eq!(other.height(), world.height());
    check(&world, &other, &world, 0, "equal height");
}

#[test]
fn a_longer_branch_wins_afterwards_in_order() {
    let chain = small_chain(172, 40, 5_000);
    let world = World::of(&chain);
    let height = chain.height();
    let other = World::of(&chain.fork(height - 5, 8, 1));
    check(&world, &other, &other, 0, "longer");
}

/// A branch off `chain` that breaks a rule at `wrong_at`, with empty blocks on top of that up to
/// `height`.
fn invalid_branch(chain: &Chain, fork_at: u32, wrong_at: u32, height: u32) -> World {
    let fork = chain.fork(fork_at, wrong_at - fork_at - 1, 3);
    let mut blocks = with_genesis(&fork);
    let wrong = fork.broken(Break::BadCbAmount).block;
    let mut tip = fork.parent(fork.height());
    tip = tip.child(&bitcoin::consensus::deserialize(&wrong).unwrap());
    blocks.push(wrong);
    while (blocks.len() as u32) <= height {
        let block = Builder::block_on(&tip).finish();
        tip = tip.child(&block);
        blocks.push(encode_block(&block));
    }
    World::new(apus_wire::Chain::Regtest, blocks)
}

#[test]
fn a_longer_branch_that_turns_out_invalid_does_not_matter() {
    let chain = small_chain(173, 40, 5_000);
    let world = World::of(&chain);
    let height = chain.height();
    for wrong_at in [height - 2, height, height + 1] {
        let other = invalid_branch(&chain, height - 5, wrong_at, height + 4);
        let failed = (other.height() - wrong_at + 1) as usize;
        check(&world, &other, &world, failed, &format!("invalid at {wrong_at}"));
    }
}

#[test]
fn a_block_on_another_branch_vouches_for_that_branch_alone() {
    let chain = small_chain(174, 40, 5_000);
    let world = World::of(&chain);
    let other = World::of(&chain.fork(chain.height() - 5, 5, 1));
    let (place, hints, mut sources) = world.prepared(Mode::AssumeValid, &world.file_order());
    sources.push(place.write("other", &other.blocks));
    let options = other.options(&place, Mode::AssumeValid, &hints);
    let error = try_sync_with(&options, &sources).unwrap_err();
    assert!(error.to_string().contains(&other.tip().to_string()), "{error}");
    let due = Due(Blame::Hints, &["on the chain of the block assumed valid"]);
    assert_due(&due, Err(error), "hints of another branch");
    assert_nothing_committed(&place, "hints of another branch");
    assert_eq!(failed_blocks(&place), 0);
}

#[test]
fn only_when_all_branches_are_tried_the_hints_are_blamed() {
    let chain = signed_chain(175, 40, 5_000);
    let world = World::of(&chain);
    let other = World::of(&chain.fork(chain.height() - 5, 5, 1));
    let place = world.place();
    let mut wrong = world.model.hints(world.height(), Numbering::Spendable);
    let spoiled = wrong.iter_mut().rev().find(|(unspent, _)| !unspent.is_empty()).unwrap();
    let bit = spoiled.0.pop().unwrap();
    let by_one = place.write_bytes("by_one.hints", &encode(&wrong, Format::Bip456));
    let spoiled =
        wrong.iter_mut().rev().find(|(unspent, n)| !unspent.is_empty() && *n > bit).unwrap();
    spoiled.0.push(spoiled.1);
    spoiled.1 += 1;
    let hints = place.write_bytes("wrong.hints", &encode(&wrong, Format::Bip456));
    let sources = [
        listed_first(&place, &other, true),
        world.write_source(&place, "source", &world.file_order()),
    ];
    let result = world.try_swift(&place, Mode::Full, &hints, &sources);
    let due = Due(Blame::Hints, &["2 branches reach height 153", "none of them fits the hints"]);
    assert_due(&due, result, "hints of no branch");
    assert_nothing_committed(&place, "hints of no branch");
    assert_eq!(failed_blocks(&place), 0);
    // Hints that no branch agrees with are corrected for one whose blocks they fit.
    let summary = world.try_swift(&place, Mode::Full, &by_one, &sources).unwrap();
    assert_eq!(summary.best_block, world.tip());
    assert_eq!(place.utxo_hash(), world.in_order().utxo_hash());
}

#[test]
fn interrupted_it_carries_on_with_the_branch_that_it_was_at() {
    let chain = small_chain(176, 40, 5_000);
    let world = World::of(&chain);
    let other = World::of(&chain.fork(chain.height() - 5, 5, 1));
    let right = world.in_order().utxo_hash();
    // The run may end before it notices the request.
    let interrupted = (0..30).find_map(|_| {
        let place = world.place();
        let hints = world.write_hints(&place, world.height());
        let sources = vec![
            listed_first(&place, &other, true),
            world.write_source(&place, "source", &world.file_order()),
        ];
        let options = world.options(&place, Mode::Full, &hints);
        let stop = StopSoon::new(2);
        let summary = stop.run(&options, &sources).unwrap();
        assert_eq!(stop.branches(), 2, "the first branch is not the right one");
        summary.interrupted.then_some((place, options, sources, summary))
    });
    let (place, options, sources, summary) = interrupted.expect("it can be asked to stop");
    let saved = summary.saved.and_then(SavedSync::swiftsync).expect("it says what is saved");
    assert!(saved.done > 0 && saved.total == world.height(), "{saved:?}");
    let rest = StopSoon::new(usize::MAX);
    let summary = rest.run(&options, &sources).unwrap();
    assert_eq!(rest.branches(), 1, "the first branch is not tried again");
    assert_eq!((summary.best_block, summary.saved), (world.tip(), None));
    assert_eq!(place.utxo_hash(), right);
}
