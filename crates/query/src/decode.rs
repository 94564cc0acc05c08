//! `decoderawtransaction`.

use apus_hash::sha256d;
use apus_wire::{BlockView, Cursor, HEADER_BYTES, Ops, TxView};

use super::error::{RPC_DESERIALIZATION_ERROR, RpcError};
use super::json::{Json, from_hex, json};
use super::params;
use super::source::Call;
use super::transaction::{Spent, Transaction};

/// The greatest opcode that is defined (Core's `MAX_OPCODE`).
const OP_NOP10: u8 = 0xb9;
/// The most bytes that a script may push at once (Core's `MAX_SCRIPT_ELEMENT_SIZE`).
const PUSH_BYTES_MAX: usize = 520;
/// The most bytes of a script (Core's `MAX_SCRIPT_SIZE`).
const SCRIPT_BYTES_MAX: usize = 10_000;
/// An input of 41 bytes, whatever it is.
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

fn is_sane(script: &[u8]) -> bool {
    let mut ops = Ops::new(script);
    script.len() <= SCRIPT_BYTES_MAX
        && ops.all(|op| op.code <= OP_NOP10 && op.data.len() <= PUSH_BYTES_MAX)
        && !ops.truncated
}
