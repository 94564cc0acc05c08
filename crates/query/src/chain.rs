//! The chain as a whole.

use std::collections::{BTreeMap, BTreeSet};

use apus_chain::BlockId;
use apus_consensus::Work;
use apus_node::tips::guess_progress;
use apus_node::view::Committed;
use apus_store::BlockStatus;
use apus_wire::Chain;
use serde::Serialize;

use super::error::{RPC_INVALID_PARAMETER, RPC_MISC_ERROR, RpcError};
use super::header::{bits, difficulty, target};
use super::json::{Fraction, Json, hex, json};
use super::params;
use super::source::{Call, Source, find, now};

/// The age in seconds of a tip that is not up to date (Core's `DEFAULT_MAX_TIP_AGE`).
const MAX_TIP_AGE: i64 = 24 * 60 * 60;
/// A number of at most this is a height for `pruneblockchain`, and a time above it.
const HEIGHT_MAX: i32 = 1_000_000_000;
/// The time in seconds by which a block's time may be wrong (Core's `TIMESTAMP_WINDOW`).
const TIMESTAMP_WINDOW: i32 = 2 * 60 * 60;

#[derive(Serialize)]
struct ChainInfo {
    chain: &'static str,
    blocks: u32,
    headers: u32,
    bestblockhash: String,
    bits: String,
    target: String,
    difficulty: Fraction,
    time: u32,
    mediantime: u32,
    verificationprogress: Fraction,
    initialblockdownload: bool,
    chainwork: String,
    size_on_disk: u64,
    pruned: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pruneheight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    automatic_pruning: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prune_target_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signet_challenge: Option<String>,
    warnings: [String; 0],
}

/// `getblockchaininfo`.
pub fn getblockchaininfo(call: &Call) -> Result<Json, RpcError> {
    let source = call.source;
    let network = &source.network;
    source.look(|committed| {
        let tip = committed.tip();
        let id = committed.tip_id();
        let pruned = committed.may_prune || committed.is_pruned;
        let challenge = network.signet_challenge.as_deref();
        json(&ChainInfo {
            chain: network.chain.name(),
            blocks: tip.height,
            headers: committed.tree.node(committed.tree.best_header()).height,
            bestblockhash: tip.hash.to_string(),
            bits: bits(tip.bits),
            target: target(tip.bits),
            difficulty: difficulty(tip.bits),
            time: tip.time,
            mediantime: committed.tree.median_time_past(id),
            verificationprogress: Fraction(verification_progress(source, committed)),
            initialblockdownload: is_initial_download(committed),
            chainwork: hex(&tip.work.to_be_bytes()),
            size_on_disk: committed.files_bytes,
            pruned,
            pruneheight: pruned.then(|| prune_height(committed).map_or(0, |height| height + 1)),
            automatic_pruning: pruned.then_some(committed.prune_target.is_some()),
            prune_target_size: committed.prune_target.filter(|_| pruned),
            signet_challenge: challenge.filter(|_| network.chain == Chain::Signet).map(hex),
            warnings: [],
        })
    })
}

/// `getchainstates`.
pub fn getchainstates(call: &Call) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    struct Chainstates {
        headers: u32,
        chainstates: [Chainstate; 1],
    }
    #[derive(Serialize)]
    struct Chainstate {
        blocks: u32,
        bestblockhash: String,
        bits: String,
        target: String,
        difficulty: Fraction,
        verificationprogress: Fraction,
        coins_db_cache_bytes: usize,
        coins_tip_cache_bytes: usize,
        validated: bool,
    }
    let source = call.source;
    source.look(|committed| {
        let tip = committed.tip();
        json(&Chainstates {
            headers: committed.tree.node(committed.tree.best_header()).height,
            chainstates: [Chainstate {
                blocks: tip.height,
                bestblockhash: tip.hash.to_string(),
                bits: bits(tip.bits),
                target: target(tip.bits),
                difficulty: difficulty(tip.bits),
                verificationprogress: Fraction(verification_progress(source, committed)),
                coins_db_cache_bytes: 0,
                coins_tip_cache_bytes: source.cache_bytes,
                validated: true,
            }],
        })
    })
}

