//! Tests of numbers, and of Taproot commitments with BIP341's vectors. The tests of `rules` compare
//! whole spends with Core's engine.

use apus_testdata::{from_hex, vectors};
use apus_wire::{BlockView, Prevout, flags};
use serde_json::Value;

use super::interpreter::{Interpreter, Leaf, Version};
use super::item::Item;
use super::taproot::Control;
use super::{Check, Checks, Left};
use crate::sighash::{Preimages, TxSighash};

/// The rules under which a script runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Output scripts, scriptSigs and P2SH.
    Base,
    /// Witness scripts of version 0.
    V0,
    /// Taproot leaves.
    Tapscript,
}

/// Runs a script on `stack`, and returns the stack that it leaves; `None` if it cannot be run to
/// its end. The transaction has the lock time 650,000 and the sequence number 10.
pub fn stack_after(script: &[u8], stack: &[Vec<u8>], kind: Kind) -> Option<Vec<Vec<u8>>> {
    const BLOCK: [u8; 80 + 1 + 4 + 1 + 36 + 1 + 4 + 1 + 8 + 1 + 4] = {
        let mut block = [0; 141];
        // One transaction, version 2, one input, its sequence number, one output, the lock time.
        (block[80], block[81], block[85], block[123], block[127]) = (1, 2, 1, 10, 1);
        (block[137], block[138], block[139]) = (0x10, 0xeb, 0x09);
        block
    };
    let view = BlockView::parse(&BLOCK).expect("a block");
    let prevouts = [Prevout { amount: 0, script: &[], height: 0, is_coinbase: false }];
    let mut messages = TxSighash::new(view.tx(0), &prevouts, None);
    let mut preimages = Preimages::default();
    let mut checks = Checks::new();
    let flags = flags::CHECKLOCKTIMEVERIFY | flags::CHECKSEQUENCEVERIFY | flags::NULLDUMMY;
    let mut run = Interpreter::new(&mut messages, 0, flags, &mut preimages, &mut checks);
    run.leaf = Leaf { weight_left: 1_000_000, ..Leaf::default() };
    run.stack.extend(stack.iter().map(|element| Item::Found(element)));
    let version = match kind {
        Kind::Base => Version::Base,
        Kind::V0 => Version::V0,
        Kind::Tapscript => Version::Tapscript,
    };
    run.run(script, version).ok()?;
    Some(run.stack.iter().map(|item| item.bytes().to_vec()).collect())
}

/// Numbers as in Core: little-endian, with the sign in the highest bit, in the shortest form.
#[test]
fn numbers() {
    for (value, bytes) in [
        (0, &[][..]),
        (1, &[1]),
        (-1, &[0x81]),
        (127, &[0x7f]),
        (-127, &[0xff]),
        (128, &[0x80, 0]),
        (-128, &[0x80, 0x80]),
        (255, &[0xff, 0]),
        (-255, &[0xff, 0x80]),
        (256, &[0, 1]),
        (0x7fff_ffff, &[0xff, 0xff, 0xff, 0x7f]),
        (-0x7fff_ffff, &[0xff, 0xff, 0xff, 0xff]),
        (0xffff_fffe, &[0xfe, 0xff, 0xff, 0xff, 0]),
        (-0xffff_fffe, &[0xfe, 0xff, 0xff, 0xff, 0x80]),
    ] {
        assert_eq!(Item::of_number(value).bytes(), bytes, "{value}");
        assert_eq!(Item::Found(bytes).time(), Ok(value));
        let is_operand = bytes.len() <= 4;
        assert_eq!(Item::Found(bytes).number().ok(), is_operand.then_some(value));
    }
    // Not the shortest forms.
    for (bytes, value) in [
        (&[0][..], 0),
        (&[0x80], 0),
        (&[0, 0, 0, 0x80], 0),
        (&[1, 0], 1),
        (&[1, 0x80], -1),
        (&[1, 0, 0, 0], 1),
        (&[0xff, 0xff, 0, 0x80], -0xffff),
    ] {
        assert_eq!(Item::Found(bytes).number(), Ok(value), "{bytes:?}");
        assert_eq!(Item::Found(bytes).time(), Ok(value), "{bytes:?}");
    }
    assert_eq!(Item::Found(&[0; 5]).number(), Err(Left::Limit));
    assert_eq!(Item::Found(&[0; 6]).time(), Err(Left::Limit));
    assert_eq!(Item::Found(&[0xff; 5]).time(), Ok(-0x7f_ffff_ffff));
}

/// Collects the leaves of a tree of BIP341's vectors, with their numbers.
fn leaves(tree: &Value, found: &mut Vec<(usize, Vec<u8>)>) {
    match tree {
        Value::Array(children) => children.iter().for_each(|child| leaves(child, found)),
        Value::Null => {}
        leaf => {
            let id = leaf["id"].as_u64().expect("a number") as usize;
            found.push((id, from_hex(leaf["script"].as_str().expect("a script"))));
        }
    }
}

#[test]
fn commitments_of_bip341() {
    let mut count = 0;
    let all = vectors("bip341_wallet_vectors.json");
    for vector in all["scriptPubKey"].as_array().expect("a list") {
        let hex = |field: &Value| from_hex(field.as_str().expect("hex"));
        let inner = &vector["intermediary"];
        let expected = &vector["expected"];
        let output: [u8; 32] = hex(&inner["tweakedPubkey"]).try_into().expect("32 bytes");
        let mut scripts = Vec::new();
        leaves(&vector["given"]["scriptTree"], &mut scripts);
        for (id, script) in scripts {
            let block = hex(&expected["scriptPathControlBlocks"][id]);
            let control = Control::parse(&block).expect("a control block");
            let hash = control.leaf_hash(&script);
            assert_eq!(hash.to_vec(), hex(&inner["leafHashes"][id]));
            let Check::Tweak { internal, tweak, odd, .. } = control.commitment(hash, &output)
            else {
                panic!("a commitment")
            };
            assert_eq!(internal.to_vec(), hex(&vector["given"]["internalPubkey"]));
            assert_eq!(tweak.to_vec(), hex(&inner["tweak"]));
            assert_eq!(odd, block[0] & 1 == 1);
            count += 1;
        }
    }
    assert_eq!(count, 12);
}

#[test]
fn the_stack_after_a_script() {
    let one = vec![1];
    let sum = stack_after(&[0x93], &[one.clone(), vec![2]], Kind::Base);
    assert_eq!(sum, Some(vec![vec![3]]));
    assert_eq!(stack_after(&[0x93], &[one], Kind::Base), None);
    let height = [3, 0x10, 0xeb, 9, 0xb1, 0x75, 0x5a, 0xb2];
    assert_eq!(stack_after(&height, &[], Kind::V0), Some(vec![vec![10]]));
}
