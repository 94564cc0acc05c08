//! The scripts of the templates, each with what unlocks it.

use bitcoin::hashes::{Hash, hash160, ripemd160, sha1, sha256, sha256d};

use super::Place;
use super::draft::{Draft, Item, Make, Separator};
use crate::opcodes::*;

/// A relative lock of five bytes. Its bit 31 says that it locks nothing (BIP 112).
const NO_LOCK: [u8; 5] = [0, 0, 0, 0x80, 0];

/// `<key> OP_CHECKSIG`.
pub fn one_key(d: &mut Draft<'_>) {
    d.key(0).ops(&[OP_CHECKSIG]).sign(0);
}

/// A signature with a high S, which only relay refuses.
pub fn high_s(d: &mut Draft<'_>) {
    d.key(0).ops(&[OP_CHECKSIG]).sign_so(0, Separator::START, Make::HighS);
}

/// An uncompressed key, in witness scripts too.
pub fn long_key(d: &mut Draft<'_>) {
    d.data(&d.long_key(0, false)).ops(&[OP_CHECKSIG]).sign(0);
}

/// A hybrid key, which has both coordinates and the parity (0x06, 0x07).
pub fn hybrid_key(d: &mut Draft<'_>) {
    d.data(&d.long_key(0, true)).ops(&[OP_CHECKSIG]).sign(0);
}

pub fn hybrid_key_hash(d: &mut Draft<'_>) {
    let key = d.long_key(0, true);
    key_hash(d, &key);
}

/// The hash of a key, unlocked by pushes with longer length fields than they need.
pub fn clumsy_key_hash(d: &mut Draft<'_>) {
    let key = d.ring.key(d.index(0)).pk33();
    key_hash(d, &key);
    d.clumsy = true;
}

fn key_hash(d: &mut Draft<'_>, key: &[u8]) {
    let hash = hash160::Hash::hash(key).to_byte_array();
    d.ops(&[OP_DUP, OP_HASH160]).data(&hash).ops(&[OP_EQUALVERIFY, OP_CHECKSIG]);
    d.sign(0).give(key);
}

/// Multisig, unlocked by pushes with longer length fields than they need, one of them empty.
pub fn clumsy_multisig(d: &mut Draft<'_>) {
    d.multisig(2, 3);
    d.clumsy = true;
}

/// Multisig without any signature.
pub fn multisig_0_of_1(d: &mut Draft<'_>) {
    d.multisig(0, 1);
}

pub fn multisig_1_of_2(d: &mut Draft<'_>) {
    d.multisig(1, 2);
}

pub fn multisig_2_of_3(d: &mut Draft<'_>) {
    d.multisig(2, 3);
}

pub fn multisig_3_of_5(d: &mut Draft<'_>) {
    d.multisig(3, 5);
}

/// As many keys as a redeem script has room for.
pub fn multisig_15_of_15(d: &mut Draft<'_>) {
    d.multisig(15, 15);
}

/// As many keys as OP_CHECKMULTISIG takes, and one to three signatures.
pub fn multisig_of_20(d: &mut Draft<'_>) {
    let m = 1 + d.choose(3) as u8;
    d.multisig(m, 20);
}

/// 1-of-2 multisig with an uncompressed key and a hybrid one.
pub fn multisig_of_long_keys(d: &mut Draft<'_>) {
    let signer = d.choose(2) as u32;
    let long = d.long_key(0, false);
    let hybrid = d.long_key(1, true);
    d.number(1).data(&long).data(&hybrid).number(2).ops(&[OP_CHECKMULTISIG]).give(&[]).sign(signer);
}

/// OP_CHECKMULTISIGVERIFY.
pub fn multisig_verify(d: &mut Draft<'_>) {
    d.multisig(2, 3).script.pop();
    d.ops(&[OP_CHECKMULTISIGVERIFY, OP_1]);
}

/// True if 2-of-3 multisig fails, with signatures that are empty.
pub fn multisig_not(d: &mut Draft<'_>) {
    d.multisig(2, 3).ops(&[OP_NOT]);
    d.items = vec![Item::Bytes(vec![]), Item::Bytes(vec![]), Item::Bytes(vec![])];
}

/// True if the signature is not valid, and it is empty.
pub fn empty_signature_not(d: &mut Draft<'_>) {
    d.key(0).ops(&[OP_CHECKSIG, OP_NOT]).give(&[]);
}

/// True if the signature is not valid, and it is for something else.
pub fn wrong_signature_not(d: &mut Draft<'_>) {
    d.key(0).ops(&[OP_CHECKSIG, OP_NOT]).sign_so(0, Separator::START, Make::Wrong);
}

