//! Scripts, compared with Core's engine.

use apus_scripts::sighash::TxSighash;
use apus_scripts::{FastScripts, FastVerdict, TxScripts};
use apus_wire::{BlockView, Prevout, flags};
use bitcoin::absolute::LockTime;
use bitcoin::consensus::{deserialize, serialize};
use bitcoin::hashes::{Hash, hash160, sha256};
use bitcoin::taproot::{LeafVersion, TaprootBuilder};
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, WitnessProgram,
    WitnessVersion, XOnlyPublicKey,
};

use super::input::flags as choices;

/// The largest size of an element that a spend puts on the stack, in bytes.
const ELEMENT_BYTES_MAX: usize = 600;

/// The internal key of outputs with a leaf, which is the x coordinate of the base point.
const INTERNAL_KEY: [u8; 32] = [
    0x79, 0xbe, 0x66, 0x7e, 0xf9, 0xdc, 0xbb, 0xac, 0x55, 0xa0, 0x62, 0x95, 0xce, 0x87, 0x0b, 0x07,
    0x02, 0x9b, 0xfc, 0xdb, 0x2d, 0xce, 0x28, 0xd9, 0x59, 0xf2, 0x81, 0x5b, 0x16, 0xf8, 0x17, 0x98,
];

/// Reads `data` as a script and the stack that it runs on. The first byte says how the output
/// commits to the script, and under which rules; the second is the number of elements that the
/// spend puts on the stack. Each element has two bytes for its length. The rest is the script. If
/// bit 6 of the first byte is set, the rest is a whole transaction with the outputs that it spends.
///
/// What is valid by the fast engine must be valid for Core's engine.
pub fn run(data: &[u8]) {
    let (kind, data) = choices(data);
    if kind & 0x40 != 0 {
        return run_transaction(kind, data);
    }
    let (count, mut data) = choices(data);
    let mut elements = Vec::new();
    for _ in 0..count {
        let Some((len, rest)) = data.split_first_chunk::<2>() else { break };
        let len = usize::from(u16::from_le_bytes(*len)) % ELEMENT_BYTES_MAX;
        let (element, rest) = rest.split_at(len.min(rest.len()));
        elements.push(element.to_vec());
        data = rest;
    }
    let (output, script_sig, witness) = spend(kind, elements, data);
    let tx = Transaction {
        version: Version::TWO,
        lock_time: LockTime::from_consensus(650_000),
        input: vec![TxIn {
            previous_output: OutPoint::default(),
            script_sig,
            sequence: Sequence(10),
            witness: Witness::from_slice(&witness),
        }],
        output: vec![TxOut { value: Amount::from_sat(900), script_pubkey: ScriptBuf::new() }],
    };
    judge(kind, &tx, &[TxOut { value: Amount::from_sat(1000), script_pubkey: output }]);
}

/// Returns the output's script, the scriptSig and the witness that lead to a script.
fn spend(
    kind: u8,
    mut elements: Vec<Vec<u8>>,
    script: &[u8],
) -> (ScriptBuf, ScriptBuf, Vec<Vec<u8>>) {
    let script = ScriptBuf::from(script.to_vec());
    let p2sh =
        |script: &ScriptBuf| ScriptBuf::new_p2sh(&hash160::Hash::hash(script.as_bytes()).into());
    let v0 = WitnessProgram::new(WitnessVersion::V0, &sha256::Hash::hash(script.as_bytes())[..]);
    let v0 = ScriptBuf::new_witness_program(&v0.expect("32 bytes"));
    match kind % 5 {
        0 => (script, pushes(&elements), vec![]),
        1 => {
            elements.push(script.to_bytes());
            (p2sh(&script), pushes(&elements), vec![])
        }
        2 => {
            elements.push(script.to_bytes());
            (v0, ScriptBuf::new(), elements)
        }
        3 => {
            elements.push(script.to_bytes());
            (p2sh(&v0), pushes(&[v0.to_bytes()]), elements)
        }
        _ => {
            let secp = bitcoin::secp256k1::Secp256k1::verification_only();
            let key = XOnlyPublicKey::from_slice(&INTERNAL_KEY).expect("the x of a point");
            let tree = TaprootBuilder::new().add_leaf(0, script.clone()).expect("one leaf");
            let info = tree.finalize(&secp, key).expect("a whole tree");
            let control = info.control_block(&(script.clone(), LeafVersion::TapScript));
            elements.push(script.to_bytes());
            elements.push(control.expect("the leaf is there").serialize());
            (ScriptBuf::new_p2tr_tweaked(info.output_key()), ScriptBuf::new(), elements)
        }
    }
}

/// Returns a scriptSig that pushes these elements.
fn pushes(elements: &[Vec<u8>]) -> ScriptBuf {
    let mut script = Vec::new();
    for element in elements {
        match element.len() {
            len @ 0..0x4c => script.push(len as u8),
            len => script.extend([&[0x4d][..], &(len as u16).to_le_bytes()].concat()),
        }
        script.extend_from_slice(element);
    }
    ScriptBuf::from(script)
}

/// Reads two bytes for the length of the spent outputs, these outputs, and a transaction.
fn run_transaction(kind: u8, data: &[u8]) {
    let Some((len, rest)) = data.split_first_chunk::<2>() else { return };
    let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
    let (spent, tx) = rest.split_at(len);
    let (Ok(tx), Ok(spent)) = (deserialize::<Transaction>(tx), deserialize::<Vec<TxOut>>(spent))
    else {
        return;
    };
    if tx.input.is_empty() || spent.len() != tx.input.len() {
        return;
    }
    judge(kind, &tx, &spent);
}

/// Compares the fast engine with the engine.
fn judge(kind: u8, tx: &Transaction, spent: &[TxOut]) {
    let optional =
        flags::DERSIG | flags::NULLDUMMY | flags::CHECKLOCKTIMEVERIFY | flags::CHECKSEQUENCEVERIFY;
    let needed = flags::P2SH | flags::WITNESS | flags::TAPROOT;
    let all = if kind & 0x80 == 0 { needed | optional } else { needed };
    let block = [&[0; 80][..], &[1], &serialize(tx)].concat();
    let view = BlockView::parse(&block).expect("a transaction is well-formed");
    let prevouts: Vec<Prevout> = spent
        .iter()
        .map(|spent| Prevout {
            amount: spent.value.to_sat() as i64,
            script: spent.script_pubkey.as_bytes(),
            height: 1,
            is_coinbase: false,
        })
        .collect();
    let mut messages = TxSighash::new(view.tx(0), &prevouts, None);
    let mut fast = FastScripts::new(None);
    (0..spent.len()).for_each(|input| fast.add(&mut messages, input, all));
    let engine = TxScripts::new(&view.tx(0), &prevouts, all);
    for (input, verdict) in fast.decide().into_iter().enumerate() {
        if verdict == FastVerdict::Valid {
            let engine = engine.as_ref().expect("the engine reads the transaction");
            assert!(engine.check_input(input).is_ok(), "input {input} is not valid");
        }
    }
}
