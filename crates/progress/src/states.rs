//! States of this process's threads, as the system reports them.
//!
//! Linux reports the state of each thread without measuring anything: `R` has a processor or waits
//! for one, `S` waits for another thread or a peer, and `D` waits for the disk: a page of a mapped
//! file, a read, a write that has to wait for space in the page cache, or a sync. Time spent
//! waiting for a processor that other programs use is time in `R`, and so never counts as waiting
//! for the disk. (Delay accounting would report the same in nanoseconds, but is off unless the
//! system was started with it; `/proc/pressure` covers all programs.)

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use super::observer::{Adding, Observer};
use super::outcome::ThreadStates;
use apus_host::threads::spawn_free;

/// Interval at which the threads are sampled. A sample takes about 0.1 ms.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The state of a thread that is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// At work: running, or waiting for a processor that another thread or program uses.
    Working,
    WaitingForDisk,
}

/// A thread that is at work or waits for the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyThread {
    pub id: u32,
    pub name: String,
    pub state: ThreadState,
}

/// A thread that samples the states of all others, until this is dropped.
pub struct StatesWatch {
    seen: Arc<Seen>,
    _end: Sender<()>,
}

#[derive(Default)]
struct Seen {
    working: AtomicU64,
    blocked: AtomicU64,
}

impl StatesWatch {
    /// Starts sampling.
    pub fn begin() -> Self {
        let (end, ended) = bounded(0);
        let seen = Arc::new(Seen::default());
        let to_note = Arc::clone(&seen);
        spawn_free("apus-states".to_string(), move || {
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                for thread in busy_threads("self") {
                    match thread.state {
                        ThreadState::Working => to_note.working.fetch_add(1, Relaxed),
                        ThreadState::WaitingForDisk => to_note.blocked.fetch_add(1, Relaxed),
                    };
                }
            }
        });
        Self { seen, _end: end }
    }

    /// Returns the sums over all samples so far.
    pub fn seen(&self) -> ThreadStates {
        self.seen.sums()
    }

    /// Returns an observer that passes everything to `inner`, and adds the states of threads.
    pub fn observer<'a>(&self, inner: &'a dyn Observer) -> impl Observer + use<'a> {
        let seen = Arc::clone(&self.seen);
        Adding::new(inner, move |progress| progress.states = Some(seen.sums()))
    }
}

impl Seen {
    fn sums(&self) -> ThreadStates {
        let Self { working, blocked } = self;
        ThreadStates { working: working.load(Relaxed), blocked: blocked.load(Relaxed) }
    }
}

/// Returns the busy threads of a process (a number, or `self`), but not the one that looks; none if
/// the system does not report them.
pub fn busy_threads(process: &str) -> Vec<BusyThread> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let own = fs::read_link("/proc/thread-self").unwrap_or_default();
    let others = threads.filter(|thread| Some(thread.file_name().as_os_str()) != own.file_name());
    let states = others.filter_map(|thread| {
        // A thread may have ended meanwhile.
        busy_thread(&fs::read_to_string(thread.path().join("stat")).ok()?)
    });
    states.collect()
}

/// Reads a thread's `stat`; `None` unless the thread is busy. The state follows the name, which is
/// in parentheses and may contain any character.
fn busy_thread(stat: &str) -> Option<BusyThread> {
    let (id, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let state = match rest.chars().next()? {
        'R' => ThreadState::Working,
        'D' => ThreadState::WaitingForDisk,
        _ => return None,
    };
    Some(BusyThread { id: id.parse().ok()?, name: name.to_string(), state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_comes_after_a_name_with_spaces_and_brackets() {
        let busy = |id, name: &str, state| Some(BusyThread { id, name: name.to_string(), state });
        assert_eq!(
            busy_thread("4242 (apus-work-1) D 1 4200 4200 0 -1"),
            busy(4242, "apus-work-1", ThreadState::WaitingForDisk)
        );
        assert_eq!(busy_thread("7 (a) S (b) R 1"), busy(7, "a) S (b", ThreadState::Working));
        assert_eq!(busy_thread("7 (apus-main) S 1"), None);
        assert_eq!(busy_thread("7 (a"), None);
        assert_eq!(busy_thread(""), None);
    }

    #[test]
    #[cfg_attr(not(target_os = "linux"), ignore = "needs /proc/self/task")]
    fn a_thread_that_runs_is_seen_at_work() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
            while busy_threads("self").is_empty() {}
            stop.store(true, Relaxed);
        });
    }
}
