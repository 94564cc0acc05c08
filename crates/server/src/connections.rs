//! The open connections: how many there are, which of them makes room for another, and how slowly
//! one may read its answer.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

/// The most connections. Each takes up to 64 KiB, besides requests and answers.
pub(crate) const CONNECTIONS_MAX: usize = 512;
/// The fewest bytes a second at which an answer is read in the long run.
const SPEED_MIN: u32 = 128 << 10;

/// All open connections.
pub(crate) struct Connections {
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
    next: AtomicU64,
    /// Tells that a connection has ended.
    left: Notify,
    most: usize,
}

/// One connection, as others see it.
#[derive(Default)]
pub(crate) struct Connection {
    /// Number of requests that have come completely and are being answered.
    busy: AtomicUsize,
    /// Whether a request had a right password.
    named: AtomicBool,
    /// The number of the last event: that it was opened, or that a request began or ended.
    last: AtomicU64,
    /// Wakes the task of this connection, so that it ends.
    ends: Notify,
}

/// A connection's place, until it is dropped.
pub(crate) struct OpenConnection {
    all: Arc<Connections>,
    id: u64,
    pub connection: Arc<Connection>,
}

/// Keeps a connection busy until it is dropped.
pub(crate) struct Busy(Arc<Connection>);

/// Counts the events of all connections, as a clock that orders them.
fn next_event() -> u64 {
    static EVENTS: AtomicU64 = AtomicU64::new(0);
    EVENTS.fetch_add(1, Relaxed)
}

impl Connections {
    /// Creates an empty list for `most` connections.
    pub fn new(most: usize) -> Arc<Self> {
        let open = Mutex::default();
        let next = AtomicU64::new(0);
        let left = Notify::new();
        Arc::new(Self { open, next, left, most })
    }

    /// Returns a place for a new connection. If all are taken, another ends: first those without a
    /// password, the one that has been idle longest first, and none that has a password and is
    /// busy; `None` if there are only such.
    pub fn enter(self: &Arc<Self>) -> Option<OpenConnection> {
        let mut open = self.open();
        if open.len() >= self.most {
            let order = |it: &Connection| {
                let is_busy = it.busy.load(Relaxed) > 0;
                (it.named.load(Relaxed), is_busy, it.last.load(Relaxed))
            };
            let all = open.iter().map(|(id, it)| (order(it), *id));
            let ((is_named, is_busy, _), id) = all.min()?;
            if is_named && is_busy {
                return None;
            }
            if let Some(leaving) = open.remove(&id) {
                leaving.ends.notify_one();
            }
        }
        let id = self.next.fetch_add(1, Relaxed);
        let connection = Arc::new(Connection::default());
        connection.last.store(next_event(), Relaxed);
        open.insert(id, Arc::clone(&connection));
        Some(OpenConnection { all: Arc::clone(self), id, connection })
    }

    /// Waits until no connection is open.
    pub async fn all_left(&self) {
        loop {
            let left = self.left.notified();
            if self.open().is_empty() {
                return;
            }
            left.await;
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Notes that a request comes, and whether it has a right password.
    pub fn hear(&self, is_named: bool) {
        self.last.store(next_event(), Relaxed);
        self.named.fetch_or(is_named, Relaxed);
    }

    /// Returns whether a request had a right password.
    pub fn is_named(&self) -> bool {
        self.named.load(Relaxed)
    }

    /// Marks the connection as busy until the result is dropped.
    pub fn work(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Relaxed);
        Busy(Arc::clone(self))
    }

    /// Waits until the connection is to make room for another.
    pub async fn leaves(&self) {
        self.ends.notified().await;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.last.store(next_event(), Relaxed);
        self.0.busy.fetch_sub(1, Relaxed);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.open().remove(&self.id);
        self.all.left.notify_one();
    }
}

/// A socket that fails once the other side reads too slowly: nothing for a while (Core's
/// `-rpcservertimeout`), or less than [`SPEED_MIN`] in the long run.
pub(crate) struct Paced<S> {
    stream: S,
    /// `None` for no limit.
    patience: Option<Duration>,
    /// When the bytes that wait must be sent.
    until: Pin<Box<Sleep>>,
    /// Whether bytes wait.
    is_stuck: bool,
}

impl<S> Paced<S> {
    /// Wraps a socket.
    pub fn new(stream: S, patience: Option<Duration>) -> Self {
        let until = Box::pin(sleep(patience.unwrap_or_default()));
        Self { stream, patience, until, is_stuck: false }
    }

    /// Returns what a write of `bytes` bytes has come to, or that it has waited for too long.
    fn wrote(
        &mut self,
        context: &mut Context,
        bytes: usize,
        poll: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Some(patience) = self.patience else { return poll };
        let latest = Instant::now() + patience;
        match &poll {
            Poll::Ready(Ok(sent)) if self.is_stuck => {
                self.is_stuck = *sent < bytes;
                let more = Duration::from_secs(*sent as u64) / SPEED_MIN;
                let until = (self.until.deadline() + more).min(latest);
                self.until.as_mut().reset(until);
            }
            Poll::Ready(_) => {}
            Poll::Pending => {
                if !std::mem::replace(&mut self.is_stuck, true) {
                    self.until.as_mut().reset(latest);
                }
                ready!(self.until.as_mut().poll(context));
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        poll
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, bytes.len(), poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        slices: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.wrote(context, slices.iter().map(|slice| slice.len()).sum(), poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[test]
    fn those_with_a_password_stay_and_new_ones_come_in() {
        let connections = Connections::new(4);
        let places: Vec<OpenConnection> = (0..4).filter_map(|_| connections.enter()).collect();
        // Busy without a password; idle and busy with one.
        places[0].connection.hear(false);
        let [_first, _last] = [0, 3].map(|at| places[at].connection.work());
        [2, 3].iter().for_each(|at| places[*at].connection.hear(true));
        let is_open = |at: usize| connections.open().contains_key(&places[at].id);
        let mut others = Vec::new();
        for leaves in [1, 0, 2] {
            let other = connections.enter().unwrap();
            other.connection.hear(true);
            others.push((other.connection.work(), other));
            assert!(!is_open(leaves) && is_open(3), "{leaves}");
        }
        assert!(connections.enter().is_none(), "all are busy, with a password");
        others.pop();
        assert!(connections.enter().is_some());
    }

    /// Sends an answer of a MiB to a reader that takes `piece` bytes every second. Returns how long
    /// it took, and whether all was sent.
    async fn send(piece: usize) -> (Duration, bool) {
        let (own, mut other) = duplex(1 << 10);
        let mut own = Paced::new(own, Some(Duration::from_secs(30)));
        let began = Instant::now();
        let read = tokio::spawn(async move {
            let mut bytes = vec![0; piece];
            loop {
                sleep(Duration::from_secs(1)).await;
                if piece == 0 || other.read_exact(&mut bytes).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        });
        let sent = own.write_all(&[7; 1 << 20]).await;
        read.abort();
        (began.elapsed(), sent.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_left() {
        let (took, is_sent) = send(0).await;
        assert!(!is_sent && took == Duration::from_secs(30), "{took:?}");
        // Any byte resets no clock.
        let (took, is_sent) = send(8 << 10).await;
        assert!(!is_sent && took < Duration::from_secs(40), "{took:?}");
        assert!(send(SPEED_MIN as usize).await.1);
    }
}
