//! The same chains under a snapshot that fits them, without undo data: the proof of every rule
//! refuses the block that a sync in order refuses, for the same reason.

use std::collections::BTreeSet;

use apus_node::JoinOptions;
use apus_node::{Options, SyncError};
use apus_progress::Watch;
use apus_wire::Chain;

use super::coins::{AFTER_WORK, RULES};
use super::repeats::{PAYMENTS_AGAIN, REPEATS, without_bip34};
use super::spends::{CROWDED, DOUBLE_SPENDS, NEVER_MADE};
use super::{Kind, SHAPES, Shape, TRUNK};
use crate::join::draft::Draft;
use crate::support::Place;
use crate::support::blocks::hash;
use crate::support::snapshot::Snapshot;

/// Whether two blocks have the same coinbase.
fn repeats_coinbase(draft: &Draft) -> bool {
    let coinbase = |height| draft.at(height).txdata[0].compute_txid();
    let all: BTreeSet<_> = (1..=draft.height()).map(coinbase).collect();
    all.len() < draft.height() as usize
}

impl Kind {
    /// Proves a snapshot that fits the chain, and panics unless the fault is found.
    fn check_proof(&self, shape: Shape, change: &impl Fn(&mut Options)) {
        let mut draft = Draft::new(TRUNK);
        (self.make)(&mut draft);
        let blocks = draft.bytes();
        let place = Place::new(Chain::Regtest);
        let tmp = place.root().join("tmp");
        std::fs::create_dir(&tmp).unwrap();
        let snapshot = Snapshot::of_blocks(&place.network, &blocks);
        let snapshot = place.write_bytes("utxo.dat", &snapshot.to_bytes());
        let Shape { threads, dbcache_bytes } = shape;
        let spill_dir = Some(tmp.clone());
        let mut options = Options {
            threads,
            dbcache_bytes,
            join: JoinOptions { spill_dir, ..Default::default() },
            ..place.options()
        };
        change(&mut options);
        let from = [place.write("blocks", &blocks)];
        let result = apus_claims::prove(&options, &snapshot, &from, Watch::default());
        assert!(tmp.read_dir().unwrap().next().is_none(), "{}: temporary files", self.name);
        match (self.due, result) {
            (None, Ok(summary)) => {
                assert_eq!(summary.best_block, hash(draft.at(draft.height())), "{}", self.name);
            }
            // Which of two equal outpoints is unspent, sums do not say.
            (None, Err(SyncError::Unproved(what))) => {
                assert!(repeats_coinbase(&draft) && what.contains("BIP30"), "{}", self.name);
            }
            (Some((height, reason)), Err(SyncError::Refused(refusal))) => {
                assert!(refusal.reason.starts_with(reason), "{}: {refusal}", self.name);
                assert_eq!(refusal.block, Some(hash(draft.at(height))), "{}", self.name);
            }
            (due, result) => panic!("{}: {due:?} was due, not {result:?}", self.name),
        }
    }
}

fn check_proofs(kinds: &[Kind], change: impl Fn(&mut Options)) {
    for (number, kind) in kinds.iter().enumerate() {
        kind.check_proof(SHAPES[number % SHAPES.len()], &change);
    }
}

#[test]
fn a_rule_on_coins_is_named_by_a_proof() {
    check_proofs(&RULES, |_| {});
    check_proofs(&AFTER_WORK, |_| {});
}

#[test]
fn a_spend_of_what_is_not_there_is_named_by_a_proof() {
    check_proofs(&DOUBLE_SPENDS, |_| {});
    check_proofs(&NEVER_MADE, |_| {});
    check_proofs(&CROWDED, |_| {});
}

#[test]
fn a_transaction_that_comes_again_is_named_by_a_proof() {
    check_proofs(&REPEATS, without_bip34);
    check_proofs(&PAYMENTS_AGAIN, without_bip34);
}
