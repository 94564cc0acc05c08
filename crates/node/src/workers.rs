//! Spreads work over all threads of a pool, one item at a time.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_disk::lock;
use rayon::ThreadPool;

use super::error::SyncError;

/// Hands `items` to the threads of the pool, one at a time and in order. Each thread has its own
/// state, which `new` makes and `work` changes with each item. Returns all these states.
///
/// # Errors
/// `work` failed, or `stop` became true. No further items are handed out then.
pub fn for_each_on_pool<T: Send, S: Send>(
    pool: &ThreadPool,
    items: impl Iterator<Item = T> + Send,
    stop: &AtomicBool,
    new: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) -> Result<(), SyncError> + Sync,
) -> Result<Vec<S>, SyncError> {
    let items = Mutex::new(items);
    let failed = AtomicBool::new(false);
    let results = pool.broadcast(|_| {
        let mut state = new();
        while !failed.load(Relaxed) {
            let Some(item) = lock(&items).next() else {
                break;
            };
            let result = check_stop(stop).and_then(|()| work(&mut state, item));
            if result.is_err() {
                failed.store(true, Relaxed);
            }
            result?;
        }
        Ok(state)
    });
    results.into_iter().collect()
}

/// Returns [`SyncError::Stopped`] if `stop` is true.
pub fn check_stop(stop: &AtomicBool) -> Result<(), SyncError> {
    if stop.load(Relaxed) { Err(SyncError::Stopped) } else { Ok(()) }
}
