//! Hashes that outputs commit to, which are compared after the scripts are run: of keys (P2PKH and
//! P2WPKH) and of redeem scripts.

use apus_wire::opcodes::*;

use super::build::{Asm, Input, Spend, Wrap, by, bytes, p2pkh, p2sh, public, push, with_type};
use super::{ALL, Expected, Judged, expect, judge};

/// One bit of each byte of the hash is flipped, and the signature is valid for that output.
#[test]
fn each_byte_of_a_hash_counts() {
    let mut cases = Vec::new();
    for byte in 0..20 {
        let mut script = p2pkh(&public(1));
        script[3 + byte] ^= 1 << (byte % 8);
        for wrap in [Wrap::Bare, Wrap::P2sh, Wrap::P2wpkh, Wrap::P2shP2wpkh] {
            let spend = Spend::one(wrap, script.clone(), vec![by(1), bytes(&public(1))]);
            cases.push((format!("key, byte {byte}, {wrap:?}"), spend, Expected::Refused));
        }
        let mut output = p2sh(&[OP_1]);
        output[2 + byte] ^= 1 << (byte % 8);
        let spend = Spend::unsigned(vec![output]).script_sig(push(&[OP_1]));
        cases.push((format!("redeem script, byte {byte}"), spend, Expected::Refused));
    }
    expect(&cases, ALL);
}

/// One opcode of P2PKH and P2SH is changed, and the signature is valid for that output.
#[test]
fn what_is_nearly_p2pkh_or_p2sh_is_not() {
    let mut spends = Vec::new();
    for at in [0, 1, 2, 23, 24] {
        for code in 0..=255 {
            let mut script = p2pkh(&public(1));
            script[at] = code;
            spends.push(Spend::one(Wrap::Bare, script, vec![by(1), bytes(&public(1))]));
        }
    }
    // A redeem script that is false.
    for at in [0, 1, 22] {
        for code in 0..=255 {
            let mut output = p2sh(&[OP_0]);
            output[at] = code;
            spends.push(Spend::unsigned(vec![output]).script_sig(push(&[OP_0])));
        }
    }
    let judged = judge(&spends, ALL);
    let engine = judged.iter().filter(|judged| judged.engine).count();
    let fast = judged.iter().filter(|judged| judged.is_fast()).count();
    // P2PKH itself five times, and scripts that need no signature.
    assert!(engine >= fast && fast >= 20, "{fast} of {engine}");
}

#[test]
fn empty_signatures_are_false() {
    let mut cases = Vec::new();
    for wrap in [Wrap::Bare, Wrap::P2sh, Wrap::P2wpkh, Wrap::P2shP2wpkh, Wrap::P2wsh] {
        let spend = Spend::one(wrap, p2pkh(&public(1)), vec![bytes(&[]), bytes(&public(1))]);
        cases.push((format!("{wrap:?}"), spend, Expected::Refused));
    }
    expect(&cases, ALL);
}

/// A P2PKH script pushes two elements onto the stack that the scriptSig leaves.
#[test]
fn p2pkh_on_a_full_stack() {
    let mut cases = Vec::new();
    for (below, expected) in [(996, Expected::Valid), (997, Expected::Refused)] {
        let items = vec![bytes(&[1]); below].into_iter().chain([by(1), bytes(&public(1))]);
        let spend = Spend::one(Wrap::Bare, p2pkh(&public(1)), items.collect());
        cases.push((format!("{below} others"), spend, expected));
    }
    for items in [vec![], vec![bytes(&public(1))], vec![by(1)]] {
        let spend = Spend::one(Wrap::Bare, p2pkh(&public(1)), items);
        cases.push(("too few".into(), spend, Expected::Refused));
    }
    expect(&cases, ALL);
}

/// No input asks for more than 16 messages.
#[test]
fn messages_of_one_input() {
    for (types, expected) in [(16_u8, Expected::Valid), (17, Expected::Left)] {
        let check = Asm::new().push(&public(1)).op(OP_CHECKSIGVERIFY).0;
        let script = [check.repeat(types.into()), vec![OP_1]].concat();
        let items: Vec<_> = (1..=types).map(|hash_type| with_type(1, hash_type)).collect();
        let single = Input::new(Wrap::P2wsh, script, items);
        expect(&[(format!("{types}"), Spend::new(&[single]), expected)], ALL);
    }
}

/// Inputs with correct hashes beside others with wrong ones, and some without signatures.
#[test]
fn hashes_stand_at_their_inputs() {
    let good = || Input::new(Wrap::P2wpkh, p2pkh(&public(1)), vec![by(1), bytes(&public(1))]);
    let bad = || Input::new(Wrap::P2wpkh, p2pkh(&public(1)), vec![by(2), bytes(&public(2))]);
    let unsigned = || Input::new(Wrap::P2sh, vec![OP_1], vec![]);
    for place in 0..40 {
        let mut inputs: Vec<Input> = (0..20).flat_map(|_| [good(), unsigned()]).collect();
        inputs[place] = bad();
        let judged = judge(&[Spend::new(&inputs)], ALL);
        let valid: Vec<bool> = judged.iter().map(Judged::is_fast).collect();
        let expected: Vec<bool> = (0..40).map(|index| index != place).collect();
        assert_eq!(valid, expected, "{place}");
    }
}
