//! `getblockfilter` and `getindexinfo`.

use apus_hash::Hash;
use apus_indexes::Filter;
use apus_node::view::Committed;
use apus_store::{BlockStatus, IndexKind};
use serde::{Serialize, Serializer};

use super::error::{
    RPC_INTERNAL_ERROR, RPC_INVALID_ADDRESS_OR_KEY, RPC_MISC_ERROR, RpcError, internal,
};
use super::indexes::IndexSummary;
use super::json::{Json, hex, json};
use super::params;
use super::source::{Call, Source, find};

/// The name of the only type of filters (BIP158).
pub const BASIC: &str = "basic";

/// Core's names of the indexes, in the order in which it lists them.
const NAMES: [(&str, IndexKind); 4] = [
    ("txindex", IndexKind::TxIndex),
    ("coinstatsindex", IndexKind::CoinStatsIndex),
    ("txospenderindex", IndexKind::TxoSpenderIndex),
    ("basic block filter index", IndexKind::BlockFilterIndex),
];

/// A block whose filter is requested.
pub struct Block {
    height: u32,
    /// Whether the block was connected once.
    was_connected: bool,
}

impl Block {
    /// Returns what is known of the block with a hash.
    ///
    /// # Errors
    /// Its header is not known.
    pub fn find(committed: &Committed, hash: &Hash) -> Result<Self, RpcError> {
        let id = find(committed, hash)?;
        let status = committed.record(id).status;
        let was_connected = status.is_valid(BlockStatus::BLOCK_VALID_SCRIPTS);
        Ok(Self { height: committed.tree.node(id).height, was_connected })
    }
}

/// Returns the filter of a block from an index whose state is `state`.
///
/// # Errors
/// The index does not have it.
pub fn filter(
    source: &Source,
    (block, hash): (&Block, &Hash),
    state: IndexSummary,
) -> Result<Filter, RpcError> {
    let found = source.indexes.reader.filter(block.height, hash).map_err(internal)?;
    found.ok_or_else(|| missing(block.was_connected, state))
}

pub fn missing(was_connected: bool, state: IndexSummary) -> RpcError {
    let (code, why) = if !was_connected {
        (RPC_INVALID_ADDRESS_OR_KEY, "Block was not connected to active chain.")
    } else if !state.synced {
        (RPC_MISC_ERROR, "Block filters are still in the process of being indexed.")
    } else {
        (RPC_INTERNAL_ERROR, "This error is unexpected and indicates index corruption.")
    };
    RpcError::new(code, format!("Filter not found. {why}"))
}

/// `getblockfilter`.
pub fn getblockfilter(call: &Call) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    struct Answer {
        filter: String,
        header: String,
    }
    let hash = params::hash(call.param(0), "blockhash")?;
    let state = index(call, filter_type(call.param(1))?)?;
    let block = call.source.try_look(|it| Block::find(it, &hash))?;
    let Filter { bytes, header } = filter(call.source, (&block, &hash), state)?;
    Ok(json(&Answer { filter: hex(&bytes), header: header.to_string() }))
}

/// Returns the type of filters that a parameter names.
///
/// # Errors
/// There is no such type.
pub fn filter_type(kind: &serde_json::Value) -> Result<&str, RpcError> {
    match if kind.is_null() { BASIC } else { params::text(kind)? } {
        BASIC => Ok(BASIC),
        _ => Err(RpcError::new(RPC_INVALID_ADDRESS_OR_KEY, "Unknown filtertype")),
    }
}

/// Returns the state of the index of filters of a type.
///
/// # Errors
/// There is no such index.
pub fn index(call: &Call, name: &str) -> Result<IndexSummary, RpcError> {
    let Call { source, waiting, .. } = call;
    let state = source.indexes.caught_up(&source.view, IndexKind::BlockFilterIndex, waiting)?;
    state.ok_or_else(|| {
        RpcError::new(RPC_MISC_ERROR, format!("Index is not enabled for filtertype {name}"))
    })
}

/// `getindexinfo`.
pub fn getindexinfo(call: &Call) -> Result<Json, RpcError> {
    struct All(Vec<(&'static str, IndexSummary)>);
    impl Serialize for All {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self.0.iter().map(|(name, state)| (name, state)))
        }
    }
    let name = if call.param(0).is_null() { "" } else { params::text(call.param(0))? };
    let mut all = Vec::new();
    for (known, kind) in NAMES.into_iter().filter(|(known, _)| name.is_empty() || *known == name) {
        let state = call.source.indexes.state(&call.source.view, kind)?;
        all.extend(state.map(|state| (known, state)));
    }
    Ok(json(&All(all)))
}
