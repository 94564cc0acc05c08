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
/// Where Linux lists the threads of this process.
const THREADS: &str = "/proc/self/task";

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
            let own = fs::read_link("/proc/thread-self").unwrap_or_default();
            let own = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let ThreadStates { working, blocked } = look(&own);
                to_note.working.fetch_add(working, Relaxed);
                to_note.blocked.fetch_add(blocked, Relaxed);
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

/// Returns the states of all threads but `own` now; none if the system does not report them.
fn look(own: &str) -> ThreadStates {
    let threads = fs::read_dir(THREADS).into_iter().flatten().flatten();
    let others = threads.filter(|thread| thread.file_name() != own);
    let states = others.filter_map(|thread| {
        // A thread may have ended meanwhile.
        state(&fs::read_to_string(thread.path().join("stat")).ok()?)
    });
    states.fold(ThreadStates::default(), |seen, state| match state {
        'R' => ThreadStates { working: seen.working + 1, ..seen },
        'D' => ThreadStates { blocked: seen.blocked + 1, ..seen },
        _ => seen,
    })
}

/// Returns the state in a thread's `stat`: it follows the name, which is in parentheses and may
/// contain any character.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_comes_after_a_name_with_spaces_and_brackets() {
        assert_eq!(state("4242 (apus-work-1) D 1 4200 4200 0 -1"), Some('D'));
        assert_eq!(state("7 (a) S (b) R 1"), Some('R'));
        assert_eq!(state("7 (a"), None);
        assert_eq!(state(""), None);
    }

    #[test]
    #[cfg_attr(not(target_os = "linux"), ignore = "needs /proc/self/task")]
    fn a_thread_that_runs_is_seen_at_work() {
        // This thread runs while it looks.
        assert!(look("").working >= 1);
    }
}
