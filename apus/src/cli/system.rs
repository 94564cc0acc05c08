//! Requirements of a command: stack, threads, files.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use apus_disk::StoreError;
use apus_host::resources::allow_open_files;
use apus_host::threads;
use rustix::process::{Resource, getrlimit};

/// Open files that the process asks for: the tables and block files of a large directory, and the
/// partitions of a join.
const OPEN_FILES: u64 = 4_096;
/// Bytes of address space below which even a small sync runs out of memory, which ends the process
/// without a word.
const ADDRESSES_MIN: u64 = 96 << 20;
/// Bytes of the stack of the thread that runs the command, whatever the limit of the first thread.
const STACK_BYTES: usize = 8 << 20;

/// Takes what a command needs from the system: open files, and threads for loops.
///
/// # Errors
/// The system refuses a thread.
pub fn prepare() -> Result<(), StoreError> {
    allow_open_files(OPEN_FILES);
    // A write beyond the largest file that is allowed is then an error, and does not end the
    // process. Programs that this one starts get the usual action again.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::<AtomicBool>::default());
    threads::start_global_pool()
}

/// Runs `program` in a thread whose stack is large enough.
///
/// # Errors
/// The address space is too small, or the system refuses a thread.
pub fn with_stack<T: Send + 'static>(
    program: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    if let Some(bytes) = getrlimit(Resource::As).current.filter(|bytes| *bytes < ADDRESSES_MIN) {
        let what = format!(
            "{} MiB of address space are too little: allow more memory (ulimit -v unlimited, \
             LimitAS= of a service), at least {} MiB",
            bytes >> 20,
            ADDRESSES_MIN >> 20
        );
        return Err(StoreError::new(Path::new("apus"), what));
    }
    let builder = thread::Builder::new().name("apus-main".to_string()).stack_size(STACK_BYTES);
    let thread = builder.spawn(program).map_err(|error| threads::refused("apus-main", error))?;
    Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
