//! The threads that compute answers, and the memory of large bodies and answers. Semaphores bound
//! both, and nothing waits for them without a limit.
//!
//! Quick calls have threads of their own, so that they never wait for long ones. Long calls and all
//! of REST run at the lowest priority: on a core that a sync keeps busy, each gets some 1.5 %.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Bytes that need no room: there are at most 512 connections.
pub(crate) const FREE_BYTES: usize = 64 << 10;
/// Bytes that one permit of a [`Budget`] stands for.
const UNIT: usize = 1 << 10;
/// The longest time that a call waits for a thread.
const THREAD_TIME: Duration = Duration::from_secs(60);
/// The longest time that a body or an answer waits for room.
const ROOM_TIME: Duration = Duration::from_secs(30);
/// The increment of the nice value of threads of long calls: the lowest priority (Linux alone has
/// one for each thread).
#[cfg(target_os = "linux")]
const NICE: i32 = 19;

/// Which threads answer a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    /// One of microseconds, or of a few milliseconds.
    Quick,
    /// One that reads whole blocks or more.
    Long,
    /// One of REST, without a password.
    Open,
}

/// Why a call was not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotDone {
    /// As many calls wait as may wait, or this one has waited too long.
    QueueFull,
    /// There is no room for its answer.
    NoRoom,
    /// It panicked.
    Panicked,
}

/// The threads, and the places before them (Core's `-rpcthreads` and `-rpcworkqueue`).
pub(crate) struct Threads {
    quick: Seats,
    long: Seats,
    open: Seats,
    slow: Slow,
}

struct Seats {
    threads: Arc<Semaphore>,
    queue: Semaphore,
}

/// Threads of the lowest priority.
struct Slow(Option<Runtime>);

impl Threads {
    /// Returns half of `threads` for quick calls, half for long ones and at most as many for REST;
    /// `queue` more calls of each kind may wait. The runtime must have as many threads as
    /// [`Threads::quick`] says.
    pub fn new(threads: usize, queue: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let long = (threads / 2).max(1);
        let open = long.min(2 * cores);
        let seats = |threads: usize| Seats {
            threads: Arc::new(Semaphore::new(threads)),
            queue: Semaphore::new(queue.min(Semaphore::MAX_PERMITS)),
        };
        let mut builder = Builder::new_current_thread();
        builder.max_blocking_threads(long + open).thread_name("apus-long");
        #[cfg(target_os = "linux")]
        builder.on_thread_start(|| {
            let _ = rustix::process::nice(NICE);
        });
        Self {
            quick: seats(Self::quick(threads)),
            long: seats(long),
            open: seats(open),
            slow: Slow(builder.build().ok()),
        }
    }

    pub fn quick(threads: usize) -> usize {
        threads.div_ceil(2).max(1)
    }

    /// Runs `work` once a thread of its kind is free, and returns its result with the seat, which
    /// is another's when it is dropped. Work that `is_admitted` already may wait in any case.
    ///
    /// # Errors
    /// As much work waits as may wait, it waited too long, or it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        is_admitted: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, OwnedSemaphorePermit), NotDone> {
        let seats = match lane {
            Lane::Quick => &self.quick,
            Lane::Long => &self.long,
            Lane::Open => &self.open,
        };
        // The thread has the seat, since it goes on for a moment if the client leaves.
        let seat = seats.take(is_admitted).await?;
        let work = move || (work(), seat);
        let done = match &self.slow.0 {
            Some(slow) if lane != Lane::Quick => slow.spawn_blocking(work),
            _ => tokio::task::spawn_blocking(work),
        };
        done.await.map_err(|_| NotDone::Panicked)
    }
}

