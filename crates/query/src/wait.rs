//! Calls that wait for a block.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apus_chain::BlockNode;
use serde::Serialize;

use super::error::{RPC_MISC_ERROR, RpcError};
use super::json::{Json, json};
use super::params;
use super::source::Call;

/// The longest time after which a call looks at the tip again, whether there is a new one or not.
const LOOK_EVERY: Duration = Duration::from_secs(60);

#[derive(Serialize)]
struct Tip {
    hash: String,
    height: u32,
}

/// `waitfornewblock`.
pub fn waitfornewblock(call: &Call) -> Result<Json, RpcError> {
    let until = deadline(call, 0)?;
    let known = match call.param(1) {
        known if known.is_null() => call.waiting.first_tip(call.source.look(|it| it.tip().hash)?),
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

/// Returns how long the call waits for a block, by the parameter at `index`; `None` for ever.
fn deadline(call: &Call, index: usize) -> Result<Option<Duration>, RpcError> {
    let timeout = call.param(index);
    let timeout: i32 = if timeout.is_null() { 0 } else { params::integer(timeout)? };
    match u64::try_from(timeout) {
        Ok(0) => Ok(None),
        Ok(milliseconds) => Ok(Some(Duration::from_millis(milliseconds))),
        Err(_) => Err(RpcError::new(RPC_MISC_ERROR, "Negative timeout")),
    }
}

/// Returns the tip once `is_it` is true of it, the time is over, or the program is about to stop.
fn wait(
    call: &Call,
    longest: Option<Duration>,
    is_it: impl Fn(&BlockNode) -> bool,
) -> Result<Json, RpcError> {
    let tip = call.source.look(|committed| committed.tip())?;
    let left = longest.map_or(LOOK_EVERY, |longest| longest.saturating_sub(call.waiting.since()));
    if !is_it(&tip)
        && !left.is_zero()
        && !call.stop.load(Relaxed)
        && let Some(again) = call.waiting.again(left.min(LOOK_EVERY))
    {
        return Err(again);
    }
    Ok(json(&Tip { hash: tip.hash.to_string(), height: tip.height }))
}
