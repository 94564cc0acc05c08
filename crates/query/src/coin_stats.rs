//! Statistics of the UTXO set: `gettxoutsetinfo`.

use apus_coins::{HashType, UtxoStats};
use apus_disk::ShareWatch;
use apus_hash::Hash;
use apus_indexes::Totals;
use apus_node::view::Committed;
use apus_store::IndexKind;
use serde::Serialize;

use super::chain::hash_or_height;
use super::error::{RPC_INTERNAL_ERROR, RPC_INVALID_PARAMETER, RpcError, internal};
use super::indexes::IndexSummary;
use super::json::{Amount, Json, json};
use super::params;
use super::source::Call;

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
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Rest {
    /// All coins were counted.
    Counted { transactions: u64, disk_size: u64 },
    /// From the index.
    Indexed { total_unspendable_amount: Amount, block_info: BlockInfo },
}

/// The changes by a block.
#[derive(Serialize)]
struct BlockInfo {
    prevout_spent: Amount,
    coinbase: Amount,
    new_outputs_ex_coinbase: Amount,
    unspendable: Amount,
    unspendables: Unspendables,
}

#[derive(Serialize)]
struct Unspendables {
    genesis_block: Amount,
    bip30: Amount,
    scripts: Amount,
    unclaimed_rewards: Amount,
}

/// A block whose statistics are asked for.
struct At {
    height: u32,
    hash: Hash,
    /// The hash of the block before it; `None` for the genesis block.
    prev: Option<Hash>,
}

/// `gettxoutsetinfo`.
pub fn gettxoutsetinfo(call: &Call) -> Result<Json, RpcError> {
    let invalid = |message: &str| RpcError::new(RPC_INVALID_PARAMETER, message);
    let name =
        if call.param(0).is_null() { "hash_serialized_3" } else { params::text(call.param(0))? };
    let hash_type = match name {
        "hash_serialized_3" => HashType::HashSerialized3,
        "muhash" => HashType::MuHash,
        "none" => HashType::None,
        _ => return Err(invalid(&format!("'{name}' is not a valid hash_type"))),
    };
    let use_index = call.param(2).is_null() || params::boolean(call.param(2))?;
    let state = call.source.indexes.caught_up(
        &call.source.view,
        IndexKind::CoinStatsIndex,
        call.waiting,
    )?;
    let is_given = !call.param(1).is_null();
    if is_given {
        if state.is_none() {
            return Err(invalid("Querying specific block heights requires coinstatsindex"));
        }
        if hash_type == HashType::HashSerialized3 {
            return Err(invalid(
                "hash_serialized_3 hash type cannot be queried for a specific block",
            ));
        }
        if !use_index {
            return Err(invalid(
                "Cannot set use_index to false when querying for a specific block",
            ));
        }
    }
    match state.filter(|_| use_index && hash_type != HashType::HashSerialized3) {
        Some(state) => indexed(call, hash_type, state),
        None => counted(call, hash_type),
    }
}

/// Answers from the index.
fn indexed(call: &Call, hash_type: HashType, state: IndexSummary) -> Result<Json, RpcError> {
    let is_given = !call.param(1).is_null();
    let at = call.source.try_look(|committed: &Committed| {
        let id =
            if is_given { hash_or_height(committed, call.param(1))? } else { committed.tip_id() };
        let tree = &committed.tree;
        let block = committed.tree.node(id);
        let prev = block.prev.map(|prev| tree.node(prev).hash);
        Ok(At { height: block.height, hash: block.hash, prev })
    })?;
    if is_given && !state.synced && at.height > state.best_block_height {
        let height = state.best_block_height;
        return Err(internal(format!(
            "Unable to get data because coinstatsindex is still syncing. Current height: {height}"
        )));
    }
    let read = |height: u32, hash: &Hash| {
        let found = call.source.indexes.reader.statistics(height, hash).map_err(internal)?;
        found.ok_or_else(|| RpcError::new(RPC_INTERNAL_ERROR, "Unable to read UTXO set"))
    };
    let (muhash, totals) = read(at.height, &at.hash)?;
    let before = match &at.prev {
        None => Totals::default(),
        Some(prev) => read(at.height - 1, prev)?.1,
    };
    Ok(json(&TxOutSetInfo {
        height: at.height,
        bestblock: at.hash.to_string(),
        txouts: totals.txouts as u64,
        bogosize: totals.bogosize as u64,
        hash_serialized_3: None,
        muhash: (hash_type == HashType::MuHash).then(|| muhash.to_string()),
        total_amount: Amount(totals.amount),
        rest: Rest::Indexed {
            total_unspendable_amount: Amount(totals.unspendable()),
            block_info: BlockInfo::new(&totals, &before),
        },
    }))
}

impl BlockInfo {
    fn new(totals: &Totals, before: &Totals) -> Self {
        let amount = |of: fn(&Totals) -> i64| Amount(of(totals) - of(before));
        let sum = |of: fn(&Totals) -> u128| Amount(of(totals).wrapping_sub(of(before)) as i64);
        Self {
            prevout_spent: sum(|totals| totals.prevouts_spent),
            coinbase: sum(|totals| totals.coinbase),
            new_outputs_ex_coinbase: sum(|totals| totals.new_outputs),
            unspendable: amount(Totals::unspendable),
            unspendables: Unspendables {
                genesis_block: amount(|totals| totals.unspendable_genesis),
                bip30: amount(|totals| totals.unspendable_bip30),
                scripts: amount(|totals| totals.unspendable_scripts),
                unclaimed_rewards: amount(|totals| totals.unclaimed_rewards),
            },
        }
    }
}

/// Counts all coins.
fn counted(call: &Call, hash_type: HashType) -> Result<Json, RpcError> {
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
        rest: Rest::Counted { transactions: stats.transactions, disk_size: stats.disk_size },
    }))
}
