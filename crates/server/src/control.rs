//! The methods about the process itself.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apus_query::RpcError;
use apus_query::error::RPC_INVALID_PARAMETER;
use apus_query::json::{Json, json};
use apus_query::params::text;
use serde::Serialize;
use serde_json::Value;

use super::state::{Active, Call};

/// The longest time that `stop` waits before it is answered.
const STOP_WAIT_MAX: Duration = Duration::from_secs(10);

/// Returns the seconds since the start.
pub(crate) fn uptime(call: &Call) -> Result<Json, RpcError> {
    Ok(json(&call.state.live.uptime().as_secs()))
}

/// Asks the work to end.
pub(crate) fn stop(call: &Call) -> Result<Json, RpcError> {
    call.state.stop.store(true, Relaxed);
    let wait = Duration::from_millis(call.param(0).as_u64().unwrap_or(0)).min(STOP_WAIT_MAX);
    let left = wait.saturating_sub(call.waiting.since());
    let again = if left.is_zero() { None } else { call.waiting.again(left) };
    again.map_or_else(|| Ok(json(&"Apus stopping")), Err)
}

/// Returns the calls that are being answered.
pub(crate) fn getrpcinfo(call: &Call) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    struct Command<'a> {
        method: &'a str,
        duration: u64,
    }
    #[derive(Serialize)]
    struct Info<'a> {
        active_commands: Vec<Command<'a>>,
        logpath: &'a Path,
    }
    let active = call.state.active();
    let commands = active.values().map(|Active { method, began, .. }| Command {
        method,
        duration: began.elapsed().as_micros() as u64,
    });
    let active_commands = commands.collect();
    let logpath = call.state.live.about().log.as_deref().unwrap_or(Path::new(""));
    Ok(json(&Info { active_commands, logpath }))
}

/// Returns how much locked memory there is: none, since Apus keeps no keys.
pub(crate) fn getmemoryinfo(call: &Call) -> Result<Json, RpcError> {
    #[derive(Serialize, Default)]
    struct Locked {
        used: u64,
        free: u64,
        total: u64,
        locked: u64,
        chunks_used: u64,
        chunks_free: u64,
    }
    #[derive(Serialize, Default)]
    struct Info {
        locked: Locked,
    }
    let wrong = |what: String| Err(RpcError::new(RPC_INVALID_PARAMETER, what));
    match call.param(0) {
        Value::Null => Ok(json(&Info::default())),
        mode => match text(mode)? {
            "stats" => Ok(json(&Info::default())),
            "mallocinfo" => wrong("mallocinfo mode not available".to_string()),
            mode => wrong(format!("unknown mode {mode}")),
        },
    }
}

/// Switches categories of the log, first those to include, then those to exclude, and returns which
/// are on.
pub(crate) fn logging(call: &Call) -> Result<Json, RpcError> {
    let logs = &call.state.live.about().logs;
    for (index, on) in [(0, true), (1, false)] {
        for name in call.param(index).as_array().into_iter().flatten() {
            let name = text(name)?;
            if !logs.switch(name, on) {
                let what = format!("unknown logging category {name}");
                return Err(RpcError::new(RPC_INVALID_PARAMETER, what));
            }
        }
    }
    let all: serde_json::Map<String, Value> =
        logs.list().map(|(name, on)| (name.to_string(), Value::Bool(on))).collect();
    Ok(json(&all))
}
