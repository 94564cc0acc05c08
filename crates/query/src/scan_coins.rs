//! `scantxoutset`: the unspent outputs of descriptors.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_chain::BlockId;
use apus_coins::{Coin, CoinsView, CompactScript, FoundCoins};
use apus_descriptors::{address, infer};
use apus_disk::ShareWatch;
use apus_hash::Hash;
use apus_node::view::Committed;
use apus_wire::OutPoint;
use serde::Serialize;

use super::error::{RPC_INVALID_PARAMETER, RpcError, internal};
use super::json::{Amount, Json, hex, json};
use super::params;
use super::scan_objects::ScanObjects;
use super::scan_state::Scan;
use super::source::Call;
use super::transaction::script_bytes;

#[derive(Serialize)]
struct Status {
    progress: u32,
}

#[derive(Serialize)]
struct Scanned {
    success: bool,
    txouts: u64,
    height: u32,
    bestblock: String,
    unspents: Vec<Unspent>,
    total_amount: Amount,
}

#[derive(Serialize)]
struct Unspent {
    txid: String,
    vout: u32,
    #[serde(rename = "scriptPubKey")]
    script: String,
    desc: String,
    amount: Amount,
    coinbase: bool,
    height: u32,
    blockhash: String,
    confirmations: u32,
}

/// `scantxoutset`.
pub fn scantxoutset(call: &Call) -> Result<Json, RpcError> {
    let scan = &call.source.coin_scan;
    match params::text(call.param(0))? {
        "status" => Ok(json(&scan.reached().map(|(progress, _)| Status { progress }))),
        "abort" => Ok(json(&scan.abort())),
        "start" => start(call),
        action => Err(RpcError::new(RPC_INVALID_PARAMETER, format!("Invalid action '{action}'"))),
    }
}

fn start(call: &Call) -> Result<Json, RpcError> {
    let source = call.source;
    let running = source.coin_scan.begin().ok_or_else(|| {
        let what = "Scan already in progress, use action \"abort\" or \"status\"";
        RpcError::new(RPC_INVALID_PARAMETER, what)
    })?;
    let list = ScanObjects::list(call)?;
    let scan = running.0;
    scan.start(0);
    let objects = ScanObjects::read(list, call)?;
    let (coins, tip) = source.look(|it| (it.coins.clone(), (it.tip_id(), it.tip())))?;
    let FoundCoins { coins, looked_at } = find(call, scan, &coins, &objects)?;
    let success = !scan.is_aborted();
    let total: u64 = coins.iter().map(|(_, coin)| coin.amount).sum();
    let unspents = described(call, tip.0, coins, &objects)?;
    let height = tip.1.height;
    let bestblock = tip.1.hash.to_string();
    let total_amount = Amount(total as i64);
    Ok(json(&Scanned { success, txouts: looked_at, height, bestblock, unspents, total_amount }))
}

/// Looks for coins until the call or the scan is to end.
fn find(
    call: &Call,
    scan: &Scan,
    coins: &CoinsView,
    objects: &ScanObjects,
) -> Result<FoundCoins, RpcError> {
    // In the form of the tables, so that no script of the UTXO set is decompressed.
    let compressed = |script| CompactScript::new(script).as_bytes().to_vec();
    let wanted: HashSet<Vec<u8>> = objects.scripts.iter().map(compressed).collect();
    let stop = AtomicBool::new(false);
    let report = |share: f64| {
        scan.reach((100.0 * share) as u32, 0);
        stop.store(scan.is_aborted() || call.stop.load(Relaxed), Relaxed);
    };
    let watch = ShareWatch { report: &report, stop: &stop };
    let is_wanted = |coin: &Coin| wanted.contains(coin.script.as_bytes());
    let found = call.source.pool()?.install(|| coins.find_coins(is_wanted, watch));
    call.check_stop()?;
    found.map_err(internal)
}

/// Describes coins that are unspent after the block `tip`, in Core's order.
fn described(
    call: &Call,
    tip: BlockId,
    mut coins: Vec<(OutPoint, Coin)>,
    objects: &ScanObjects,
) -> Result<Vec<Unspent>, RpcError> {
    coins.sort_unstable_by_key(|(outpoint, _)| (outpoint.txid.0, outpoint.vout));
    let (height, hashes) = call.source.look(|it: &Committed| {
        let block = |(_, coin): &(OutPoint, Coin)| it.tree.ancestor(tip, coin.height);
        let hash = |coin| block(coin).map_or(Hash::ZERO, |id| it.tree.node(id).hash);
        (it.tree.node(tip).height, coins.iter().map(hash).collect::<Vec<Hash>>())
    })?;
    let chain = call.source.chain();
    let mut descriptors: HashMap<Vec<u8>, String> = HashMap::new();
    let mut unspents = Vec::with_capacity(coins.len());
    for ((OutPoint { txid, vout }, coin), block) in coins.into_iter().zip(hashes) {
        call.check_stop()?;
        let script = script_bytes(&coin);
        let desc = descriptors.entry(script.clone()).or_insert_with(|| {
            infer(&script, address(&script, chain).as_deref(), &objects.provider(&script))
        });
        unspents.push(Unspent {
            txid: txid.to_string(),
            vout,
            desc: desc.clone(),
            script: hex(&script),
            amount: Amount(coin.amount as i64),
            coinbase: coin.is_coinbase,
            height: coin.height,
            blockhash: block.to_string(),
            confirmations: (height + 1).saturating_sub(coin.height),
        });
    }
    Ok(unspents)
}