/// True if the signature is not valid, and the key is no point of the curve.
pub fn no_key_not(d: &mut Draft<'_>) {
    d.data(&[[2; 1].as_slice(), &[0xff; 32]].concat()).ops(&[OP_CHECKSIG, OP_NOT]).sign(0);
}

pub fn ripemd160_lock(d: &mut Draft<'_>) {
    hash_lock(d, OP_RIPEMD160, |bytes| ripemd160::Hash::hash(bytes).to_byte_array().to_vec());
}

pub fn sha1_lock(d: &mut Draft<'_>) {
    hash_lock(d, OP_SHA1, |bytes| sha1::Hash::hash(bytes).to_byte_array().to_vec());
}

pub fn sha256_lock(d: &mut Draft<'_>) {
    hash_lock(d, OP_SHA256, |bytes| sha256::Hash::hash(bytes).to_byte_array().to_vec());
}

pub fn hash160_lock(d: &mut Draft<'_>) {
    hash_lock(d, OP_HASH160, |bytes| hash160::Hash::hash(bytes).to_byte_array().to_vec());
}

pub fn hash256_lock(d: &mut Draft<'_>) {
    hash_lock(d, OP_HASH256, |bytes| sha256d::Hash::hash(bytes).to_byte_array().to_vec());
}

/// A key and 32 bytes with a known hash.
fn hash_lock(d: &mut Draft<'_>, opcode: u8, hash: fn(&[u8]) -> Vec<u8>) {
    let preimage = d.random::<32>();
    d.ops(&[OP_SIZE]).number(32).ops(&[OP_EQUALVERIFY, opcode]).data(&hash(&preimage));
    d.ops(&[OP_EQUALVERIFY]).key(0).ops(&[OP_CHECKSIG]).sign(0).give(&preimage);
}

/// A hash and one key, or later another key.
pub fn contract(d: &mut Draft<'_>) {
    let preimage = d.random::<32>();
    let hash = sha256::Hash::hash(&preimage).to_byte_array();
    d.ops(&[OP_IF, OP_SIZE]).number(32).ops(&[OP_EQUALVERIFY, OP_SHA256]).data(&hash);
    d.ops(&[OP_EQUALVERIFY]).key(0).ops(&[OP_ELSE]).data(&NO_LOCK);
    d.ops(&[OP_CHECKSEQUENCEVERIFY, OP_DROP]).key(1).ops(&[OP_ENDIF, OP_CHECKSIG]);
    match d.choose(2) {
        0 => d.sign(0).give(&preimage).give(&[1]),
        _ => d.sign(1).give(&[]),
    };
}

/// One key, or later another one: `or_d` of miniscript.
pub fn either_key(d: &mut Draft<'_>) {
    d.key(0).ops(&[OP_CHECKSIG, OP_IFDUP, OP_NOTIF]).key(1).ops(&[OP_CHECKSIGVERIFY]);
    d.data(&NO_LOCK).ops(&[OP_CHECKSEQUENCEVERIFY, OP_ENDIF]);
    match d.choose(2) {
        0 => d.sign(0),
        _ => d.sign(1).give(&[]),
    };
}

/// Two of three keys: `thresh` of miniscript.
pub fn threshold(d: &mut Draft<'_>) {
    d.key(0).ops(&[OP_CHECKSIG]);
    for key in 1..3 {
        d.ops(&[OP_SWAP]).key(key).ops(&[OP_CHECKSIG, OP_ADD]);
    }
    d.number(2).ops(&[OP_EQUAL]);
    sign_some(d, 2, 3);
}

/// Signatures of `m` of `n` keys, and an empty one for each other key, the first key's on top.
fn sign_some(d: &mut Draft<'_>, m: u8, n: u8) {
    let signers = d.some(m, n);
    for key in (0..u32::from(n)).rev() {
        if signers.contains(&key) {
            d.sign(key)
        } else {
            d.give(&[])
        };
    }
}

/// OP_IF of 2, which only relay refuses outside tapscript.
pub fn if_of_two(d: &mut Draft<'_>) {
    d.ops(&[OP_IF]).key(0).ops(&[OP_ELSE, OP_RETURN, OP_ENDIF, OP_CHECKSIG]).sign(0).give(&[2]);
}

/// A result that is kept on the alternate stack.
pub fn altstack(d: &mut Draft<'_>) {
    d.ops(&[OP_TOALTSTACK]).key(0).ops(&[OP_CHECKSIGVERIFY, OP_FROMALTSTACK]);
    d.sign(0).give(&[1]);
}

