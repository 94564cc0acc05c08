//! Each limit of scripts, met exactly and exceeded by one.

use apus_hash::hash160;
use apus_wire::opcodes::*;
use apus_wire::{BlockView, Header};
use bitcoin::consensus::serialize;

use super::build::{
    Asm, Input, Item, LOCK_TIME, SEQUENCE, Spend, Wrap, by, bytes, p2pkh, p2sh, push, with_type,
    x_only,
};
use super::{ALL, Expected, expect, expect_left, prevouts};
use crate::script::Left;
use crate::sighash::TxSighash;
use crate::tests::assemble;
use crate::{FastScripts, FastVerdict};
use Expected::{Refused, Valid};

const WITH_LEAF: [Wrap; 5] = [Wrap::Bare, Wrap::P2sh, Wrap::P2wsh, Wrap::P2shP2wsh, Wrap::Leaf];

type Case = (String, Spend, Expected);

fn case(name: impl Into<String>, spend: Spend, expected: Expected) -> Case {
    (name.into(), spend, expected)
}

/// A script of exactly this length that is true, with few operations.
fn of_length(len: usize) -> Vec<u8> {
    let mut script = Vec::new();
    while script.len() + 1 < len {
        let left = len - 1 - script.len();
        let fits = |data: &usize| push(&vec![7; *data]).len() + 1 == left;
        match (0..=520).find(fits) {
            Some(data) => script.extend([push(&vec![7; data]), vec![OP_DROP]].concat()),
            None if left > 1000 => script.extend([push(&[7; 520]), vec![OP_DROP]].concat()),
            None => script.push(OP_NOP),
        }
    }
    script.push(OP_1);
    assert_eq!(script.len(), len);
    script
}

#[test]
fn pushes_of_520_bytes() {
    let mut cases = Vec::new();
    for (len, expected) in [(520, Valid), (521, Refused)] {
        let data = vec![9; len];
        let pushed = Asm::new().push(&data).ops(&[OP_DROP, OP_1]).0;
        let skipped = Asm::new().ops(&[OP_0, OP_IF]).push(&data).ops(&[OP_ENDIF, OP_1]).0;
        for wrap in WITH_LEAF.into_iter().filter(|wrap| *wrap != Wrap::P2sh) {
            cases.push(case(
                format!("{len} {wrap:?}"),
                Spend::run(wrap, pushed.clone(), &[]),
                expected,
            ));
            let spend = Spend::run(wrap, skipped.clone(), &[]);
            cases.push(case(format!("{len} not taken {wrap:?}"), spend, expected));
            let spend = Spend::run(wrap, vec![OP_DROP, OP_1], &[&data]);
            cases.push(case(format!("{len} given {wrap:?}"), spend, expected));
            // The first of two elements, since every element counts and not only the last one.
            let spend = Spend::run(wrap, vec![OP_2DROP, OP_1], &[&data, &[1]]);
            cases.push(case(format!("{len} given first {wrap:?}"), spend, expected));
        }
        let redeem = Spend::run(Wrap::P2sh, of_length(len), &[]);
        cases.push(case(format!("redeem script of {len}"), redeem, expected));
        let given = Spend::run(Wrap::P2sh, vec![OP_DROP, OP_1], &[&data]);
        cases.push(case(format!("{len} given P2SH"), given, expected));
        for code in [OP_PUSHDATA2, OP_PUSHDATA4] {
            let width = if code == OP_PUSHDATA2 { 2 } else { 4 };
            let head = [&[code], &(len as u32).to_le_bytes()[..width]].concat();
            let script = [&head[..], &data, &[OP_DROP, OP_1]].concat();
            cases.push(case(
                format!("{len} by {code:#x}"),
                Spend::run(Wrap::Bare, script, &[]),
                expected,
            ));
        }
    }
    let key = vec![2; 521];
    let spend = Spend::one(Wrap::P2wpkh, p2pkh(&key), vec![by(1), bytes(&key)]);
    expect_left("a key of 521 bytes", &spend, Refused, Left::Limit);
    expect(&cases, ALL);
}

