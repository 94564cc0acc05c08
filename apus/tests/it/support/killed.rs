//! Processes that are killed in the middle of their work, at a counted change to their files.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use apus_disk::{Call, Disk};
use rustix::process::{Signal, getpid, kill_process};

use super::program::stderr;

/// The number of a change that no run comes to.
pub const NEVER: u64 = u64::MAX;

/// Counts changes to files.
#[derive(Default)]
pub struct Changes(AtomicU64);

impl Changes {
    /// A disk whose changes are counted, and what counts them.
    pub fn counted() -> (Disk, Arc<Self>) {
        let changes = Arc::new(Self::default());
        let counter = Arc::clone(&changes);
        let hook = move |call: Call, _: &Path| {
            counter.0.fetch_add(u64::from(is_change(call)), Relaxed);
            Ok(())
        };
        (Disk::new().with_hook(Arc::new(hook)), changes)
    }

    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

fn is_change(call: Call) -> bool {
    !matches!(call, Call::Open | Call::Read)
}

/// A disk on which this process kills itself before the change of this number, from 1.
pub fn killing_at(number: u64) -> Disk {
    killing(move |_, _| true, number)
}

/// A disk on which this process kills itself before the change of this number, from 1, after a file
/// whose path ends like this was replaced for the first time.
pub fn killing_after(file: &'static str, number: u64) -> Disk {
    let is_it = move |call, path: &Path| call == Call::Rename && path.ends_with(file);
    // The first change that counts is the one by which it is replaced.
    killing(is_it, number.saturating_add(1))
}

/// Kills this process at the change of this number, from one on of which `is_first` holds.
fn killing(is_first: impl Fn(Call, &Path) -> bool + Send + Sync + 'static, number: u64) -> Disk {
    let seen = AtomicU64::new(0);
    let hook = move |call: Call, path: &Path| {
        let counts = is_change(call) && (seen.load(Relaxed) > 0 || is_first(call, path));
        if counts && seen.fetch_add(1, Relaxed) + 1 == number {
            kill_process(getpid(), Signal::KILL)?;
        }
        Ok(())
    };
    Disk::new().with_hook(Arc::new(hook))
}

/// Runs a process that may kill itself to its end, and returns whether it has.
///
/// # Panics
/// It fails otherwise.
#[track_caller]
pub fn is_killed(mut process: Command) -> bool {
    let output = process.output().unwrap();
    let is_killed = output.status.signal() == Some(Signal::KILL.as_raw());
    assert!(is_killed || output.status.success(), "{}", stderr(&output));
    is_killed
}
