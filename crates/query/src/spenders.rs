//! `gettxspendingprevout`.

use apus_store::IndexKind;
use apus_wire::OutPoint;
use serde::Serialize;
use serde_json::Value;

use super::error::{RPC_INVALID_PARAMETER, RPC_MISC_ERROR, RpcError};
use super::json::{Json, hex, json};
use super::params::{self, ArgKind, Field, check_fields};
use super::source::Call;

const OUTPUT: [Field; 2] = [("txid", ArgKind::Text), ("vout", ArgKind::Number)];
const OPTIONS: [Field; 2] =
    [("mempool_only", ArgKind::Bool), ("return_spending_tx", ArgKind::Bool)];

#[derive(Serialize)]
struct Answer<'a> {
    /// As it was given.
    #[serde(flatten)]
    output: &'a Value,
    #[serde(flatten)]
    spender: Option<Spender>,
}

#[derive(Serialize)]
struct Spender {
    spendingtxid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    spendingtx: Option<String>,
    blockhash: String,
}

/// `gettxspendingprevout`. There is no mempool.
pub fn gettxspendingprevout(call: &Call) -> Result<Json, RpcError> {
    let wrong = |what: &str| RpcError::new(RPC_INVALID_PARAMETER, what);
    let outputs = params::array(call.param(0))?;
    if outputs.is_empty() {
        return Err(wrong("Invalid parameter, outputs are missing"));
    }
    let options = call.param(1);
    if !options.is_null() {
        check_fields(options, &OPTIONS, true)?;
    }
    let source = call.source;
    let state = source.indexes.caught_up(&source.view, IndexKind::TxoSpenderIndex, call.waiting)?;
    let option = |name: &str| options.get(name).map(params::boolean).transpose();
    let mempool_only = option("mempool_only")?.unwrap_or(state.is_none());
    let with_tx = option("return_spending_tx")?.unwrap_or(false);
    let outpoint = |output: &Value| -> Result<OutPoint, RpcError> {
        check_fields(output, &OUTPUT, false)?;
        let txid = params::hash(&output["txid"], "txid")?;
        let vout = params::integer::<i32>(&output["vout"])?;
        let vout =
            u32::try_from(vout).map_err(|_| wrong("Invalid parameter, vout cannot be negative"))?;
        Ok(OutPoint { txid, vout })
    };
    let outpoints: Vec<OutPoint> = outputs.iter().map(outpoint).collect::<Result<_, _>>()?;
    let spender = |outpoint: &OutPoint| -> Result<Option<Spender>, RpcError> {
        if mempool_only {
            return Ok(None);
        }
        call.check_stop()?;
        let found = source.indexes.spender(&source.view, outpoint)?;
        if found.is_none() && !state.is_some_and(|state| state.synced) {
            let what = "Mempool lacks a relevant spend, and txospenderindex is unavailable.";
            return Err(RpcError::new(RPC_MISC_ERROR, what));
        }
        Ok(found.map(|found| Spender {
            spendingtxid: found.tx().txid().to_string(),
            spendingtx: with_tx.then(|| hex(found.tx().bytes())),
            blockhash: found.block.to_string(),
        }))
    };
    let pairs = outputs.iter().zip(&outpoints);
    let answers = pairs.map(|(output, at)| Ok(Answer { output, spender: spender(at)? }));
    Ok(json(&answers.collect::<Result<Vec<_>, RpcError>>()?))
}
