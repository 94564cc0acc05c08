//! The open connections: how many there are, which of them makes room for another, and how long
//! one may neither send nor read.

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

/// All open connections.
pub(crate) struct Connections {
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
    next: AtomicU64,
    /// Tells that a connection has ended.
    left: Notify,
    began: Instant,
    most: usize,
}

/// What others see of one connection.
#[derive(Default)]
pub(crate) struct Connection {
    /// Number of requests that are being answered.
    busy: AtomicUsize,
    /// Whether a request had a right password.
    named: AtomicBool,
    /// When bytes last came or went, in milliseconds since [`Connections::began`].
    moved: AtomicU64,
    /// Wakes the task of this connection, so that it ends.
    ends: Notify,
}

/// A connection's place, until it is dropped.
pub(crate) struct Place {
    all: Arc<Connections>,
    id: u64,
    pub connection: Arc<Connection>,
}

/// Keeps a connection busy until it is dropped.
pub(crate) struct Busy(Arc<Connection>);

impl Connections {
    /// Creates an empty list for `most` connections.
    pub fn new(most: usize) -> Arc<Self> {
        let (open, next, left) = (Mutex::default(), AtomicU64::new(0), Notify::new());
        Arc::new(Self { open, next, left, began: Instant::now(), most })
    }

    /// Returns a place for a new connection. If all are taken, the one that has been idle longest
    /// ends, first those without a password; `None` if none is idle.
    pub fn enter(self: &Arc<Self>) -> Option<Place> {
        let mut open = self.open();
        if open.len() >= self.most {
            let idle = open.iter().filter(|(_, it)| it.busy.load(Relaxed) == 0);
            let order = |it: &Connection| (it.named.load(Relaxed), it.moved.load(Relaxed));
            let id = *idle.min_by_key(|(_, it)| order(it))?.0;
            if let Some(leaving) = open.remove(&id) {
                leaving.ends.notify_one();
            }
        }
        let id = self.next.fetch_add(1, Relaxed);
        let connection = Arc::new(Connection::default());
        connection.moved.store(self.now(), Relaxed);
        open.insert(id, Arc::clone(&connection));
        Some(Place { all: Arc::clone(self), id, connection })
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

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

impl Connection {
    /// Marks the connection as busy until the result is dropped.
    pub fn work(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Relaxed);
        Busy(Arc::clone(self))
    }

    /// Notes that a request had a right password.
    pub fn set_named(&self) {
        self.named.store(true, Relaxed);
    }

    /// Waits until the connection is to make room for another.
    pub async fn leaves(&self) {
        self.ends.notified().await;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.open().remove(&self.id);
        self.all.left.notify_one();
    }
}

/// A socket that fails once nothing has moved for a while (Core's `-rpcservertimeout`): while no
/// request is being answered, nothing was received; or while there is something to send, the other
/// side did not read.
pub(crate) struct Patient<S> {
    stream: S,
    place: Place,
    /// `None` for no limit.
    patience: Option<Duration>,
    reading: Pin<Box<Sleep>>,
    writing: Pin<Box<Sleep>>,
    /// Whether the last write had to wait.
    is_stuck: bool,
}

impl<S> Patient<S> {
    /// Wraps a socket that was opened just now.
    pub fn new(stream: S, place: Place, patience: Option<Duration>) -> Self {
        let time = patience.unwrap_or(Duration::ZERO);
        let [reading, writing] = [(); 2].map(|()| Box::pin(sleep(time)));
        Self { stream, place, patience, reading, writing, is_stuck: false }
    }

    fn moved(&mut self) {
        self.place.connection.moved.store(self.place.all.now(), Relaxed);
        if let Some(patience) = self.patience {
            self.reading.as_mut().reset(Instant::now() + patience);
        }
    }

    /// Returns what a write has come to, and watches how long it waits.
    fn wrote<T>(
        &mut self,
        context: &mut Context,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.is_stuck = false;
            self.moved();
            return poll;
        }
        let Some(patience) = self.patience else { return poll };
        if !std::mem::replace(&mut self.is_stuck, true) {
            self.writing.as_mut().reset(Instant::now() + patience);
        }
        ready!(self.writing.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(context, buffer);
        if poll.is_ready() {
            self.moved();
            return poll;
        }
        let Some(patience) = self.patience else { return poll };
        ready!(self.reading.as_mut().poll(context));
        if self.place.connection.busy.load(Relaxed) == 0 {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.reading.as_mut().reset(Instant::now() + patience);
        // This registers the timer with its new time.
        let _ = self.reading.as_mut().poll(context);
        Poll::Pending
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        slices: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.wrote(context, poll)
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
