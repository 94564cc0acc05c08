//! Waiting for events, with one limit for all of them.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The longest that a test waits for anything.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Time between two looks at what says nothing when it changes, such as a file of another process.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// An event that threads wait for. All clones are the same event.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Closed,
    Open,
    /// It was waited for in vain.
    GivenUp,
}

impl Gate {
    /// Ends all waits, now and later.
    pub fn open(&self) {
        self.end(State::Open);
    }

    /// Waits until the gate is open; returns false if it is not after [`LIMIT`], and from then on
    /// at once.
    pub fn wait(&self) -> bool {
        let (state, ended) = &*self.0;
        let is_closed = |state: &mut State| *state == State::Closed;
        let waited = ended.wait_timeout_while(state.lock().unwrap(), LIMIT, is_closed);
        let state = *waited.unwrap().0;
        if state == State::Closed {
            self.end(State::GivenUp);
        }
        state == State::Open
    }

    fn end(&self, end: State) {
        let (state, ended) = &*self.0;
        *state.lock().unwrap() = end;
        ended.notify_all();
    }
}

/// Looks again and again until `condition` holds; returns false if it does not after [`LIMIT`].
pub fn comes_true(mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !condition() {
        if begun.elapsed() > LIMIT {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

/// Waits until `condition` holds, which `what` says in words.
///
/// # Panics
/// It does not hold after [`LIMIT`].
#[track_caller]
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(comes_true(condition), "not after {LIMIT:?}: {what}");
}

/// Does `work`, and raises `stop` if that takes longer than [`LIMIT`]. Returns what `work` returns,
/// and whether it took longer.
pub fn stopped_at_limit<T>(stop: &AtomicBool, work: impl FnOnce() -> T) -> (T, bool) {
    std::thread::scope(|scope| {
        let (over, is_over) = mpsc::channel::<()>();
        let watching = scope.spawn(move || {
            let is_late = is_over.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout);
            stop.fetch_or(is_late, Relaxed);
            is_late
        });
        let result = work();
        drop(over);
        (result, watching.join().unwrap())
    })
}

/// Takes this time, for a peer or a disk of which a test says that it is slow.
pub fn be_slow(time: Duration) {
    std::thread::sleep(time);
}
