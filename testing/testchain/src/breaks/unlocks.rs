//! Script failures of the common output types.

use bitcoin::transaction::Transaction;
use bitcoin::{Amount, ScriptBuf, Witness};

use super::site::Site;
use super::{Break, Case};
use crate::lock::Kind;
use crate::opcodes::{OP_1, OP_NOP};

pub fn case(site: &Site<'_>, rule: Break) -> Option<Case> {
    signatures(site, rule)
        .or_else(|| input_scripts(site, rule))
        .or_else(|| witnesses(site, rule))
        .or_else(|| locks(site, rule))
}

/// Returns a payment, and the same with a satoshi less than was signed.
fn signatures(site: &Site<'_>, rule: Break) -> Option<Case> {
    let kind = match rule {
        Break::P2pkhSignature => Kind::P2pkh,
        Break::P2pkhUncompressedSignature => Kind::P2pkhUncompressed,
        Break::P2pkSignature => Kind::P2pk,
        Break::MultisigSignature => Kind::Multisig,
        Break::P2shMultisigSignature => Kind::P2shMultisig,
        Break::P2wpkhSignature => Kind::P2wpkh,
        Break::P2shP2wpkhSignature => Kind::P2shP2wpkh,
        Break::P2wshMultisigSignature => Kind::P2wshMultisig,
        Break::P2trKeySignature => Kind::P2trKey,
        Break::P2trScriptSignature => Kind::P2trScript,
        _ => return None,
    };
    Some(tampered(site, kind, |tx| tx.output[0].value -= Amount::from_sat(1)))
}

/// Returns a payment of a coin of `kind`, and the same after a change.
fn tampered(site: &Site<'_>, kind: Kind, change: impl FnOnce(&mut Transaction)) -> Case {
    let sound = site.pay(kind);
    let mut broken = sound.clone();
    change(&mut broken);
    site.case([sound], [broken])
}

fn input_scripts(site: &Site<'_>, rule: Break) -> Option<Case> {
    let kind = match rule {
        Break::P2pkhNotDer | Break::P2pkhKey | Break::WitnessUnexpected => Kind::P2pkh,
        Break::MultisigNullDummy => Kind::Multisig,
        Break::P2shMultisigNullDummy | Break::P2shRedeemScript | Break::P2shNotPushOnly => {
            Kind::P2shMultisig
        }
        Break::WitnessMalleated => Kind::P2wpkh,
        Break::WitnessMalleatedP2sh => Kind::P2shP2wpkh,
        _ => return None,
    };
    let other_key = site.other_key(kind);
    Some(tampered(site, kind, |tx| {
        let input = &mut tx.input[0];
        let mut script = input.script_sig.to_bytes();
        let len = script.len();
        match rule {
            Break::P2pkhNotDer => {
                let end = 1 + usize::from(script[0]);
                let signature = padded_der(&script[1..end]);
                script.splice(..end, [vec![signature.len() as u8], signature].concat());
            }
            Break::P2pkhKey => script[len - 33..].copy_from_slice(&other_key),
            Break::WitnessUnexpected => input.witness = Witness::from_slice(&[[1]]),
            Break::MultisigNullDummy | Break::P2shMultisigNullDummy => script[0] = OP_1,
            Break::P2shRedeemScript => script[len - 1] ^= 1,
            Break::P2shNotPushOnly => script.insert(0, OP_NOP),
            _ => script.insert(0, OP_1),
        }
        input.script_sig = ScriptBuf::from(script);
    }))
}

/// Returns a DER signature with a superfluous zero byte before R.
fn padded_der(signature: &[u8]) -> Vec<u8> {
    let mut padded = signature.to_vec();
    padded[1] += 1;
    padded[3] += 1;
    padded.insert(4, 0);
    padded
}

fn witnesses(site: &Site<'_>, rule: Break) -> Option<Case> {
    let kind = match rule {
        Break::P2wpkhNotDer
        | Break::P2wpkhKey
        | Break::P2wpkhWitnessItems
        | Break::P2wpkhWitnessEmpty => Kind::P2wpkh,
        Break::P2wshMultisigNullDummy | Break::P2wshWitnessScript | Break::P2wshWitnessEmpty => {
            Kind::P2wshMultisig
        }
        Break::P2trWitnessEmpty | Break::P2trSignatureSize | Break::P2trHashType => Kind::P2trKey,
        Break::P2trControlSize | Break::P2trCommitment | Break::P2trLeaf => Kind::P2trScript,
        _ => return None,
    };
    let other_key = site.other_key(kind);
    Some(tampered(site, kind, |tx| {
        let mut items = tx.input[0].witness.to_vec();
        let last = items.len() - 1;
        match rule {
            Break::P2wpkhNotDer => items[0] = padded_der(&items[0]),
            Break::P2wpkhKey => items[1] = other_key.to_vec(),
            Break::P2wpkhWitnessItems => items.push(vec![1]),
            Break::P2wshMultisigNullDummy => items[0] = vec![1],
            Break::P2wshWitnessScript => items[last][0] ^= 1,
            Break::P2trSignatureSize => items[0].truncate(63),
            Break::P2trHashType => items[0].push(0),
            Break::P2trControlSize => items[last].push(0),
            Break::P2trCommitment => items[last][0] ^= 1,
            Break::P2trLeaf => items[1][1] ^= 1,
            _ => items.clear(),
        }
        tx.input[0].witness = Witness::from_slice(&items);
    }))
}

/// Absolute and relative lock times that a script requires.
fn locks(site: &Site<'_>, rule: Break) -> Option<Case> {
    let payment = match rule {
        Break::CltvHeight | Break::CltvTimeForHeight | Break::CltvFinal => {
            let coin = site.coin(Kind::P2wshCltv);
            let mut payment = site.payment_of(coin);
            payment.lock_time = coin.lock.cltv_height();
            payment
        }
        Break::CsvHeight | Break::CsvVersion | Break::CsvDisabled => {
            let coins = site.chain.spendable(Kind::P2wshCsv);
            let coin = coins.into_iter().find(|coin| coin.lock.csv_blocks() > 0);
            let coin = coin.expect("the chain has a coin of every kind");
            let mut payment = site.payment_of(coin);
            payment.inputs[0].sequence = coin.lock.csv_blocks();
            payment
        }
        _ => return None,
    };
    let mut broken = payment.clone();
    match rule {
        Break::CltvHeight => broken.lock_time -= 1,
        Break::CltvTimeForHeight => broken.lock_time = 500_000_000,
        Break::CltvFinal => broken.inputs[0].sequence = u32::MAX,
        Break::CsvHeight => broken.inputs[0].sequence -= 1,
        Break::CsvVersion => broken.version = 1,
        _ => broken.inputs[0].sequence |= 1 << 31,
    }
    let [sound, broken] = [payment, broken].map(|payment| payment.to_transaction(site.keys()));
    Some(site.case([sound], [broken]))
}
