//! The memory that connections share: for large messages of peers that connected to us, and for
//! blocks that are sent.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use apus_progress::clock::unix_time;

/// The most bytes of large messages that all connections which peers opened hold together.
pub(super) const MESSAGES_BYTES_MAX: usize = 32 << 20;
/// A message of at most this many bytes is read at once, such as a `getdata` of 450 items. Core
/// asks for 16 blocks at a time.
const SMALL_BYTES: usize = 16 << 10;

/// Memory that is shared.
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

/// Counts the bytes that went in one direction.
#[derive(Default)]
pub(super) struct Moved {
    bytes: AtomicU64,
    /// When the last of them went, in seconds since 1970.
    at: AtomicI64,
}

impl Moved {
    /// Records that bytes went just now.
    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        self.at.store(unix_time(), Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns when the last of them went, in seconds since 1970; 0 if none did.
    pub fn at(&self) -> i64 {
        self.at.load(Relaxed)
    }
}

/// The socket of a connection, which may wait for memory of a budget.
pub(super) struct Socket {
    stream: TcpStream,
    /// Bytes sent.
    pub sent: Moved,
    is_closed: AtomicBool,
    /// `None` if we opened the connection: these are few, and peers that we chose.
    budget: Option<Arc<Budget>>,
}

impl Socket {
    /// Returns the socket of a connection that we opened.
    pub fn outbound(stream: TcpStream) -> Self {
        let sent = Moved::default();
        let is_closed = AtomicBool::new(false);
        Self { stream, sent, is_closed, budget: None }
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
    /// Returns a budget of this many bytes, none of which is in use.
    pub fn new(bytes: usize) -> Self {
        Self { left: Mutex::new(Some(bytes)), freed: Condvar::new() }
    }

    /// Takes memory if there is enough.
    pub fn try_take(&self, bytes: usize) -> Option<Permit<'_>> {
        let mut left = self.lock();
        *left = Some(left.and_then(|left| left.checked_sub(bytes))?);
        Some(Permit { of: self, bytes })
    }

    /// Takes memory for a message, and waits for it if need be. Small messages need none.
    ///
    /// # Errors
    /// `is_closed` is set, or the server ends.
    pub fn take(&self, bytes: usize, is_closed: &AtomicBool) -> io::Result<Option<Permit<'_>>> {
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

impl Permit<'_> {
    /// Gives back all but the given number of bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let freed = self.bytes.saturating_sub(bytes);
        self.bytes -= freed;
        if let Some(left) = &mut *self.of.lock() {
            *left += freed;
        }
        self.of.freed.notify_all();
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

    #[test]
    fn large_messages_wait_for_each_other() {
        let budget = Budget::new(BYTES);
        let open = AtomicBool::new(false);
        assert!(budget.take(SMALL_BYTES, &open).unwrap().is_none());
        let half = BYTES / 2;
        let first = budget.take(half, &open).unwrap();
        let _second = budget.take(half, &open).unwrap();
        std::thread::scope(|scope| {
            let third = scope.spawn(|| budget.take(half, &open).map(|permit| permit.is_some()));
            drop(first);
            assert!(third.join().unwrap().unwrap());
            let fourth = scope.spawn(|| budget.take(BYTES, &open).is_err());
            budget.end();
            assert!(fourth.join().unwrap());
        });
    }

    #[test]
    fn the_wait_of_a_closed_connection_ends() {
        let budget = Budget::new(BYTES);
        let open = AtomicBool::new(false);
        let closed = AtomicBool::new(false);
        let all = budget.take(BYTES, &open).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| budget.take(BYTES, &closed).is_err());
            budget.close(&closed);
            assert!(waiting.join().unwrap());
        });
        drop(all);
        assert!(budget.take(BYTES, &closed).is_err());
        assert!(budget.take(BYTES, &open).unwrap().is_some());
    }

    #[test]
    fn memory_that_is_not_needed_is_given_back() {
        let budget = Budget::new(BYTES);
        let mut first = budget.try_take(BYTES).unwrap();
        assert!(budget.try_take(1).is_none());
        first.shrink_to(1);
        assert!(budget.try_take(BYTES).is_none());
        assert!(budget.try_take(BYTES - 1).is_some());
        drop(first);
        assert!(budget.try_take(BYTES).is_some());
    }
}
