//! Scripts that are rare in real chains: rules that are easily missed, and cases left to the
//! engine.

use apus_hash::sha256;
use apus_wire::opcodes::*;
use apus_wire::{ScriptFlags, flags};
use bitcoin::sighash::SighashCache;

use super::build::{
    Asm, Input, Spend, Wrap, by, bytes, ecdsa, p2pkh, p2sh, program, public, push, uncompressed,
    x_only,
};
use super::{ALL, Expected, expect, expect_left, judge};
use crate::script::Left;
use Expected::{Refused, Valid};

const WITH_LEAF: [Wrap; 5] = [Wrap::Bare, Wrap::P2sh, Wrap::P2wsh, Wrap::P2shP2wsh, Wrap::Leaf];
const OP_RESERVED: u8 = 0x50;

type Case = (String, Spend, Expected);

fn case(name: impl Into<String>, spend: Spend, expected: Expected) -> Case {
    (name.into(), spend, expected)
}

#[test]
fn branches_balance_in_each_script() {
    let mut cases = Vec::new();
    let scripts: [(&[u8], Expected); 16] = [
        (&[OP_1, OP_IF, OP_1, OP_ENDIF], Valid),
        (&[OP_1, OP_IF, OP_1], Refused),
        (&[OP_0, OP_IF, OP_1], Refused),
        (&[OP_1, OP_IF, OP_1, OP_ENDIF, OP_ENDIF], Refused),
        (&[OP_1, OP_ENDIF], Refused),
        (&[OP_1, OP_ELSE], Refused),
        (&[OP_1, OP_IF, OP_1, OP_ELSE, OP_0, OP_ELSE, OP_1, OP_ENDIF, OP_EQUAL], Valid),
        (&[OP_0, OP_IF, OP_1, OP_ELSE, OP_0, OP_ELSE, OP_1, OP_ENDIF, OP_NOT], Valid),
        (&[OP_0, OP_NOTIF, OP_1, OP_ELSE, OP_0, OP_ENDIF], Valid),
        (&[OP_IF, OP_1, OP_ENDIF], Refused),
        (&[OP_NOTIF, OP_1, OP_ENDIF], Refused),
        // Branches inside one that is not taken need no condition.
        (
            &[OP_1, OP_0, OP_IF, OP_IF, OP_NOTIF, OP_ELSE, OP_ENDIF, OP_ELSE, OP_ENDIF, OP_ENDIF],
            Valid,
        ),
        (&[OP_1, OP_0, OP_IF, OP_IF, OP_ELSE, OP_VERIFY, OP_ENDIF, OP_ENDIF], Valid),
        (&[OP_1, OP_0, OP_IF, OP_IF, OP_ENDIF], Refused),
        (&[OP_1, OP_0, OP_IF, OP_ELSE, OP_IF, OP_1, OP_ENDIF], Refused),
        (
            &[OP_1, OP_IF, OP_0, OP_IF, OP_0, OP_ELSE, OP_1, OP_ENDIF, OP_ELSE, OP_0, OP_ENDIF],
            Valid,
        ),
    ];
    for wrap in WITH_LEAF {
        for (script, expected) in scripts {
            let spend = Spend::run(wrap, script.to_vec(), &[]);
            cases.push(case(format!("{script:x?}, {wrap:?}"), spend, expected));
        }
    }
    let two = |sig: &[u8], script: &[u8]| {
        Spend::run(Wrap::Bare, script.to_vec(), &[]).script_sig(sig.to_vec())
    };
    cases.push(case("IF in scriptSig", two(&[OP_1, OP_IF], &[OP_1, OP_ENDIF]), Refused));
    cases.push(case("all in scriptSig", two(&[OP_1, OP_IF, OP_1, OP_ENDIF], &[OP_NOP]), Valid));
    let to = OP_TOALTSTACK;
    let from = OP_FROMALTSTACK;
    cases.push(case("altstack in scriptSig", two(&[OP_1, to, from], &[OP_NOP]), Valid));
    cases.push(case("altstack carried over", two(&[OP_1, OP_1, to], &[from]), Refused));
    cases.push(case("left on the altstack", two(&[OP_1, OP_1, to], &[OP_1, OP_1, to]), Valid));
    expect(&cases, ALL);
}

