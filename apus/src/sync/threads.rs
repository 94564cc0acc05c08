use super::error::SyncError;

/// The threads that loops over much data are spread on: commits, merges, statistics. They sleep
/// while blocks are connected, which has threads of its own (`pipeline`).
pub(super) fn pool(threads: usize) -> Result<rayon::ThreadPool, SyncError> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|number| format!("apus-pool-{number}"))
        .build()
        .map_err(|error| SyncError::Usage(format!("cannot start {threads} threads: {error}")))
}
