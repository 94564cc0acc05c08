//! The limit on signature operations: 80,000 in all, where each outside a witness counts as four.

use bitcoin::ScriptBuf;

use super::site::{Site, spend};
use super::{Break, Case};
use crate::opcodes::{OP_0, OP_1, OP_CHECKMULTISIG, OP_CHECKSIG, OP_ENDIF, OP_IF, OP_PUSHDATA1};

/// Maximum number of OP_CHECKMULTISIG in one script, as OP_IF and OP_ENDIF are operations too; each
/// counts as 20 signature operations.
const MULTISIGS_MAX: usize = 199;

pub fn case(site: &Site<'_>, rule: Break) -> Option<Case> {
    let build = match rule {
        Break::BadBlkSigopsLegacy => legacy,
        Break::BadBlkSigopsP2sh => p2sh,
        Break::BadBlkSigopsWitness => p2wsh,
        _ => return None,
    };
    Some(Case { sound: build(site, 0), broken: build(site, 1) })
}

fn legacy(site: &Site<'_>, more: usize) -> bitcoin::Block {
    site.block([site.fund(&[vec![OP_CHECKSIG; 20_000 + more]])])
}

fn p2sh(site: &Site<'_>, more: usize) -> bitcoin::Block {
    let scripts = counting(1_000, more);
    let outputs: Vec<_> = scripts.iter().map(|s| ScriptBuf::from(s.clone()).to_p2sh()).collect();
    let parent = site.fund(&outputs.into_iter().map(ScriptBuf::into_bytes).collect::<Vec<_>>());
    let push = |script: &Vec<u8>| [&[OP_PUSHDATA1, script.len() as u8][..], script].concat();
    let unlocks: Vec<_> =
        (0..).zip(&scripts).map(|(vout, script)| (vout, push(script), vec![])).collect();
    let child = spend(&parent, &unlocks);
    site.block([parent, child])
}

fn p2wsh(site: &Site<'_>, more: usize) -> bitcoin::Block {
    let scripts = counting(4_000, more);
    let outputs: Vec<_> = scripts.iter().map(|s| ScriptBuf::from(s.clone()).to_p2wsh()).collect();
    let parent = site.fund(&outputs.into_iter().map(ScriptBuf::into_bytes).collect::<Vec<_>>());
    let unlocks: Vec<_> =
        (0..).zip(scripts).map(|(vout, script)| (vout, vec![], vec![script])).collect();
    let child = spend(&parent, &unlocks);
    site.block([parent, child])
}

/// Returns scripts that together have `multisigs` OP_CHECKMULTISIG and `checksigs` OP_CHECKSIG,
/// none of which is ever executed.
fn counting(mut multisigs: usize, checksigs: usize) -> Vec<Vec<u8>> {
    let mut scripts = Vec::new();
    while multisigs > 0 {
        let now = multisigs.min(MULTISIGS_MAX);
        multisigs -= now;
        let mut script = vec![OP_0, OP_IF];
        script.resize(2 + now, OP_CHECKMULTISIG);
        if multisigs == 0 {
            script.resize(script.len() + checksigs, OP_CHECKSIG);
        }
        script.extend_from_slice(&[OP_ENDIF, OP_1]);
        scripts.push(script);
    }
    scripts
}