/// Returns the share of all transactions that are verified: by the number of those in the chain
/// (Core's `GuessVerificationProgress`), or, if it is more, the share of the running sync that is
/// done, which checks blocks long before it commits them.
fn verification_progress(source: &Source, committed: &Committed) -> f64 {
    let tip = committed.tip();
    let best = committed.tree.node(committed.tree.best_header()).height;
    let blocks_left = best.checked_sub(tip.height);
    let spacing = i64::from(source.network.pow_target_spacing);
    let known = guess_progress(
        &source.network.chain_tx_data,
        committed.transactions(tip.height),
        i64::from(tip.time),
        blocks_left.map(|blocks| i64::from(blocks) * spacing),
        now(),
    );
    source.progress().map_or(known, |done| known.max(done.min(1.0)))
}

/// Returns whether the tip has less than the minimum work, or is more than a day old (Core's
/// `IsInitialBlockDownload`).
fn is_initial_download(committed: &Committed) -> bool {
    let tip = committed.tip();
    let minimum = Work::from_hash(&committed.tree.network().minimum_chain_work);
    tip.work < minimum || i64::from(tip.time) < now() - MAX_TIP_AGE
}

/// Returns the height of the highest block of the active chain whose data is incomplete; `None` if
/// there is none but the genesis block (Core's `GetPruneHeight`).
fn prune_height(committed: &Committed) -> Option<u32> {
    let is_incomplete = |height: &u32| {
        let id = committed.active.at(*height);
        id.is_some_and(|id| !committed.record(id).status.has(BlockStatus::BLOCK_HAVE_MASK))
    };
    (1..=committed.tip().height).rev().find(is_incomplete)
}

/// `getblockcount`.
pub fn getblockcount(call: &Call) -> Result<Json, RpcError> {
    call.source.look(|committed| json(&committed.tip().height))
}

/// `getbestblockhash`.
pub fn getbestblockhash(call: &Call) -> Result<Json, RpcError> {
    call.source.look(|committed| json(&committed.tip().hash.to_string()))
}

/// `getblockhash`.
pub fn getblockhash(call: &Call) -> Result<Json, RpcError> {
    let height: i32 = params::integer(call.param(0))?;
    call.source.try_look(|committed| {
        let id = u32::try_from(height).ok().and_then(|height| committed.active.at(height));
        let id =
            id.ok_or_else(|| RpcError::new(RPC_INVALID_PARAMETER, "Block height out of range"))?;
        Ok(json(&committed.tree.node(id).hash.to_string()))
    })
}

#[derive(Serialize)]
struct ChainTip {
    height: u32,
    hash: String,
    branchlen: u32,
    status: &'static str,
}

/// `getchaintips`.
pub fn getchaintips(call: &Call) -> Result<Json, RpcError> {
    call.source.look(|committed| {
        let Committed { tree, active, .. } = committed;
        let outside: Vec<BlockId> = tree.ids().filter(|id| !active.contains(tree, *id)).collect();
        let parents: BTreeSet<BlockId> =
            outside.iter().filter_map(|id| tree.node(*id).prev).collect();
        let ends = outside.into_iter().filter(|id| !parents.contains(id));
        // Core shows tips of equal height in any order.
        let tips: BTreeMap<_, _> = ends
            .chain([committed.tip_id()])
            .map(|id| ((std::cmp::Reverse(tree.node(id).height), id), chain_tip(committed, id)))
            .collect();
        json(&tips.into_values().collect::<Vec<_>>())
    })
}

fn chain_tip(committed: &Committed, id: BlockId) -> ChainTip {
    let Committed { tree, active, .. } = committed;
    let block = tree.node(id);
    let status = committed.record(id).status;
    let fork = active.fork(tree, id).map_or(0, |fork| tree.node(fork).height);
    let branch = || tree.ancestors(id).take_while(|id| !active.contains(tree, *id));
    let status = if active.contains(tree, id) {
        "active"
    } else if block.failed {
        "invalid"
    } else if branch().any(|id| committed.record(id).tx_count == 0) {
        "headers-only"
    } else if status.is_valid(BlockStatus::BLOCK_VALID_SCRIPTS) {
        "valid-fork"
    } else if status.is_valid(BlockStatus::BLOCK_VALID_TREE) {
        "valid-headers"
    } else {
        "unknown"
    };
    ChainTip {
        height: block.height,
        hash: block.hash.to_string(),
        branchlen: block.height - fork,
        status,
    }
}

#[derive(Serialize)]
struct ChainTxStats {
    time: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    txcount: Option<u64>,
    window_final_block_hash: String,
    window_final_block_height: u32,
    window_block_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_interval: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_tx_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    txrate: Option<Fraction>,
}

