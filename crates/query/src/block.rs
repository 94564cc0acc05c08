//! Blocks and their transactions.

use apus_coins::Coin;
use apus_wire::{BlockView, Chain, TxView};
use serde::Serialize;

use super::error::{RPC_INTERNAL_ERROR, RpcError};
use super::header::HeaderAnswer;
use super::json::{Json, hex, id, json};
use super::params;
use super::source::{Call, find};
use super::stored::{StoredBlock, parse};
use super::transaction::{Spent, Transaction};

/// Core's message for undo data that is missing.
pub const NO_UNDO: &str = "Undo data expected but can't be read. This could be due to disk \
                           corruption or a conflict with a pruning event.";

/// A block (Core's `blockToJSON`).
#[derive(Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    header: &'a HeaderAnswer,
    strippedsize: usize,
    size: usize,
    weight: usize,
    coinbase_tx: Coinbase,
    tx: Transactions<'a>,
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
enum Transactions<'a> {
    Txids(Vec<String>),
    Whole(Vec<Transaction<'a>>),
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
    let spent;
    let tx = match detail {
        Detail::Txids => Transactions::Txids(view.txids().iter().map(id).collect()),
        _ => {
            let read = stored.spent(&view);
            spent = read.map_err(|_| RpcError::new(RPC_INTERNAL_ERROR, NO_UNDO))?;
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

fn transactions<'a>(
    view: &'a BlockView<&[u8]>,
    spent: Option<&'a [Vec<Coin>]>,
    detail: Detail,
    chain: Chain,
) -> Vec<Transaction<'a>> {
    let txids = view.txids();
    let wtxids = view.wtxids();
    let of = |(index, tx): (usize, TxView<'a>)| {
        // The coinbase spends nothing.
        let coins = spent.zip(index.checked_sub(1)).map(|(spent, index)| &spent[index][..]);
        let spent = match coins {
            None => Spent::Unknown,
            Some(coins) if detail == Detail::Prevouts => Spent::Shown(coins),
            Some(coins) => Spent::ForFee(coins),
        };
        Transaction::with_ids(tx, (txids[index], wtxids[index]), spent, chain)
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
