//! The calls that are being answered.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use apus_query::{RpcError, Waiting};
use serde_json::Value;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

use super::auth::Whitelist;
use super::jsonrpc::{Call, Execute, Executed, Frame, METHOD_NOT_FOUND, Params};
use super::methods::{Method, find};
use super::named::by_place;
use super::state::{Active, State};
use super::threads::{Budget, NotDone, Room, Threads};

/// All calls of this process.
pub(crate) struct Rpc {
    /// What calls are answered from.
    pub state: State,
    /// Who answers them.
    pub threads: Threads,
    /// Which methods users may call.
    pub whitelist: Whitelist,
    next: AtomicU64,
    is_stopping: AtomicBool,
    /// Tells those who wait of commits, and that no more calls are answered.
    news: watch::Sender<()>,
}

/// The calls of one request.
pub(crate) struct Calls<'a> {
    pub rpc: &'a Arc<Rpc>,
    /// The name of the user.
    pub user: String,
    /// Ends a call soon after it is raised.
    pub stop: Arc<AtomicBool>,
    /// The memory of replies.
    pub answers: &'a Budget,
    /// What this one has of it.
    pub room: Mutex<Room>,
    /// Whether a call of the request has had a seat.
    pub is_admitted: AtomicBool,
}

impl Rpc {
    /// Creates the state without calls.
    pub fn new(state: State, whitelist: Whitelist, threads: Threads) -> Self {
        let news = watch::Sender::new(());
        let listener = news.clone();
        state.view.on_commit(move || listener.send_replace(()));
        let (next, is_stopping) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { state, threads, whitelist, next, is_stopping, news }
    }

    /// Returns the answer of a method to Apus itself; `None` if it has none.
    pub fn ask(&self, method: &str, params: &[Value]) -> Option<Value> {
        let how = (&AtomicBool::new(false), &Waiting::never());
        let answer = find(method)?.call(&self.state, params, how).ok()?;
        serde_json::from_str(answer.get()).ok()
    }

    /// Ends all calls soon, and refuses others.
    pub fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        self.state.active().values().for_each(|call| call.stop.store(true, Relaxed));
        self.news.send_replace(());
    }

    /// Returns whether no more calls are answered.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }

    /// Returns what changes with each commit.
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
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

impl Execute for Calls<'_> {
    fn allows(&self, method: &str) -> bool {
        self.rpc.whitelist.allows(&self.user, method)
    }

    async fn execute(&self, call: Call, frame: &Frame) -> Result<Executed, NotDone> {
        let Call { method, params } = call;
        tracing::debug!(target: "rpc", method, user = self.user, "called");
        let Some(known) = find(&method) else {
            return Ok(frame.frame(Err(RpcError::new(METHOD_NOT_FOUND, "Method not found"))));
        };
        let params = match params {
            Params::List(list) => Ok(list),
            Params::Named(named) => by_place(named, known.args()),
        };
        match params {
            Ok(params) => self.call(known, params, frame).await,
            Err(error) => Ok(frame.frame(Err(error))),
        }
    }

    async fn hold(&self, bytes: usize) -> Result<(), NotDone> {
        self.answers.grow(&mut *self.room.lock().await, bytes).await
    }
}

impl Calls<'_> {
    async fn call(
        &self,
        method: Method,
        params: Vec<Value>,
        frame: &Frame,
    ) -> Result<Executed, NotDone> {
        let _listed = self.rpc.list(method.name(), &self.stop);
        let (lane, params) = (method.lane(&params), Arc::new(params));
        let waiting = Arc::new(Waiting::new());
        let mut news = self.rpc.news();
        loop {
            news.mark_unchanged();
            let (rpc, stop, waits) = (self.rpc.clone(), self.stop.clone(), waiting.clone());
            let (params, frame) = (params.clone(), frame.clone());
            let work = move || {
                if rpc.is_stopping() {
                    stop.store(true, Relaxed);
                }
                frame.frame(method.call(&rpc.state, &params, (&stop, &waits)))
            };
            let is_admitted = self.is_admitted.load(Relaxed);
            let (executed, seat) = self.rpc.threads.run(lane, is_admitted, work).await?;
            self.is_admitted.store(true, Relaxed);
            let Some(patience) = waiting.take() else {
                return Ok(Executed { seat: Some(seat), ..executed });
            };
            drop(seat);
            let _ = timeout(patience, news.changed()).await;
        }
    }
}
