//! Coins: single ones, statistics of all, and snapshots.

use apus_chain::BlockId;
use apus_coins::{HashType, UtxoStats};
use apus_disk::ShareWatch;
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_node::progress::{Unobserved, Watch};
use apus_node::view::Committed;
use apus_tools::{create_snapshot, create_snapshot_of_view, snapshot_info};
use apus_wire::OutPoint;
use serde::Serialize;
use serde_json::Value;

use super::chain::hash_or_height;
use super::error::{RPC_INVALID_PARAMETER, RPC_MISC_ERROR, RpcError};
use super::json::{Amount, Json, json};
use super::params;
use super::script::ScriptPubKey;
use super::source::{Call, internal};
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
struct TxOutSetInfo {
    height: u32,
    bestblock: String,
    txouts: u64,
    bogosize: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_serialized_3: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    muhash: Option<String>,
    total_amount: Amount,
    transactions: u64,
    disk_size: u64,
}

/// `gettxoutsetinfo`, of the tip alone.
pub fn gettxoutsetinfo(call: &Call) -> Result<Json, RpcError> {
    let invalid = |message: String| RpcError::new(RPC_INVALID_PARAMETER, message);
    let name =
        if call.param(0).is_null() { "hash_serialized_3" } else { params::text(call.param(0))? };
    let hash_type = match name {
        "hash_serialized_3" => HashType::HashSerialized3,
        "muhash" => HashType::MuHash,
        "none" => HashType::None,
        _ => return Err(invalid(format!("'{name}' is not a valid hash_type"))),
    };
    if !call.param(1).is_null() {
        let message = "Querying specific block heights requires coinstatsindex";
        return Err(invalid(message.to_string()));
    }
    let (coins, height) = call.source.look(|it| (it.coins.clone(), it.tip().height))?;
    let watch = ShareWatch::until(call.stop);
    let count = || UtxoStats::compute_watched(&coins, height, hash_type, watch);
    let stats = call.source.pool()?.install(count).map_err(internal)?;
    let stats = stats.ok_or_else(RpcError::stopped)?;
    let hash = |of: HashType| {
        stats.hash.filter(|(hash_type, _)| *hash_type == of).map(|(_, hash)| hash.to_string())
    };
    Ok(json(&TxOutSetInfo {
        height,
        bestblock: stats.best_block.to_string(),
        txouts: stats.txouts,
        bogosize: stats.bogosize,
        hash_serialized_3: hash(HashType::HashSerialized3),
        muhash: hash(HashType::MuHash),
        total_amount: Amount(stats.total_amount as i64),
        transactions: stats.transactions,
        disk_size: stats.disk_size,
    }))
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
        let (of, to) = ((tip.hash, tip.height), (source.pool()?, watch));
        create_snapshot_of_view(&coins, of, source.network.magic, &path, to).map_err(failed)?;
    } else {
        let options = at_rest(call)?;
        let summary = create_snapshot(options, Some(target.height), &path, watch);
        if summary.map_err(failed)?.interrupted {
            return Err(RpcError::stopped());
        }
    }
    let threads = source.pool()?.current_num_threads();
    let info = snapshot_info(&path, threads, watch).map_err(failed)?;
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

/// Returns the options for another reader of the directory.
fn at_rest<'a>(call: &'a Call) -> Result<&'a Options, RpcError> {
    call.source.at_rest.as_ref().ok_or_else(|| {
        RpcError::new(
            RPC_MISC_ERROR,
            "While a sync runs, only the latest UTXO set can be dumped: use \"latest\", or \
             stop it and use `apus snapshot create --height`",
        )
    })
}

fn failed(error: SyncError) -> RpcError {
    match error {
        SyncError::Stopped => RpcError::stopped(),
        other => internal(other),
    }
}
