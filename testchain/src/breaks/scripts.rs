//! Failures inside scripts: outputs with odd scripts, made and spent in the block.

use bitcoin::ScriptBuf;
use bitcoin::XOnlyPublicKey;
use bitcoin::secp256k1::Secp256k1;
use bitcoin::taproot::{LeafVersion, TaprootBuilder};

use super::site::{Site, spend};
use super::{Break, Case};

/// An output script, and the input script and witness that spend it.
type Lock = (Vec<u8>, Vec<u8>, Vec<Vec<u8>>);

pub fn case(site: &Site<'_>, rule: Break) -> Option<Case> {
    let (sound, broken) = bare(rule)
        .or_else(|| limits(rule))
        .or_else(|| witness_v0(rule))
        .or_else(|| tapscript(site, rule))?;
    let [sound, broken] = [sound, broken].map(|(script, script_sig, witness)| {
        let parent = site.fund(&[script]);
        let child = spend(&parent, &[(0, script_sig, witness)]);
        [parent, child]
    });
    Some(site.case(sound, broken))
}

fn plain(script: impl Into<Vec<u8>>, script_sig: impl Into<Vec<u8>>) -> Lock {
    (script.into(), script_sig.into(), vec![])
}

/// The same script, spent with each of two input scripts.
fn both(script: &[u8], sound: &[u8], broken: &[u8]) -> Option<(Lock, Lock)> {
    Some((plain(script, sound), plain(script, broken)))
}

fn bare(rule: Break) -> Option<(Lock, Lock)> {
    let key = [2; 33];
    let keyed = |before: &[u8], after: &[u8]| [before, &[33], &key, after].concat();
    match rule {
        // OP_IF <opcode> OP_ENDIF OP_1
        Break::ScriptOpReturn => both(&[0x63, 0x6a, 0x68, 0x51], &[0x00], &[0x51]),
        Break::ScriptBadOpcode => both(&[0x63, 0x50, 0x68, 0x51], &[0x00], &[0x51]),
        // OP_VERIFY OP_1
        Break::ScriptVerify => both(&[0x69, 0x51], &[0x51], &[0x00]),
        // OP_1 OP_NUMEQUALVERIFY OP_1
        Break::ScriptNumEqualVerify => both(&[0x51, 0x9d, 0x51], &[0x51], &[0x52]),
        // <key> OP_CHECKSIGVERIFY OP_1, and without VERIFY
        Break::ScriptCheckSigVerify => Some((
            plain(keyed(&[], &[0xac, 0x51]), [0x00]),
            plain(keyed(&[], &[0xad, 0x51]), [0x00]),
        )),
        // OP_0 or OP_1, <key> OP_1 OP_CHECKMULTISIGVERIFY OP_1
        Break::ScriptCheckMultisigVerify => Some((
            plain(keyed(&[0x00], &[0x51, 0xaf, 0x51]), [0x00]),
            plain(keyed(&[0x51], &[0x51, 0xaf, 0x51]), [0x00, 0x00]),
        )),
        Break::ScriptFalse => both(&[], &[0x51], &[0x00]),
        // OP_DROP OP_1
        Break::ScriptStackUnderflow => both(&[0x75, 0x51], &[0x51], &[]),
        // OP_1 OP_TOALTSTACK OP_FROMALTSTACK, and the last alone
        Break::ScriptAltStackUnderflow => Some((plain([0x51, 0x6b, 0x6c], []), plain([0x6c], []))),
        Break::ScriptUnbalanced => {
            Some((plain([0x63, 0x51, 0x68], [0x51]), plain([0x63, 0x51], [0x51])))
        }
        // OP_1 OP_1 OP_BOOLAND, and OP_CAT
        Break::ScriptDisabledOpcode => {
            Some((plain([0x51, 0x51, 0x9a], []), plain([0x51, 0x51, 0x7e], [])))
        }
        // OP_0 OP_0 OP_0 OP_CHECKMULTISIG, and with 21 keys, or 1 signature
        Break::ScriptPubkeyCount => {
            Some((plain([0, 0, 0, 0xae], []), plain([0, 0, 1, 21, 0xae], [])))
        }
        Break::ScriptSigCount => Some((plain([0, 0, 0, 0xae], []), plain([0, 0x51, 0, 0xae], []))),
        // OP_1ADD OP_DROP OP_1
        Break::ScriptNumber => both(&[0x8b, 0x75, 0x51], &[4, 1, 1, 1, 1], &[5, 1, 1, 1, 1, 1]),
        // OP_0 or OP_1NEGATE, OP_CHECKLOCKTIMEVERIFY or OP_CHECKSEQUENCEVERIFY, OP_DROP OP_1
        Break::CltvNegative => {
            Some((plain([0x00, 0xb1, 0x75, 0x51], []), plain([0x4f, 0xb1, 0x75, 0x51], [])))
        }
        Break::CsvNegative => {
            Some((plain([0x00, 0xb2, 0x75, 0x51], []), plain([0x4f, 0xb2, 0x75, 0x51], [])))
        }
        _ => None,
    }
}

