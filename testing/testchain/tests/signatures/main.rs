//! What is signed, and with what: keys, nonces, hash types, and scripts of every kind.

#[path = "../common/mod.rs"]
mod common;
mod spends;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use apus_testchain::{Chain, Kind, Lock, ODD_TEMPLATES, Spec};
use bitcoin::ScriptBuf;
use bitcoin::hashes::Hash;
use common::Judge;
use rayon::prelude::*;
use spends::{is_high, r_of, spends};

#[test]
fn few_signatures_have_a_key_seen_before_and_none_a_nonce() {
    let chain = Chain::new(Spec { empty_blocks_after: 0, ..Spec::mainnet_like(3, 20, 10_000_000) });
    let judge = Judge::new();
    chain.blocks().for_each(|block| drop(judge.process(block)));
    assert_eq!(judge.height(), chain.height() as i32);
    assert_eq!(judge.tip(), chain.tip().to_byte_array());
    let mut nonces = HashSet::new();
    let mut keys = HashSet::new();
    let mut signatures = 0;
    let mut seen = 0;
    for spend in spends(&chain) {
        let found = spend.signatures();
        if found.is_empty() {
            continue;
        }
        // For multisig, one key seen before is enough.
        let before = keys.len();
        let shown: HashSet<_> = spend.keys().into_iter().collect();
        assert!(!shown.is_empty());
        keys.extend(shown.iter().cloned());
        if keys.len() < before + shown.len() {
            seen += found.len();
        }
        signatures += found.len();
        for signature in found {
            assert!(nonces.insert(r_of(&signature)), "a nonce is used twice");
        }
    }
    eprintln!("{signatures} signatures, {seen} by keys seen before, {} keys", keys.len());
    assert!(signatures > 30_000, "{signatures}");
    assert!(seen * 3 <= signatures, "{seen} of {signatures}");
    assert!(seen * 10 >= signatures, "too few keys are used again: {seen}");
}

/// Returns the templates of odd outputs by their scripts.
fn templates(chain: &Chain) -> HashMap<ScriptBuf, &'static str> {
    let last = chain.coins().map(|coin| coin.lock.key).max().unwrap();
    let locks = (0..=last).into_par_iter().map(|key| Lock { kind: Kind::Odd, key });
    locks.map(|lock| (lock.script(chain.keys()), lock.template().unwrap())).collect()
}

#[test]
fn core_accepts_every_odd_template() {
    let chain = Chain::new(Spec::odd(5));
    let judge = Judge::new();
    for block in chain.blocks() {
        let verdict = judge.process(block);
        assert!(!verdict.log.contains("rror"), "{}", verdict.log);
    }
    assert_eq!(judge.tip(), chain.tip().to_byte_array());
    let templates = templates(&chain);
    let mut counts: BTreeMap<_, _> = ODD_TEMPLATES.iter().map(|name| (*name, 0)).collect();
    assert_eq!(counts.len(), ODD_TEMPLATES.len(), "two templates have the same name");
    for spend in spends(&chain) {
        if let Some(name) = templates.get(&spend.script) {
            *counts.get_mut(name).unwrap() += 1;
        }
    }
    eprintln!("{counts:?}");
    assert!(counts.values().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn an_odd_chain_has_every_kind_of_signature() {
    let mut before = BTreeSet::new();
    let mut v0 = BTreeSet::new();
    let mut v1 = BTreeSet::new();
    let mut depths = BTreeSet::new();
    let mut annexes = 0;
    let mut high = 0;
    let mut no_output = 0;
    for spend in spends(&Chain::new(Spec::odd(6))) {
        let input = &spend.tx.input[spend.index];
        let hash_types = spend.hash_types();
        let types = match (spend.script.is_p2tr(), input.witness.is_empty()) {
            (true, _) => &mut v1,
            (_, false) => &mut v0,
            _ => &mut before,
        };
        types.extend(hash_types.iter().copied());
        let witness = &input.witness;
        if spend.script.is_p2tr() {
            let annexed = witness.len() > 1 && witness.last().is_some_and(|item| item[0] == 0x50);
            annexes += usize::from(annexed);
            if witness.len() > 1 + usize::from(annexed) {
                let control = witness.len() - 1 - usize::from(annexed);
                depths.insert((witness.nth(control).unwrap().len() - 33) / 32);
            }
            continue;
        }
        let single = |hash_type: &u8| hash_type & 0x1f == 3;
        let none = witness.is_empty() && spend.index >= spend.tx.output.len();
        no_output += usize::from(none && hash_types.iter().any(single));
        high += spend.signatures().iter().filter(|signature| is_high(signature)).count();
    }
    let defined = [1, 2, 3, 0x81, 0x82, 0x83];
    let all = BTreeSet::from_iter(defined.into_iter().chain([0, 4, 0x1f, 0x80, 0xff]));
    assert_eq!(before, all);
    assert_eq!(v0, all);
    assert_eq!(v1, BTreeSet::from_iter(defined.into_iter().chain([0])));
    assert_eq!(depths, BTreeSet::from_iter([0, 1, 2, 3, 4, 128]));
    eprintln!("{annexes} annexes, {high} high S, {no_output} SIGHASH_SINGLE without an output");
    assert!(annexes > 10 && high > 10 && no_output > 10);
}