#[test]
fn the_last_element_is_true() {
    let mut cases = Vec::new();
    let finals: [(&[u8], bool); 9] = [
        (&[], false),
        (&[0], false),
        (&[0x80], false),
        (&[0, 0x80], false),
        (&[0; 100], false),
        (&[1], true),
        (&[0x80, 0], true),
        (&[0, 0x81], true),
        (&[0, 0, 1, 0], true),
    ];
    for wrap in WITH_LEAF {
        let witness = !matches!(wrap, Wrap::Bare | Wrap::P2sh);
        for (last, is_true) in finals {
            let expected = if is_true { Valid } else { Refused };
            let spend = Spend::run(wrap, push(last), &[]);
            cases.push(case(format!("{last:x?}, {wrap:?}"), spend, expected));
            let spend = Spend::run(wrap, [&push(last)[..], &[OP_VERIFY, OP_1]].concat(), &[]);
            cases.push(case(format!("VERIFY {last:x?}, {wrap:?}"), spend, expected));
            // Elements below are allowed outside witnesses.
            let expected = if is_true && !witness { Valid } else { Refused };
            let spend = Spend::run(wrap, push(last), &[&[1]]);
            cases.push(case(format!("1 and {last:x?}, {wrap:?}"), spend, expected));
        }
        cases.push(case("nothing", Spend::run(wrap, vec![OP_NOP], &[]), Refused));
        cases.push(case("truncated", Spend::run(wrap, vec![OP_1, 5, 1], &[]), Refused));
        cases.push(case(
            "truncated length",
            Spend::run(wrap, vec![OP_1, OP_PUSHDATA2, 1], &[]),
            Refused,
        ));
        let empty = Spend::run(wrap, vec![], &[&[1]]);
        cases.push(case(format!("an empty script, {wrap:?}"), empty, Valid));
    }
    expect(&cases, ALL);
}

/// BIP342 demands the shortest form of true and false; version 0 does not, by consensus.
#[test]
fn minimal_conditions_in_leaves_only() {
    let mut cases = Vec::new();
    for (condition, is_minimal) in [
        (&[][..], true),
        (&[1], true),
        (&[0], false),
        (&[0x80], false),
        (&[2], false),
        (&[1, 0], false),
        (&[0, 1], false),
    ] {
        for code in [OP_IF, OP_NOTIF] {
            for wrap in WITH_LEAF {
                let script = Asm::new().ops(&[code, OP_1, OP_ELSE, OP_1, OP_ENDIF]).0;
                let expected = if is_minimal || wrap != Wrap::Leaf { Valid } else { Refused };
                let spend = Spend::run(wrap, script, &[condition]);
                cases.push(case(format!("{condition:?}, {wrap:?}"), spend, expected));
            }
        }
    }
    expect(&cases, ALL);
}

