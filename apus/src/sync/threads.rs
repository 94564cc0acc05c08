//! Threads: the pool for loops over much data, and threads of their own for pipelines.

use std::thread::{Builder, Scope, ScopedJoinHandle};

use super::error::SyncError;

/// The pool of threads for loops over much data: commits, merges, statistics. They sleep while
/// blocks are connected, which has threads of its own (`in_order/pipeline.rs`).
///
/// # Errors
/// The system does not let us start so many threads.
pub(super) fn pool(threads: usize) -> Result<rayon::ThreadPool, SyncError> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|number| format!("apus-pool-{number}"))
        .build()
        .map_err(|error| SyncError::Input(format!("cannot start {threads} threads: {error}")))
}

/// Starts a thread that is called `name` in debuggers and lists of processes.
///
/// # Panics
/// The system does not let us start another thread.
pub(super) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let started = Builder::new().name(name.into()).spawn_scoped(scope, work);
    started.expect("the system lets us start a thread")
}
