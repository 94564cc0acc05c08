//! Failures inside scripts: outputs with odd scripts, created and spent in the block.

use bitcoin::ScriptBuf;
use bitcoin::XOnlyPublicKey;
use bitcoin::secp256k1::Secp256k1;
use bitcoin::taproot::{LeafVersion, TaprootBuilder};

use super::site::{Site, spend};
use super::{Break, Case};
use crate::opcodes::{
    OP_0, OP_1, OP_1ADD, OP_1NEGATE, OP_2, OP_BOOLAND, OP_CAT, OP_CHECKLOCKTIMEVERIFY,
    OP_CHECKMULTISIG, OP_CHECKMULTISIGVERIFY, OP_CHECKSEQUENCEVERIFY, OP_CHECKSIG,
    OP_CHECKSIGVERIFY, OP_DROP, OP_ELSE, OP_ENDIF, OP_FROMALTSTACK, OP_IF, OP_NOP,
    OP_NUMEQUALVERIFY, OP_PUSHDATA2, OP_RESERVED, OP_RETURN, OP_TOALTSTACK, OP_VERIFY,
};

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

/// Returns the same script, spent with each of two input scripts.
fn both(script: &[u8], sound: &[u8], broken: &[u8]) -> Option<(Lock, Lock)> {
    Some((plain(script, sound), plain(script, broken)))
}

fn bare(rule: Break) -> Option<(Lock, Lock)> {
    let key = [2; 33];
    let keyed = |before: &[u8], after: &[u8]| [before, &[33], &key, after].concat();
    match rule {
        Break::ScriptOpReturn => both(&[OP_IF, OP_RETURN, OP_ENDIF, OP_1], &[OP_0], &[OP_1]),
        Break::ScriptBadOpcode => both(&[OP_IF, OP_RESERVED, OP_ENDIF, OP_1], &[OP_0], &[OP_1]),
        Break::ScriptVerify => both(&[OP_VERIFY, OP_1], &[OP_1], &[OP_0]),
        Break::ScriptNumEqualVerify => both(&[OP_1, OP_NUMEQUALVERIFY, OP_1], &[OP_1], &[OP_2]),
        Break::ScriptCheckSigVerify => Some((
            plain(keyed(&[], &[OP_CHECKSIG, OP_1]), [OP_0]),
            plain(keyed(&[], &[OP_CHECKSIGVERIFY, OP_1]), [OP_0]),
        )),
        Break::ScriptCheckMultisigVerify => Some((
            plain(keyed(&[OP_0], &[OP_1, OP_CHECKMULTISIGVERIFY, OP_1]), [OP_0]),
            plain(keyed(&[OP_1], &[OP_1, OP_CHECKMULTISIGVERIFY, OP_1]), [OP_0, OP_0]),
        )),
        Break::ScriptFalse => both(&[], &[OP_1], &[OP_0]),
        Break::ScriptStackUnderflow => both(&[OP_DROP, OP_1], &[OP_1], &[]),
        Break::ScriptAltStackUnderflow => {
            Some((plain([OP_1, OP_TOALTSTACK, OP_FROMALTSTACK], []), plain([OP_FROMALTSTACK], [])))
        }
        Break::ScriptUnbalanced => {
            Some((plain([OP_IF, OP_1, OP_ENDIF], [OP_1]), plain([OP_IF, OP_1], [OP_1])))
        }
        Break::ScriptDisabledOpcode => {
            Some((plain([OP_1, OP_1, OP_BOOLAND], []), plain([OP_1, OP_1, OP_CAT], [])))
        }
        Break::ScriptPubkeyCount => Some((
            plain([0, 0, 0, OP_CHECKMULTISIG], []),
            plain([0, 0, 1, 21, OP_CHECKMULTISIG], []),
        )),
        Break::ScriptSigCount => Some((
            plain([0, 0, 0, OP_CHECKMULTISIG], []),
            plain([0, OP_1, 0, OP_CHECKMULTISIG], []),
        )),
        Break::ScriptNumber => {
            both(&[OP_1ADD, OP_DROP, OP_1], &[4, 1, 1, 1, 1], &[5, 1, 1, 1, 1, 1])
        }
        Break::CltvNegative => Some((
            plain([OP_0, OP_CHECKLOCKTIMEVERIFY, OP_DROP, OP_1], []),
            plain([OP_1NEGATE, OP_CHECKLOCKTIMEVERIFY, OP_DROP, OP_1], []),
        )),
        Break::CsvNegative => Some((
            plain([OP_0, OP_CHECKSEQUENCEVERIFY, OP_DROP, OP_1], []),
            plain([OP_1NEGATE, OP_CHECKSEQUENCEVERIFY, OP_DROP, OP_1], []),
        )),
        _ => None,
    }
}