#[test]
fn programs_and_what_they_demand_of_scriptsig_and_witness() {
    let script = vec![OP_1];
    let wrapped = Spend::run(Wrap::P2shP2wsh, script.clone(), &[]);
    let redeem = program(0, &sha256(&script));
    let sig = |sig: Vec<u8>| wrapped.clone().script_sig(sig);
    let mut cases = vec![
        case("wrapped", wrapped.clone(), Valid),
        case("PUSHDATA1", sig([&[OP_PUSHDATA1, 34], &redeem[..]].concat()), Refused),
        case("PUSHDATA2", sig([&[OP_PUSHDATA2, 34, 0], &redeem[..]].concat()), Refused),
        case("two pushes", sig([&[OP_1], &push(&redeem)[..]].concat()), Refused),
        case("empty push before", sig([&[OP_0], &push(&redeem)[..]].concat()), Refused),
        case("the same twice", sig(push(&redeem).repeat(2)), Refused),
        case("nothing", sig(vec![]), Refused),
        case("NOP after", sig([&push(&redeem)[..], &[OP_NOP]].concat()), Refused),
    ];
    let natives = [
        Spend::run(Wrap::P2wsh, script.clone(), &[]),
        Spend::one(Wrap::P2wpkh, p2pkh(&public(1)), vec![by(1), bytes(&public(1))]),
        Spend::one(Wrap::KeyPath, x_only(1).to_vec(), vec![by(1)]),
        Spend::run(Wrap::Leaf, script.clone(), &[]),
    ];
    for native in &natives {
        cases.push(case("native", native.clone(), Valid));
        for sig in [vec![OP_0], vec![OP_1], push(&[1; 30])] {
            cases.push(case("native with scriptSig", native.clone().script_sig(sig), Refused));
        }
        cases.push(case("native without witness", native.clone().witness(&[]), Refused));
    }
    for wrap in [Wrap::Bare, Wrap::P2sh] {
        let spend = Spend::run(wrap, script.clone(), &[]);
        cases.push(case("no program", spend.clone(), Valid));
        for items in [vec![vec![]], vec![vec![1]], vec![vec![1], vec![2]]] {
            cases.push(case("witness without program", spend.clone().witness(&items), Refused));
        }
    }
    for native in [
        natives[1].clone(),
        Spend::one(Wrap::P2shP2wpkh, p2pkh(&public(1)), vec![by(1), bytes(&public(1))]),
    ] {
        let items = native.items();
        for items in [&items[..1], &items[1..], &[&items[..], &items[1..]].concat()[..]] {
            cases.push(case("not two items", native.clone().witness(items), Refused));
        }
        let empty = [vec![], items[1].clone()];
        cases.push(case("empty signature", native.clone().witness(&empty), Refused));
    }
    cases.push(case("empty witness script", Spend::run(Wrap::P2wsh, vec![], &[&[1]]), Valid));
    expect(&cases, ALL);
}

#[test]
fn lengths_and_versions_of_programs() {
    let mut cases = Vec::new();
    let witness = [vec![1], vec![2]];
    for len in 0..=45 {
        for version in 0..=16_u8 {
            let script = program(version, &vec![1; len]);
            let is_program = (2..=40).contains(&len);
            let bare = Spend::unsigned(vec![script.clone()]);
            let with = bare.clone().witness(&witness);
            let wrapped = Spend::unsigned(vec![p2sh(&script)]).script_sig(push(&script));
            let wrapped_with = wrapped.clone().witness(&witness);
            // Run as a script it is true, except for the empty push.
            let as_script = if len == 0 { Refused } else { Valid };
            let unknown = if version == 0 || (version, len) == (1, 32) { Refused } else { Valid };
            let wrapped_unknown = if version == 0 { Refused } else { Valid };
            let name = |what| format!("version {version}, {len} bytes, {what}");
            let expected = if is_program { unknown } else { as_script };
            cases.push(case(name("no witness"), bare.clone(), expected));
            cases.push(case(name("witness"), with, if is_program { unknown } else { Refused }));
            let expected = if is_program { wrapped_unknown } else { as_script };
            cases.push(case(name("wrapped"), wrapped, expected));
            let expected = if is_program { wrapped_unknown } else { Refused };
            cases.push(case(name("wrapped with witness"), wrapped_with.clone(), expected));
            if is_program {
                // The scriptSig is empty, or a single push of the program.
                let with_sig = bare.script_sig(vec![OP_1]);
                cases.push(case(name("scriptSig"), with_sig, Refused));
                let two = [&[OP_1][..], &push(&script)].concat();
                let long = [&[OP_PUSHDATA1, script.len() as u8][..], &script].concat();
                for script_sig in [two, long] {
                    let spend = wrapped_with.clone().script_sig(script_sig);
                    cases.push(case(name("wrapped, scriptSig"), spend, Refused));
                }
            }
        }
    }
    // As a script, a program of zeros is false.
    for (version, len) in [(0, 20), (0, 32), (1, 32), (2, 2), (16, 40)] {
        let script = program(version, &vec![0; len]);
        cases.push(case("zeros", Spend::unsigned(vec![script]), Refused));
    }
    // A longer push of the same bytes, or more bytes after it, is not a program.
    for script in [
        [&[OP_0, OP_PUSHDATA1, 20][..], &[1; 20]].concat(),
        [&program(0, &[1; 20])[..], &[OP_NOP]].concat(),
    ] {
        cases.push(case("nearly a program", Spend::unsigned(vec![script]), Valid));
    }
    expect(&cases, ALL);
}

