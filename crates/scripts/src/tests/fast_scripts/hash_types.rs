//! Each sighash type, in transactions with several inputs and outputs.

use apus_wire::opcodes::*;
use apus_wire::{ScriptFlags, flags};
use bitcoin::Transaction;

use super::build::{Asm, Input, Item, Spend, Wrap, bytes, p2pkh, public, with_type, x_only};
use super::{ALL, Expected, expect, judge};

/// Inputs of each kind that is signed with ECDSA, all of this type.
fn ecdsa_inputs(hash_type: u8) -> Vec<Input> {
    let script = Asm::new().push(&public(1)).op(OP_CHECKSIG).0;
    let keys = [public(1), public(2)];
    let two = Asm::new().multisig(2, &keys).0;
    let signed = |key| with_type(key, hash_type);
    let p2pkh_items = || vec![signed(3), bytes(&public(3))];
    let two_items = || vec![bytes(&[]), signed(1), signed(2)];
    vec![
        Input::new(Wrap::Bare, script.clone(), vec![signed(1)]),
        Input::new(Wrap::P2wpkh, p2pkh(&public(3)), p2pkh_items()),
        Input::new(Wrap::P2sh, two.clone(), two_items()),
        Input::new(Wrap::P2shP2wpkh, p2pkh(&public(3)), p2pkh_items()),
        Input::new(Wrap::Bare, p2pkh(&public(3)), p2pkh_items()),
        Input::new(Wrap::P2wsh, two, two_items()),
        Input::new(Wrap::P2shP2wsh, script, vec![signed(1)]),
    ]
}

fn taproot_inputs(hash_type: u8) -> Vec<Input> {
    let key = |annex: Option<Vec<u8>>| {
        let items: Vec<Item> = vec![with_type(4, hash_type)];
        Input { annex, ..Input::new(Wrap::KeyPath, x_only(4).to_vec(), items) }
    };
    let leaf = |annex: Option<Vec<u8>>| {
        let script = Asm::new().push(&x_only(5)).op(OP_CHECKSIG).0;
        let input = Input::new(Wrap::Leaf, script, vec![with_type(5, hash_type)]);
        Input { annex, path: vec![[7; 32]], ..input }
    };
    vec![key(None), leaf(None), key(Some(vec![0x50; 3])), leaf(Some(vec![0x50; 260]))]
}

/// Gives the inputs different sequence numbers, so that it matters which one is signed.
fn with_sequences(tx: &mut Transaction) {
    for (index, input) in tx.input.iter_mut().enumerate() {
        input.sequence.0 = 100 + index as u32;
    }
}

/// Legacy and version 0 signatures may have any type, even an undefined one.
#[test]
fn every_byte_is_a_type_of_ecdsa_signatures() {
    let cases: Vec<(String, Spend, Expected)> = (0..=255)
        .map(|hash_type| {
            let spend = Spend::with(&ecdsa_inputs(hash_type), with_sequences);
            (format!("type {hash_type:#x}"), spend, Expected::Valid)
        })
        .collect();
    expect(&cases, ALL);
    expect(&cases, flags::P2SH | flags::WITNESS | flags::TAPROOT);
}

#[test]
fn seven_types_of_taproot_signatures() {
    for hash_type in 0..=255 {
        let spend = Spend::with(&taproot_inputs(hash_type), with_sequences);
        let is_known = matches!(hash_type, 0..=3 | 0x81..=0x83);
        let expected = if is_known { Expected::Valid } else { Expected::Refused };
        expect(&[(format!("type {hash_type:#x}"), spend, expected)], ALL);
    }
}

/// A signature of 65 bytes with the type that 64 bytes stand for.
#[test]
fn the_default_type_is_not_written() {
    for mut spend in taproot_inputs(0).into_iter().map(|input| Spend::new(&[input])) {
        let mut items = spend.items();
        items[0].push(0);
        spend = spend.witness(&items);
        expect(&[("type 0 written".to_owned(), spend, Expected::Refused)], ALL);
    }
}

/// Without its output, SIGHASH_SINGLE signs the number 1 in legacy scripts, and anybody can reuse
/// that signature: it is left to the engine. Version 0 signs another message; Taproot refuses.
#[test]
fn single_without_its_output() {
    let drop_outputs = |tx: &mut Transaction| tx.output.truncate(1);
    let all_flags: [ScriptFlags; 2] = [ALL, ALL & !(flags::DERSIG | flags::NULLDUMMY)];
    for (hash_type, flags) in [0x03, 0x83, 0x43, 0xe3, 0x23].into_iter().zip(all_flags.repeat(3)) {
        let inputs = ecdsa_inputs(hash_type);
        let judged = judge(&[Spend::with(&inputs, drop_outputs)], flags);
        for (index, judged) in judged.iter().enumerate() {
            let is_legacy = matches!(inputs[index].wrap, Wrap::Bare | Wrap::P2sh);
            assert!(judged.engine, "type {hash_type:#x}, input {index}");
            assert_eq!(judged.is_fast(), index == 0 || !is_legacy, "{hash_type:#x}, {index}");
        }
    }
    for hash_type in [0x03, 0x83] {
        let judged = judge(&[Spend::with(&taproot_inputs(hash_type), drop_outputs)], ALL);
        let valid: Vec<bool> = judged.iter().map(|judged| judged.is_fast()).collect();
        assert_eq!(valid, [true, false, false, false]);
        assert!(judged.iter().all(|judged| judged.engine == judged.is_fast()));
    }
}

/// Types that sign less: what they do not sign may change, and what they sign may not.
#[test]
fn what_a_type_does_not_sign_may_change() {
    type Change = fn(&mut Transaction);
    let changes: [(&str, Change); 6] = [
        ("other output", |tx| tx.output[1].value += bitcoin::Amount::from_sat(1)),
        ("output of the index", |tx| tx.output[0].value += bitcoin::Amount::from_sat(1)),
        ("outputs", |tx| drop(tx.output.pop())),
        ("other sequence", |tx| tx.input[1].sequence.0 ^= 1),
        ("other outpoint", |tx| tx.input[1].previous_output.vout ^= 0x100),
        ("lock time", |tx| tx.lock_time = bitcoin::absolute::LockTime::ZERO),
    ];
    let mut fast = 0;
    for hash_type in [0, 1, 2, 3, 4, 0x80, 0x81, 0x82, 0x83, 0x84] {
        for (_, change) in changes {
            let mut inputs = ecdsa_inputs(hash_type);
            for first in 0..inputs.len() {
                inputs.rotate_left(first.min(1));
                let mut spend = Spend::new(&inputs);
                change(&mut spend.tx);
                let judged = judge(&[spend], ALL)[0];
                assert_eq!(judged.is_fast(), judged.engine);
                fast += usize::from(judged.is_fast());
            }
            let mut inputs = taproot_inputs(if hash_type & 0x7f > 3 { 0 } else { hash_type });
            for _ in 0..inputs.len() {
                inputs.rotate_left(1);
                let mut spend = Spend::new(&inputs);
                change(&mut spend.tx);
                let judged = judge(&[spend], ALL)[0];
                assert_eq!(judged.is_fast(), judged.engine);
                fast += usize::from(judged.is_fast());
            }
        }
    }
    assert!(fast > 200, "{fast} were still valid");
}
