//! Reads the bytes of a connection, with a time limit for the handshake of the transport and a
//! limit on the bytes a second.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::budget::Moved;
use super::limiter::Limiter;

/// The time limit for the handshake of the transport, and for the first bytes of a message that
/// takes from the shared memory.
const TIME_MAX: Duration = Duration::from_secs(60);
/// The bytes of such a message for which it has a second more.
const BYTES_A_SECOND: usize = 16 << 10;

/// The receiving end of a connection.
pub(super) struct Receiving {
    stream: TcpStream,
    limiter: Arc<Limiter>,
    /// Whether the peer opened the connection.
    inbound: bool,
    received: Arc<Received>,
}

/// Bytes and messages that have arrived over a connection.
pub(super) struct Received {
    all: Moved,
    block_bytes: AtomicU64,
    /// When the handshake of the transport, or a message, must be complete.
    until: Mutex<Option<Instant>>,
}

impl Receiving {
    /// Creates the receiving end of a connection that was just made.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new(stream: &TcpStream, limiter: &Arc<Limiter>, inbound: bool) -> io::Result<Self> {
        let received = Received {
            all: Moved::default(),
            block_bytes: AtomicU64::new(0),
            until: Mutex::new(Some(Instant::now() + TIME_MAX)),
        };
        let stream = stream.try_clone()?;
        let limiter = Arc::clone(limiter);
        Ok(Self { stream, limiter, inbound, received: Arc::new(received) })
    }

    /// Returns the record of what arrives, which other threads may read.
    pub fn received(&self) -> Arc<Received> {
        Arc::clone(&self.received)
    }
}

impl Received {
    /// Returns what has arrived in all.
    pub fn all(&self) -> &Moved {
        &self.all
    }

    /// Returns the number of bytes of blocks that have arrived, complete or not.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes.load(Relaxed)
    }

    /// Records that this many bytes of a block have arrived.
    pub fn add_block(&self, bytes: usize) {
        self.block_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Begins a time limit for a message that takes from the shared memory: no peer may hold it and
    /// send nothing.
    pub fn begin_limit(&self, bytes: usize) {
        *self.until() = Some(Instant::now() + time_for(bytes));
    }

    /// Ends the time limit, since the handshake or the message is complete: `net::PeerManager`
    /// knows how long the peer may be silent.
    pub fn end_limit(&self, stream: &TcpStream) -> io::Result<()> {
        match self.until().take() {
            Some(_) => stream.set_read_timeout(None),
            None => Ok(()),
        }
    }

    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for Receiving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.limiter.wait(self.inbound);
        let until = *self.received.until();
        if let Some(until) = until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(too_late());
            }
            self.stream.set_read_timeout(Some(left))?;
        }
        let most = buffer.len().min(self.limiter.bytes_at_once(self.inbound));
        let read = match self.stream.read(&mut buffer[..most]) {
            // A timeout is the one on some systems, and the other on others.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(too_late());
            }
            result => result?,
        };
        self.received.all.add(read);
        self.limiter.take(read as u64, self.inbound);
        Ok(read)
    }
}

/// Returns the time limit for a message of `bytes` bytes that takes from the shared memory.
pub(super) fn time_for(bytes: usize) -> Duration {
    TIME_MAX + Duration::from_secs((bytes / BYTES_A_SECOND) as u64)
}

fn too_late() -> io::Error {
    io::Error::new(
        ErrorKind::TimedOut,
        "the handshake of the transport, or a large message, takes too long",
    )
}