impl Seats {
    async fn take(&self, is_admitted: bool) -> Result<OwnedSemaphorePermit, NotDone> {
        if let Ok(seat) = Arc::clone(&self.threads).try_acquire_owned() {
            return Ok(seat);
        }
        let place = self.queue.try_acquire();
        if place.is_err() && !is_admitted {
            tracing::warn!("a call is refused because the work queue is full: see --rpcworkqueue");
            return Err(NotDone::QueueFull);
        }
        let seat = timeout(THREAD_TIME, Arc::clone(&self.threads).acquire_owned()).await;
        seat.ok().and_then(Result::ok).ok_or(NotDone::QueueFull)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        // Unlike dropping it, this waits for no thread.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// A bound on bytes in memory that many share.
pub(crate) struct Budget {
    left: Arc<Semaphore>,
    units: usize,
}

/// Room that is taken until it is dropped.
#[derive(Default)]
pub(crate) struct Room(Option<OwnedSemaphorePermit>);

impl Budget {
    /// Creates a bound of `bytes`.
    pub fn new(bytes: usize) -> Self {
        let units = bytes / UNIT;
        Self { left: Arc::new(Semaphore::new(units)), units }
    }

    /// Waits until `room` is enough for `bytes`, or is all there is if that is less.
    ///
    /// # Errors
    /// There was not enough for half a minute.
    pub async fn grow(&self, room: &mut Room, bytes: usize) -> Result<(), NotDone> {
        let wanted = if bytes > FREE_BYTES { bytes.div_ceil(UNIT).min(self.units) } else { 0 };
        let held = room.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Some(more) = wanted.checked_sub(held).filter(|more| *more > 0) else { return Ok(()) };
        let taken = timeout(ROOM_TIME, Arc::clone(&self.left).acquire_many_owned(more as u32));
        let taken = taken.await.ok().and_then(Result::ok).ok_or(NotDone::NoRoom)?;
        match &mut room.0 {
            Some(room) => room.merge(taken),
            none => *none = Some(taken),
        }
        Ok(())
    }

    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.left.available_permits() * UNIT
    }
}

impl Room {
    /// Returns the bytes, which take this room until they are sent: hyper drops a body before that.
    pub fn hold(self, bytes: Vec<u8>) -> Bytes {
        if self.0.is_none() {
            return bytes.into();
        }
        Bytes::from_owner(HeldBytes { bytes, _room: self })
    }
}

/// Bytes, and the room that they take.
struct HeldBytes {
    bytes: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Starts long calls that last until the sender of each is dropped.
    async fn occupy(threads: &Arc<Threads>, lane: Lane, count: usize) -> Vec<Sender<()>> {
        let (started, mut begin) = tokio::sync::mpsc::unbounded_channel();
        let mut ends = Vec::new();
        for _ in 0..count {
            let (end, ended): (Sender<()>, Receiver<()>) = channel();
            let threads = Arc::clone(threads);
            let started = started.clone();
            ends.push(end);
            tokio::spawn(async move {
                let work = move || {
                    let _ = started.send(());
                    let _ = ended.recv();
                };
                let _ = threads.run(lane, false, work).await;
            });
        }
        for _ in 0..count {
            begin.recv().await.unwrap();
        }
        ends
    }

    #[tokio::test]
    async fn each_kind_has_threads_and_a_queue_of_its_own() {
        let threads = Arc::new(Threads::new(4, 0));
        let ends = occupy(&threads, Lane::Long, 2).await;
        for lane in [Lane::Quick, Lane::Open] {
            assert!(threads.run(lane, false, || ()).await.is_ok(), "{lane:?}");
        }
        let refused = threads.run(Lane::Long, false, || ()).await;
        assert_eq!(refused.err(), Some(NotDone::QueueFull));
        let admitted = threads.run(Lane::Long, true, || 7);
        drop(ends);
        assert_eq!(admitted.await.unwrap().0, 7);
        assert_eq!(threads.run(Lane::Long, true, || panic!()).await.err(), Some(NotDone::Panicked));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn long_calls_and_rest_have_the_lowest_priority() {
        let threads = Threads::new(2, 0);
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let own = nice();
        assert_eq!(threads.run(Lane::Quick, false, nice).await.unwrap().0, own);
        for lane in [Lane::Long, Lane::Open] {
            assert_eq!(threads.run(lane, false, nice).await.unwrap().0, NICE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_take_room_until_the_last_of_them_is_sent() {
        let budget = Budget::new(2 * FREE_BYTES);
        let mut room = Room::default();
        budget.grow(&mut room, FREE_BYTES).await.unwrap();
        assert_eq!(budget.free(), 2 * FREE_BYTES, "a small answer takes no room");
        budget.grow(&mut room, FREE_BYTES + UNIT).await.unwrap();
        budget.grow(&mut room, 1 << 40).await.unwrap();
        assert_eq!(budget.free(), 0);
        let mut sent = room.hold(vec![7; 2 * FREE_BYTES]);
        let first = sent.split_to(FREE_BYTES);
        let mut other = Room::default();
        for rest in [first, sent] {
            let more = budget.grow(&mut other, 2 * FREE_BYTES).await;
            assert_eq!(more, Err(NotDone::NoRoom), "the room was free before all was sent");
            assert_eq!(rest, vec![7; FREE_BYTES]);
        }
        assert_eq!(budget.grow(&mut other, 2 * FREE_BYTES).await, Ok(()));
    }
}
