//! Threads: the pool for loops over much data, and threads of their own for pipelines.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

use apus_disk::StoreError;
use crossbeam_channel::{RecvTimeoutError, Sender, bounded, unbounded};

/// Creates the pool of threads for loops over much data: commits, merges, statistics. While blocks
/// are connected, which has threads of its own (`in_order/pipeline.rs`), it only writes commits.
pub fn pool(threads: usize) -> Result<rayon::ThreadPool, StoreError> {
    named_pool("apus-pool", threads)
}

/// Creates a pool of threads whose names begin with `name`.
pub fn named_pool(name: &'static str, threads: usize) -> Result<rayon::ThreadPool, StoreError> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(move |number| format!("{name}-{number}"))
        .build()
        .map_err(|error| refused(name, io::Error::other(error)))
}

/// Starts the pool in which the loops of other crates run that are given no [`pool`], with a thread
/// for each core. The pool would start itself, but a thread that is refused would then be a panic.
pub fn start_global_pool() -> Result<(), StoreError> {
    let pool = rayon::ThreadPoolBuilder::new().thread_name(|number| format!("apus-loop-{number}"));
    pool.build_global().map_err(|error| refused("apus-loop", io::Error::other(error)))
}

/// Checks that `count` more threads can be started now.
pub fn check_startable(count: usize) -> Result<(), StoreError> {
    thread::scope(|scope| {
        // Each thread waits until the gate is dropped, also if one is refused.
        let (gate, closed) = bounded::<()>(0);
        for number in 0..count {
            let closed = closed.clone();
            spawn(scope, format!("apus-check-{number}"), move || closed.recv())?;
        }
        drop(gate);
        Ok(())
    })
}

/// Returns the error for a thread that the system refuses to start.
pub fn refused(name: &str, error: io::Error) -> StoreError {
    let what = "start this thread; allow more tasks (ulimit -u, TasksMax= of a service, \
                --pids-limit of a container) or more memory, or use fewer threads with --par";
    StoreError::io(name, what, error)
}

/// Number of blocks that each thread of the pool checks before they are stored.
pub const CHECKED_AT_ONCE: usize = 8;

/// Returns the number of threads that process blocks if `threads` were asked for: one more, since
/// some thread usually waits for the disk; but no more than one if one was asked for.
pub fn workers(threads: usize) -> usize {
    if threads > 1 { threads + 1 } else { 1 }
}

/// Starts a thread that debuggers and process lists show as `name`.
pub fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, StoreError> {
    let name = name.into();
    let started = Builder::new().name(name.clone()).spawn_scoped(scope, work);
    started.map_err(|error| refused(&name, error))
}

/// Starts a thread that is never joined: it ends by itself once what it works with is gone. If the
/// system refuses, this returns `false`: `work` is not done, and what it holds is dropped.
pub fn spawn_free(name: String, work: impl FnOnce() + Send + 'static) -> bool {
    match Builder::new().name(name).spawn(work) {
        Ok(_) => true,
        Err(error) => {
            tracing::warn!("a thread cannot be started: {error}");
            false
        }
    }
}

/// Interval at which [`work_until_halt`] calls `watch` while its threads report nothing.
const WAIT: Duration = Duration::from_millis(100);

/// What a thread of [`work_until_halt`] is given: the flag to check before each piece of work, and
/// the channel for its reports.
pub struct Crew<'a, M> {
    halt: &'a AtomicBool,
    sender: Sender<M>,
}

impl<M> Crew<'_, M> {
    /// Returns the flag that tells all threads to end.
    pub fn halt(&self) -> &AtomicBool {
        self.halt
    }

    pub fn is_halted(&self) -> bool {
        self.halt.load(Relaxed)
    }

    /// Reports a finished piece of work.
    pub fn report(&self, message: M) {
        // The receiver is there until every thread has ended.
        let _ = self.sender.send(message);
    }
}

/// Runs `work` in `threads` threads until all of them have ended, and returns their results.
/// Meanwhile `watch` is called with everything that they report, and at intervals without a report.
/// All threads are told to end when it returns true, and when one of them fails, panics, or cannot
/// be started; the error is then the last result.
///
/// # Panics
/// One of the threads has panicked; the others have ended by then.
pub fn work_until_halt<M: Send, T: Send, E: Send + From<StoreError>>(
    name: &str,
    threads: usize,
    work: impl Fn(&Crew<M>) -> Result<T, E> + Sync,
    mut watch: impl FnMut(Option<M>) -> bool,
) -> Vec<Result<T, E>> {
    let halt = AtomicBool::new(false);
    // A few bytes for each piece of work; unbounded, so that no thread waits to report.
    let (sender, reports) = unbounded();
    thread::scope(|scope| {
        let start = |number| {
            let crew = Crew { halt: &halt, sender: sender.clone() };
            let work = &work;
            spawn(scope, format!("apus-{name}-{number}"), move || {
                let raise = RaiseOnDrop(crew.halt);
                let result = work(&crew);
                if result.is_ok() {
                    std::mem::forget(raise);
                }
                result
            })
        };
        let mut refused = None;
        let mut started = Vec::new();
        for number in 0..threads {
            match start(number) {
                Ok(thread) => started.push(thread),
                Err(error) => {
                    halt.store(true, Relaxed);
                    refused = Some(Err(error.into()));
                    break;
                }
            }
        }
        drop(sender);
        // A panic here must not leave the scope waiting for all remaining work.
        let _ending = RaiseOnDrop(&halt);
        loop {
            let ends = match reports.recv_timeout(WAIT) {
                Ok(message) => watch(Some(message)),
                Err(RecvTimeoutError::Timeout) => watch(None),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if ends {
                halt.store(true, Relaxed);
            }
        }
        let panicked = |panic| std::panic::resume_unwind(panic);
        let joined = started.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
        joined.chain(refused).collect()
    })
}

/// Raises a flag when it is dropped, even in a panic.
pub struct RaiseOnDrop<'a>(pub &'a AtomicBool);

impl Drop for RaiseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
