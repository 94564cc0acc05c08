//! `getrawtransaction`: a transaction of a given block, or of any if there is an index.

use apus_hash::Hash;
use apus_node::view::Committed;
use apus_store::IndexKind;
use apus_wire::{TxView, genesis_block};
use serde::Serialize;

use super::block::NO_UNDO;
use super::error::{RPC_INTERNAL_ERROR, RPC_INVALID_ADDRESS_OR_KEY, RPC_MISC_ERROR, RpcError};
use super::json::{Json, hex, json};
use super::params;
use super::source::{Call, Source};
use super::stored::{StoredBlock, parse};
use super::transaction::{Spent, Transaction};

/// A transaction, and the block that it is in (Core's `TxToJSON`).
#[derive(Serialize)]
struct RawTransaction<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    in_active_chain: Option<bool>,
    #[serde(flatten)]
    transaction: Transaction<'a>,
    blockhash: String,
    #[serde(flatten)]
    depth: Option<Depth>,
}

/// How deep a block is in the active chain.
#[derive(Serialize)]
struct Depth {
    confirmations: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocktime: Option<u32>,
}

impl Depth {
    /// Returns the depth of a block; 0 outside the active chain, `None` if its header is not known.
    fn of(committed: &Committed, hash: &Hash) -> Option<Self> {
        let id = committed.tree.find(hash)?;
        let block = committed.tree.node(id);
        let is_active = committed.active.contains(&committed.tree, id);
        let time = is_active.then_some(block.time);
        let confirmations = if is_active { committed.tip().height - block.height + 1 } else { 0 };
        Some(Self { confirmations, time, blocktime: time })
    }
}

fn not_found(message: &str) -> RpcError {
    RpcError::new(RPC_INVALID_ADDRESS_OR_KEY, message)
}

/// `getrawtransaction`.
pub fn getrawtransaction(call: &Call) -> Result<Json, RpcError> {
    let txid = params::hash(call.param(0), "parameter 1")?;
    if txid == genesis_coinbase(call.source)? {
        return Err(not_found(
            "The genesis block coinbase is not considered an ordinary transaction and cannot be \
             retrieved",
        ));
    }
    let verbosity = params::verbosity(call.param(1), 0)?;
    if call.param(2).is_null() {
        return by_txid(call, &txid, verbosity);
    }
    let hash = params::hash(call.param(2), "parameter 3")?;
    let stored = call.source.try_look(|committed| {
        let id = committed.tree.find(&hash).ok_or_else(|| not_found("Block hash not found"))?;
        Ok(StoredBlock::new(committed, id))
    })?;
    if stored.pos.is_none() {
        return Err(RpcError::new(RPC_MISC_ERROR, "Block not available"));
    }
    in_block(call, &txid, (&hash, &stored), verbosity)
}

/// Answers for the transaction of a block.
fn in_block(
    call: &Call,
    txid: &Hash,
    (hash, stored): (&Hash, &StoredBlock),
    verbosity: i32,
) -> Result<Json, RpcError> {
    let missing = || {
        not_found(
            "No such transaction found in the provided block. Use gettransaction for wallet \
             transactions.",
        )
    };
    let bytes = stored.read().map_err(|_| missing())?;
    let view = parse(&bytes)?;
    let index = view.txids().iter().position(|id| id == txid).ok_or_else(missing)?;
    let tx = view.tx(index);
    let coins;
    let spent = match index.checked_sub(1).filter(|_| verbosity > 1) {
        None => Spent::Unknown,
        Some(index) => {
            let read = stored.spent(&view).ok().flatten();
            let mut read = read.ok_or_else(|| RpcError::new(RPC_INTERNAL_ERROR, NO_UNDO))?;
            coins = read.swap_remove(index);
            Spent::Shown(&coins)
        }
    };
    answer(call, (tx, spent), hash, verbosity)
}

/// Answers for the transaction that `txindex` has under a txid.
fn by_txid(call: &Call, txid: &Hash, verbosity: i32) -> Result<Json, RpcError> {
    let source = call.source;
    let state = source.indexes.caught_up(&source.view, IndexKind::TxIndex, call.waiting)?;
    let found = source.indexes.transaction(&source.view, txid)?;
    let Some(found) = found else {
        let why = match state {
            None => {
                "No such mempool transaction. Use -txindex or provide a block hash to enable \
                 blockchain transaction queries"
            }
            Some(state) if !state.synced => {
                "No such mempool transaction. Blockchain transactions are still in the process of \
                 being indexed"
            }
            Some(_) => "No such mempool or blockchain transaction",
        };
        return Err(not_found(&format!("{why}. Use gettransaction for wallet transactions.")));
    };
    if verbosity > 1 && !found.tx().is_coinbase() {
        let find = |it: &Committed| Some(StoredBlock::new(it, it.tree.find(&found.block)?));
        if let Some(stored) = source.look(find)?.filter(|stored| stored.pos.is_some()) {
            return in_block(call, txid, (&found.block, &stored), verbosity);
        }
    }
    answer(call, (found.tx(), Spent::Unknown), &found.block, verbosity)
}

fn answer(
    call: &Call,
    (tx, spent): (TxView, Spent),
    block: &Hash,
    verbosity: i32,
) -> Result<Json, RpcError> {
    if verbosity <= 0 {
        return Ok(json(&hex(tx.bytes())));
    }
    let depth = call.source.look(|committed| Depth::of(committed, block))?;
    let is_given = !call.param(2).is_null();
    let is_active = depth.as_ref().is_some_and(|depth| depth.time.is_some());
    Ok(json(&RawTransaction {
        in_active_chain: is_given.then_some(is_active),
        transaction: Transaction::new(tx, spent, call.source.chain()),
        blockhash: block.to_string(),
        depth,
    }))
}

fn genesis_coinbase(source: &Source) -> Result<Hash, RpcError> {
    let bytes = genesis_block(&source.network);
    Ok(parse(&bytes)?.header().merkle_root)
}
