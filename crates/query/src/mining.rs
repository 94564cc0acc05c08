//! The work of miners.

use apus_chain::{BlockId, Tree};
use apus_consensus::{Work, next_work_required};
use apus_node::view::Committed;
use apus_wire::Chain;
use serde::Serialize;

use super::error::{RPC_INVALID_PARAMETER, RpcError};
use super::header::{bits, difficulty, target};
use super::json::{Amount, Fraction, Json, hex, json};
use super::params;
use super::source::{Call, now};

/// Core's default of `nblocks`.
const BLOCKS: i32 = 120;
/// The least fee rate of transactions in blocks that Core makes, in satoshis for 1000 virtual bytes
/// (Core's `DEFAULT_BLOCK_MIN_TX_FEE`).
const BLOCK_MIN_TX_FEE: i64 = 1;
/// The time in seconds by which the first block of a period may be before the last one (BIP94,
/// Core's `MAX_TIMEWARP`).
const MAX_TIMEWARP: i64 = 600;

/// `getnetworkhashps`.
pub fn getnetworkhashps(call: &Call) -> Result<Json, RpcError> {
    let number = |index, default| match call.param(index) {
        number if number.is_null() => Ok(default),
        number => params::integer::<i32>(number),
    };
    let wrong = |what: &str| RpcError::new(RPC_INVALID_PARAMETER, what);
    let blocks = number(0, BLOCKS)?;
    let height = number(1, -1)?;
    if blocks < -1 || blocks == 0 {
        return Err(wrong("Invalid nblocks. Must be a positive number or -1."));
    }
    call.source.try_look(|committed| {
        let block = match u32::try_from(height) {
            Ok(height) => committed.active.at(height),
            Err(_) => Some(committed.tip_id()).filter(|_| height == -1),
        };
        let block = block.ok_or_else(|| wrong("Block does not exist at specified height"))?;
        Ok(json(&Fraction(hashes_per_second(&committed.tree, block, blocks))))
    })
}

/// Returns the hashes a second of the last `blocks` up to a block; -1: of those since the
/// difficulty last changed (Core's `GetNetworkHashPS`).
fn hashes_per_second(tree: &Tree, last: BlockId, blocks: i32) -> f64 {
    let end = tree.node(last);
    let interval = tree.network().difficulty_adjustment_interval();
    let blocks = u32::try_from(blocks).unwrap_or(end.height % interval + 1).min(end.height);
    let mut first = end;
    let mut least = end.time;
    let mut most = end.time;
    for _ in 0..blocks {
        let Some(prev) = first.prev else { break };
        first = tree.node(prev);
        (least, most) = (least.min(first.time), most.max(first.time));
    }
    match most - least {
        0 => 0.0,
        seconds => as_number(low(&end.work) - low(&first.work)) / f64::from(seconds),
    }
}

/// Returns the low 128 bits of a work, which no chain exceeds.
fn low(work: &Work) -> u128 {
    let bytes = work.to_be_bytes();
    u128::from_be_bytes(*bytes.last_chunk().expect("32 bytes"))
}

/// Returns a number with the rounding of Core's `base_uint::getdouble`.
fn as_number(number: u128) -> f64 {
    let limb = |at: i32| f64::from((number >> (32 * at)) as u32) * 2_f64.powi(32 * at);
    (0..4).map(limb).sum()
}

#[derive(Serialize)]
struct MiningInfo {
    blocks: u32,
    bits: String,
    difficulty: Fraction,
    target: String,
    networkhashps: Fraction,
    pooledtx: u32,
    blockmintxfee: Amount,
    chain: &'static str,
    next: Next,
    #[serde(skip_serializing_if = "Option::is_none")]
    signet_challenge: Option<String>,
    warnings: [String; 0],
}

/// The required fields of the next block.
#[derive(Serialize)]
struct Next {
    height: u32,
    bits: String,
    difficulty: Fraction,
    target: String,
}

/// `getmininginfo`.
pub fn getmininginfo(call: &Call) -> Result<Json, RpcError> {
    let network = &call.source.network;
    call.source.look(|committed| {
        let tip = committed.tip();
        let id = committed.tip_id();
        let next = next_bits(committed);
        let challenge = network.signet_challenge.as_deref();
        json(&MiningInfo {
            blocks: tip.height,
            bits: bits(tip.bits),
            difficulty: difficulty(tip.bits),
            target: target(tip.bits),
            networkhashps: Fraction(hashes_per_second(&committed.tree, id, BLOCKS)),
            pooledtx: 0,
            blockmintxfee: Amount(BLOCK_MIN_TX_FEE),
            chain: network.chain.name(),
            next: Next {
                height: tip.height + 1,
                bits: bits(next),
                difficulty: difficulty(next),
                target: target(next),
            },
            signet_challenge: challenge.filter(|_| network.chain == Chain::Signet).map(hex),
            warnings: [],
        })
    })
}

/// Returns the target of a block that is made now, in compact form (Core's `NextEmptyBlockIndex`).
fn next_bits(committed: &Committed) -> u32 {
    let tree = &committed.tree;
    let tip = committed.tip();
    let id = committed.tip_id();
    let network = tree.network();
    let mut least = i64::from(tree.median_time_past(id)) + 1;
    if (tip.height + 1).is_multiple_of(network.difficulty_adjustment_interval()) {
        least = least.max(i64::from(tip.time) - MAX_TIMEWARP);
    }
    next_work_required(network, &tree.branch(id), least.max(now()) as u32)
}
