//! The calls that are being answered.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use apus_query::RpcError;
use serde_json::Value;
use serde_json::value::RawValue;

use super::auth::Whitelist;
use super::jsonrpc::{Execute, METHOD_NOT_FOUND, Params};
use super::methods::find;
use super::named::by_place;
use super::state::{Active, State};

/// All calls of this process.
pub(crate) struct Rpc {
    /// What calls are answered from.
    pub state: State,
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
    /// Creates the state without calls.
    pub fn new(state: State, whitelist: Whitelist) -> Self {
        Self { state, whitelist, next: AtomicU64::new(0), is_stopping: AtomicBool::new(false) }
    }

    /// Returns the answer of a method to Apus itself; `None` if it has none.
    pub fn ask(&self, method: &str, params: &[Value]) -> Option<Value> {
        let answer = find(method)?.call(&self.state, params, &AtomicBool::new(false)).ok()?;
        serde_json::from_str(answer.get()).ok()
    }

    /// Ends all calls soon, and refuses others.
    pub fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        self.state.active().values().for_each(|call| call.stop.store(true, Relaxed));
    }

    /// Returns whether no more calls are answered.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }

    /// Lists a request as a call of `method` until the result is dropped.
    pub fn list(&self, method: &str, stop: &Arc<AtomicBool>) -> Listed<'_> {
        let id = self.next.fetch_add(1, Relaxed);
        let (method, began, stop) = (method.to_string(), Instant::now(), Arc::clone(stop));
        self.state.active().insert(id, Active { method, began, stop });
        Listed(self, id)
    }
}

/// Lists a call until it is dropped.
pub(crate) struct Listed<'a>(&'a Rpc, u64);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.state.active().remove(&self.1);
    }
}

impl Execute for Calls {
    fn allows(&self, method: &str) -> bool {
        self.rpc.whitelist.allows(&self.user, method)
    }

    fn execute(&self, method: &str, params: Params) -> Result<Box<RawValue>, RpcError> {
        tracing::debug!(target: "rpc", method, user = self.user, "called");
        let Some(known) = find(method) else {
            return Err(RpcError::new(METHOD_NOT_FOUND, "Method not found"));
        };
        let _listed = self.rpc.list(method, &self.stop);
        let params = match params {
            Params::List(list) => list,
            Params::Named(named) => by_place(named, known.args())?,
        };
        known.call(&self.rpc.state, &params, &self.stop)
    }
}