/// Keys and scripts that outputs do not commit to, with signatures that would otherwise be valid.
#[test]
fn what_outputs_commit_to_is_what_runs() {
    let mut cases = Vec::new();
    let by_other = || vec![by(2), bytes(&public(2))];
    for wrap in [Wrap::P2wpkh, Wrap::P2shP2wpkh, Wrap::Bare, Wrap::P2sh, Wrap::P2wsh] {
        let spend = Spend::one(wrap, p2pkh(&public(1)), by_other());
        cases.push(case(format!("another key, {wrap:?}"), spend, Refused));
    }
    for wrap in [Wrap::P2wsh, Wrap::P2shP2wsh, Wrap::Leaf] {
        let spend = Spend::run(wrap, vec![OP_1], &[]);
        let mut items = spend.items();
        items[0] = vec![OP_1 + 1];
        cases.push(case(format!("another script, {wrap:?}"), spend.witness(&items), Refused));
    }
    expect(&cases, ALL);
}

/// Taproot has no meaning in P2SH, so that anybody may spend it, even with a valid witness.
#[test]
fn taproot_in_p2sh_is_valid() {
    let key_path = Spend::one(Wrap::KeyPath, x_only(1).to_vec(), vec![by(1)]);
    for native in [key_path, Spend::run(Wrap::Leaf, vec![OP_1], &[])] {
        let program = native.spent[0].script_pubkey.to_bytes();
        let mut wrapped = native.script_sig(push(&program));
        wrapped.spent[0].script_pubkey = p2sh(&program).into();
        expect(&[case("wrapped", wrapped.clone(), Valid)], ALL);
        expect(&[case("changed witness", wrapped.witness(&[vec![7]]), Valid)], ALL);
    }
}

/// A program of zeros is false as a script, before its witness is considered.
#[test]
fn programs_of_zeros_are_false() {
    for (version, len) in [(0, 20), (0, 32), (1, 32), (2, 32)] {
        let spend = Spend::unsigned(vec![program(version, &vec![0; len])]);
        let spend = spend.witness(&[vec![1; 64]]);
        expect_left("zeros", &spend, Refused, Left::False);
    }
}

/// Leaf versions and kinds of keys that no rule is known for yet.
#[test]
fn what_soft_forks_may_define_is_valid() {
    let leaf = Input::new(Wrap::Leaf, vec![OP_1], vec![]);
    for leaf_version in [0xc2, 0x00, 0xfe, 0xbe] {
        let spend = Spend::new(&[Input { leaf_version, ..leaf.clone() }]);
        let mut items = spend.items();
        *items.last_mut().unwrap().last_mut().unwrap() ^= 1;
        expect(&[case("leaf version", spend.clone(), Valid)], ALL);
        expect(&[case("wrong commitment", spend.witness(&items), Refused)], ALL);
    }
    for key in [vec![1; 31], vec![1; 33], vec![2], public(1)] {
        let script = Asm::new().op(OP_1).push(&key).op(OP_CHECKSIG).0;
        let spend = Spend::run(Wrap::Leaf, script, &[]);
        expect(&[case("unknown kind of key", spend, Valid)], ALL);
        let script = Asm::new().op(OP_0).push(&key).ops(&[OP_CHECKSIG, OP_NOT]).0;
        expect(&[case("no signature", Spend::run(Wrap::Leaf, script, &[]), Valid)], ALL);
        // Each signature takes its share of the witness's weight.
        let check = Asm::new().op(OP_1).push(&key).op(OP_CHECKSIGVERIFY).0;
        let script = [check.repeat(200), vec![OP_1]].concat();
        expect(&[case("too many", Spend::run(Wrap::Leaf, script, &[]), Refused)], ALL);
    }
    // A key that is computed, without a signature.
    let script = Asm::new().ops(&[OP_0, OP_0, OP_SHA256, OP_CHECKSIG, OP_NOT]).0;
    expect(&[case("computed key", Spend::run(Wrap::Leaf, script, &[]), Valid)], ALL);
}

