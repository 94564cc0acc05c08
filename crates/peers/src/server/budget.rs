//! The memory for requests that are large.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The most bytes of large messages that all connections together hold.
const BYTES_MAX: usize = 32 << 20;
/// A message of at most this many bytes is read at once, such as a `getdata` of 450 items. Core
/// asks for 16 blocks at a time.
const SMALL_BYTES: usize = 16 << 10;

/// The memory for large messages: a connection that has none left waits before it reads one.
pub(super) struct Budget {
    /// Bytes left; `None` after the end.
    left: Mutex<Option<usize>>,
    freed: Condvar,
}

/// Memory of a budget, until it is dropped.
pub(super) struct Permit<'a> {
    of: &'a Budget,
    bytes: usize,
}

impl Budget {
    /// Returns a budget of which nothing is in use.
    pub fn new() -> Self {
        Self { left: Mutex::new(Some(BYTES_MAX)), freed: Condvar::new() }
    }

    /// Takes memory for a message, and waits for it if need be. Small messages need none.
    ///
    /// # Errors
    /// The server ends, or the message is larger than all memory.
    pub fn take(&self, bytes: usize) -> io::Result<Option<Permit<'_>>> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let is_full = |left: &mut Option<usize>| left.is_some_and(|left| left < bytes);
        let left = self.freed.wait_while(self.lock(), is_full);
        match &mut *left.unwrap_or_else(PoisonError::into_inner) {
            Some(left) => {
                *left -= bytes;
                Ok(Some(Permit { of: self, bytes }))
            }
            None => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Ends all waits with an error.
    pub fn end(&self) {
        *self.lock() = None;
        self.freed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<usize>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(left) = &mut *self.of.lock() {
            *left += self.bytes;
        }
        self.of.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_wait_for_each_other() {
        let budget = Budget::new();
        assert!(budget.take(SMALL_BYTES).unwrap().is_none());
        let half = BYTES_MAX / 2;
        let first = budget.take(half).unwrap();
        let _second = budget.take(half).unwrap();
        std::thread::scope(|scope| {
            let third = scope.spawn(|| budget.take(half).map(|permit| permit.is_some()));
            drop(first);
            assert!(third.join().unwrap().unwrap());
            let fourth = scope.spawn(|| budget.take(BYTES_MAX).is_err());
            budget.end();
            assert!(fourth.join().unwrap());
        });
    }
}