#[test]
fn scripts_of_10000_bytes() {
    let mut cases = Vec::new();
    for (len, expected) in [(9_999, Valid), (10_000, Valid), (10_001, Refused)] {
        for wrap in [Wrap::Bare, Wrap::P2wsh, Wrap::P2shP2wsh] {
            let spend = Spend::run(wrap, of_length(len), &[]);
            cases.push(case(format!("{len} {wrap:?}"), spend, expected));
        }
        let spend = Spend::run(Wrap::Bare, vec![OP_1], &[]).script_sig(of_length(len));
        cases.push(case(format!("scriptSig of {len}"), spend, expected));
        let leaf = Spend::run(Wrap::Leaf, of_length(len), &[]);
        cases.push(case(format!("leaf of {len}"), leaf, Valid));
    }
    cases.push(case("leaf of 100,000", Spend::run(Wrap::Leaf, of_length(100_000), &[]), Valid));
    expect(&cases, ALL);
}

#[test]
fn operations_201() {
    let mut cases = Vec::new();
    for (over, expected) in [(0, Valid), (1, Refused)] {
        for wrap in WITH_LEAF {
            let expected = if wrap == Wrap::Leaf { Valid } else { expected };
            let mut add = |name: &str, script: Vec<u8>| {
                let spend = Spend::run(wrap, script, &[]);
                cases.push(case(format!("{name} and {over}, {wrap:?}"), spend, expected));
            };
            let taken = [vec![OP_NOP; 201 + over], vec![OP_1; 1]].concat();
            add("NOPs", taken);
            let skipped = [vec![OP_0, OP_IF], vec![OP_NOP; 199 + over], vec![OP_ENDIF, OP_1]];
            add("skipped NOPs", skipped.concat());
            let pushes = [vec![OP_1, OP_16, OP_1NEGATE, OP_0], vec![OP_2DROP; 2]];
            let pushes = [pushes.concat(), vec![OP_NOP; 199 + over], vec![OP_1]];
            add("pushes do not count", pushes.concat());
            if wrap == Wrap::Leaf {
                continue;
            }
            // An empty signature is false for every key.
            let failing = |nops: usize, keys: u8| {
                let asm = Asm::new().ops(&vec![OP_NOP; nops]).ops(&[OP_0, OP_0, OP_1]);
                let asm = asm.ops(&vec![OP_0; keys.into()]).number(keys.into());
                asm.ops(&[OP_CHECKMULTISIG, OP_NOT])
            };
            for keys in [1_u8, 15, 20] {
                add(&format!("{keys} keys"), failing(199 - usize::from(keys) + over, keys).0);
            }
            let first = failing(201 - 23 - 18 + over, 20).op(OP_VERIFY);
            add("two multisigs", first.ops(&failing(0, 16).0).0);
        }
        // Each script has a count of its own.
        let many = vec![OP_NOP; 201];
        let script = [&many[..], &vec![OP_NOP; over], &[OP_1]].concat();
        let spend = Spend::run(Wrap::Bare, script.clone(), &[]).script_sig(many.clone());
        cases.push(case(format!("201 and 201, {over}"), spend, expected));
        let spend = Spend::run(Wrap::Bare, [&many[..], &[OP_1]].concat(), &[]).script_sig(script);
        cases.push(case(format!("in scriptSig 201 and {over}"), spend, expected));
    }
    expect(&cases, ALL);
}