#[test]
fn what_cannot_be_decided_here_is_left() {
    let script = Asm::new().op(OP_1).push(&[]).op(OP_CHECKSIG).0;
    let spend = Spend::run(Wrap::Leaf, script, &[]);
    expect_left("empty key", &spend, Refused, Left::Encoding);
    let mut hybrid = uncompressed(1);
    hybrid[0] = 6 | hybrid[64] & 1;
    for wrap in Wrap::SCRIPTS {
        let script = Asm::new().push(&hybrid).op(OP_CHECKSIG).0;
        let spend = Spend::one(wrap, script, vec![by(1)]);
        expect_left("hybrid key", &spend, Expected::Left, Left::Encoding);
        // Keys of no known form, beside the one that signs.
        let unknown = || vec![5; 33];
        let script = Asm::new().multisig(1, &[unknown(), public(1), unknown()]).0;
        let spend = Spend::one(wrap, script, vec![bytes(&[]), by(1)]);
        expect(&[case("unknown keys", spend, Expected::Valid)], ALL);
        // CHECKMULTISIG is false: a signature is empty, or not by the key at its place.
        let keys = [public(1), public(2)];
        let script = Asm::new().multisig(2, &keys).op(OP_NOT).0;
        let spend = Spend::one(wrap, script.clone(), vec![bytes(&[]), bytes(&[]), by(2)]);
        expect_left("empty and not", &spend, Expected::Left, Left::EmptySignature);
        let spend = Spend::one(wrap, script, vec![bytes(&[]), by(2), by(1)]);
        expect_left("order", &spend, Expected::Left, Left::False);
        let script = Asm::new().push(&public(1)).ops(&[OP_CHECKSIG, OP_NOT]).0;
        let spend = Spend::one(wrap, script, vec![by(2)]);
        expect_left("a bad signature is good", &spend, Expected::Left, Left::False);
    }
}

/// Every opcode, alone and in a branch that is not taken; the test lists the opcodes that run here.
#[test]
fn each_opcode_in_each_kind_of_script() {
    let mut fast = 0;
    let mut left = 0;
    for wrap in WITH_LEAF {
        for code in OP_1NEGATE..=0xff {
            let skipped = vec![OP_0, OP_IF, code, OP_ENDIF, OP_1];
            let scripts = [
                skipped.clone(),
                vec![OP_1, OP_1, OP_1, OP_1, OP_1, OP_1, code],
                vec![OP_1, code],
                [&[OP_1, OP_IF, OP_1, OP_ELSE], &skipped[..], &[OP_ENDIF]].concat(),
                [&[code], &[OP_1][..]].concat(),
            ];
            let spends: Vec<Spend> =
                scripts.into_iter().map(|script| Spend::run(wrap, script, &[])).collect();
            let judged = judge(&spends, ALL);
            let is_leaf = wrap == Wrap::Leaf;
            let is_run = match code {
                OP_IF | OP_NOTIF | OP_VERIF | OP_VERNOTIF | OP_ENDIF => false,
                _ if is_leaf => true,
                OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY => true,
                OP_NOP1 | OP_NOP4..=OP_NOP10 => true,
                OP_1NEGATE | OP_1..=OP_NOP | OP_VERIFY | OP_SIZE | OP_EQUAL | OP_EQUALVERIFY => {
                    true
                }
                OP_TOALTSTACK..=OP_TUCK | OP_1ADD | OP_1SUB | OP_NEGATE..=OP_SUB => true,
                OP_BOOLAND..=OP_HASH256 | OP_CHECKSIG | OP_CHECKSIGVERIFY => true,
                OP_CHECKLOCKTIMEVERIFY | OP_CHECKSEQUENCEVERIFY => true,
                // ELSE only ends the branch that is not taken.
                OP_ELSE => true,
                _ => false,
            };
            assert_eq!(judged[0].is_fast(), is_run, "{code:#x}, {wrap:?}");
            // Each taproot input that is left costs Core's engine a copy of all spent outputs.
            let is_decided = judged.iter().all(|judged| judged.is_fast() == judged.engine);
            assert!(is_decided || !is_leaf, "{code:#x}: {judged:?}");
            fast += judged.iter().filter(|judged| judged.is_fast()).count();
            left += judged.iter().filter(|judged| judged.engine && !judged.is_fast()).count();
        }
    }
    assert!(fast > 1500 && left > 300, "{fast} valid here, {left} left");
}

