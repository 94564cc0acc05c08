//! The kinds of outputs and spends that real blocks are made of.

use apus_hash::{hash160, ripemd160, sha1, sha256, sha256d};
use apus_wire::opcodes::*;

use super::build::{
    Asm, Input, Item, LOCK_TIME, SEQUENCE, Wrap, by, bytes, p2pkh, public, uncompressed, with_type,
    x_only,
};

/// A valid spend and its name.
pub type Named = (String, Input);

/// The preimage of the hashes in contracts.
const SECRET: [u8; 32] = [0x5e; 32];

pub fn all() -> Vec<Named> {
    [single_keys(), multisigs(), wrapped_multisigs(), contracts(), dissatisfied(), key_paths()]
        .into_iter()
        .chain([leaves(), envelopes()])
        .flatten()
        .collect()
}

fn named(name: &str, wrap: Wrap, script: Vec<u8>, items: Vec<Item>) -> Named {
    (format!("{name}, {wrap:?}"), Input::new(wrap, script, items))
}

/// P2PK, P2PKH and P2WPKH.
fn single_keys() -> Vec<Named> {
    let mut found = Vec::new();
    for wrap in Wrap::SCRIPTS {
        for key in [public(1), uncompressed(1)] {
            let script = Asm::new().push(&key).op(OP_CHECKSIG).0;
            found.push(named("P2PK", wrap, script, vec![by(1)]));
            found.push(named("P2PKH", wrap, p2pkh(&key), vec![by(1), bytes(&key)]));
        }
    }
    for wrap in [Wrap::P2wpkh, Wrap::P2shP2wpkh] {
        let items = vec![by(2), bytes(&public(2))];
        found.push(named("P2WPKH", wrap, p2pkh(&public(2)), items));
    }
    // Consensus does not demand compressed keys in witnesses.
    let items = vec![by(2), bytes(&uncompressed(2))];
    found.push(named("uncompressed P2WPKH", Wrap::P2wpkh, p2pkh(&uncompressed(2)), items));
    found
}

fn multisig(wrap: Wrap, keys: &[Vec<u8>], signers: &[u8]) -> Named {
    let script = Asm::new().multisig(signers.len(), keys).0;
    let items = [bytes(&[])].into_iter().chain(signers.iter().map(|key| by(*key))).collect();
    named(&format!("{signers:?} of {}", keys.len()), wrap, script, items)
}

/// CHECKMULTISIG with each choice of keys.
fn multisigs() -> Vec<Named> {
    let keys: Vec<Vec<u8>> = (0..3).map(public).collect();
    let mut found = Vec::new();
    for wrap in Wrap::SCRIPTS {
        for signers in [&[0, 1][..], &[0, 2], &[1, 2], &[0], &[1], &[2], &[0, 1, 2], &[]] {
            found.push(multisig(wrap, &keys, signers));
        }
        found.push(multisig(wrap, &[], &[]));
        // The same key may sign as often as it occurs.
        let twice = [public(1), public(0), public(1)];
        found.push(multisig(wrap, &twice, &[1, 1]));
        found.push(multisig(wrap, &twice, &[1]));
        let mixed = [uncompressed(0), public(1), uncompressed(2)];
        found.push(multisig(wrap, &mixed, &[0, 2]));
        // Data in place of a key does no harm if it has the form of one: 5 is not a valid x.
        let data = [&[2][..], &[0; 31], &[5]].concat();
        let data = [data.clone(), public(1), data];
        found.push(multisig(wrap, &data, &[1]));
    }
    found
}

/// CHECKMULTISIG with many keys.
fn wrapped_multisigs() -> Vec<Named> {
    let fifteen: Vec<Vec<u8>> = (0..15).map(public).collect();
    let twenty: Vec<Vec<u8>> = (0..20).map(public).collect();
    let of = |count: u8| (0..count).collect::<Vec<u8>>();
    let mut found = Vec::new();
    for wrap in Wrap::SCRIPTS {
        found.push(multisig(wrap, &fifteen, &of(15)));
        found.push(multisig(wrap, &fifteen, &[14]));
        found.push(multisig(wrap, &fifteen, &[2, 5, 6, 13]));
        if wrap != Wrap::P2sh {
            found.push(multisig(wrap, &twenty, &of(20)));
            found.push(multisig(wrap, &twenty, &[19]));
            found.push(multisig(wrap, &twenty, &[3, 9, 10, 18, 19]));
        }
    }
    found
}