#[test]
fn elements_1000() {
    let mut cases = Vec::new();
    let drops = [vec![OP_2DROP; 499], vec![OP_DROP]].concat();
    for (over, expected) in [(0, Valid), (1, Refused)] {
        let pushes = vec![OP_1; 1000 + over];
        cases.push(case("bare", Spend::run(Wrap::Bare, pushes.clone(), &[]), expected));
        let alt = [OP_1, OP_TOALTSTACK].repeat(100);
        let both = [&alt[..], &vec![OP_1; 900 + over]].concat();
        cases.push(case("both stacks", Spend::run(Wrap::Bare, both, &[]), expected));
        // 1,001 only for one opcode.
        let brief = [vec![OP_1; 998 + over], vec![OP_2DUP, OP_2DROP]].concat();
        cases.push(case("briefly", Spend::run(Wrap::Bare, brief, &[]), expected));
        let sig =
            Spend::run(Wrap::Bare, vec![OP_1, OP_DROP], &[]).script_sig(vec![OP_1; 999 + over]);
        cases.push(case("of two scripts", sig, expected));
        let sig = Spend::run(Wrap::Bare, vec![OP_NOP], &[]).script_sig(pushes.clone());
        cases.push(case("of scriptSig", sig, expected));
        // The redeem script is one of them, and the output's script pushes one more.
        let redeem = vec![OP_NOP];
        let sig = [vec![OP_1; 998 + over], push(&redeem)].concat();
        let spend = Spend::run(Wrap::P2sh, redeem, &[]).script_sig(sig);
        cases.push(case("P2SH", spend, expected));

        let leaf = [&pushes[1..], &[OP_1], &drops, &vec![OP_DROP; over]].concat();
        cases.push(case("leaf", Spend::run(Wrap::Leaf, leaf, &[]), expected));
        let given: Vec<Item> = (0..1000 + over).map(|_| bytes(&[1])).collect();
        let script = [&drops[..], &vec![OP_DROP; over]].concat();
        cases.push(case("given", Spend::one(Wrap::Leaf, script, given), expected));
        let given: Vec<Item> = (0..999 + over).map(|_| bytes(&[1])).collect();
        let script = [&[OP_1][..], &drops, &vec![OP_DROP; over]].concat();
        cases.push(case("given and pushed", Spend::one(Wrap::Leaf, script, given), expected));
        let alt = [&[OP_1, OP_TOALTSTACK].repeat(600)[..], &vec![OP_1; 400 + over]].concat();
        let script = [&alt[..], &[OP_2DROP; 199], &vec![OP_DROP; 1 + over]].concat();
        cases.push(case("both stacks of a leaf", Spend::run(Wrap::Leaf, script, &[]), expected));
    }
    // With 201 operations, no script of version 0 can drop that many.
    let given: Vec<Item> = (0..1000).map(|_| bytes(&[1])).collect();
    cases.push(case("P2WSH", Spend::one(Wrap::P2wsh, vec![OP_2DROP; 201], given), Refused));
    expect(&cases, ALL);
}

/// The opcodes that take one number, two, and three.
const UNARY: [u8; 6] = [OP_1ADD, OP_1SUB, OP_NEGATE, OP_ABS, OP_NOT, OP_0NOTEQUAL];
const BINARY: [u8; 12] = [
    OP_ADD,
    OP_SUB,
    OP_BOOLAND,
    OP_BOOLOR,
    OP_NUMEQUAL,
    OP_NUMNOTEQUAL,
    OP_LESSTHAN,
    OP_GREATERTHAN,
    OP_LESSTHANOREQUAL,
    OP_GREATERTHANOREQUAL,
    OP_MIN,
    OP_MAX,
];

