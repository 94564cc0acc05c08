//! The last 288 blocks of a SwiftSync in assumevalid mode: their coins are known, so every rule but
//! the scripts is checked, and a broken one is refused with nothing committed.

use apus_store::BlockStatus;
use apus_testchain::block::encode_block;
use apus_testchain::{Break, Builder, Chain, Kind, Payment};

use super::refusals::{Blame, Due, assert_due, assert_in_order_succeeds, assert_nothing_committed};
use super::stop::StopSoon;
use crate::support::Place;
use crate::support::swift::{Mode, World, small_chain, try_sync_with};

/// A chain whose last block breaks a rule, with hints that fit it.
fn ending_in(chain: &Chain, wrong: &[Vec<u8>]) -> World {
    let sound = World::of(chain);
    World::new(sound.network, sound.blocks.iter().chain(wrong).cloned().collect())
}

/// The same for a child before its parent in the last block. The model plays in order and does not
/// see that the parent's first output is spent.
fn ending_in_reversed_order(chain: &Chain) -> World {
    let mut world = ending_in(chain, &[chain.broken(Break::SpendsLaterTx).block]);
    let height = world.height();
    let outputs = &mut world.model.blocks[height as usize].outputs;
    let first_of_parent = outputs.len() - 2;
    outputs[first_of_parent].spent_at = Some(height);
    world
}

/// Panics if the index marks a block as invalid.
fn assert_none_failed(place: &Place, what: &str) {
    let failed = place.index().into_values().filter(|(_, status, _)| status.is_failed()).count();
    assert_eq!(failed, 0, "{what}: marked invalid because of what SwiftSync says");
}

#[test]
fn a_child_before_its_parent_is_refused_and_does_not_panic() {
    let chain = small_chain(161, 50, 9_000);
    let right = World::of(&chain).in_order().utxo_hash();
    let world = ending_in_reversed_order(&chain);
    let (place, hints, sources) = world.prepared(Mode::AssumeValid, &world.shuffled(3));
    let due = Due(Blame::Block, &["at height 164", "bad-txns-inputs-missingorspent"]);
    let what = "a child before its parent";
    let result = world.try_swift(&place, Mode::AssumeValid, &hints, &sources);
    assert_due(&due, result, what);
    assert_nothing_committed(&place, what);
    assert_none_failed(&place, what);
    assert_in_order_succeeds(&place, &sources, &right, what);
}

/// Two blocks on top of a chain; the first spends what the second creates.
fn spent_before_created(chain: &Chain) -> Vec<Vec<u8>> {
    let coin = chain.spendable(Kind::OpTrue)[0];
    let parent = Payment::new(&[coin], [(coin.amount, vec![0x51])]).to_transaction(chain.keys());
    let mut child = parent.clone();
    child.input[0].previous_output = bitcoin::OutPoint::new(parent.compute_txid(), 0);
    let mut tip = chain.parent(chain.height());
    let blocks = [child, parent].map(|tx| {
        let block = Builder::block_on(&tip).tx(tx).finish();
        tip = tip.child(&block);
        encode_block(&block)
    });
    blocks.to_vec()
}

#[test]
fn a_spend_in_a_block_before_its_coins_is_refused() {
    let chain = small_chain(162, 50, 9_000);
    let right = World::of(&chain).in_order().utxo_hash();
    let mut world = ending_in(&chain, &spent_before_created(&chain));
    // The model plays in order and does not see that the coin is spent, so the hints are changed to
    // say so.
    let height = world.height();
    world.model.blocks[height as usize].outputs.last_mut().unwrap().spent_at = Some(height);
    let (place, hints, sources) = world.prepared(Mode::AssumeValid, &world.shuffled(3));
    let due = Due(Blame::Block, &["at height 164", "bad-txns-inputs-missingorspent"]);
    let what = "spent a block before it is created";
    let result = world.try_swift(&place, Mode::AssumeValid, &hints, &sources);
    assert_due(&due, result, what);
    assert_nothing_committed(&place, what);
    assert_none_failed(&place, what);
    assert_in_order_succeeds(&place, &sources, &right, what);
}

#[test]
fn carrying_on_from_what_was_saved_refuses_the_same() {
    let chain = small_chain(163, 60, 9_000);
    let cases: [(Break, &'static [&'static str]); 3] = [
        (Break::PrematureSpendOfCoinbase, &["at height 174", "bad-txns-premature-spend"]),
        (Break::BadCbAmount, &["at height 174", "bad-cb-amount"]),
        (Break::SpendsLaterTx, &["at height 174", "bad-txns-inputs-missingorspent"]),
    ];
    for (rule, words) in cases {
        let world = match rule {
            Break::SpendsLaterTx => ending_in_reversed_order(&chain),
            _ => ending_in(&chain, &[chain.broken(rule).block]),
        };
        let what = format!("{rule:?}, carried on");
        // The run may end before it notices the request.
        let interrupted = (0..30).find_map(|_| {
            let (place, hints, sources) = world.prepared(Mode::AssumeValid, &world.shuffled(3));
            let options = world.options(&place, Mode::AssumeValid, &hints);
            let run = StopSoon::new(1).run(&options, &sources);
            let stopped = run.is_ok_and(|summary| summary.interrupted);
            stopped.then_some((place, hints, sources))
        });
        let (place, hints, sources) = interrupted.expect("it can be asked to stop");
        assert!(place.swift_dir().join("progress").exists(), "{what}: something was saved");
        let options = world.options(&place, Mode::AssumeValid, &hints);
        let due = Due(Blame::Block, words);
        assert_due(&due, try_sync_with(&options, &sources), &what);
        assert_nothing_committed(&place, &what);
        assert_none_failed(&place, &what);
    }
}

#[test]
fn blocks_below_the_last_288_are_left_to_whoever_vouches() {
    let chain = small_chain(164, 40, 6_000);
    let world = World::of(&chain);
    let wrong = chain.broken(Break::BadCbAmount).block;
    let mut tip =
        chain.parent(chain.height()).child(&bitcoin::consensus::deserialize(&wrong).unwrap());
    for (on_top, taken) in [(287, false), (288, true)] {
        let mut blocks = world.blocks.clone();
        blocks.push(wrong.clone());
        let base = tip.clone();
        for _ in 0..on_top {
            let block = Builder::block_on(&tip).finish();
            tip = tip.child(&block);
            blocks.push(encode_block(&block));
        }
        tip = base;
        let world = World::new(world.network, blocks);
        let (place, hints, sources) = world.prepared(Mode::AssumeValid, &world.shuffled(3));
        let result = world.try_swift(&place, Mode::AssumeValid, &hints, &sources);
        let what = format!("{on_top} blocks on top");
        if taken {
            assert_eq!(result.unwrap().best_block, world.tip(), "{what}")
        } else {
            assert_due(&Due(Blame::Block, &["bad-cb-amount"]), result, &what)
        }
        let has_undo = |status: BlockStatus| status.has(BlockStatus::BLOCK_HAVE_UNDO);
        let with_undo = place.index().into_values().filter(|(_, status, _)| has_undo(*status));
        assert_eq!(with_undo.count(), if taken { 288 } else { 0 }, "{what}");
    }
}
