//! Transactions with many inputs, whose messages share parts.

use apus_testdata::Random;
use apus_wire::opcodes::*;
use apus_wire::{BlockView, Header};
use bitcoin::consensus::serialize;

use super::build::{
    Asm, Input, Spend, Wrap, by, bytes, ecdsa, p2pkh, public, push, with_type, x_only,
};
use super::{ALL, Judged, judge, prevouts};
use crate::sighash::TxSighash;
use crate::tests::assemble;
use crate::{FastScripts, FastVerdict};

/// Inputs of all kinds and types, mixed.
fn mixed(count: usize, random: &mut Random) -> Vec<Input> {
    let input = |_| {
        let key = random.below(200_u8);
        let hash_type = random.one_of(&[1, 1, 1, 2, 3, 0x81, 0x82, 0x83, 0, 5, 0x44]);
        let known = if hash_type & 0x7f > 3 { 0 } else { hash_type };
        let items = vec![with_type(key, hash_type), bytes(&public(key))];
        let single = Asm::new().push(&public(key)).op(OP_CHECKSIG).0;
        match random.below(6) {
            0 => Input::new(Wrap::P2wpkh, p2pkh(&public(key)), items),
            1 => Input::new(Wrap::KeyPath, x_only(key).to_vec(), vec![with_type(key, known)]),
            2 => Input::new(Wrap::P2sh, single, vec![with_type(key, hash_type)]),
            3 => Input::new(Wrap::P2wsh, single, vec![with_type(key, hash_type)]),
            _ => Input::new(Wrap::Bare, p2pkh(&public(key)), items),
        }
    };
    (0..count).map(input).collect()
}

#[test]
fn inputs_of_all_kinds_in_one_transaction() {
    let mut random = Random(1);
    let spends: Vec<Spend> =
        [1, 2, 3, 7, 60, 252, 253, 300].map(|count| Spend::new(&mixed(count, &mut random))).into();
    let judged = judge(&spends, ALL);
    assert!(judged.iter().all(Judged::is_fast), "{judged:?}");
}

/// Legacy messages begin with the inputs before; the hash state is kept from one to the next.
#[test]
fn inputs_may_be_asked_in_any_order_and_again() {
    let mut random = Random(2);
    for count in [1, 2, 5, 40] {
        let spend = Spend::new(&mixed(count, &mut random));
        let prevouts = prevouts(&spend);
        let block = assemble(&Header::default(), &[serialize(&spend.tx)]);
        let view = BlockView::parse(&block).unwrap();
        let mut messages = TxSighash::new(view.tx(0), &prevouts, None);
        let mut fast = FastScripts::new(None);
        for _ in 0..3 * count {
            fast.add(&mut messages, random.below(count), ALL);
        }
        let descending = (0..count).rev();
        descending.for_each(|input| fast.add(&mut messages, input, ALL));
        assert!(fast.decide().iter().all(|verdict| *verdict == FastVerdict::Valid));
    }
}

/// One bad input in a batch changes no other verdict.
#[test]
fn verdicts_stand_at_their_inputs() {
    let keys: Vec<Vec<u8>> = (0..3).map(public).collect();
    let two = Asm::new().multisig(2, &keys).0;
    let items = |first, second| vec![bytes(&[]), by(first), by(second)];
    let good = || Input::new(Wrap::P2wsh, two.clone(), items(0, 2));
    let bad = || Input::new(Wrap::P2wsh, two.clone(), items(2, 0));
    let single =
        |key| Input::new(Wrap::P2wpkh, p2pkh(&public(1)), vec![by(key), bytes(&public(1))]);
    for place in 0..8 {
        let mut inputs: Vec<Input> = (0..4).flat_map(|_| [good(), single(1)]).collect();
        inputs[place] = if place % 2 == 0 { bad() } else { single(2) };
        let judged = judge(&[Spend::new(&inputs)], ALL);
        for (index, judged) in judged.iter().enumerate() {
            assert_eq!(judged.is_fast(), index != place, "{index} of {place}");
            assert_eq!(judged.engine, index != place, "{index} of {place}");
        }
    }
}

/// More signatures than are verified at once, some of them in invalid inputs.
#[test]
fn verdicts_of_thousands_of_signatures() {
    let fifteen: Vec<Vec<u8>> = (0..15).map(public).collect();
    let spend = |needed: u8, last: u8| {
        let script = Asm::new().multisig(needed.into(), &fifteen).0;
        let signers = (0..needed - 1).chain([last]).map(by);
        let items = [bytes(&[])].into_iter().chain(signers).collect();
        Spend::one(Wrap::P2wsh, script, items)
    };
    let kinds =
        [spend(15, 14), spend(15, 99), spend(2, 1), spend(2, 14), spend(15, 14), spend(2, 99)];
    let spends: Vec<Spend> = (0..540).map(|index| kinds[index % 6].clone()).collect();
    for (index, judged) in judge(&spends, ALL).iter().enumerate() {
        let is_valid = index % 6 != 1 && index % 6 != 5;
        assert_eq!((judged.is_fast(), judged.engine), (is_valid, is_valid), "{index}");
    }
}