#[test]
fn numbers_of_4_bytes() {
    let mut cases = Vec::new();
    let operands: [(&[u8], Expected); 10] = [
        (&[], Valid),
        (&[0x80], Valid),
        (&[0xff], Valid),
        (&[0xff; 4], Valid),
        (&[0xff, 0xff, 0xff, 0x7f], Valid),
        (&[1, 0, 0, 0], Valid),
        (&[0, 0, 0, 0x80], Valid),
        (&[0; 5], Refused),
        (&[1, 0, 0, 0, 0], Refused),
        (&[0xff; 5], Refused),
    ];
    for (operand, expected) in operands {
        for wrap in WITH_LEAF {
            let mut add = |name: String, script: Asm| {
                let spend = Spend::run(wrap, script.ops(&[OP_DROP, OP_1]).0, &[]);
                cases.push(case(format!("{name} of {operand:?}, {wrap:?}"), spend, expected));
            };
            let one = || Asm::new().push(operand);
            UNARY.iter().for_each(|code| add(format!("{code:#x}"), one().op(*code)));
            for code in BINARY {
                add(format!("first {code:#x}"), one().number(3).op(code));
                add(format!("second {code:#x}"), Asm::new().number(3).push(operand).op(code));
            }
            add("value".to_owned(), one().number(3).number(4).op(OP_WITHIN));
            add("start".to_owned(), Asm::new().number(3).push(operand).number(4).op(OP_WITHIN));
            add("end".to_owned(), Asm::new().number(3).number(4).push(operand).op(OP_WITHIN));
            let equal = one().push(operand).ops(&[OP_NUMEQUALVERIFY, OP_1]);
            add("NUMEQUALVERIFY".to_owned(), equal);
        }
    }
    // Results may be longer, but then they are not valid operands.
    let more = Asm::new().push(&[0xff, 0xff, 0xff, 0x7f]).op(OP_1ADD);
    let size = more.clone().op(OP_SIZE).number(5).op(OP_NUMEQUALVERIFY);
    let same = size.push(&[0, 0, 0, 0x80, 0]).op(OP_EQUAL);
    cases.push(case("a result of 5 bytes", Spend::run(Wrap::Leaf, same.0, &[]), Valid));
    let again = more.op(OP_1SUB);
    cases.push(case("and again", Spend::run(Wrap::Leaf, again.0, &[]), Refused));
    expect(&cases, ALL);
}

/// Numbers that are not operands of arithmetic.
#[test]
fn numbers_elsewhere() {
    let mut cases = Vec::new();
    let zeros = [(&[0_u8; 4][..], Valid), (&[0; 5], Refused)];
    for wrap in Wrap::SCRIPTS {
        for (zero, expected) in zeros {
            let keys = Asm::new().ops(&[OP_0, OP_0]).push(zero).op(OP_CHECKMULTISIG);
            cases.push(case("keys", Spend::run(wrap, keys.0, &[]), expected));
            let sigs = Asm::new().op(OP_0).push(zero).op(OP_0).op(OP_CHECKMULTISIG);
            cases.push(case("signatures", Spend::run(wrap, sigs.0, &[]), expected));
            let picked = Asm::new().number(1).push(zero).ops(&[OP_PICK, OP_NIP]).0;
            cases.push(case("PICK", Spend::run(wrap, picked, &[]), expected));
            let rolled = Asm::new().number(1).push(zero).op(OP_ROLL).0;
            cases.push(case("ROLL", Spend::run(wrap, rolled, &[]), expected));
        }
        for (count, expected) in [(20, Valid), (21, Refused), (-1, Refused)] {
            let keys = vec![OP_0; usize::try_from(count).unwrap_or(0)];
            let script = Asm::new().ops(&[OP_0, OP_0, OP_1]).ops(&keys).number(count);
            let spend = Spend::run(wrap, script.ops(&[OP_CHECKMULTISIG, OP_NOT]).0, &[]);
            cases.push(case(format!("{count} keys, {wrap:?}"), spend, expected));
        }
        for signatures in [-1, 3] {
            let script = Asm::new().ops(&[OP_0; 4]).number(signatures).ops(&[OP_1, OP_1]).number(2);
            let spend = Spend::run(wrap, script.op(OP_CHECKMULTISIG).0, &[]);
            cases.push(case(format!("{signatures} of 2, {wrap:?}"), spend, Refused));
        }
        for depth in [-1, 2, 3] {
            for code in [OP_PICK, OP_ROLL] {
                let script = Asm::new().ops(&[OP_1, OP_1]).number(depth).op(code).0;
                cases.push(case(format!("{depth} below"), Spend::run(wrap, script, &[]), Refused));
            }
        }
    }
    let leaf_count = |count: &[u8]| {
        let script =
            Asm::new().op(OP_0).push(count).push(&x_only(1)).ops(&[OP_CHECKSIGADD, OP_NOT]);
        Spend::run(Wrap::Leaf, script.0, &[])
    };
    cases.push(case("CHECKSIGADD to 4 bytes", leaf_count(&[0; 4]), Valid));
    cases.push(case("CHECKSIGADD to 5 bytes", leaf_count(&[0; 5]), Refused));
    expect(&cases, ALL);
}

