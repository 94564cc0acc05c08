//! The threads that answer calls: at most a few at once, with a queue of a bounded length before
//! them (Core's `-rpcthreads` and `-rpcworkqueue`), and a bound on the bytes of all answers.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that one permit of a [`Budget`] stands for.
const UNIT: usize = 1 << 10;

/// Runs work that blocks.
pub(crate) struct Workers {
    threads: Arc<Semaphore>,
    waiting: AtomicUsize,
    queue_max: usize,
}

/// Why work was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotDone {
    /// As much work waits as may wait.
    QueueFull,
    /// The work panicked.
    Panicked,
}

/// A result, and the worker's permit: no other work begins in its place until it is dropped.
pub(crate) struct Done<T> {
    pub result: T,
    /// The processor time that the work took.
    pub took: Duration,
    /// The processor time of its thread since the work before, which waking it takes as well.
    pub uncharged: Duration,
    pub permit: OwnedSemaphorePermit,
}

impl Workers {
    /// Creates the queue before `threads` threads.
    pub fn new(threads: usize, queue_max: usize) -> Self {
        let threads = Arc::new(Semaphore::new(threads));
        Self { threads, waiting: AtomicUsize::new(0), queue_max }
    }

    /// Runs `work` on a thread once one is free and `ready` is done.
    ///
    /// # Errors
    /// As much work waits as may wait, or `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        ready: impl Future<Output = ()>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Done<T>, NotDone> {
        let permit = match Arc::clone(&self.threads).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let _place = Place::take(self).ok_or(NotDone::QueueFull)?;
                Arc::clone(&self.threads).acquire_owned().await.expect("it is never closed")
            }
        };
        ready.await;
        let done = tokio::task::spawn_blocking(move || {
            let began = thread_time();
            let result = work();
            let took = thread_time().saturating_sub(began);
            Done { result, took, uncharged: uncharged(), permit }
        });
        done.await.map_err(|_| NotDone::Panicked)
    }
}

thread_local! {
    /// The processor time of this thread when it was last charged for.
    static CHARGED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns the processor time of this thread since this was last asked for.
pub(crate) fn uncharged() -> Duration {
    let now = thread_time();
    now.saturating_sub(CHARGED.replace(now))
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// A place in the queue.
struct Place<'a>(&'a Workers);

impl<'a> Place<'a> {
    fn take(workers: &'a Workers) -> Option<Self> {
        let more = |waiting: usize| (waiting < workers.queue_max).then_some(waiting + 1);
        workers.waiting.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Self(workers))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

/// A bound on bytes in memory that many share.
pub(crate) struct Budget {
    left: Arc<Semaphore>,
    units: usize,
}

impl Budget {
    /// Creates a bound of `bytes`.
    pub fn new(bytes: usize) -> Self {
        let units = bytes / UNIT;
        Self { left: Arc::new(Semaphore::new(units)), units }
    }

    /// Waits until `bytes` are free, or all are if that is less, and takes them until the permit is
    /// dropped.
    pub async fn take(&self, bytes: usize) -> OwnedSemaphorePermit {
        let units = bytes.div_ceil(UNIT).min(self.units) as u32;
        let left = Arc::clone(&self.left);
        left.acquire_many_owned(units).await.expect("it is never closed")
    }
}
