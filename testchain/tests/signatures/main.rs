//! What signatures are made of: keys and nonces.

#[path = "../common/mod.rs"]
mod common;
mod spends;

use std::collections::HashSet;

use apus_testchain::{Chain, Spec};
use bitcoin::hashes::Hash;
use common::Judge;
use spends::{r_of, spends};

#[test]
fn few_signatures_have_a_key_seen_before_and_none_a_nonce() {
    let chain = Chain::new(Spec { empty_blocks_after: 0, ..Spec::mainnet_like(3, 40, 20_000_000) });
    let judge = Judge::new();
    chain.blocks().for_each(|block| drop(judge.process(block)));
    assert_eq!(judge.height(), chain.height() as i32);
    assert_eq!(judge.tip(), chain.tip().to_byte_array());
    let (mut nonces, mut keys) = (HashSet::new(), HashSet::new());
    let (mut signatures, mut seen) = (0, 0);
    for spend in spends(&chain) {
        let found = spend.signatures();
        if found.is_empty() {
            continue;
        }
        // Of multisig, a single key seen before counts.
        let before = keys.len();
        let shown: HashSet<_> = spend.keys().into_iter().collect();
        assert!(!shown.is_empty());
        keys.extend(shown.iter().cloned());
        if keys.len() < before + shown.len() {
            seen += found.len();
        }
        signatures += found.len();
        for signature in found {
            assert!(nonces.insert(r_of(&signature)), "a nonce comes twice");
        }
    }
    eprintln!("{signatures} signatures, {seen} by keys seen before, {} keys", keys.len());
    assert!(signatures > 50_000, "{signatures}");
    assert!(seen * 3 <= signatures, "{seen} of {signatures}");
    assert!(seen * 10 >= signatures, "mainnet has keys that are used again: {seen}");
}
