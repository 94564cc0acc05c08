//! What the system allows this process, and what to do where it refuses.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use apus_disk::StoreError;
use apus_host::resources::allow_open_files;
use apus_host::threads;
use apus_progress::words::shell_word;
use rustix::io::Errno;
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

/// Returns what to do about an error of the system; `None` if that is not known.
pub fn remedy(error: &StoreError) -> Option<String> {
    let source = error.source.as_ref()?;
    match Errno::from_io_error(source) {
        Some(Errno::ACCESS | Errno::PERM) => of_owner(&error.path),
        Some(Errno::MFILE | Errno::NFILE) => {
            Some("allow more open files (ulimit -n 4096, or LimitNOFILE= of a service)".to_string())
        }
        Some(Errno::FBIG) => Some(
            "allow larger files (ulimit -f unlimited, or LimitFSIZE= of a service), or use a file \
             system that does"
                .to_string(),
        ),
        Some(Errno::NOMEM) => Some(
            "allow more memory (ulimit -v unlimited, MemoryMax= of a service), or give a smaller \
             --dbcache and fewer threads with --par"
                .to_string(),
        ),
        _ if source.kind() == io::ErrorKind::PermissionDenied => of_owner(&error.path),
        _ => None,
    }
}

/// Returns who owns a path that this user may not use, and the command that works.
fn of_owner(path: &Path) -> Option<String> {
    let user = rustix::process::geteuid().as_raw();
    let (found, owner) = path.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Some((path, fs::metadata(path).ok()?.uid()))
    })?;
    let shown = found.display();
    if owner == user {
        return Some(format!("{shown} is yours, so chmod u+rwX {shown} allows it"));
    }
    let directory = found.parent().and_then(|directory| fs::metadata(directory).ok());
    if directory.is_some_and(|directory| directory.is_dir() && directory.uid() == user) {
        let path = shell_word(&shown.to_string());
        return Some(format!(
            "it belongs to user {owner}, and the directory that it is in to you: sudo chown -R \
             '{user}' {path}"
        ));
    }
    let words = std::env::args().skip(1).map(|word| shell_word(&word));
    let program = std::env::current_exe().unwrap_or(PathBuf::from("apus"));
    let program = shell_word(&program.display().to_string());
    let command: Vec<String> = std::iter::once(program).chain(words).collect();
    Some(format!("{shown} belongs to user {owner}: sudo -u '#{owner}' {}", command.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_has_a_remedy() {
        for (errno, words) in
            [(Errno::MFILE, "ulimit -n"), (Errno::FBIG, "ulimit -f"), (Errno::NOMEM, "ulimit -v")]
        {
            let error = StoreError::io("/x", "read this file", errno.into());
            assert!(remedy(&error).unwrap().contains(words), "{errno:?}");
        }
        for error in [
            StoreError::io("/x", "read this file", Errno::IO.into()),
            StoreError::new("/x", "it is damaged"),
        ] {
            assert_eq!(remedy(&error), None);
        }
        let dir = tempfile::tempdir().unwrap();
        let mine = StoreError::io(dir.path().join("a/b"), "make it", Errno::ACCESS.into());
        assert!(remedy(&mine).unwrap().contains("is yours"), "{:?}", remedy(&mine));
    }
}