/// OP_SUCCESS makes a leaf valid wherever it stands, unless a push before it is cut short.
#[test]
fn op_success() {
    let codes = [0x50, 0x62]
        .into_iter()
        .chain(0x7e..=0x81)
        .chain(0x83..=0x86)
        .chain([0x89, 0x8a, 0x8d, 0x8e])
        .chain(0x95..=0x99)
        .chain(0xbb..=0xfe);
    let mut cases = Vec::new();
    for code in codes {
        for script in [
            vec![code],
            vec![OP_0, code],
            vec![OP_0, OP_VERIFY, code],
            vec![OP_1, code, OP_0],
            vec![OP_0, OP_IF, code, OP_ENDIF, OP_1],
            vec![OP_IF, OP_0, code],
            vec![code, 5, 1],
            [&push(&[1; 521])[..], &[code]].concat(),
        ] {
            let name = format!("{code:#x}");
            cases.push(case(name, Spend::run(Wrap::Leaf, script, &[&[1; 530]]), Valid));
        }
        let cut = Spend::run(Wrap::Leaf, vec![OP_1, OP_PUSHDATA1, 2, code], &[]);
        cases.push(case(format!("{code:#x} in a push"), cut, Refused));
        let pushed = Spend::run(Wrap::Leaf, vec![OP_PUSHDATA1, 1, code, OP_DROP, OP_1], &[]);
        cases.push(case(format!("{code:#x} pushed"), pushed, Valid));
    }
    expect(&cases, ALL);
}

/// The extra element that CHECKMULTISIG pops, before and after BIP147.
#[test]
fn null_dummy() {
    let mut cases = Vec::new();
    let keys = [public(1), public(2)];
    for wrap in Wrap::SCRIPTS {
        for (code, tail) in [(OP_CHECKMULTISIG, &[][..]), (OP_CHECKMULTISIGVERIFY, &[OP_1])] {
            let mut script = Asm::new().multisig(1, &keys).0;
            *script.last_mut().unwrap() = code;
            script.extend(tail);
            for dummy in [&[0][..], &[1], &[0x80], &[0; 20]] {
                let spend = Spend::one(wrap, script.clone(), vec![bytes(dummy), by(2)]);
                cases.push(case(format!("dummy {dummy:?}, {wrap:?}"), spend, Refused));
            }
            let none = Spend::one(wrap, script.clone(), vec![by(2)]);
            expect(&[case("no dummy", none, Refused)], ALL);
            let script = [&[OP_0][..], &[OP_1; 2], &[OP_1, code], tail].concat();
            let script = [&script[..], &[OP_NOP]].concat();
            cases.push(case("1 of 1", Spend::run(wrap, script, &[]), Refused));
        }
    }
    cases.retain(|(name, ..)| name.starts_with("dummy"));
    expect(&cases, ALL);
    for (_, _, expected) in &mut cases {
        *expected = Valid;
    }
    expect(&cases, ALL & !flags::NULLDUMMY);
}

