//! The methods about the process itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::live::Live;
use super::named::Name;
use super::rpc_error::RpcError;

/// What calls are answered from.
pub(crate) struct NodeState {
    /// What the process reports about itself.
    pub live: Arc<Live>,
    /// Asks the work of the process to end.
    pub stop: Arc<AtomicBool>,
    active: Mutex<BTreeMap<u64, Active>>,
}

/// A call that is being answered.
pub(crate) struct Active {
    /// The method.
    pub method: String,
    /// When the call began.
    pub began: Instant,
    /// Ends the call soon after it is raised.
    pub stop: Arc<AtomicBool>,
}

impl NodeState {
    /// Creates the state without calls.
    pub fn new(live: Arc<Live>, stop: Arc<AtomicBool>) -> Self {
        Self { live, stop, active: Mutex::default() }
    }

    /// Returns the calls that are being answered.
    pub fn active(&self) -> MutexGuard<'_, BTreeMap<u64, Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A method.
pub(crate) struct Method {
    name: &'static str,
    /// Its parameters.
    pub args: &'static [Name<'static>],
    /// Answers a call.
    pub call: fn(&NodeState, &[Value]) -> Result<Box<RawValue>, RpcError>,
}

/// All methods.
const METHODS: [Method; 3] = [
    Method { name: "getrpcinfo", args: &[], call: getrpcinfo },
    Method { name: "stop", args: &[Name { names: "wait", is_option: false }], call: stop },
    Method { name: "uptime", args: &[], call: uptime },
];

/// Returns the method of this name.
pub(crate) fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

fn raw(value: impl Serialize) -> Box<RawValue> {
    to_raw_value(&value).expect("plain data")
}

fn uptime(node: &NodeState, _: &[Value]) -> Result<Box<RawValue>, RpcError> {
    Ok(raw(node.live.uptime().as_secs()))
}

fn stop(node: &NodeState, _: &[Value]) -> Result<Box<RawValue>, RpcError> {
    node.stop.store(true, Relaxed);
    Ok(raw("Apus stopping"))
}

fn getrpcinfo(node: &NodeState, _: &[Value]) -> Result<Box<RawValue>, RpcError> {
    #[derive(Serialize)]
    struct Call<'a> {
        method: &'a str,
        duration: u64,
    }
    #[derive(Serialize)]
    struct Info<'a> {
        active_commands: Vec<Call<'a>>,
        logpath: &'a Path,
    }
    let active = node.active();
    let calls = active.values().map(|Active { method, began, .. }| Call {
        method,
        duration: began.elapsed().as_micros() as u64,
    });
    let active_commands = calls.collect();
    let logpath = node.live.about().log.as_deref().unwrap_or(Path::new(""));
    Ok(raw(Info { active_commands, logpath }))
}
