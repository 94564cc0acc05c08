//! Calls that wait for a block.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use apus_chain::BlockNode;
use serde::Serialize;

use super::error::{RPC_MISC_ERROR, RpcError};
use super::json::{Json, json};
use super::params;
use super::source::Call;

/// The time between two looks at the flag that ends a call.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct Tip {
    hash: String,
    height: u32,
}

/// `waitfornewblock`.
pub fn waitfornewblock(call: &Call) -> Result<Json, RpcError> {
    let until = deadline(call, 0)?;
    let known = match call.param(1) {
        known if known.is_null() => call.source.look(|it| it.tip().hash)?,
        known => params::hash(known, "current_tip")?,
    };
    wait(call, until, |tip| tip.hash != known)
}

/// `waitforblock`.
pub fn waitforblock(call: &Call) -> Result<Json, RpcError> {
    let hash = params::hash(call.param(0), "blockhash")?;
    wait(call, deadline(call, 1)?, |tip| tip.hash == hash)
}

/// `waitforblockheight`.
pub fn waitforblockheight(call: &Call) -> Result<Json, RpcError> {
    let height: i32 = params::integer(call.param(0))?;
    wait(call, deadline(call, 1)?, |tip| i64::from(tip.height) >= i64::from(height))
}

/// Returns when the call ends without a block, by the parameter at `index`; `None` for never.
fn deadline(call: &Call, index: usize) -> Result<Option<Instant>, RpcError> {
    let timeout = call.param(index);
    let timeout: i32 = if timeout.is_null() { 0 } else { params::integer(timeout)? };
    match u64::try_from(timeout) {
        Ok(0) => Ok(None),
        Ok(milliseconds) => Ok(Some(Instant::now() + Duration::from_millis(milliseconds))),
        Err(_) => Err(RpcError::new(RPC_MISC_ERROR, "Negative timeout")),
    }
}

/// Returns the tip once `is_it` is true of it, the time is over, or the program is about to stop.
fn wait(
    call: &Call,
    until: Option<Instant>,
    is_it: impl Fn(&BlockNode) -> bool,
) -> Result<Json, RpcError> {
    loop {
        let tip = call.source.look(|committed| committed.tip())?;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if is_it(&tip) || call.stop.load(Relaxed) || left == Some(Duration::ZERO) {
            return Ok(json(&Tip { hash: tip.hash.to_string(), height: tip.height }));
        }
        let patience = left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY));
        call.source.view.wait_for_tip(&tip.hash, patience);
    }
}
