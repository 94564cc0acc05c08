//! Memory that is freed goes back to the system where there is little of it.

#![allow(unsafe_code, reason = "options of the C library's allocator")]

/// The options of glibc's allocator where memory is short.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OPTIONS: [(libc::c_int, libc::c_int); 3] = [
    // Bytes from which an allocation has pages of its own, which go back to the system as soon as
    // it is freed: less than most blocks.
    (libc::M_MMAP_THRESHOLD, 256 << 10),
    // Bytes at the end of a heap that may be free without going back to the system.
    (libc::M_TRIM_THRESHOLD, 1 << 20),
    // Heaps that threads share. By default each thread has one, up to eight for each core, and what
    // is free in one is of no use to the others.
    (libc::M_ARENA_MAX, 2),
];

/// Has the allocator return freed memory to the system if this process may use little: a third of
/// the memory of a sync in order from peers was free otherwise. Large allocations then cost page
/// faults. Does nothing with other C libraries than glibc, or if the user has chosen
/// (`MALLOC_ARENA_MAX`).
///
/// For programs, before their first thread starts.
pub fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() && super::limit::is_little() {
        for (option, value) in OPTIONS {
            // SAFETY: no other thread allocates meanwhile, and these options take any value. If one
            // is refused, more memory is used.
            let _ = unsafe { libc::mallopt(option, value) };
        }
    }
}
