//! The calls that are being answered.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use apus_query::{RpcError, Waiting};
use serde_json::Value;
use tokio::sync::{Mutex, OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use super::auth::Whitelist;
use super::jsonrpc::{Call, Execute, Executed, Frame, METHOD_NOT_FOUND, Params};
use super::methods::find;
use super::named::by_place;
use super::state::{Active, ServerState};
use super::threads::{Budget, Lane, NotDone, Room, Threads};

/// What ends a call soon once it is raised, and whether the call is to be made again.
type How<'a> = (&'a AtomicBool, &'a Waiting);

/// All calls of this process.
pub(crate) struct Rpc {
    /// The source of answers.
    pub state: ServerState,
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
    pub fn new(state: ServerState, whitelist: Whitelist, threads: Threads) -> Self {
        let news = watch::Sender::new(());
        let listener = news.clone();
        state.view.on_commit(move || listener.send_replace(()));
        let next = AtomicU64::new(0);
        let is_stopping = AtomicBool::new(false);
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

    /// Does `work` in a lane, listed as a call of `method`, and again as often as it asks for it
    /// ([`Waiting`]). Returns its result with the seat.
    ///
    /// # Errors
    /// Those of [`Threads::run`].
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        (lane, method): (Lane, &str),
        stop: &Arc<AtomicBool>,
        mut is_admitted: bool,
        work: impl Fn(&ServerState, How) -> T + Send + Sync + 'static,
    ) -> Result<(T, OwnedSemaphorePermit), NotDone> {
        let _listed = self.list(method, stop);
        let work = Arc::new(work);
        let waiting = Arc::new(Waiting::new());
        let mut news = self.news.subscribe();
        loop {
            news.mark_unchanged();
            let rpc = Arc::clone(self);
            let work = Arc::clone(&work);
            let stop = Arc::clone(stop);
            let waits = Arc::clone(&waiting);
            let once = move || {
                stop.fetch_or(rpc.is_stopping(), Relaxed);
                work(&rpc.state, (&stop, &waits))
            };
            let (result, seat) = self.threads.run(lane, is_admitted, once).await?;
            let Some(patience) = waiting.take() else { return Ok((result, seat)) };
            drop(seat);
            is_admitted = true;
            let _ = timeout(patience, news.changed()).await;
        }
    }

    /// Lists a request as a call of `method` until the result is dropped.
    fn list(&self, method: &str, stop: &Arc<AtomicBool>) -> Listed<'_> {
        let id = self.next.fetch_add(1, Relaxed);
        let method = method.to_string();
        let began = Instant::now();
        let stop = Arc::clone(stop);
        self.state.active().insert(id, Active { method, began, stop });
        Listed(self, id)
    }
}

/// Lists a call until it is dropped.
struct Listed<'a>(&'a Rpc, u64);

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
            Params::Named(named) => by_place(named, known.about().args),
        };
        let params = match params {
            Ok(params) => params,
            Err(error) => return Ok(frame.frame(Err(error))),
        };
        let at = (known.lane(&params), known.about().name);
        let frame = frame.clone();
        let work =
            move |state: &ServerState, how: How| frame.frame(known.call(state, &params, how));
        let is_admitted = self.is_admitted.load(Relaxed);
        let (executed, seat) = self.rpc.run(at, &self.stop, is_admitted, work).await?;
        self.is_admitted.store(true, Relaxed);
        Ok(Executed { seat: Some(seat), ..executed })
    }

    async fn hold(&self, bytes: usize) -> Result<(), NotDone> {
        self.answers.grow(&mut *self.room.lock().await, bytes).await
    }
}