/// Returns a push of `len` bytes, 256 to 65,535.
fn long_push(len: usize) -> Vec<u8> {
    let mut script = vec![OP_PUSHDATA2, len as u8, (len >> 8) as u8];
    script.resize(3 + len, 1);
    script
}

/// Returns pushes that fill `len` bytes, about 10,000, each followed by `after`.
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
        Break::ScriptPushSize => both(&[OP_DROP, OP_1], &long_push(520), &long_push(521)),
        Break::ScriptOpCount => {
            let script = |nops| [vec![OP_NOP; nops], vec![OP_1]].concat();
            Some((plain(script(201), []), plain(script(202), [])))
        }
        Break::ScriptSize => both(&[OP_1], &pushes(10_000, &[]), &pushes(10_001, &[])),
        Break::ScriptStackSize => both(&[OP_1], &[OP_1; 999], &[OP_1; 1_000]),
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
            Some((lock(vec![OP_1], vec![]), lock(vec![OP_1], vec![vec![1]])))
        }
        Break::WitnessPushSize => {
            let item = |len| vec![vec![1; len]];
            Some((lock(vec![OP_DROP, OP_1], item(520)), lock(vec![OP_DROP, OP_1], item(521))))
        }
        Break::WitnessScriptSize => {
            let script = |len: usize| [pushes(len - 1, &[OP_DROP]), vec![OP_1]].concat();
            Some((lock(script(10_000), vec![]), lock(script(10_001), vec![])))
        }
        Break::WitnessProgramLength => {
            let script = |version: u8| [&[version, 10][..], &[7; 10]].concat();
            Some((plain(script(OP_2), []), plain(script(OP_0), [])))
        }
        _ => None,
    }
}

fn tapscript(site: &Site<'_>, rule: Break) -> Option<(Lock, Lock)> {
    let lock = |leaf: &[u8], items: &[&[u8]]| taproot(site, leaf, items);
    match rule {
        Break::TapscriptMultisig => {
            Some((lock(&[OP_1], &[]), lock(&[OP_0, OP_0, OP_0, OP_CHECKMULTISIG], &[])))
        }
        Break::TapscriptMinimalIf => {
            let leaf = [OP_IF, OP_1, OP_ELSE, OP_1, OP_ENDIF];
            Some((lock(&leaf, &[&[1]]), lock(&leaf, &[&[2]])))
        }
        // OP_0 <key> OP_CHECKSIG OP_DROP OP_1: a key of one byte is of an unknown type.
        Break::TapscriptEmptyPubkey => Some((
            lock(&[OP_0, OP_1, OP_CHECKSIG, OP_DROP, OP_1], &[]),
            lock(&[OP_0, OP_0, OP_CHECKSIG, OP_DROP, OP_1], &[]),
        )),
        // OP_1 <key> OP_CHECKSIG OP_DROP, repeated, then OP_1: a check costs 50, more than its
        // bytes pay for.
        Break::TapscriptValidationWeight => {
            let leaf =
                |times| [[OP_1, OP_1, OP_CHECKSIG, OP_DROP].repeat(times), vec![OP_1]].concat();
            Some((lock(&leaf(1), &[]), lock(&leaf(3), &[])))
        }
        Break::TapscriptCleanStack => Some((lock(&[OP_1], &[]), lock(&[OP_1], &[&[1]]))),
        _ => None,
    }
}

/// Returns an output with one leaf, and the witness that spends it.
fn taproot(site: &Site<'_>, leaf: &[u8], items: &[&[u8]]) -> Lock {
    let secp = Secp256k1::verification_only();
    let internal = XOnlyPublicKey::from_slice(&site.keys().ring().key(0).xonly()).expect("a key");
    let leaf = ScriptBuf::from(leaf.to_vec());
    let builder = TaprootBuilder::with_huffman_tree([(1, leaf.clone())]).expect("one leaf");
    let info = builder.finalize(&secp, internal).expect("the only leaf is the whole tree");
    let control = info.control_block(&(leaf.clone(), LeafVersion::TapScript)).expect("its leaf");
    let script = ScriptBuf::new_p2tr_tweaked(info.output_key()).into_bytes();
    let mut witness: Vec<_> = items.iter().map(|item| item.to_vec()).collect();
    witness.extend([leaf.into_bytes(), control.serialize()]);
    (script, vec![], witness)
}