/// Contracts with hash locks, time locks and branches.
fn contracts() -> Vec<Named> {
    let mut found = Vec::new();
    let hashes: [(u8, Vec<u8>); 5] = [
        (OP_RIPEMD160, ripemd160(&SECRET).to_vec()),
        (OP_SHA1, sha1(&SECRET).to_vec()),
        (OP_SHA256, sha256(&SECRET).to_vec()),
        (OP_HASH160, hash160(&SECRET).to_vec()),
        (OP_HASH256, sha256d(&SECRET).0.to_vec()),
    ];
    for wrap in [Wrap::Bare, Wrap::P2sh, Wrap::P2wsh, Wrap::P2shP2wsh] {
        for (code, hash) in &hashes {
            let locked = Asm::new().op(*code).push(hash).op(OP_EQUALVERIFY);
            let script = locked.push(&public(3)).op(OP_CHECKSIG).0;
            found.push(named("hash lock", wrap, script, vec![by(3), bytes(&SECRET)]));
        }
        let swap = swap_contract();
        found.push(named("claim", wrap, swap.clone(), vec![by(3), bytes(&SECRET), bytes(&[1])]));
        found.push(named("refund", wrap, swap, vec![by(4), bytes(&[])]));
        let delayed = delayed();
        found.push(named("revoked", wrap, delayed.clone(), vec![by(5), bytes(&[1])]));
        found.push(named("delayed", wrap, delayed, vec![by(6), bytes(&[])]));
        let offered = offered();
        let remote = vec![by(8), bytes(&SECRET)];
        found.push(named("HTLC with preimage", wrap, offered.clone(), remote));
        let both = vec![bytes(&[]), by(8), by(9), bytes(&[])];
        found.push(named("HTLC timeout", wrap, offered.clone(), both));
        let revoked = vec![by(7), bytes(&public(7))];
        found.push(named("HTLC revoked", wrap, offered, revoked));
    }
    found
}

/// A key and a preimage, or another key after some height.
fn swap_contract() -> Vec<u8> {
    let claim = Asm::new().ops(&[OP_IF, OP_SIZE]).number(32).ops(&[OP_EQUALVERIFY, OP_HASH160]);
    let claim = claim.push(&hash160(&SECRET)).op(OP_EQUALVERIFY).push(&public(3));
    let refund = claim.op(OP_ELSE).number(LOCK_TIME.into());
    let refund = refund.ops(&[OP_CHECKLOCKTIMEVERIFY, OP_DROP]).push(&public(4));
    refund.ops(&[OP_ENDIF, OP_CHECKSIG]).0
}

/// Lightning's output to oneself: revocable, or delayed.
fn delayed() -> Vec<u8> {
    let delayed = Asm::new().op(OP_IF).push(&public(5)).op(OP_ELSE).number(SEQUENCE.into());
    let delayed = delayed.ops(&[OP_CHECKSEQUENCEVERIFY, OP_DROP]).push(&public(6));
    delayed.ops(&[OP_ENDIF, OP_CHECKSIG]).0
}

/// Lightning's offered HTLC (BOLT 3).
fn offered() -> Vec<u8> {
    let revoked = Asm::new().ops(&[OP_DUP, OP_HASH160]).push(&hash160(&public(7)));
    let revoked = revoked.ops(&[OP_EQUAL, OP_IF, OP_CHECKSIG, OP_ELSE]);
    let timeout = revoked.push(&public(8)).ops(&[OP_SWAP, OP_SIZE]).number(32);
    let timeout = timeout.ops(&[OP_EQUAL, OP_NOTIF, OP_DROP]).number(2).op(OP_SWAP);
    let timeout = timeout.push(&public(9)).number(2).ops(&[OP_CHECKMULTISIG, OP_ELSE, OP_HASH160]);
    let claimed = timeout.push(&hash160(&SECRET)).ops(&[OP_EQUALVERIFY, OP_CHECKSIG]);
    claimed.ops(&[OP_ENDIF, OP_ENDIF]).0
}

/// Empty signatures, which are false without being verified.
fn dissatisfied() -> Vec<Named> {
    let mut found = Vec::new();
    let keys = [public(1), public(2)];
    let either = Asm::new().push(&keys[0]).ops(&[OP_CHECKSIG, OP_SWAP]).push(&keys[1]);
    let either = either.ops(&[OP_CHECKSIG, OP_BOOLOR]).0;
    let later = Asm::new().multisig(2, &keys).ops(&[OP_IFDUP, OP_NOTIF]).number(SEQUENCE.into());
    let later = later.ops(&[OP_CHECKSEQUENCEVERIFY, OP_ENDIF]).0;
    for wrap in Wrap::SCRIPTS {
        found.push(named("second only", wrap, either.clone(), vec![by(2), bytes(&[])]));
        found.push(named("first only", wrap, either.clone(), vec![bytes(&[]), by(1)]));
        let none = vec![bytes(&[]), bytes(&[]), bytes(&[])];
        found.push(named("none of two, but later", wrap, later.clone(), none));
        let both = vec![bytes(&[]), by(1), by(2)];
        found.push(named("two of two", wrap, later.clone(), both));
    }
    found
}

