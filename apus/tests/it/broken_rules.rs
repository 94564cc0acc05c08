//! One block for each way to break a rule, which is refused for Core's reason, and its twin, which
//! narrowly keeps the rule and is connected. The tests of `testchain` hold the same blocks against
//! Bitcoin Core's engine.

use apus_consensus::RuleClass;
use apus_testchain::block::encode_block;
use apus_testchain::{Break, Parent, remerkle};
use apus_wire::Chain as Network;
use bitcoin::block::Version;

use crate::support::chains::small;
use crate::support::judge::Judge;
use crate::support::{Place, blocks, hash_of, with_genesis};

#[test]
fn every_broken_rule_is_refused_for_cores_reason() {
    let chain = small(3);
    let place = Place::new(Network::Regtest);
    let base = place.sync(&[place.write("chain", &with_genesis(chain))]);
    assert!(base.refusals.is_empty(), "{:?}", base.refusals);
    let utxo_hash = place.utxo_hash();
    assert_eq!(utxo_hash.1, chain.totals().unspent);
    for rule in Break::ALL {
        let broken = chain.broken(*rule);
        let summary = place.sync(&[place.write("broken", [&broken.block])]);
        assert_eq!(summary.best_block, base.best_block, "{rule:?}");
        let [refusal] = &summary.refusals[..] else {
            panic!("{rule:?}: one refusal was due, not {:?}", summary.refusals)
        };
        assert_refused_for(*rule, broken.reason, &refusal.reason);
        assert_eq!(refusal.block, Some(hash_of(&broken.block)), "{rule:?}");
    }
    assert_eq!(place.utxo_hash(), utxo_hash, "after all that");
}

/// Core asks of a header first whether its parent is invalid.
#[test]
fn a_header_on_an_invalid_block_is_refused_for_that() {
    let (valid, tip) = blocks::branch(&blocks::genesis_parent(), "valid", 3);
    let greedy = blocks::greedy(&tip, "greedy");
    let on = |parent: &Parent, change: fn(&mut bitcoin::Block)| {
        let mut block = blocks::block(parent, "child");
        change(&mut block);
        remerkle(&mut block);
        block
    };
    let old: fn(&mut bitcoin::Block) = |block| block.header.version = Version::ONE;
    let early: fn(&mut bitcoin::Block) = |block| block.header.time = 0;
    let late: fn(&mut bitcoin::Block) = |block| block.header.time = u32::MAX;
    for (change, reason) in
        [(old, "bad-version(0x00000001)"), (early, "time-too-old"), (late, "time-too-new")]
    {
        let child = on(&tip.child(&greedy), change);
        let sibling = on(&tip, change);
        let place = Place::new(Network::Regtest);
        let all = valid.iter().chain([&greedy, &child, &sibling]);
        let summary = place.sync_blocks("all", &blocks::bytes(all));
        let refusals = summary.refusals.iter();
        let reasons: Vec<_> = refusals.map(|r| (r.block.unwrap(), r.reason.as_str())).collect();
        let of = |block: &bitcoin::Block| {
            reasons.iter().find(|(hash, _)| *hash == blocks::hash(block)).unwrap().1
        };
        assert!(of(&greedy).starts_with("bad-cb-amount"), "{reasons:?}");
        assert_eq!(of(&child), "bad-prevblk");
        assert!(of(&sibling).starts_with(reason), "{reasons:?}");
        // The engine says the same, asked in this order.
        let engine = Place::new(Network::Regtest);
        let judge = Judge::open(&engine).unwrap();
        judge.process(&blocks::bytes(valid.iter().chain([&greedy])));
        let [child, sibling] = [&child, &sibling].map(encode_block);
        assert_eq!(judge.judge_header(&child), Some(RuleClass::InvalidPrev));
        assert_ne!(judge.judge_header(&sibling), Some(RuleClass::InvalidPrev));
    }
}

/// libbitcoinkernel does not report the script error that Core adds in brackets.
pub fn assert_refused_for(rule: Break, reason: &str, ours: &str) {
    let reason = reason.split(" (").next().unwrap();
    let same = ours == reason || ours.starts_with(&format!("{reason}, "));
    let parent_missing =
        reason == "prev-blk-not-found" && ours.contains("is neither in the block index nor");
    assert!(same || parent_missing, "{rule:?}: Core says '{reason}', we say '{ours}'");
}

#[test]
fn the_sound_twin_of_every_broken_block_is_connected() {
    let chain = small(3);
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("chain", &with_genesis(chain))]);
    let mut twins: Vec<Vec<u8>> = Break::ALL.iter().map(|rule| chain.broken(*rule).sound).collect();
    twins.sort();
    twins.dedup();
    assert!(twins.len() > 40);
    for twin in &twins {
        let place = place.copy();
        let summary = place.sync(&[place.write("twin", [twin])]);
        assert!(summary.refusals.is_empty(), "{:?}", summary.refusals);
        assert_eq!((summary.height, summary.best_block), (chain.height() + 1, hash_of(twin)));
    }
    // Of all twins at once, one becomes the tip and the others are stored as stale blocks.
    let summary = place.sync(&[place.write("twins", &twins)]);
    assert!(summary.refusals.is_empty(), "{:?}", summary.refusals);
    assert_eq!((summary.height, summary.best_block), (chain.height() + 1, hash_of(&twins[0])));
}
