//! Blocks and their transactions.

use apus_coins::Coin;
use apus_wire::{BlockView, Chain, TxView, genesis_block};
use serde::Serialize;

use super::error::{RPC_INTERNAL_ERROR, RPC_INVALID_ADDRESS_OR_KEY, RPC_MISC_ERROR, RpcError};
use super::header::HeaderAnswer;
use super::json::{Json, hex, json};
use super::params;
use super::source::{Call, Source, find};
use super::stored::{StoredBlock, parse};
use super::transaction::{Spent, Transaction};

const NO_UNDO: &str = "Undo data expected but can't be read. This could be due to disk corruption \
                       or a conflict with a pruning event.";

/// A block (Core's `blockToJSON`).
#[derive(Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    header: &'a HeaderAnswer,
    strippedsize: usize,
    size: usize,
    weight: usize,
    coinbase_tx: Coinbase,
    tx: Transactions,
}

#[derive(Serialize)]
struct Coinbase {
    version: u32,
    locktime: u32,
    sequence: u32,
    coinbase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    witness: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Transactions {
    Txids(Vec<String>),
    Whole(Vec<Transaction>),
}

impl Coinbase {
    fn new(tx: TxView) -> Option<Self> {
        let input = tx.inputs().next()?;
        Some(Self {
            version: tx.version(),
            locktime: tx.lock_time(),
            sequence: input.sequence(),
            coinbase: hex(input.script_sig()),
            witness: input.witness().next().map(hex),
        })
    }
}

/// How much of a block's transactions is shown (Core's `TxVerbosity`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Their txids.
    Txids,
    /// Everything, and their fees if undo data is stored.
    Transactions,
    /// The coins that they spend, too.
    Prevouts,
}

/// Returns the description of a block that was read from `stored`.
///
/// # Errors
/// The block or its undo data is damaged.
pub fn block_json(
    header: &HeaderAnswer,
    stored: &StoredBlock,
    bytes: &[u8],
    detail: Detail,
    chain: Chain,
) -> Result<Json, RpcError> {
    let view = parse(bytes)?;
    let tx = match detail {
        Detail::Txids => {
            Transactions::Txids(view.txids().iter().map(ToString::to_string).collect())
        }
        _ => {
            let spent = stored.spent(&view);
            let spent = spent.map_err(|_| RpcError::new(RPC_INTERNAL_ERROR, NO_UNDO))?;
            Transactions::Whole(transactions(&view, spent.as_deref(), detail, chain))
        }
    };
    let coinbase = view.txs().next().and_then(Coinbase::new);
    let coinbase_tx = coinbase.ok_or_else(|| RpcError::new(RPC_INTERNAL_ERROR, "no coinbase"))?;
    Ok(json(&Block {
        header,
        strippedsize: view.base_size(),
        size: view.len(),
        weight: view.weight(),
        coinbase_tx,
        tx,
    }))
}

fn transactions(
    view: &BlockView<&[u8]>,
    spent: Option<&[Vec<Coin>]>,
    detail: Detail,
    chain: Chain,
) -> Vec<Transaction> {
    let of = |(index, tx): (usize, TxView)| {
        // The coinbase spends nothing.
        let coins = spent.zip(index.checked_sub(1)).map(|(spent, index)| &spent[index][..]);
        let spent = match coins {
            None => Spent::Unknown,
            Some(coins) if detail == Detail::Prevouts => Spent::Shown(coins),
            Some(coins) => Spent::ForFee(coins),
        };
        Transaction::new(tx, spent, chain)
    };
    view.txs().enumerate().map(of).collect()
}

/// `getblock`.
pub fn getblock(call: &Call) -> Result<Json, RpcError> {
    let hash = params::hash(call.param(0), "blockhash")?;
    let verbosity = params::verbosity(call.param(1), 1)?;
    let (header, stored) = call.source.try_look(|committed| {
        let id = find(committed, &hash)?;
        Ok((HeaderAnswer::new(committed, id), StoredBlock::new(committed, id)))
    })?;
    let bytes = stored.read()?;
    let detail = match verbosity {
        ..=0 => return Ok(json(&hex(&bytes))),
        1 => Detail::Txids,
        2 => Detail::Transactions,
        3.. => Detail::Prevouts,
    };
    block_json(&header, &stored, &bytes, detail, call.source.chain())
}

/// A transaction, and the block that it is in (Core's `TxToJSON`).
#[derive(Serialize)]
struct RawTransaction {
    in_active_chain: bool,
    #[serde(flatten)]
    transaction: Transaction,
    blockhash: String,
    confirmations: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocktime: Option<u32>,
}

/// `getrawtransaction`: without a mempool and an index of transactions, of a given block alone.
pub fn getrawtransaction(call: &Call) -> Result<Json, RpcError> {
    let txid = params::hash(call.param(0), "parameter 1")?;
    let not_found = |message: &str| RpcError::new(RPC_INVALID_ADDRESS_OR_KEY, message);
    if txid == genesis_coinbase(call.source)? {
        return Err(not_found(
            "The genesis block coinbase is not considered an ordinary transaction and cannot be \
             retrieved",
        ));
    }
    let verbosity = params::verbosity(call.param(1), 0)?;
    if call.param(2).is_null() {
        return Err(not_found(
            "No such mempool transaction. Use -txindex or provide a block hash to enable \
             blockchain transaction queries. Use gettransaction for wallet transactions.",
        ));
    }
    let hash = params::hash(call.param(2), "parameter 3")?;
    let (stored, depth, time) = call.source.try_look(|committed| {
        let id = committed.tree.find(&hash).ok_or_else(|| not_found("Block hash not found"))?;
        let block = committed.tree.node(id);
        let is_active = committed.active.contains(&committed.tree, id);
        let depth = is_active.then(|| committed.tip().height - block.height + 1);
        Ok((StoredBlock::new(committed, id), depth, block.time))
    })?;
    if stored.pos.is_none() {
        return Err(RpcError::new(RPC_MISC_ERROR, "Block not available"));
    }
    let missing = || {
        not_found(
            "No such transaction found in the provided block. Use gettransaction for wallet \
             transactions.",
        )
    };
    let bytes = stored.read().map_err(|_| missing())?;
    let view = parse(&bytes)?;
    let index = view.txids().iter().position(|id| *id == txid).ok_or_else(missing)?;
    let tx = view.tx(index);
    if verbosity <= 0 {
        return Ok(json(&hex(tx.bytes())));
    }
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
    let time = depth.map(|_| time);
    Ok(json(&RawTransaction {
        in_active_chain: depth.is_some(),
        transaction: Transaction::new(tx, spent, call.source.chain()),
        blockhash: hash.to_string(),
        confirmations: depth.unwrap_or(0),
        time,
        blocktime: time,
    }))
}

fn genesis_coinbase(source: &Source) -> Result<apus_hash::Hash, RpcError> {
    let bytes = genesis_block(&source.network);
    Ok(parse(&bytes)?.header().merkle_root)
}