/// A signature in the script that it signs, which Core deletes before it makes the message.
#[test]
fn signatures_in_their_own_script() {
    let rest = Asm::new().op(OP_DROP).push(&public(1)).op(OP_CHECKSIG).0;
    for (wrap, expected) in [(Wrap::Bare, Expected::Left), (Wrap::P2sh, Expected::Left)] {
        let blank = Spend::unsigned(vec![vec![OP_1]]);
        let signature = blank.with_messages(|messages| {
            ecdsa(1, messages.legacy_message(0, &rest, 1).expect("a message"), 1)
        });
        let script = [&push(&signature)[..], &rest].concat();
        let spend = Spend::one(wrap, script.clone(), vec![bytes(&signature)]);
        expect_left("FindAndDelete", &spend, expected, Left::SignatureInScript);
        // Pushed in another way, it is neither found nor deleted.
        let odd = [&[OP_PUSHDATA1, signature.len() as u8][..], &signature, &rest].concat();
        let spend = Spend::one(wrap, odd, vec![bytes(&signature)]);
        expect_left("pushed in another way", &spend, Refused, Left::SignatureInScript);
        // In version 0 nothing is deleted, so no script can contain its signature.
        let spend = Spend::one(Wrap::P2wsh, script, vec![bytes(&signature)]);
        expect_left("witness", &spend, Refused, Left::Signature);
        let multisig = Asm::new().multisig(1, &[public(1)]);
        let code = [&[OP_DROP][..], &multisig.0].concat();
        let signature = blank.with_messages(|messages| {
            ecdsa(1, messages.legacy_message(0, &code, 1).expect("a message"), 1)
        });
        let script = [&push(&signature)[..], &code].concat();
        let spend = Spend::one(wrap, script, vec![bytes(&[]), bytes(&signature)]);
        expect_left("FindAndDelete, multisig", &spend, expected, Left::SignatureInScript);
    }
}

/// OP_CODESEPARATOR changes what is signed, and in legacy messages it is never signed itself.
#[test]
fn code_separators() {
    let check = Asm::new().push(&public(1)).op(OP_CHECKSIG).0;
    let executed = [&[OP_CODESEPARATOR], &check[..]].concat();
    let skipped = [&[OP_0, OP_IF, OP_CODESEPARATOR, OP_ENDIF], &check[..]].concat();
    let without = [&[OP_0, OP_IF, OP_ENDIF], &check[..]].concat();
    let after = [&check[..], &[OP_CODESEPARATOR]].concat();
    for (script, code) in [(executed, check.clone()), (skipped.clone(), without), (after, check)] {
        for (wrap, output) in [(Wrap::Bare, script.clone()), (Wrap::P2sh, p2sh(&script))] {
            let blank = Spend::unsigned(vec![output.clone()]);
            let cache = SighashCache::new(&blank.tx);
            let code = bitcoin::Script::from_bytes(&code);
            let message = cache.legacy_signature_hash(0, code, 1).expect("a message");
            let signature = ecdsa(1, *message.as_ref(), 1);
            let spend = Spend::run(wrap, script.clone(), &[&signature]);
            expect_left("legacy", &spend, Expected::Left, Left::Opcode(OP_CODESEPARATOR));
        }
    }
    for wrap in [Wrap::P2wsh, Wrap::P2shP2wsh] {
        let spend = Spend::one(wrap, skipped.clone(), vec![by(1)]);
        expect_left("version 0", &spend, Expected::Left, Left::Opcode(OP_CODESEPARATOR));
    }
}

/// In leaves, signatures commit to the position of the last OP_CODESEPARATOR that was executed.
#[test]
fn code_separators_in_leaves() {
    let checks = Asm::new().push(&x_only(1)).op(OP_CHECKSIG).0;
    let separator = [OP_CODESEPARATOR];
    let skipped = [OP_0, OP_IF, OP_CODESEPARATOR, OP_ENDIF];
    let pushed = [&push(&[7; 300])[..], &[OP_DROP, OP_CODESEPARATOR]].concat();
    let mut cases = Vec::new();
    for (before, position) in [
        (&skipped[..], None),
        (&separator, Some(0)),
        (&[OP_CODESEPARATOR; 3], Some(2)),
        (&pushed, Some(2)),
        (&[&skipped[..], &separator, &skipped].concat(), Some(4)),
        (&[OP_1, OP_IF, OP_CODESEPARATOR, OP_ENDIF], Some(2)),
    ] {
        let script = [before, &checks].concat();
        let input = Input::new(Wrap::Leaf, script, vec![by(1)]);
        for signed in [None, Some(0), Some(1), Some(2), Some(3), Some(4), Some(5)] {
            let spend = Spend::new(&[Input { code_separator: signed, ..input.clone() }]);
            let expected = if signed == position { Valid } else { Refused };
            cases.push(case(format!("{before:x?}, signed {signed:?}"), spend, expected));
        }
    }
    expect(&cases, ALL);
}