#[test]
fn locks() {
    let mut cases = Vec::new();
    let height = u64::from(LOCK_TIME);
    let wide = |value: u64, len: usize| value.to_le_bytes()[..len].to_vec();
    let lock_times: [(Vec<u8>, Expected); 12] = [
        (vec![], Valid),
        (wide(height, 3), Valid),
        (wide(height, 4), Valid),
        (wide(height, 5), Valid),
        (wide(height, 6), Refused),
        (wide(height + 1, 4), Refused),
        (wide(height - 1, 4), Valid),
        (wide(499_999_999, 4), Refused),
        (wide(500_000_000, 4), Refused),
        (wide(0xffff_ffff, 5), Refused),
        (vec![0x81], Refused),
        (vec![0x80], Valid),
    ];
    let sequences: [(Vec<u8>, Expected); 14] = [
        (vec![], Valid),
        (vec![SEQUENCE as u8], Valid),
        (wide(SEQUENCE.into(), 5), Valid),
        (wide(SEQUENCE.into(), 6), Refused),
        (vec![SEQUENCE as u8 + 1], Refused),
        (vec![0x81], Refused),
        (vec![0x80], Valid),
        // The flag that disables the lock, with five bytes and as the sign bit.
        (wide(0x8000_ffff, 5), Valid),
        (vec![0xff, 0xff, 0, 0x80], Refused),
        // A lock in seconds, where the sequence number is in blocks.
        (wide(0x0040_0001, 4), Refused),
        // Bits that are ignored.
        (wide(0xff_0020_0001 & 0x7f_ffff_ffff, 5), Valid),
        (wide(0x3f3f_0001, 4), Valid),
        (wide(0x0001_000b, 4), Refused),
        (wide(0x01_0000_000a, 5), Valid),
    ];
    for wrap in WITH_LEAF {
        for (code, operands) in
            [(OP_CHECKLOCKTIMEVERIFY, &lock_times[..]), (OP_CHECKSEQUENCEVERIFY, &sequences[..])]
        {
            for (operand, expected) in operands {
                let script = Asm::new().push(operand).ops(&[code, OP_DROP, OP_1]).0;
                let spend = Spend::run(wrap, script, &[]);
                cases.push(case(format!("{code:#x} {operand:x?} {wrap:?}"), spend, *expected));
            }
            let script = vec![code, OP_1];
            cases.push(case("of nothing", Spend::run(wrap, script, &[]), Refused));
        }
    }
    expect(&cases, ALL);
}

/// Lock times compared with those of the transaction.
#[test]
fn locks_of_other_transactions() {
    let mut cases = Vec::new();
    let script = |value: i64, code| {
        let script = Asm::new().number(value).ops(&[code, OP_DROP, OP_1]).0;
        Input::new(Wrap::P2wsh, script, vec![])
    };
    for (asked, lock_time, sequence, expected) in [
        (500_000_000, 500_000_000, 0, Valid),
        (500_000_000, 499_999_999, 0, Refused),
        (499_999_999, 499_999_999, 0, Valid),
        (499_999_999, 500_000_000, 0, Refused),
        (0, 0, 0xffff_fffe, Valid),
        (0, 0, 0xffff_ffff, Refused),
        (0xffff_ffff, u32::MAX, 0, Valid),
        (0x1_0000_0000, u32::MAX, 0, Refused),
    ] {
        let spend = Spend::with(&[script(asked, OP_CHECKLOCKTIMEVERIFY)], |tx| {
            tx.lock_time = bitcoin::absolute::LockTime::from_consensus(lock_time);
            tx.input[0].sequence.0 = sequence;
        });
        cases.push(case(format!("{asked} at {lock_time}, {sequence:#x}"), spend, expected));
    }
    for (asked, version, sequence, expected) in [
        (5, 2, 5, Valid),
        (5, 1, 5, Refused),
        (5, 0, 5, Refused),
        // Versions are unsigned here.
        (5, -1, 5, Valid),
        (5, i32::MIN, 5, Valid),
        (5, 2, 4, Refused),
        (5, 2, 0x8000_0005, Refused),
        (5, 2, 0x0040_0005, Refused),
        (0x0040_0005, 2, 0x0040_0005, Valid),
        (0x0040_0005, 2, 0x0040_0004, Refused),
        (0x0040_0005, 2, 5, Refused),
        (5, 2, 0x3f3f_0005, Valid),
        (0xffff, 2, 0xffff, Valid),
        (0xffff, 2, 0xfffe, Refused),
        (0x8000_0000, 1, 0xffff_ffff, Valid),
        (0x1_8000_0000, 1, 0xffff_ffff, Valid),
        (0x1_0000_0005, 2, 5, Valid),
    ] {
        let spend = Spend::with(&[script(asked, OP_CHECKSEQUENCEVERIFY)], |tx| {
            tx.version.0 = version;
            tx.input[0].sequence.0 = sequence;
        });
        cases.push(case(format!("{asked:#x} at {sequence:#x}, {version}"), spend, expected));
    }
    expect(&cases, ALL);
}