/// Every numeric opcode.
pub fn numbers(d: &mut Draft<'_>) {
    for (operands, opcode, result) in [
        (&[2, 3][..], OP_ADD, 5),
        (&[5, 3], OP_SUB, 2),
        (&[2, 3], OP_MIN, 2),
        (&[2, 3], OP_MAX, 3),
        (&[1, 0], OP_BOOLOR, 1),
        (&[1, 2], OP_BOOLAND, 1),
        (&[2, 3], OP_NUMEQUAL, 0),
        (&[2, 3], OP_NUMNOTEQUAL, 1),
        (&[2, 3], OP_LESSTHAN, 1),
        (&[2, 3], OP_GREATERTHAN, 0),
        (&[3, 3], OP_LESSTHANOREQUAL, 1),
        (&[3, 3], OP_GREATERTHANOREQUAL, 1),
        (&[2, 1, 3], OP_WITHIN, 1),
        (&[2], OP_1ADD, 3),
        (&[2], OP_1SUB, 1),
        (&[2], OP_NOT, 0),
        (&[2], OP_0NOTEQUAL, 1),
    ] {
        for operand in operands {
            d.number(*operand);
        }
        d.ops(&[opcode]).number(result).ops(&[OP_NUMEQUALVERIFY]);
    }
    d.ops(&[OP_1NEGATE, OP_ABS, OP_NEGATE, OP_1NEGATE, OP_EQUALVERIFY]);
    d.key(0).ops(&[OP_CHECKSIG]).sign(0);
}

/// Every opcode that moves items of the stack. Beside each line stands what it leaves above the
/// signature.
#[rustfmt::skip]
pub fn juggling(d: &mut Draft<'_>) {
    d.number(1).number(2).number(3); // 1 2 3
    d.ops(&[OP_3DUP, OP_2DROP, OP_DROP]); // 1 2 3
    d.ops(&[OP_ROT, OP_SWAP, OP_TUCK]); // 2 3 1 3
    d.ops(&[OP_OVER, OP_NIP, OP_2DUP]); // 2 3 1 1 1 1
    d.ops(&[OP_2DROP, OP_2DROP]); // 2 3
    d.number(4).number(5).ops(&[OP_2SWAP]); // 4 5 2 3
    d.ops(&[OP_2OVER, OP_2ROT, OP_2DROP]); // 2 3 4 5
    d.ops(&[OP_DEPTH, OP_EQUALVERIFY]); // 2 3 4
    d.number(1).ops(&[OP_PICK]).number(3).ops(&[OP_EQUALVERIFY]); // 2 3 4
    d.number(2).ops(&[OP_ROLL]).number(2).ops(&[OP_EQUALVERIFY]); // 3 4
    d.ops(&[OP_DUP, OP_2DROP, OP_DROP]);
    d.key(0).ops(&[OP_CHECKSIG]).sign(0);
}

/// Opcodes that do nothing yet, and some that would fail if they were executed.
pub fn nops(d: &mut Draft<'_>) {
    d.ops(&[OP_NOP, OP_NOP1]).ops(&(OP_NOP4..=OP_NOP10).collect::<Vec<_>>());
    d.number(0).ops(&[OP_IF, OP_RETURN, OP_RESERVED, OP_ENDIF]);
    d.key(0).ops(&[OP_CHECKSIG]).sign(0);
}

/// A height of five bytes, of which four are not needed (BIP 65).
pub fn cltv_of_five_bytes(d: &mut Draft<'_>) {
    let height = 1 + d.choose(90) as u8;
    d.data(&[height, 0, 0, 0, 0]).ops(&[OP_CHECKLOCKTIMEVERIFY, OP_DROP]);
    d.key(0).ops(&[OP_CHECKSIG]).sign(0);
}

/// A relative lock that needs five bytes.
pub fn csv_of_five_bytes(d: &mut Draft<'_>) {
    d.data(&NO_LOCK).ops(&[OP_CHECKSEQUENCEVERIFY, OP_DROP]);
    d.key(0).ops(&[OP_CHECKSIG]).sign(0);
}

/// A signature before OP_CODESEPARATOR, and one after it.
pub fn separator(d: &mut Draft<'_>) {
    d.key(0).ops(&[OP_CHECKSIGVERIFY]);
    let after = d.separator();
    d.key(1).ops(&[OP_CHECKSIG]).sign_so(1, after, Make::Usual).sign(0);
}

