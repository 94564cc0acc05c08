//! The calls: which methods there are, and which are being answered.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use serde_json::Value;
use serde_json::value::RawValue;

use super::auth::Whitelist;
use super::control::{self, Active, NodeState};
use super::jsonrpc::{Execute, Params};
use super::named::by_place;
use super::rpc_error::{METHOD_NOT_FOUND, RpcError};

/// All calls of this process.
pub(crate) struct Rpc {
    /// What calls are answered from.
    pub node: NodeState,
    whitelist: Whitelist,
    next: AtomicU64,
    is_stopping: AtomicBool,
}

/// The calls of one request.
pub(crate) struct Calls {
    pub rpc: Arc<Rpc>,
    /// The name of the user.
    pub user: String,
    /// Ends a call soon after it is raised.
    pub stop: Arc<AtomicBool>,
}

impl Rpc {
    /// Returns the answer of a method to Apus itself; `None` if it has none.
    pub fn ask(&self, method: &str, params: &[Value]) -> Option<Value> {
        let answer = (control::find(method)?.call)(&self.node, params).ok()?;
        serde_json::from_str(answer.get()).ok()
    }

    /// Creates the state without calls.
    pub fn new(node: NodeState, whitelist: Whitelist) -> Self {
        Self { node, whitelist, next: AtomicU64::new(0), is_stopping: AtomicBool::new(false) }
    }

    /// Ends all calls soon, and refuses others.
    pub fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        self.node.active().values().for_each(|call| call.stop.store(true, Relaxed));
    }

    /// Returns whether no more calls are answered.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }
}

/// Lists a call until it is dropped.
struct Listed<'a>(&'a Rpc, u64);

impl<'a> Listed<'a> {
    fn new(rpc: &'a Rpc, method: &str, stop: &Arc<AtomicBool>) -> Self {
        let id = rpc.next.fetch_add(1, Relaxed);
        let (method, began, stop) = (method.to_string(), Instant::now(), Arc::clone(stop));
        rpc.node.active().insert(id, Active { method, began, stop });
        Self(rpc, id)
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.node.active().remove(&self.1);
    }
}

impl Execute for Calls {
    fn allows(&self, method: &str) -> bool {
        self.rpc.whitelist.allows(&self.user, method)
    }

    fn execute(&self, method: &str, params: Params) -> Result<Box<RawValue>, RpcError> {
        tracing::debug!(target: "rpc", method, user = self.user, "called");
        let Some(known) = control::find(method) else {
            return Err(RpcError::new(METHOD_NOT_FOUND, "Method not found"));
        };
        let _listed = Listed::new(&self.rpc, method, &self.stop);
        let params = match params {
            Params::List(list) => list,
            Params::Named(named) => by_place(named, known.args)?,
        };
        (known.call)(&self.rpc.node, &params)
    }
}