/// 50 units of weight for each signature that is not empty (BIP342).
#[test]
fn the_weight_of_signatures_in_leaves() {
    let mut cases = Vec::new();
    let check = [&[OP_DUP][..], &push(&x_only(1)), &[OP_CHECKSIGVERIFY]].concat();
    for checks in [12, 20, 100] {
        // Bytes of the witness: the number of items, the signature with a byte for its length, the
        // script with three, the control block with one.
        let script_len = 50 * checks - 50 - (1 + 65 + 3 + 34);
        for (less, expected) in [(0, Valid), (1, Refused)] {
            for annexed in [0, 3, 252] {
                let body = check.repeat(checks);
                let tail = vec![OP_DROP, OP_1];
                let Some(nops) = (script_len - less).checked_sub(body.len() + 2 + annexed) else {
                    continue;
                };
                let script = [body, vec![OP_NOP; nops], tail].concat();
                if script.len() < 253 {
                    continue;
                }
                let input = Input::new(Wrap::Leaf, script, vec![with_type(1, 0)]);
                let annex = (annexed > 0).then(|| vec![0x50; annexed - 1]);
                let spend = Spend::new(&[Input { annex, ..input }]);
                let name = format!("{checks} signatures, {less} less, annex of {annexed}");
                cases.push(case(name, spend, expected));
            }
        }
    }
    assert!(cases.len() >= 10, "{}", cases.len());
    // Empty ones weigh nothing.
    let failing = [&push(&[])[..], &push(&x_only(1)), &[OP_CHECKSIG, OP_DROP]].concat();
    let script = [failing.repeat(40), vec![OP_1]].concat();
    cases.push(case("40 empty ones", Spend::run(Wrap::Leaf, script, &[]), Valid));
    expect(&cases, ALL);
}

#[test]
fn control_blocks_of_128_steps() {
    let mut cases = Vec::new();
    let input = |steps: usize| {
        let path = vec![[3; 32]; steps];
        Input { path, ..Input::new(Wrap::Leaf, vec![OP_1], vec![]) }
    };
    cases.push(case("128 steps", Spend::new(&[input(128)]), Valid));
    cases.push(case("129 steps", Spend::new(&[input(129)]), Refused));
    for steps in [0, 1, 128] {
        let spend = Spend::new(&[input(steps)]);
        let [script, control] = &spend.items()[..] else { panic!("two items") };
        let len = control.len();
        for cut in [0, 1, 32, len - 32, len - 31, len - 1] {
            let items = [script.clone(), control[..cut].to_vec()];
            let name = format!("{steps} steps, {cut} of {len} bytes");
            cases.push(case(name, spend.clone().witness(&items), Refused));
        }
        for longer in [1, 31, 32] {
            let items = [script.clone(), [&control[..], &vec![3; longer]].concat()];
            let name = format!("{steps} steps, {len} and {longer} bytes");
            cases.push(case(name, spend.clone().witness(&items), Refused));
        }
        let mut turned = control.clone();
        turned[0] ^= 1;
        let items = [script.clone(), turned];
        cases.push(case("other parity", spend.clone().witness(&items), Refused));
    }
    expect(&cases, ALL);
}

