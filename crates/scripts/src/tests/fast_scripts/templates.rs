//! Valid spends of each kind: the fast engine and the engine accept each.

use apus_wire::opcodes::*;

use super::build::{Asm, Spend, Wrap, by, bytes, public, push};
use super::{ALL, Expected, Judged, expect, families, judge};
use crate::script::tests::{Kind, stack_after};

#[test]
fn each_kind_is_valid_on_the_fast_way() {
    let cases: Vec<(String, Spend, Expected)> = families::all()
        .into_iter()
        .map(|(name, input)| (name, Spend::new(&[input]), Expected::Valid))
        .collect();
    assert!(cases.len() > 150, "{} kinds", cases.len());
    expect(&cases, ALL);
}

/// Each kind of spend with a signature of another transaction: the engine refuses nearly all of
/// them, and the fast engine leaves each to the engine.
#[test]
fn no_kind_is_valid_with_signatures_of_another_transaction() {
    let mut spends = Vec::new();
    for (_, input) in families::all() {
        let mut spend = Spend::new(std::slice::from_ref(&input));
        let other = Spend::with(&[input], |tx| tx.input[0].previous_output.vout += 1);
        let ours = &mut spend.tx.input[0];
        let theirs = &other.tx.input[0];
        if ours.script_sig != theirs.script_sig || ours.witness != theirs.witness {
            ours.script_sig = theirs.script_sig.clone();
            ours.witness = theirs.witness.clone();
            spends.push(spend);
        }
    }
    assert!(spends.len() > 120, "{} kinds", spends.len());
    let judged = judge(&spends, ALL);
    assert!(!judged.iter().any(Judged::is_fast));
    // A CHECKMULTISIG that is false may lead to another branch.
    assert_eq!(judged.iter().filter(|judged| judged.engine).count(), 4);
}

/// Each choice of signers, in each order, and more than once: CHECKMULTISIG holds where they are in
/// the order of the keys.
#[test]
fn signers_are_in_the_order_of_their_keys() {
    const OUTSIDER: u8 = 99;
    let mut cases = Vec::new();
    for (keys, needed) in [(3_u8, 2), (4, 3), (1, 1)] {
        let script = Asm::new().multisig(needed, &(0..keys).map(public).collect::<Vec<_>>()).0;
        let candidates: Vec<u8> = (0..keys).chain([OUTSIDER]).collect();
        for choice in 0..candidates.len().pow(needed as u32) {
            let place = |at: usize| choice / candidates.len().pow(at as u32) % candidates.len();
            let signers: Vec<u8> = (0..needed).map(|at| candidates[place(at)]).collect();
            let is_valid = signers.is_sorted_by(|a, b| a < b) && !signers.contains(&OUTSIDER);
            let expected = if is_valid { Expected::Valid } else { Expected::Refused };
            let items: Vec<_> =
                [bytes(&[])].into_iter().chain(signers.iter().map(|signer| by(*signer))).collect();
            for wrap in [Wrap::Bare, Wrap::P2wsh] {
                let spend = Spend::one(wrap, script.clone(), items.clone());
                cases.push((format!("{signers:?} of {keys}, {wrap:?}"), spend, expected));
            }
        }
    }
    assert_eq!(cases.len(), 2 * (16 + 125 + 2));
    expect(&cases, ALL);
}

