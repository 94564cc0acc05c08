//! Proofs that a block has a transaction.

use std::collections::BTreeSet;

use apus_hash::Hash;
use apus_store::IndexKind;
use bitcoin::hashes::Hash as _;
use bitcoin::{MerkleBlock, Txid};

use super::error::{
    RPC_INVALID_ADDRESS_OR_KEY, RPC_INVALID_PARAMETER, RPC_MISC_ERROR, RpcError, internal,
};
use super::json::{Json, from_hex, hex, json};
use super::params;
use super::source::{Call, find};
use super::stored::{StoredBlock, parse};

/// `gettxoutproof`.
pub fn gettxoutproof(call: &Call) -> Result<Json, RpcError> {
    let invalid = |message: String| RpcError::new(RPC_INVALID_PARAMETER, message);
    let not_found = |message| RpcError::new(RPC_INVALID_ADDRESS_OR_KEY, message);
    let given = params::array(call.param(0))?;
    if given.is_empty() {
        return Err(invalid("Parameter 'txids' cannot be empty".to_string()));
    }
    let mut txids = BTreeSet::new();
    for txid in given {
        if !txids.insert(params::hash(txid, "txid")?) {
            let text = params::text(txid)?;
            return Err(invalid(format!("Invalid parameter, duplicated txid: {text}")));
        }
    }
    let stored = match call.param(1) {
        hash if hash.is_null() => {
            let found = match unspent_in(call, &txids)? {
                Some(found) => Some(found),
                None => indexed(call, &txids)?,
            };
            found.ok_or_else(|| not_found("Transaction not yet in block"))?
        }
        hash => {
            let hash = params::hash(hash, "blockhash")?;
            let look = |it: &_| Ok(StoredBlock::new(it, find(it, &hash)?));
            call.source.try_look(look)?
        }
    };
    let bytes = stored.read()?;
    let view = parse(&bytes)?;
    let all = view.txids();
    if all.iter().filter(|txid| txids.contains(txid)).count() != txids.len() {
        return Err(not_found("Not all transactions found in specified or retrieved block"));
    }
    let header = bitcoin::consensus::deserialize(&view.header().to_bytes()).map_err(internal)?;
    let all: Vec<Txid> = all.iter().map(|txid| Txid::from_byte_array(txid.0)).collect();
    let is_wanted = |txid: &Txid| txids.contains(&Hash(txid.to_byte_array()));
    let proof = MerkleBlock::from_header_txids_with_predicate(&header, &all, is_wanted);
    Ok(json(&hex(&bitcoin::consensus::serialize(&proof))))
}

/// Returns the block of the first of the transactions that has an unspent output.
fn unspent_in(call: &Call, txids: &BTreeSet<Hash>) -> Result<Option<StoredBlock>, RpcError> {
    let (coins, tip) = call.source.look(|it| (it.coins.clone(), it.tip_id()))?;
    for txid in txids {
        call.check_stop()?;
        if let Some((_, coin)) = coins.scan_txids(txid, txid).next_coin().map_err(internal)? {
            return call.source.look(|it| {
                let block = it.tree.ancestor(tip, coin.height);
                block.map(|block| StoredBlock::new(it, block))
            });
        }
    }
    Ok(None)
}

/// Returns the block of the first of the transactions, from `txindex`.
fn indexed(call: &Call, txids: &BTreeSet<Hash>) -> Result<Option<StoredBlock>, RpcError> {
    let Some(txid) = txids.first() else { return Ok(None) };
    call.source.indexes.caught_up(&call.source.view, IndexKind::TxIndex, call.waiting)?;
    let found = call.source.indexes.transaction(&call.source.view, txid)?;
    let Some(found) = found else { return Ok(None) };
    call.source.look(|it| it.tree.find(&found.block).map(|id| StoredBlock::new(it, id)))
}

/// `verifytxoutproof`.
pub fn verifytxoutproof(call: &Call) -> Result<Json, RpcError> {
    let text = params::text(call.param(0))?;
    let bytes = from_hex(text).filter(|bytes| !bytes.is_empty()).ok_or_else(|| {
        let message = format!("proof must be hexadecimal string (not '{text}')");
        RpcError::new(RPC_INVALID_PARAMETER, message)
    })?;
    let (proof, _): (MerkleBlock, usize) = bitcoin::consensus::deserialize_partial(&bytes)
        .map_err(|error| RpcError::new(RPC_MISC_ERROR, error))?;
    let mut txids = Vec::new();
    if proof.extract_matches(&mut txids, &mut Vec::new()).is_err() {
        return Ok(json(&[""; 0]));
    }
    let hash = Hash(proof.header.block_hash().to_byte_array());
    let count = call.source.look(|it| {
        let id = it.tree.find(&hash).filter(|id| it.active.contains(&it.tree, *id));
        id.map(|id| it.record(id).tx_count).filter(|count| *count > 0)
    })?;
    let missing = || RpcError::new(RPC_INVALID_ADDRESS_OR_KEY, "Block not found in chain");
    if count.ok_or_else(missing)? != proof.txn.num_transactions() {
        txids.clear();
    }
    Ok(json(&txids.iter().map(ToString::to_string).collect::<Vec<_>>()))
}
