//! Work that is spread over all threads of a pool, an item at a time.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use apus_node::error::SyncError;
use rayon::ThreadPool;

/// Hands `items` to all threads of the pool, one at a time and in their order. Each thread has a
/// state of its own, `new` at first and changed by `work` with each item; returns these states.
///
/// # Errors
/// The first of `work`; or `stop` became true. Items that were not handed out by then are not.
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
            let Some(item) = items.lock().unwrap_or_else(PoisonError::into_inner).next() else {
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

/// Ends the work early if somebody asks to stop.
pub fn check_stop(stop: &AtomicBool) -> Result<(), SyncError> {
    if stop.load(Relaxed) { Err(SyncError::Stopped) } else { Ok(()) }
}