/// `getchaintxstats`.
pub fn getchaintxstats(call: &Call) -> Result<Json, RpcError> {
    let hash = call.param(1);
    let hash = if hash.is_null() { None } else { Some(params::hash(hash, "blockhash")?) };
    call.source.try_look(|committed| {
        let Committed { tree, active, .. } = committed;
        let last = match hash {
            None => committed.tip_id(),
            Some(hash) => find(committed, &hash)?,
        };
        let invalid = |message| Err(RpcError::new(RPC_INVALID_PARAMETER, message));
        if !active.contains(tree, last) {
            return invalid("Block is not in main chain");
        }
        let block = tree.node(last);
        let count = match call.param(0) {
            count if count.is_null() => {
                let month = 30 * 24 * 60 * 60 / call.source.network.pow_target_spacing;
                month.min(block.height.saturating_sub(1))
            }
            count => {
                let count: i32 = params::integer(count)?;
                match u32::try_from(count).ok().filter(|n| *n == 0 || *n < block.height) {
                    Some(count) => count,
                    None => {
                        return invalid(
                            "Invalid block count: should be between 0 and the block's height - 1",
                        );
                    }
                }
            }
        };
        let past = block.height - count;
        let mediantime = |id| i64::from(tree.median_time_past(id));
        let interval = active.at(past).map(|past| mediantime(last) - mediantime(past));
        let counted = [committed.transactions(block.height), committed.transactions(past)];
        let transactions = counted[0] - counted[1];
        let is_window = count > 0;
        let rate = interval.filter(|seconds| is_window && *seconds > 0);
        Ok(json(&ChainTxStats {
            time: block.time,
            txcount: Some(counted[0]).filter(|count| *count > 0),
            window_final_block_hash: block.hash.to_string(),
            window_final_block_height: block.height,
            window_block_count: count,
            window_interval: interval.filter(|_| is_window),
            window_tx_count: is_window.then_some(transactions),
            txrate: rate.map(|seconds| Fraction(transactions as f64 / seconds as f64)),
        }))
    })
}

/// `pruneblockchain`, which only says why it prunes nothing.
pub fn pruneblockchain(call: &Call) -> Result<Json, RpcError> {
    let misc = |message| RpcError::new(RPC_MISC_ERROR, message);
    let invalid = |message| RpcError::new(RPC_INVALID_PARAMETER, message);
    call.source.try_look(|committed| {
        if !committed.may_prune && !committed.is_pruned {
            return Err(misc("Cannot prune blocks because node is not in prune mode."));
        }
        let tip = committed.tip().height;
        let asked: i32 = params::integer(call.param(0))?;
        let height = match u32::try_from(asked) {
            Err(_) => return Err(invalid("Negative block height.")),
            Ok(_) if asked > HEIGHT_MAX => earliest_at_least(committed, asked - TIMESTAMP_WINDOW)
                .ok_or_else(|| {
                invalid("Could not find block with at least the specified timestamp.")
            })?,
            Ok(height) => height,
        };
        Err(if !committed.is_pruned && tip < call.source.network.prune_after_height {
            misc("Blockchain is too short for pruning.")
        } else if height > tip {
            invalid("Blockchain is shorter than the attempted prune height.")
        } else {
            misc(
                "The directory is in use by Apus: stop it, and prune with `apus prune`, or sync \
                 with --prune=SIZE",
            )
        })
    })
}

/// Returns the height of the first block of the active chain at or after which a block has at least
/// this time (Core's `FindEarliestAtLeast`).
fn earliest_at_least(committed: &Committed, time: i32) -> Option<u32> {
    let Committed { tree, active, .. } = committed;
    let blocks = (0..).map_while(|height| active.at(height));
    let is_late = |id: BlockId| i64::from(tree.node(id).time) >= i64::from(time);
    blocks.map(is_late).position(|late| late).map(|height| height as u32)
}

/// Returns the block that a parameter names by its hash or its height in the active chain (Core's
/// `ParseHashOrHeight`).
pub fn hash_or_height(
    committed: &Committed,
    param: &serde_json::Value,
) -> Result<BlockId, RpcError> {
    if !param.is_number() {
        let hash = params::hash(param, "hash_or_height")?;
        return find(committed, &hash);
    }
    let height: i32 = params::integer(param)?;
    let invalid = |message: String| RpcError::new(RPC_INVALID_PARAMETER, message);
    let Ok(at) = u32::try_from(height) else {
        return Err(invalid(format!("Target block height {height} is negative")));
    };
    let tip = committed.tip().height;
    let id = committed.active.at(at);
    id.ok_or_else(|| invalid(format!("Target block height {height} after current tip {tip}")))
}
