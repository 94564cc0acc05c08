//! `decoderawtransaction` and `decodescript`.

use apus_descriptors::{Provider, ScriptKind, address};
use apus_hash::sha256d;
use apus_wire::{BlockView, Chain, Cursor, HEADER_BYTES, Ops, TxView, is_unspendable};
use bitcoin::Script;
use bitcoin::hashes::{Hash as _, hash160};
use serde::Serialize;

use super::error::{RPC_DESERIALIZATION_ERROR, RPC_INVALID_PARAMETER, RpcError};
use super::json::{Json, from_hex, json};
use super::params;
use super::script::ScriptPubKey;
use super::source::Call;
use super::transaction::{Spent, Transaction};

/// The greatest opcode that is defined (Core's `MAX_OPCODE`).
const OP_NOP10: u8 = 0xb9;
/// The most bytes that a script may push at once (Core's `MAX_SCRIPT_ELEMENT_SIZE`).
const PUSH_BYTES_MAX: usize = 520;
/// The most bytes of a script (Core's `MAX_SCRIPT_SIZE`).
const SCRIPT_BYTES_MAX: usize = 10_000;
/// An input of 41 bytes.
const SOME_INPUT: [u8; 41] = [0; 41];

/// A transaction as the only one of a block, whose header is not used.
struct Decoded {
    view: BlockView<Vec<u8>>,
    /// The bytes of a transaction without inputs; the view then has an input that is not there.
    without_inputs: Option<Vec<u8>>,
}

/// `decoderawtransaction`.
pub fn decoderawtransaction(call: &Call) -> Result<Json, RpcError> {
    let is_witness = match call.param(1) {
        value if value.is_null() => None,
        value => Some(params::boolean(value)?),
    };
    let bytes = from_hex(params::text(call.param(0))?).filter(|bytes| !bytes.is_empty());
    let decoded = bytes.and_then(|bytes| decode(&bytes, is_witness));
    let decoded =
        decoded.ok_or_else(|| RpcError::new(RPC_DESERIALIZATION_ERROR, "TX decode failed"))?;
    let tx = decoded.view.tx(0);
    let chain = call.source.chain();
    Ok(json(&match &decoded.without_inputs {
        None => Transaction::new(tx, Spent::Unknown, chain).without_hex(),
        Some(bytes) => {
            let id = sha256d(bytes);
            let whole = Transaction::with_ids(tx, (id, id), Spent::Unknown, chain);
            whole.without_hex().without_inputs(bytes.len())
        }
    }))
}

/// Decodes a transaction with or without witnesses, as is known, or else as is likely (Core's
/// `DecodeTx`).
fn decode(bytes: &[u8], is_witness: Option<bool>) -> Option<Decoded> {
    let extended = (is_witness != Some(false)).then(|| extended(bytes)).flatten();
    if extended.as_ref().is_some_and(Decoded::is_sane) {
        return extended;
    }
    let legacy = (is_witness != Some(true)).then(|| legacy(bytes)).flatten();
    match legacy {
        Some(legacy) if extended.is_none() || legacy.is_sane() => Some(legacy),
        _ => extended,
    }
}

/// Decodes a transaction with the serialisation of BIP144.
fn extended(bytes: &[u8]) -> Option<Decoded> {
    let mut block = vec![0; HEADER_BYTES];
    block.push(1);
    block.extend_from_slice(bytes);
    let view = BlockView::parse(block).ok()?;
    (view.tx(0).bytes().len() == bytes.len()).then_some(Decoded { view, without_inputs: None })
}

/// Decodes a transaction with the serialisation before BIP144, which is another one only if there
/// are no inputs.
fn legacy(bytes: &[u8]) -> Option<Decoded> {
    let mut cursor = Cursor::new(bytes);
    cursor.u32().ok()?;
    if cursor.compact_size().ok()? > 0 {
        return extended(bytes);
    }
    let after = &bytes[cursor.position()..];
    let with_input = [&bytes[..4], &[1], &SOME_INPUT, after].concat();
    let decoded = extended(&with_input)?;
    Some(Decoded { without_inputs: Some(bytes.to_vec()), ..decoded })
}