/// A signature of each type in one script, and signatures of one type in two scripts.
#[test]
fn messages_are_those_of_their_type_and_script() {
    let types = [1, 2, 3, 0x81, 0x82, 0x83, 1, 0x83, 2];
    let checks = |last: &[u8]| {
        let key = Asm::new().push(&public(7)).op(OP_CHECKSIGVERIFY).0;
        [key.repeat(types.len()), last.to_vec()].concat()
    };
    let items = || types.iter().map(|hash_type| with_type(7, *hash_type)).collect::<Vec<_>>();
    let mut spends = Vec::new();
    for wrap in Wrap::SCRIPTS {
        spends.push(Spend::one(wrap, checks(&[OP_1]), items()));
    }
    let leaf_check = Asm::new().push(&x_only(7)).op(OP_CHECKSIGVERIFY).0.repeat(types.len());
    spends.push(Spend::one(Wrap::Leaf, [leaf_check, vec![OP_1]].concat(), items()));
    assert!(judge(&spends, ALL).iter().all(Judged::is_fast));
    // One more signature in the scriptSig, for the message of another script.
    let single = Asm::new().push(&public(7)).op(OP_CHECKSIG).0;
    let spend = Spend::one(Wrap::Bare, single.clone(), vec![by(7)]);
    let code = Asm::new().push(&public(7)).op(OP_CHECKSIGVERIFY).0;
    let other =
        spend.with_messages(|messages| messages.legacy_message(0, &code, 1)).expect("a message");
    let wrong =
        spend.with_messages(|messages| messages.legacy_message(0, &single, 1)).expect("a message");
    let script_sig = spend.tx.input[0].script_sig.to_bytes();
    // The scriptSig contains the signature that it checks, so Core would delete it there: the input
    // is left to the engine, whichever message is signed.
    for message in [other, wrong] {
        let checked = [&push(&ecdsa(7, message, 1))[..], &code, &script_sig].concat();
        assert!(!judge(&[spend.clone().script_sig(checked)], ALL)[0].is_fast());
    }
}

/// Successive batches in the same memory, with inputs among them that are left to the engine.
#[test]
fn a_batch_remembers_nothing_of_the_last_one() {
    let mut random = Random(3);
    let mut fast = FastScripts::new(None);
    for round in 0..20_usize {
        let mut inputs = mixed(1 + round, &mut random);
        let left = random.below(inputs.len());
        // One whose CHECKMULTISIG does not hold, or with an opcode that is not run here.
        let multisig = Asm::new().multisig(1, &[public(1), public(2)]).0;
        inputs[left] = match round % 2 {
            0 => Input::new(Wrap::P2wsh, multisig, vec![bytes(&[]), by(3)]),
            _ => Input::new(Wrap::Bare, vec![OP_0, OP_IF, OP_RETURN, OP_ENDIF, OP_1], vec![]),
        };
        let spend = Spend::new(&inputs);
        let prevouts = prevouts(&spend);
        let block = assemble(&Header::default(), &[serialize(&spend.tx)]);
        let view = BlockView::parse(&block).unwrap();
        let mut messages = TxSighash::new(view.tx(0), &prevouts, None);
        (0..inputs.len()).for_each(|input| fast.add(&mut messages, input, ALL));
        let verdicts = fast.decide();
        assert_eq!(verdicts.len(), inputs.len());
        for (index, verdict) in verdicts.iter().enumerate() {
            assert_eq!(*verdict == FastVerdict::Valid, index != left, "{round}, {index}");
        }
    }
    assert!(fast.decide().is_empty());
    assert!(fast.signatures() > 150);
}

/// Signatures that are not valid, which the scripts demand, each with a message of 40,000 bytes:
/// Core's engine has to repeat the work on the added ones.
#[test]
fn little_work_is_for_nothing() {
    let script = Asm::new().push(&public(1)).ops(&[OP_CHECKSIG, OP_NOT]).0;
    let wrong = |_| Input::new(Wrap::Bare, script.clone(), vec![by(2)]);
    let spend = Spend::new(&(0..1000).map(wrong).collect::<Vec<_>>());
    let valid = Spend::one(Wrap::P2wpkh, p2pkh(&public(1)), vec![by(1), bytes(&public(1))]);
    let mut fast = FastScripts::new(None);
    let mut add = |spend: &Spend, most: usize| {
        let prevouts = prevouts(spend);
        let block = assemble(&Header::default(), &[serialize(&spend.tx)]);
        let view = BlockView::parse(&block).unwrap();
        let mut messages = TxSighash::new(view.tx(0), &prevouts, None);
        let mut added = 0;
        for input in (0..prevouts.len()).cycle().take(most) {
            if fast.is_worthwhile() {
                added += 1;
                fast.add(&mut messages, input, ALL);
            } else {
                fast.leave();
            }
        }
        let verdicts = fast.decide();
        assert_eq!(verdicts.len(), most);
        (added, verdicts.iter().filter(|verdict| **verdict == FastVerdict::Valid).count())
    };
    assert_eq!(add(&valid, 1000), (1000, 1000));
    let (added, held) = add(&spend, 1000);
    assert!((20..80).contains(&added) && held == 0, "{added}, {held}");
    // After a few thousand inputs the work is tried again, and goes on if it is for something.
    let (added, held) = add(&valid, 10_000);
    assert!(added > 1000 && held == added, "{added}, {held}");
    assert_eq!(add(&valid, 1000), (1000, 1000));
}