/// NOPs that soft forks may redefine, and opcodes that fail only when they are run.
#[test]
fn opcodes_that_are_left() {
    for wrap in Wrap::SCRIPTS {
        for code in [OP_NOP1].into_iter().chain(0xb3..=OP_NOP10) {
            let spend = Spend::run(wrap, vec![OP_1, code], &[]);
            expect(&[case("NOP", spend, Valid)], ALL);
        }
        for code in [OP_RESERVED, 0x62, 0x6a, 0x89, 0x8a, 0xba, 0xbb, 0xff] {
            let skipped = vec![OP_0, OP_IF, code, OP_ENDIF, OP_1];
            let spend = Spend::run(wrap, skipped, &[]);
            expect_left("not taken", &spend, Expected::Left, Left::Opcode(code));
        }
        for code in [0x65, 0x66, 0x7e, 0x7f, 0x83, 0x8d, 0x95, 0x99] {
            let skipped = vec![OP_0, OP_IF, code, OP_ENDIF, OP_1];
            let spend = Spend::run(wrap, skipped, &[]);
            expect_left("not even there", &spend, Refused, Left::Opcode(code));
        }
    }
}

/// Encodings that BIP66 forbids: left to the engine before it, and refused after it.
#[test]
fn signatures_that_are_not_strict() {
    let strict = |spend: &Spend| spend.tx.input[0].script_sig.to_bytes()[1..].to_vec();
    let script = Asm::new().push(&public(1)).op(OP_CHECKSIG).0;
    let good = Spend::one(Wrap::Bare, script, vec![by(1)]);
    let signature = strict(&good);
    let (der, hash_type) = signature.split_at(signature.len() - 1);
    let r_len = usize::from(der[3]);
    let r = &der[4..4 + r_len];
    let s = &der[6 + r_len..];
    let number = |bytes: &[u8]| [&[2, bytes.len() as u8], bytes].concat();
    let sequence = |body: Vec<u8>| [&[0x30, body.len() as u8], &body[..]].concat();
    let both = |r: &[u8], s: &[u8]| sequence([number(r), number(s)].concat());
    let padded = |bytes: &[u8]| [&[0], bytes].concat();
    let odd_ones = [
        ("r padded", both(&padded(r), s)),
        ("s padded", both(r, &padded(s))),
        ("bytes after", [der, &[0]].concat()),
        ("long length", [&[0x30, 0x81, der[1]], &der[2..]].concat()),
        ("wrong length", [&[0x30, der[1] - 1], &der[2..]].concat()),
    ];
    let old: ScriptFlags = ALL & !flags::DERSIG;
    let both_ways = |name: &str, der: &[u8], before: Expected| {
        let spend = good.clone().script_sig(push(&[der, hash_type].concat()));
        expect(&[case(name, spend.clone(), Refused)], ALL);
        expect(&[case(name, spend, before)], old);
    };
    for (name, der) in odd_ones {
        both_ways(name, &der, Expected::Left);
    }
    both_ways("no sequence", &[&[0x31], &der[1..]].concat(), Refused);
    both_ways("only a type", &[], Refused);
    expect(&[case("strict", good.clone(), Valid)], ALL);
    // High S is policy.
    let parsed = bitcoin::secp256k1::ecdsa::Signature::from_der(der).unwrap().serialize_compact();
    let high = high_s(parsed[32..].try_into().unwrap());
    let high = if high[0] < 0x80 { high.to_vec() } else { padded(&high) };
    let spend = good.clone().script_sig(push(&[&both(r, &high)[..], hash_type].concat()));
    expect(&[case("high S", spend.clone(), Valid)], ALL);
    expect(&[case("high S", spend, Valid)], old);
}

/// Returns n - s.
fn high_s(s: [u8; 32]) -> [u8; 32] {
    let secret = bitcoin::secp256k1::SecretKey::from_slice(&s).unwrap();
    secret.negate().secret_bytes()
}