fn key_paths() -> Vec<Named> {
    let types = [0, 1, 2, 3, 0x81, 0x82, 0x83];
    let mut found = Vec::new();
    for hash_type in types {
        let script = x_only(11).to_vec();
        let (name, mut input) =
            named("key path", Wrap::KeyPath, script, vec![with_type(11, hash_type)]);
        found.push((format!("{name}, type {hash_type:#x}"), input.clone()));
        for annex in [&[0x50][..], &[0x50, 1, 2, 3], &[0x50; 300]] {
            input.annex = Some(annex.to_vec());
            found.push((format!("{name} with an annex, type {hash_type:#x}"), input.clone()));
        }
    }
    found
}

/// K of n keys by CHECKSIGADD.
fn threshold(needed: i64, keys: &[u8]) -> Vec<u8> {
    let first = Asm::new().push(&x_only(keys[0])).op(OP_CHECKSIG);
    let all = keys[1..].iter().fold(first, |asm, key| asm.push(&x_only(*key)).op(OP_CHECKSIGADD));
    all.number(needed).op(OP_NUMEQUAL).0
}

fn leaves() -> Vec<Named> {
    let single = Asm::new().push(&x_only(12)).op(OP_CHECKSIG).0;
    let mut found = Vec::new();
    for depth in [0, 1, 2, 3, 127, 128] {
        let (name, mut input) = named("leaf", Wrap::Leaf, single.clone(), vec![by(12)]);
        input.path = (0..depth).map(|step| sha256(&[step])).collect();
        found.push((format!("{name}, depth {depth}"), input.clone()));
        input.annex = Some(vec![0x50, depth]);
        found.push((format!("{name} with an annex, depth {depth}"), input));
    }
    for hash_type in [0, 2, 3, 0x81, 0x82, 0x83] {
        let items = vec![with_type(12, hash_type)];
        found.push(named(&format!("leaf, type {hash_type:#x}"), Wrap::Leaf, single.clone(), items));
    }
    let keys = [13, 14, 15];
    for absent in keys {
        let item = |key: &u8| if *key == absent { bytes(&[]) } else { by(*key) };
        let items = keys.iter().rev().map(item).collect();
        found.push(named("two of three", Wrap::Leaf, threshold(2, &keys), items));
    }
    let many: Vec<u8> = (0..60).collect();
    let items = many.iter().rev().map(|key| if key % 2 == 0 { by(*key) } else { bytes(&[]) });
    found.push(named("30 of 60", Wrap::Leaf, threshold(30, &many), items.collect()));
    let timed = Asm::new().push(&x_only(12)).op(OP_CHECKSIGVERIFY).number(SEQUENCE.into());
    let timed = timed.ops(&[OP_CHECKSEQUENCEVERIFY, OP_DROP]).number(LOCK_TIME.into());
    let timed = timed.op(OP_CHECKLOCKTIMEVERIFY).0;
    found.push(named("locked", Wrap::Leaf, timed, vec![by(12)]));
    let hashed = Asm::new().op(OP_SHA256).push(&sha256(&SECRET)).op(OP_EQUALVERIFY);
    let hashed = hashed.push(&x_only(12)).op(OP_CHECKSIG).0;
    found.push(named("hash lock", Wrap::Leaf, hashed, vec![by(12), bytes(&SECRET)]));
    found.push(named("anyone", Wrap::Leaf, vec![OP_1], vec![]));
    found
}

/// Data in a branch that is not taken (inscriptions).
fn envelopes() -> Vec<Named> {
    let mut found = Vec::new();
    for pieces in [1, 20, 300] {
        let start = Asm::new().push(&x_only(16)).ops(&[OP_CHECKSIG, OP_0, OP_IF]).push(b"ord");
        let head = start.number(1).push(b"text/plain").op(OP_0);
        let body = (0..pieces).fold(head, |asm, piece| asm.push(&[piece as u8; 520]));
        found.push(named("envelope", Wrap::Leaf, body.op(OP_ENDIF).0, vec![by(16)]));
    }
    found
}