/// OP_CODESEPARATOR in a branch that is not taken.
pub fn separator_not_run(d: &mut Draft<'_>) {
    d.number(0).ops(&[OP_IF]).separator();
    d.ops(&[OP_ENDIF]).key(0).ops(&[OP_CHECKSIG]).sign(0);
}

/// A script that contains its own signature, which is deleted from what it signs. The key is
/// computed when the rest is known.
pub fn find_and_delete(d: &mut Draft<'_>) {
    let key = d.own_signature(None);
    d.ops(&[OP_SWAP, OP_CHECKSIG]).items.push(key);
}

/// A script with OP_CHECKMULTISIG that contains its own signature, which is deleted from what it
/// signs.
pub fn find_and_delete_multisig(d: &mut Draft<'_>) {
    let key = d.own_signature(None);
    d.ops(&[OP_SWAP, OP_1, OP_SWAP, OP_1, OP_CHECKMULTISIG]).give(&[]).items.push(key);
}

/// A witness script that contains its own signature, from which nothing is deleted (BIP 143).
pub fn find_and_keep(d: &mut Draft<'_>) {
    let key = d.own_signature(Some(0));
    d.ops(&[OP_SWAP, OP_CHECKSIG]).items.push(key);
}

/// A spend by key with an annex.
pub fn annex(d: &mut Draft<'_>) {
    d.sign(0);
    add_annex(d);
}

/// A spend of a leaf with an annex.
pub fn annex_of_leaf(d: &mut Draft<'_>) {
    one_key(d);
    add_annex(d);
}

fn add_annex(d: &mut Draft<'_>) {
    let len = d.choose(300) as usize;
    let mut annex = d.random::<300>().to_vec();
    annex.truncate(len);
    annex.insert(0, 0x50);
    d.annex = Some(annex);
}

pub fn checksigadd_2_of_3(d: &mut Draft<'_>) {
    checksigadd(d, 2, 3);
}

pub fn checksigadd_of_20(d: &mut Draft<'_>) {
    let m = 1 + d.choose(10) as u8;
    checksigadd(d, m, 20);
}

fn checksigadd(d: &mut Draft<'_>, m: u8, n: u8) {
    d.key(0).ops(&[OP_CHECKSIG]);
    for key in 1..u32::from(n) {
        d.key(key).ops(&[OP_CHECKSIGADD]);
    }
    d.number(m).ops(&[OP_NUMEQUAL]);
    sign_some(d, m, n);
}

/// Data in a branch that is never taken, then a key.
pub fn envelope_before(d: &mut Draft<'_>) {
    envelope(d);
    one_key(d);
}

/// A key, then data in a branch that is never taken.
pub fn envelope_after(d: &mut Draft<'_>) {
    one_key(d);
    envelope(d);
}

fn envelope(d: &mut Draft<'_>) {
    let data = d.random::<520>();
    d.number(0).ops(&[OP_IF]).data(b"ord").data(&[1]).data(b"text/plain").number(0);
    for _ in 0..d.choose(3) {
        d.data(&data);
    }
    d.data(&data[..20]).ops(&[OP_ENDIF]);
}

/// A key of a length that BIP 342 leaves to the future: any signature is valid.
pub fn unknown_key(d: &mut Draft<'_>) {
    let key = d.random::<33>();
    d.data(&key).ops(&[OP_CHECKSIG]).give(&[7]);
}

/// An opcode that makes every leaf valid (BIP 342).
pub fn op_success(d: &mut Draft<'_>) {
    d.ops(&[OP_RETURN, OP_RESERVED]).give(&[3; 3]);
}

/// Bytes that are no script.
pub fn nonsense(d: &mut Draft<'_>) {
    let bytes = d.random::<50>();
    d.ops(&bytes).give(&bytes[..9]);
}

/// A witness program of an unknown version, 2 to 16.
pub fn unknown_version(d: &mut Draft<'_>) {
    let version = 2 + d.choose(15) as u8;
    program(d, version);
}

/// A witness program of version 1 that is not 32 bytes long.
pub fn unknown_length(d: &mut Draft<'_>) {
    program(d, 1);
}

fn program(d: &mut Draft<'_>, version: u8) {
    let len = 3 + d.choose(29) as usize;
    let bytes = d.random::<40>();
    d.number(version).data(&bytes[..len]);
    if d.place == Place::Program {
        d.give(&bytes);
    }
}

/// A Taproot program as a redeem script, which anyone can spend (BIP 341).
pub fn taproot_program(d: &mut Draft<'_>) {
    let key = d.ring.key(d.index(0)).xonly();
    d.number(1).data(&key);
}