/// The redeem script of P2SH, with everything that can be wrong in the scriptSig that pushes it.
#[test]
fn p2sh_redeem_scripts() {
    let one = vec![OP_1];
    let with_sig =
        |redeem: &[u8], sig: Vec<u8>| Spend::run(Wrap::P2sh, redeem.to_vec(), &[]).script_sig(sig);
    let empty = Spend::unsigned(vec![p2sh(&[])]).script_sig(vec![OP_1, OP_0]);
    let cases = [
        case("plain", with_sig(&one, push(&one)), Valid),
        case("PUSHDATA1", with_sig(&one, vec![OP_PUSHDATA1, 1, OP_1]), Valid),
        case("PUSHDATA4", with_sig(&one, vec![OP_PUSHDATA4, 1, 0, 0, 0, OP_1]), Valid),
        case(
            "small numbers",
            with_sig(&one, [&[OP_1NEGATE, OP_16], &push(&one)[..]].concat()),
            Valid,
        ),
        case("NOP", with_sig(&one, [&[OP_NOP], &push(&one)[..]].concat()), Refused),
        case("DUP", with_sig(&one, [&push(&one)[..], &[OP_DUP]].concat()), Refused),
        case("reserved", with_sig(&one, [&[0x50], &push(&one)[..]].concat()), Refused),
        case("other hash", with_sig(&one, push(&[OP_16])), Refused),
        case("nothing", with_sig(&one, vec![]), Refused),
        case("false", with_sig(&[OP_0], push(&[OP_0])), Refused),
        case("empty redeem script", empty, Valid),
        case("truncated", with_sig(&[2, 1], push(&[2, 1])), Refused),
        case("nothing left", with_sig(&[OP_NOP], push(&[OP_NOP])), Refused),
    ];
    expect(&cases, ALL);
    // Run as a redeem script, the byte 1 is a push that is cut short.
    let script = Asm::new().op(OP_HASH160).push(&hash160(&[1])).op(OP_EQUAL).0;
    let spend = Spend::unsigned(vec![script]).script_sig(vec![OP_1]);
    expect(&[case("a number as redeem script", spend, Refused)], ALL);
    // A script that is nearly P2SH is an ordinary script.
    let mut script = p2sh(&one);
    script.push(OP_NOP);
    let spend = Spend::unsigned(vec![script]).script_sig(push(&one));
    expect(&[case("P2SH and NOP", spend, Valid)], ALL);
}

/// Core's engine is faster with these hashes, of which a leaf may ask for a million. Each hash of
/// 520 bytes is one of 576 with its padding, and each hash of nothing one of 64.
#[test]
fn many_slow_hashes_are_left_unless_asking_the_engine_is_dear() {
    let with = |code: u8, few: usize, most: usize| {
        let hash = [OP_DUP, code, OP_DROP];
        [(hash, few, false), (hash, few + 1, true), ([OP_0, code, OP_DROP], most + 1, true)]
    };
    let slow = [with(OP_SHA1, 113, 1024), with(OP_RIPEMD160, 113, 1024)];
    let cases = slow.into_iter().chain([with(OP_HASH160, 1024, 1024)]).flatten();
    for (hash, times, is_left) in cases {
        let script = [&push(&[7; 520])[..], &hash.repeat(times), &[OP_DROP, OP_1]].concat();
        let spend = Spend::run(Wrap::Leaf, script, &[]);
        let expected = if is_left { Expected::Left } else { Expected::Valid };
        expect(&[(format!("{hash:x?}, {times}"), spend.clone(), expected)], ALL);
        let prevouts = prevouts(&spend);
        let block = assemble(&Header::default(), &[serialize(&spend.tx)]);
        let view = BlockView::parse(&block).unwrap();
        let mut messages = TxSighash::new(view.tx(0), &prevouts, None).sparing_core(true);
        let mut fast = FastScripts::new(None);
        fast.add(&mut messages, 0, ALL);
        assert_eq!(fast.decide(), [FastVerdict::Valid]);
    }
}
