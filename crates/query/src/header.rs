//! Headers.

use apus_chain::BlockId;
use apus_hash::Hash;
use apus_node::view::Committed;
use serde::Serialize;

use super::error::RpcError;
use super::json::{Fraction, Json, hex, json};
use super::params;
use super::source::{Call, find};

/// A header, and the place of its block in the chain (Core's `blockheaderToJSON`).
#[derive(Serialize)]
pub struct HeaderAnswer {
    hash: String,
    /// -1 if the block is not in the active chain.
    confirmations: i64,
    height: u32,
    version: i32,
    #[serde(rename = "versionHex")]
    version_hex: String,
    merkleroot: String,
    time: u32,
    mediantime: u32,
    nonce: u32,
    bits: String,
    target: String,
    difficulty: Fraction,
    chainwork: String,
    #[serde(rename = "nTx")]
    n_tx: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    previousblockhash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nextblockhash: Option<String>,
}

impl HeaderAnswer {
    /// Returns what is known about the header of `id`.
    pub fn new(committed: &Committed, id: BlockId) -> Self {
        let Committed { tree, active, .. } = committed;
        let block = tree.node(id);
        let header = tree.header(id);
        let is_active = active.contains(tree, id);
        let depth = i64::from(committed.tip().height) - i64::from(block.height) + 1;
        let next = active.at(block.height + 1).filter(|_| is_active);
        Self {
            hash: block.hash.to_string(),
            confirmations: if is_active { depth } else { -1 },
            height: block.height,
            version: header.version,
            version_hex: format!("{:08x}", header.version),
            merkleroot: header.merkle_root.to_string(),
            time: header.time,
            mediantime: tree.median_time_past(id),
            nonce: header.nonce,
            bits: bits(header.bits),
            target: target(header.bits),
            difficulty: difficulty(header.bits),
            chainwork: hex(&block.work.to_be_bytes()),
            n_tx: committed.record(id).tx_count,
            previousblockhash: block.prev.map(|prev| tree.node(prev).hash.to_string()),
            nextblockhash: next.map(|next| tree.node(next).hash.to_string()),
        }
    }
}

/// Returns a target in compact form as hex digits.
pub fn bits(bits: u32) -> String {
    format!("{bits:08x}")
}

/// Returns a target as 64 hex digits (Core's `GetTarget`), of bits that a valid header has.
pub fn target(bits: u32) -> String {
    let size = (bits >> 24) as usize;
    let word = bits & 0x7f_ffff;
    let mut bytes = [0; 32];
    for (index, byte) in word.to_le_bytes()[..3].iter().enumerate() {
        if let Some(at) = (size + index).checked_sub(3).filter(|at| *at < 32) {
            bytes[at] = *byte;
        }
    }
    Hash(bytes).to_string()
}

/// Returns how many times harder a target is than the easiest of mainnet (Core's `GetDifficulty`).
pub fn difficulty(bits: u32) -> Fraction {
    let mut difficulty = f64::from(0xffff) / f64::from(bits & 0xff_ffff);
    let size = bits >> 24 & 0xff;
    for _ in size..29 {
        difficulty *= 256.0;
    }
    for _ in 29..size {
        difficulty /= 256.0;
    }
    Fraction(difficulty)
}

/// `getblockheader`.
pub fn getblockheader(call: &Call) -> Result<Json, RpcError> {
    let hash = params::hash(call.param(0), "hash")?;
    let verbose = call.param(1).is_null() || params::boolean(call.param(1))?;
    call.source.try_look(|committed| {
        let id = find(committed, &hash)?;
        Ok(if verbose {
            json(&HeaderAnswer::new(committed, id))
        } else {
            json(&hex(&committed.tree.header(id).to_bytes()))
        })
    })
}

/// `getdifficulty`.
pub fn getdifficulty(call: &Call) -> Result<Json, RpcError> {
    call.source.look(|committed| json(&difficulty(committed.tip().bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_wide() {
        let zeros = |count: usize| "0".repeat(count);
        assert_eq!(target(0x207f_ffff), format!("7fffff{}", zeros(58)));
        assert_eq!(target(0x1d00_ffff), format!("00000000ffff{}", zeros(52)));
        assert_eq!(target(0x0212_3456), format!("{}1234", zeros(60)));
        assert_eq!(target(0x0100_3456), zeros(64));
        assert_eq!(json(&difficulty(0x1d00_ffff)).get(), "1");
        assert_eq!(json(&difficulty(0x207f_ffff)).get(), "4.656542373906925e-10");
    }
}
