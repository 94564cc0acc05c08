//! Coins: single ones, and snapshots.

use apus_chain::BlockId;
use apus_node::snapshot_info::snapshot_info;
use apus_node::snapshot_writing::create_snapshot_of_view;
use apus_node::view::Committed;
use apus_progress::{Unobserved, Watch};
use apus_wire::OutPoint;
use serde::Serialize;
use serde_json::Value;

use super::chain::hash_or_height;
use super::error::{RPC_INVALID_PARAMETER, RPC_MISC_ERROR, RpcError, internal};
use super::json::{Amount, Json, json};
use super::params;
use super::script::ScriptPubKey;
use super::source::{AtRest, Call};
use super::transaction::script_of;

#[derive(Serialize)]
struct TxOut {
    bestblock: String,
    confirmations: i64,
    value: Amount,
    #[serde(rename = "scriptPubKey")]
    script: ScriptPubKey,
    coinbase: bool,
}

/// `gettxout`. There is no mempool whose transactions could spend or create the output.
pub fn gettxout(call: &Call) -> Result<Json, RpcError> {
    let txid = params::hash(call.param(0), "txid")?;
    let vout: u32 = params::integer(call.param(1))?;
    let (coins, tip) = call.source.look(|it| (it.coins.clone(), it.tip()))?;
    let coin = coins.get(&OutPoint { txid, vout }).map_err(internal)?;
    Ok(json(&coin.map(|coin| TxOut {
        bestblock: tip.hash.to_string(),
        confirmations: i64::from(tip.height) - i64::from(coin.height) + 1,
        value: Amount(coin.amount as i64),
        script: script_of(&coin, call.source.chain()),
        coinbase: coin.is_coinbase,
    })))
}

#[derive(Serialize)]
struct Dumped {
    coins_written: u64,
    base_hash: String,
    base_height: u32,
    path: String,
    txoutset_hash: String,
    nchaintx: u64,
}

/// `dumptxoutset`. While a sync runs, of the tip alone.
pub fn dumptxoutset(call: &Call) -> Result<Json, RpcError> {
    let source = call.source;
    let (target, tip, coins, transactions) = source.try_look(|committed| {
        let id = target(call, committed)?;
        let block = committed.tree.node(id);
        let count = committed.transactions(block.height);
        Ok((block, committed.tip(), committed.coins.clone(), count))
    })?;
    let name = params::text(call.param(0))?;
    let path = match name {
        "" => source.directory.clone(),
        name => source.directory.join(name),
    };
    let invalid = |message: String| RpcError::new(RPC_INVALID_PARAMETER, message);
    let shown = path.display().to_string();
    if path.exists() {
        return Err(invalid(format!(
            "{shown} already exists. If you are sure this is what you want, move it out of the way \
             first"
        )));
    }
    if path.parent().is_none_or(|parent| !parent.is_dir()) {
        return Err(invalid(format!("Couldn't open file {shown}.incomplete for writing.")));
    }
    let watch = Watch::new(&Unobserved, call.stop);
    if target.hash == tip.hash {
        let of = (tip.hash, tip.height);
        let to = (source.pool()?, watch);
        create_snapshot_of_view(&coins, of, source.network.magic, &path, to)?;
    } else {
        call.param(2).get("in_memory").map(params::boolean).transpose()?;
        (at_rest(call)?.create_snapshot)(target.height, &path, call.stop)?;
    }
    let threads = source.pool()?.current_num_threads();
    let info = snapshot_info(&path, threads, watch)?;
    let info = info.ok_or_else(RpcError::stopped)?;
    Ok(json(&Dumped {
        coins_written: info.stats.coins,
        base_hash: target.hash.to_string(),
        base_height: target.height,
        path: shown,
        txoutset_hash: info.stats.hash_serialized.to_string(),
        nchaintx: transactions,
    }))
}

/// Returns the block after which the coins of the snapshot are unspent.
fn target(call: &Call, committed: &Committed) -> Result<BlockId, RpcError> {
    let kind = if call.param(1).is_null() { "" } else { params::text(call.param(1))? };
    let invalid = |message: String| RpcError::new(RPC_INVALID_PARAMETER, message);
    match (call.param(2).get("rollback"), kind) {
        (Some(rollback), "" | "rollback") => hash_or_height(committed, rollback),
        (Some(_), _) => {
            Err(invalid(format!("Invalid snapshot type \"{kind}\" specified with rollback option")))
        }
        (None, "latest") => Ok(committed.tip_id()),
        (None, "rollback") => {
            let listed = call.source.network.assumeutxo().iter().map(|listed| listed.height);
            hash_or_height(committed, &Value::from(listed.max().unwrap_or(0)))
        }
        (None, _) => Err(invalid(format!(
            "Invalid snapshot type \"{kind}\" specified. Please specify \"rollback\" or \"latest\""
        ))),
    }
}

/// Returns the work on a directory at rest.
fn at_rest<'a>(call: &'a Call) -> Result<&'a AtRest, RpcError> {
    call.source.at_rest.as_ref().ok_or_else(|| {
        RpcError::new(
            RPC_MISC_ERROR,
            "While a sync runs, only the latest UTXO set can be dumped: use \"latest\", or \
             stop it and use `apus snapshot create --height`",
        )
    })
}
