//! The methods about the work of miners.

use apus_chain::{BlockId, Tree};
use apus_query::RpcError;
use apus_query::error::{RPC_IN_WARMUP, RPC_INVALID_PARAMETER};
use apus_query::json::{Fraction, Json, json};
use apus_query::params::integer;
use apus_rules::Work;
use serde_json::Value;

use super::state::Call;

/// Core's default of `nblocks`.
const BLOCKS: i32 = 120;

/// Returns the hashes a second that recent blocks took.
pub(crate) fn getnetworkhashps(call: &Call) -> Result<Json, RpcError> {
    let number = |index, default| match call.param(index) {
        Value::Null => Ok(default),
        number => integer::<i32>(number),
    };
    let wrong = |what: &str| Err(RpcError::new(RPC_INVALID_PARAMETER, what));
    let (blocks, height) = (number(0, BLOCKS)?, number(1, -1)?);
    if blocks < -1 || blocks == 0 {
        return wrong("Invalid nblocks. Must be a positive number or -1.");
    }
    let looked = call.state.view.look(|committed| {
        let tip = committed.tip().height;
        let height = u32::try_from(height).unwrap_or(tip);
        let block = committed.active.at(height).filter(|_| height <= tip)?;
        Some(hashes_per_second(&committed.tree, block, blocks))
    });
    match looked {
        None => Err(RpcError::new(RPC_IN_WARMUP, "Loading block index…")),
        Some(None) => wrong("Block does not exist at specified height"),
        Some(Some(_)) if height < -1 => wrong("Block does not exist at specified height"),
        Some(Some(hashes)) => Ok(json(&Fraction(hashes))),
    }
}

/// Returns the hashes a second of the last `blocks` up to a block; -1: of those since the
/// difficulty last changed (Core's `GetNetworkHashPS`).
fn hashes_per_second(tree: &Tree, last: BlockId, blocks: i32) -> f64 {
    let end = tree.node(last);
    let interval = tree.network().difficulty_adjustment_interval();
    let blocks = u32::try_from(blocks).unwrap_or(end.height % interval + 1).min(end.height);
    let (mut first, mut least, mut most) = (end, end.time, end.time);
    for _ in 0..blocks {
        let Some(prev) = first.prev else { break };
        first = tree.node(prev);
        (least, most) = (least.min(first.time), most.max(first.time));
    }
    match most - least {
        0 => 0.0,
        seconds => (as_number(&end.work) - as_number(&first.work)) / f64::from(seconds),
    }
}

fn as_number(work: &Work) -> f64 {
    work.to_be_bytes().iter().fold(0.0, |number, byte| 256.0 * number + f64::from(*byte))
}