impl Decoded {
    /// Returns whether all scripts consist of known opcodes (Core's `CheckTxScriptsSanity`).
    fn is_sane(&self) -> bool {
        let tx: TxView = self.view.tx(0);
        let has_inputs = self.without_inputs.is_none() && !tx.is_coinbase();
        let mut inputs = tx.inputs().filter(|_| has_inputs);
        inputs.all(|input| is_sane(input.script_sig()))
            && tx.outputs().all(|output| is_sane(output.script()))
    }
}

#[derive(Serialize)]
struct DecodedScript {
    #[serde(flatten)]
    script: ScriptPubKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    p2sh: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    segwit: Option<WitnessScript>,
}

#[derive(Serialize)]
struct WitnessScript {
    #[serde(flatten)]
    script: ScriptPubKey,
    #[serde(rename = "p2sh-segwit")]
    p2sh_segwit: String,
}

/// `decodescript`.
pub fn decodescript(call: &Call) -> Result<Json, RpcError> {
    let text = params::text(call.param(0))?;
    let script = from_hex(text).ok_or_else(|| {
        let what = format!("argument must be hexadecimal string (not '{text}')");
        RpcError::new(RPC_INVALID_PARAMETER, what)
    })?;
    let chain = call.source.chain();
    let kind = ScriptKind::of(&script);
    let wraps = can_be_hashed(&script, &kind);
    let segwit = wraps.then(|| witness_script(&script, &kind)).flatten();
    Ok(json(&DecodedScript {
        script: ScriptPubKey::new(&script, chain).without_hex(),
        p2sh: wraps.then(|| p2sh_address(&script, chain)),
        segwit: segwit.map(|(output, provider)| WitnessScript {
            script: ScriptPubKey::solved(&output, chain, &provider),
            p2sh_segwit: p2sh_address(&output, chain),
        }),
    }))
}

/// Returns whether an output may pay to the hash of a script.
fn can_be_hashed(script: &[u8], kind: &ScriptKind) -> bool {
    let may_be = matches!(
        kind,
        ScriptKind::Multisig { .. }
            | ScriptKind::NonStandard
            | ScriptKind::PubKey(_)
            | ScriptKind::PubKeyHash
            | ScriptKind::WitnessV0KeyHash
            | ScriptKind::WitnessV0ScriptHash
    );
    may_be
        && is_sane(script)
        && !is_unspendable(script)
        && Ops::new(script).all(|op| !is_success(op.code))
}

/// Returns whether an opcode makes any tapscript valid (Core's `IsOpSuccess`).
fn is_success(code: u8) -> bool {
    matches!(code, 80 | 98 | 126..=129 | 131..=134 | 137 | 138 | 141 | 142 | 149..=153 | 187..=254)
}

/// Returns the output script with a witness for a script, and what is known of it; `None` if there
/// is none.
fn witness_script(script: &[u8], kind: &ScriptKind) -> Option<(Vec<u8>, Provider)> {
    let key_hash = |hash: &[u8]| [&[0, 20], hash].concat();
    let is_compressed = |key: &[u8]| key.len() == 33;
    let mut provider = Provider::default();
    let output = match kind {
        ScriptKind::PubKey(key) if is_compressed(key) => {
            key_hash(hash160::Hash::hash(key).as_ref())
        }
        ScriptKind::PubKeyHash => key_hash(&script[3..23]),
        ScriptKind::Multisig { keys, .. } if !keys.iter().all(|key| is_compressed(key)) => {
            return None;
        }
        ScriptKind::Multisig { .. } | ScriptKind::NonStandard => {
            provider.add_script(script);
            Script::from_bytes(script).to_p2wsh().into_bytes()
        }
        _ => return None,
    };
    Some((output, provider))
}

/// Returns the address of the outputs that pay to the hash of a script.
fn p2sh_address(script: &[u8], chain: Chain) -> String {
    let output = Script::from_bytes(script).to_p2sh();
    address(output.as_bytes(), chain).unwrap_or_default()
}

fn is_sane(script: &[u8]) -> bool {
    let mut ops = Ops::new(script);
    script.len() <= SCRIPT_BYTES_MAX
        && ops.all(|op| op.code <= OP_NOP10 && op.data.len() <= PUSH_BYTES_MAX)
        && !ops.truncated
}
