//! The memory for large messages of peers that connected to us.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The most bytes of large messages that all these connections together hold.
pub(super) const BYTES_MAX: usize = 32 << 20;
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

/// The socket of a connection, which may wait for memory of a budget.
pub(super) struct Socket {
    stream: TcpStream,
    is_closed: AtomicBool,
    /// `None` if we opened the connection: these are few, and peers that we chose.
    budget: Option<Arc<Budget>>,
}

impl Socket {
    /// Returns the socket of a connection that we opened.
    pub fn outbound(stream: TcpStream) -> Self {
        Self { stream, is_closed: AtomicBool::new(false), budget: None }
    }

    /// Returns the socket of a connection that a peer opened.
    pub fn inbound(stream: TcpStream, budget: &Arc<Budget>) -> Self {
        Self { budget: Some(Arc::clone(budget)), ..Self::outbound(stream) }
    }

    /// Takes memory for a message or packet, and gives back what the one before took, which was
    /// ignored. It waits for memory if need be.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn admit<'a>(&'a self, bytes: usize, permit: &mut Option<Permit<'a>>) -> io::Result<()> {
        *permit = None;
        if let Some(budget) = &self.budget {
            *permit = budget.take(bytes, &self.is_closed)?;
        }
        Ok(())
    }

    /// Closes the connection, and ends its wait for memory.
    pub fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(budget) = &self.budget {
            budget.close(&self.is_closed);
        }
    }
}

impl Deref for Socket {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

impl Budget {
    /// Returns a budget of which nothing is in use.
    pub fn new() -> Self {
        Self { left: Mutex::new(Some(BYTES_MAX)), freed: Condvar::new() }
    }

    /// Takes memory for a message, and waits for it if need be. Small messages need none.
    ///
    /// # Errors
    /// `is_closed` is set, or the server ends.
    fn take(&self, bytes: usize, is_closed: &AtomicBool) -> io::Result<Option<Permit<'_>>> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let must_wait = |left: &mut Option<usize>| {
            left.is_some_and(|left| left < bytes) && !is_closed.load(Relaxed)
        };
        let left = self.freed.wait_while(self.lock(), must_wait);
        match &mut *left.unwrap_or_else(PoisonError::into_inner) {
            Some(left) if !is_closed.load(Relaxed) => {
                *left -= bytes;
                Ok(Some(Permit { of: self, bytes }))
            }
            _ => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Sets `is_closed`, and ends the wait of its connection with an error.
    fn close(&self, is_closed: &AtomicBool) {
        // Under the lock: between its check and its wait, a thread would miss the signal.
        let _left = self.lock();
        is_closed.store(true, Relaxed);
        self.freed.notify_all();
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
        let (budget, open) = (Budget::new(), AtomicBool::new(false));
        assert!(budget.take(SMALL_BYTES, &open).unwrap().is_none());
        let half = BYTES_MAX / 2;
        let first = budget.take(half, &open).unwrap();
        let _second = budget.take(half, &open).unwrap();
        std::thread::scope(|scope| {
            let third = scope.spawn(|| budget.take(half, &open).map(|permit| permit.is_some()));
            drop(first);
            assert!(third.join().unwrap().unwrap());
            let fourth = scope.spawn(|| budget.take(BYTES_MAX, &open).is_err());
            budget.end();
            assert!(fourth.join().unwrap());
        });
    }

    #[test]
    fn the_wait_of_a_closed_connection_ends() {
        let budget = Budget::new();
        let (open, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        let all = budget.take(BYTES_MAX, &open).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| budget.take(BYTES_MAX, &closed).is_err());
            budget.close(&closed);
            assert!(waiting.join().unwrap());
        });
        drop(all);
        assert!(budget.take(BYTES_MAX, &closed).is_err());
        assert!(budget.take(BYTES_MAX, &open).unwrap().is_some());
    }
}