/// Extends a script with a comparison of the whole stack with what it should be.
fn compared(wrap: Wrap, script: &[u8], elements: &[Vec<u8>]) -> Spend {
    let kind = if wrap == Wrap::Leaf { Kind::Tapscript } else { Kind::V0 };
    let stack = stack_after(script, elements, kind).expect("a script that runs to its end");
    let compare = stack.iter().rev().flat_map(|found| [push(found), vec![OP_EQUALVERIFY]].concat());
    let script = [script, &compare.collect::<Vec<u8>>(), &[OP_1]].concat();
    Spend::run(wrap, script, &elements.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

#[test]
fn each_opcode_leaves_on_the_stack_what_the_engine_finds() {
    let elements: Vec<Vec<u8>> = (1..8).map(|value| vec![value]).collect();
    let alone = (OP_2DROP..=OP_OVER)
        .chain(OP_ROT..=OP_TUCK)
        .chain([OP_NOP, OP_VERIFY, OP_SIZE, OP_EQUAL, OP_1ADD, OP_1SUB])
        .chain(OP_NEGATE..=OP_SUB)
        .chain(OP_BOOLAND..=OP_NUMEQUAL)
        .chain(OP_NUMNOTEQUAL..=OP_HASH256)
        .map(|code| vec![code]);
    let longer = [
        vec![OP_TOALTSTACK, OP_1ADD, OP_TOALTSTACK, OP_FROMALTSTACK, OP_FROMALTSTACK],
        vec![OP_0, OP_IFDUP, OP_1, OP_IFDUP],
        vec![OP_DUP, OP_EQUAL],
        vec![OP_DUP, OP_EQUALVERIFY],
        vec![OP_DUP, OP_NUMEQUALVERIFY],
    ];
    let depths = (0..6).flat_map(|depth| [OP_PICK, OP_ROLL].map(|code| vec![OP_1 + depth, code]));
    let mut cases = Vec::new();
    for script in
        alone.chain(longer).chain(depths).chain([vec![OP_0, OP_PICK], vec![OP_0, OP_ROLL]])
    {
        for wrap in [Wrap::Bare, Wrap::P2sh, Wrap::P2wsh, Wrap::P2shP2wsh, Wrap::Leaf] {
            let name = format!("{script:x?}, {wrap:?}");
            cases.push((name, compared(wrap, &script, &elements), Expected::Valid));
        }
    }
    assert!(cases.len() > 300, "{} scripts", cases.len());
    expect(&cases, ALL);
}

#[test]
fn arithmetic_is_the_engines() {
    let values: [&[u8]; 17] = [
        &[],
        &[1],
        &[0x81],
        &[0],
        &[0x80],
        &[2],
        &[16],
        &[0x7f],
        &[0xff],
        &[0x80, 0],
        &[0x80, 0x80],
        &[1, 0, 0],
        &[1, 0, 0, 0x80],
        &[0xff, 0xff, 0xff, 0x7f],
        &[0xff; 4],
        &[0, 0, 0, 0x40],
        &[0, 0, 0, 0xc0],
    ];
    let unary = [OP_1ADD, OP_1SUB, OP_NEGATE, OP_ABS, OP_NOT, OP_0NOTEQUAL];
    let binary: Vec<u8> = (OP_ADD..=OP_SUB).chain(OP_BOOLAND..=OP_MAX).collect();
    let mut cases = Vec::new();
    let mut add = |code: u8, operands: &[&[u8]]| {
        let pushes: Vec<u8> = operands.iter().flat_map(|operand| push(operand)).collect();
        let Some(stack) = stack_after(&[&pushes[..], &[code]].concat(), &[], Kind::V0) else {
            return;
        };
        let compare: Vec<u8> =
            stack.iter().flat_map(|found| [push(found), vec![OP_EQUALVERIFY]].concat()).collect();
        cases.push([&pushes[..], &[code], &compare].concat());
    };
    for first in values {
        unary.iter().for_each(|code| add(*code, &[first]));
        for second in values {
            binary.iter().for_each(|code| add(*code, &[first, second]));
            values.iter().for_each(|third| add(OP_WITHIN, &[first, second, third]));
        }
    }
    assert!(cases.len() > 8_000, "{}", cases.len());
    let mut spends = Vec::new();
    for cases in cases.chunks(100) {
        let script = [&cases.concat()[..], &[OP_1]].concat();
        spends.push((String::new(), Spend::run(Wrap::Leaf, script, &[]), Expected::Valid));
    }
    expect(&spends, ALL);
}
