//! The threads that answer calls: at most a few at once, with a queue of a bounded length before
//! them (Core's `-rpcthreads` and `-rpcworkqueue`), and a bound on the bytes of all answers.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::body::Bytes;
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

/// A result, and what it took.
pub(crate) struct Done<T> {
    pub result: T,
    /// The processor time that the work took.
    pub took: Duration,
    /// The processor time of its thread since the work before, which waking it takes as well.
    pub uncharged: Duration,
}

impl Workers {
    /// Creates the queue before `threads` threads.
    pub fn new(threads: usize, queue_max: usize) -> Self {
        let threads = Arc::new(Semaphore::new(threads));
        Self { threads, waiting: AtomicUsize::new(0), queue_max }
    }

    /// Waits until a thread is free, and takes it until the permit is dropped.
    ///
    /// # Errors
    /// As much work waits as may wait.
    pub async fn thread(&self) -> Result<OwnedSemaphorePermit, NotDone> {
        if let Ok(permit) = Arc::clone(&self.threads).try_acquire_owned() {
            return Ok(permit);
        }
        let _place = Place::take(self).ok_or(NotDone::QueueFull)?;
        Ok(Arc::clone(&self.threads).acquire_owned().await.expect("it is never closed"))
    }
}

/// Runs `work` on a thread of the runtime.
///
/// # Errors
/// `work` panics.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Done<T>, NotDone> {
    let done = tokio::task::spawn_blocking(move || {
        let began = thread_time();
        let result = work();
        let took = thread_time().saturating_sub(began);
        Done { result, took, uncharged: uncharged() }
    });
    done.await.map_err(|_| NotDone::Panicked)
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

    /// Waits until there is room for `bytes`, and takes it until the result is dropped: hyper drops
    /// a body before it has sent the bytes.
    pub async fn hold(&self, bytes: Bytes) -> Bytes {
        let room = self.take(bytes.len()).await;
        Bytes::from_owner(Held { bytes, _room: room })
    }
}

/// Bytes, and the room that they take.
struct Held {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_take_room_until_the_last_of_them_is_sent() {
        let budget = Budget::new(2 * UNIT);
        let mut sent = budget.hold(Bytes::from(vec![7; 2 * UNIT])).await;
        let first = sent.split_to(UNIT);
        let more = budget.hold(Bytes::from_static(b"more"));
        let mut more = std::pin::pin!(more);
        for rest in [first, sent] {
            tokio::select! {
                biased;
                _ = &mut more => panic!("the room was free before all was sent"),
                () = std::future::ready(()) => {}
            }
            assert_eq!(rest, vec![7; UNIT]);
        }
        assert_eq!(more.await, "more");
    }
}
