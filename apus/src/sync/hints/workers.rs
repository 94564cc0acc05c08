use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use rayon::ThreadPool;

use super::summary::Halt;

/// Hands `items` to all threads of the pool, one at a time and in their order, and returns what
/// each thread has made of its own: `new` at first, changed by `work` with each item.
pub(super) fn in_order<T: Send, L: Send>(
    pool: &ThreadPool,
    items: impl Iterator<Item = T> + Send,
    stop: &AtomicBool,
    new: impl Fn() -> L + Sync,
    work: impl Fn(&mut L, T) -> Result<(), Halt> + Sync,
) -> Result<Vec<L>, Halt> {
    let items = Mutex::new(items);
    let failed = AtomicBool::new(false);
    let results = pool.broadcast(|_| {
        let mut own = new();
        while !failed.load(Relaxed) {
            let Some(item) = items.lock().unwrap_or_else(PoisonError::into_inner).next() else {
                break;
            };
            let result = check(stop).and_then(|()| work(&mut own, item));
            if result.is_err() {
                failed.store(true, Relaxed);
            }
            result?;
        }
        Ok(own)
    });
    results.into_iter().collect()
}

/// Ends the work if it is to stop.
pub(super) fn check(stop: &AtomicBool) -> Result<(), Halt> {
    if stop.load(Relaxed) { Err(Halt::Stopped) } else { Ok(()) }
}
