//! Chains that break a rule.

use apus_node::Options;
use apus_testchain::{Break, every};
use apus_wire::Chain;

use crate::join::draft::Draft;
use crate::join::refused::coins::{RULES, TWO_FAULTS};
use crate::join::refused::repeats::{PAYMENTS_AGAIN, REPEATS, without_bip34};
use crate::join::refused::spends::{CROWDED, DOUBLE_SPENDS, NEVER_MADE};
use crate::join::refused::{Kind, TRUNK, assume_valid};
use crate::support::blocks::hash;
use crate::support::outcome::Outcome;
use crate::support::sharding::{Sharded, Sharding};
use crate::support::swift::{small_chain, try_sync_with};
use crate::support::{Place, hash_of, with_genesis};

/// Runs a job for the blocks that a sync in order with the same options has refused one of.
fn compare(what: &str, blocks: &[Vec<u8>], cut: Sharding, change: &dyn Fn(&mut Options)) {
    let place = Place::new(Chain::Regtest);
    let mut options = place.in_order();
    change(&mut options);
    let expected = Outcome::of_sync(&place, &options, &[place.write("blocks", blocks)]);
    let place = Place::new(Chain::Regtest);
    let mut options = place.join();
    options.dbcache_bytes = if cut.seed.is_multiple_of(2) { 0 } else { 100 << 20 };
    change(&mut options);
    let job = Sharded::plan(&place, &options, &[place.write("blocks", blocks)], cut);
    let what = format!("{what}, {cut:?}");
    let refusal = job.run_to_end(cut.seed);
    let refusals = expected.refusals();
    match &refusal {
        None => assert!(refusals.is_empty(), "{what}: {refusals:?}"),
        Some(found) => {
            let found = (found.block, found.reason.clone());
            assert!(refusals.contains(&found), "{what}: {found:?} is not one of {refusals:?}");
        }
    }
    let summary = try_sync_with(&options, &[]).unwrap();
    Outcome::of(&place, summary).assert_holds_same(&expected, &what);
}

/// Compares chains of each kind, one in three assumed valid; all of them with
/// `APUS_TEST_ROUNDS=3`.
fn check(kinds: &[Kind], change: impl Fn(&mut Options)) {
    let trunk = Draft::new(TRUNK);
    for (number, kind) in kinds.iter().enumerate() {
        let mut draft = trunk.clone();
        kind.make(&mut draft);
        let cut = Sharding::of([1, 3, 17][number % 3], number as u64);
        if number % 3 > 0 || every(3) == 1 {
            compare(kind.name, &draft.bytes(), cut, &change);
        }
        if number % 3 == 0 || every(3) == 1 {
            draft.grow(1);
            let tip = hash(draft.at(draft.height()));
            compare(kind.name, &draft.bytes(), cut, &|options| {
                change(options);
                assume_valid(options, tip);
            });
        }
    }
}

#[test]
fn spends_of_what_is_not_there_end_a_job_below() {
    check(&DOUBLE_SPENDS, |_| {});
    check(&NEVER_MADE, |_| {});
}

#[test]
fn ground_txids_crowd_one_partition() {
    check(&CROWDED, |_| {});
}

#[test]
fn rules_on_coins_and_two_faults_end_a_job_below() {
    check(&RULES, |_| {});
    check(&TWO_FAULTS, |_| {});
}

#[test]
fn repeated_transactions_end_a_job_below_or_do_not() {
    check(&REPEATS, without_bip34);
    check(&PAYMENTS_AGAIN, without_bip34);
}

/// Every rule with `APUS_TEST_ROUNDS=8`, and every eighth without.
#[test]
fn each_broken_rule_ends_a_job_below() {
    let chain = small_chain(203, 50, 9_000);
    let blocks = with_genesis(&chain);
    let place = Place::new(Chain::Regtest);
    let expected = Outcome::of_sync(&place, &place.in_order(), &[place.write("blocks", &blocks)]);
    for (number, rule) in Break::ALL.iter().enumerate().step_by(every(8)) {
        let broken = chain.broken(*rule);
        let cut = Sharding::of([3, 17, 1][number % 3], number as u64);
        let place = Place::new(Chain::Regtest);
        let sources = [place.write("blocks", blocks.iter().chain([&broken.block]))];
        let job = Sharded::plan(&place, &place.join(), &sources, cut);
        let refusal = job.run_to_end(cut.seed);
        // A header that breaks a rule is not planned.
        let Some(refusal) = refusal else {
            assert!(job.open(&apus_disk::Disk::new()).counts().spans > 0);
            continue;
        };
        assert_eq!(refusal.block, Some(hash_of(&broken.block)), "{rule:?}");
        crate::broken_rules::assert_refused_for(*rule, broken.reason, &refusal.reason);
        let summary = try_sync_with(&place.join(), &[]).unwrap();
        let outcome = Outcome::of(&place, summary);
        assert_eq!(outcome.coins.hash, expected.coins.hash, "{rule:?}");
        assert!(outcome.undo == expected.undo, "{rule:?}: undo data");
    }
}
