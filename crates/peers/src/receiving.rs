//! Reads the bytes of a connection, with a time limit for the handshake of the transport and a
//! limit on the bytes a second.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use super::budget::Moved;
use super::limiter::Limiter;

/// The time limit for the handshake of the transport.
const OPENING_TIME: Duration = Duration::from_secs(60);

/// The receiving end of a connection.
pub(super) struct Receiving {
    stream: TcpStream,
    limiter: Arc<Limiter>,
    /// Whether the peer opened the connection.
    inbound: bool,
    received: Arc<Received>,
}

/// What has arrived over a connection.
pub(super) struct Received {
    all: Moved,
    block_bytes: AtomicU64,
    /// Whether the handshake of the transport is complete.
    is_open: AtomicBool,
    /// When the handshake must be complete.
    until: Instant,
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
            is_open: AtomicBool::new(false),
            until: Instant::now() + OPENING_TIME,
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

    /// Ends the time limit, since the handshake is complete: from now on `net::PeerManager` knows
    /// how long the peer may be silent.
    pub fn open(&self, stream: &TcpStream) -> io::Result<()> {
        self.is_open.store(true, Relaxed);
        stream.set_read_timeout(None)
    }
}

impl Read for Receiving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.received.is_open.load(Relaxed) {
            let left = self.received.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(too_late());
            }
            self.stream.set_read_timeout(Some(left))?;
        }
        let most = buffer.len().min(self.limiter.bytes_at_once());
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

fn too_late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the handshake of the transport takes too long")
}