/// A push of `len` bytes, 256 to 65,535.
fn long_push(len: usize) -> Vec<u8> {
    let mut script = vec![0x4d, len as u8, (len >> 8) as u8];
    script.resize(3 + len, 1);
    script
}

/// Pushes that fill `len` bytes, about 10,000, each followed by `after`.
fn pushes(len: usize, after: &[u8]) -> Vec<u8> {
    let mut script = [long_push(520), after.to_vec()].concat().repeat(18);
    let rest = len - script.len() - 3 - after.len();
    // Two more, as one push of the rest would be too long.
    let half = (rest - 3 - after.len()) / 2;
    for part in [half, rest - 3 - after.len() - half] {
        script.extend(long_push(part));
        script.extend_from_slice(after);
    }
    script
}

fn limits(rule: Break) -> Option<(Lock, Lock)> {
    match rule {
        // OP_DROP OP_1
        Break::ScriptPushSize => both(&[0x75, 0x51], &long_push(520), &long_push(521)),
        Break::ScriptOpCount => {
            let script = |nops| [vec![0x61; nops], vec![0x51]].concat();
            Some((plain(script(201), []), plain(script(202), [])))
        }
        Break::ScriptSize => both(&[0x51], &pushes(10_000, &[]), &pushes(10_001, &[])),
        Break::ScriptStackSize => both(&[0x51], &[0x51; 999], &[0x51; 1_000]),
        _ => None,
    }
}

fn witness_v0(rule: Break) -> Option<(Lock, Lock)> {
    let lock = |script: Vec<u8>, mut items: Vec<Vec<u8>>| {
        let program = ScriptBuf::from(script.clone()).to_p2wsh().into_bytes();
        items.push(script);
        (program, vec![], items)
    };
    match rule {
        Break::WitnessCleanStack => {
            Some((lock(vec![0x51], vec![]), lock(vec![0x51], vec![vec![1]])))
        }
        // OP_DROP OP_1
        Break::WitnessPushSize => {
            let item = |len| vec![vec![1; len]];
            Some((lock(vec![0x75, 0x51], item(520)), lock(vec![0x75, 0x51], item(521))))
        }
        Break::WitnessScriptSize => {
            let script = |len: usize| [pushes(len - 1, &[0x75]), vec![0x51]].concat();
            Some((lock(script(10_000), vec![]), lock(script(10_001), vec![])))
        }
        // OP_2 or OP_0, and ten bytes
        Break::WitnessProgramLength => {
            let script = |version: u8| [&[version, 10][..], &[7; 10]].concat();
            Some((plain(script(0x52), []), plain(script(0x00), [])))
        }
        _ => None,
    }
}

fn tapscript(site: &Site<'_>, rule: Break) -> Option<(Lock, Lock)> {
    let lock = |leaf: &[u8], items: &[&[u8]]| taproot(site, leaf, items);
    match rule {
        Break::TapscriptMultisig => {
            Some((lock(&[0x51], &[]), lock(&[0x00, 0x00, 0x00, 0xae], &[])))
        }
        // OP_IF OP_1 OP_ELSE OP_1 OP_ENDIF
        Break::TapscriptMinimalIf => {
            let leaf = [0x63, 0x51, 0x67, 0x51, 0x68];
            Some((lock(&leaf, &[&[1]]), lock(&leaf, &[&[2]])))
        }
        // OP_0 <key> OP_CHECKSIG OP_DROP OP_1: a key of one byte is of a version to come.
        Break::TapscriptEmptyPubkey => Some((
            lock(&[0x00, 0x51, 0xac, 0x75, 0x51], &[]),
            lock(&[0x00, 0x00, 0xac, 0x75, 0x51], &[]),
        )),
        // OP_1 <key> OP_CHECKSIG OP_DROP, some times, OP_1: each costs 50, 6 bytes pay for it.
        Break::TapscriptValidationWeight => {
            let leaf = |times| [[0x51, 0x51, 0xac, 0x75].repeat(times), vec![0x51]].concat();
            Some((lock(&leaf(1), &[]), lock(&leaf(3), &[])))
        }
        Break::TapscriptCleanStack => Some((lock(&[0x51], &[]), lock(&[0x51], &[&[1]]))),
        _ => None,
    }
}

/// An output with one leaf, and the witness that spends it.
fn taproot(site: &Site<'_>, leaf: &[u8], items: &[&[u8]]) -> Lock {
    let secp = Secp256k1::verification_only();
    let internal = XOnlyPublicKey::from_slice(&site.keys().key(0).internal).expect("a key");
    let leaf = ScriptBuf::from(leaf.to_vec());
    let builder = TaprootBuilder::with_huffman_tree([(1, leaf.clone())]).expect("one leaf");
    let info = builder.finalize(&secp, internal).expect("the only leaf is the whole tree");
    let control = info.control_block(&(leaf.clone(), LeafVersion::TapScript)).expect("its leaf");
    let script = ScriptBuf::new_p2tr_tweaked(info.output_key()).into_bytes();
    let mut witness: Vec<_> = items.iter().map(|item| item.to_vec()).collect();
    witness.extend([leaf.into_bytes(), control.serialize()]);
    (script, vec![], witness)
}
