//! One connection: the thread that opens it and then reads, and the thread that writes.

use std::fmt::Display;
use std::io::{self, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use apus_net::{
    NetKind, Outgoing, PeerId, Reader, Target, Transport, TransportError, Writer, initiate, respond,
};
use apus_node::threads;
use apus_wire::message::{Command, Raw};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};

use super::limiter::Limiter;
use super::receiving::{Received, Receiving};
use super::route::{Routes, TIMEOUT, Unreachable};

/// The most messages that wait to be sent: a peer that does not read them is dropped.
const OUTGOING_MAX: usize = 1024;
/// The bytes that are read ahead, so that small messages need few system calls.
const READ_AHEAD: usize = 64 << 10;
/// Time from one look for connections that others have opened to the next.
const ACCEPT_EVERY: Duration = Duration::from_millis(100);

/// What the threads of connections report.
pub(super) enum Event {
    /// A connection is open.
    Connected(PeerId, Link),
    /// No connection could be opened.
    Failed(PeerId, Unreachable),
    /// A peer has connected to us.
    Accepted(TcpStream),
    /// A message has arrived.
    Message {
        from: PeerId,
        command: Command,
        bytes: Vec<u8>,
        /// The range of the payload in `bytes`.
        payload: Range<usize>,
    },
    /// The connection is closed, or sent bytes that are not a message.
    Closed(PeerId, TransportError),
    /// The name of a DNS seed, and the addresses that it returned.
    Resolved(String, Vec<std::net::SocketAddr>),
}

/// An open connection, which is closed when this is dropped.
pub(super) struct Link {
    stream: TcpStream,
    outgoing: Sender<Outgoing>,
    received: Arc<Received>,
    pub transport: Transport,
}

/// How to open connections.
pub(super) struct Dialing {
    pub magic: [u8; 4],
    pub routes: Routes,
    /// Whether the v2 transport is used (Core's `-v2transport`).
    pub v2: bool,
    pub limiter: Arc<Limiter>,
    pub events: Sender<Event>,
}

impl Event {
    /// Returns the event for a connection that failed for a reason other than the proxy.
    fn failed(id: PeerId, why: &dyn Display) -> Self {
        Self::Failed(id, Unreachable::Host(why.to_string()))
    }
}

impl Link {
    /// Returns the number of bytes that have arrived so far.
    pub fn received_bytes(&self) -> u64 {
        self.received.bytes()
    }

    /// Queues a message to be sent. Returns `false` if too many wait.
    pub fn send(&self, message: Outgoing) -> bool {
        // If the connection is closed, its reader reports that.
        !matches!(self.outgoing.try_send(message), Err(TrySendError::Full(_)))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Opens a connection in a thread of its own, which then reads from it; with the v2 transport first
/// if `v2` says so. A name leads only to addresses in `nets`, which is empty for all.
pub(super) fn dial(id: PeerId, target: Target, v2: bool, nets: Vec<NetKind>, how: &Arc<Dialing>) {
    let how = Arc::clone(how);
    threads::spawn_free(format!("apus-peer-{}", id.0), move || {
        match open(&target, v2, &nets, &how) {
            Ok(open) => talk(id, open, &how),
            Err(why) => drop(how.events.send(Event::Failed(id, why))),
        }
    });
}

/// Accepts a connection that a peer opened to us, in a thread of its own, which then reads from it.
pub(super) fn accept(id: PeerId, stream: TcpStream, how: &Arc<Dialing>) {
    let how = Arc::clone(how);
    threads::spawn_free(format!("apus-peer-{}", id.0), move || {
        let begin = || -> Result<_, TransportError> {
            let (from, received) = prepare(&stream, &how)?;
            Ok((respond(how.magic, how.v2, from, &mut &stream)?, received))
        };
        match begin() {
            Ok(((reader, writer), received)) => {
                talk(id, Open { stream, received, reader, writer }, &how);
            }
            Err(error) => drop(how.events.send(Event::failed(id, &error))),
        }
    });
}

/// Reports connections to `port` until the sender of `over` is dropped, in a thread of its own.
///
/// # Errors
/// The port cannot be listened on.
pub(super) fn listen(port: u16, over: Receiver<()>, events: Sender<Event>) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    listener.set_nonblocking(true)?;
    threads::spawn_free("apus-listen".to_string(), move || {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    let is_ready = stream.set_nonblocking(false).is_ok();
                    if is_ready && events.send(Event::Accepted(stream)).is_err() {
                        return;
                    }
                }
                Err(_) => {
                    if over.recv_timeout(ACCEPT_EVERY) == Err(RecvTimeoutError::Disconnected) {
                        return;
                    }
                }
            }
        }
    });
    Ok(())
}

/// A connection whose transport is agreed on.
struct Open<R> {
    stream: TcpStream,
    received: Arc<Received>,
    reader: Reader<R>,
    writer: Writer,
}

/// Opens a connection: with the v2 transport first if `v2` says so, and with v1 if the peer then
/// hangs up, as peers do that do not know v2.
fn open(
    target: &Target,
    v2: bool,
    nets: &[NetKind],
    how: &Dialing,
) -> Result<Open<BufReader<Receiving>>, Unreachable> {
    let because = |error: TransportError| Unreachable::Host(error.to_string());
    if v2 {
        match initiate_on(how.routes.connect(target, nets)?, Transport::V2, how) {
            Err(TransportError::Io(error)) if has_hung_up(&error) => {}
            result => return result.map_err(because),
        }
    }
    initiate_on(how.routes.connect(target, nets)?, Transport::V1, how).map_err(because)
}

fn initiate_on(
    stream: TcpStream,
    transport: Transport,
    how: &Dialing,
) -> Result<Open<BufReader<Receiving>>, TransportError> {
    let (from, received) = prepare(&stream, how)?;
    let (reader, writer) = initiate(transport, how.magic, from, &mut &stream)?;
    Ok(Open { stream, received, reader, writer })
}

fn has_hung_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof].contains(&error.kind())
}

/// Prepares a new connection for the handshake of the transport.
fn prepare(stream: &TcpStream, how: &Dialing) -> io::Result<(BufReader<Receiving>, Arc<Received>)> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let from = Receiving::new(stream, &how.limiter)?;
    let received = from.received();
    Ok((BufReader::with_capacity(READ_AHEAD, from), received))
}

/// Reads messages and reports them until the connection is closed. Another thread writes.
fn talk<R: io::Read>(id: PeerId, open: Open<R>, how: &Dialing) {
    let Open { stream, received, mut reader, writer } = open;
    let begin = || -> io::Result<Link> {
        received.open(&stream)?;
        let (outgoing, queue) = bounded(OUTGOING_MAX);
        let transport = writer.transport();
        let to = stream.try_clone()?;
        threads::spawn_free(format!("apus-send-{}", id.0), move || send_all(&to, writer, &queue));
        Ok(Link { stream, outgoing, received, transport })
    };
    let events = &how.events;
    let opened = match begin() {
        Ok(link) => Event::Connected(id, link),
        Err(error) => Event::failed(id, &error),
    };
    let is_open = matches!(opened, Event::Connected(..));
    if events.send(opened).is_err() || !is_open {
        return;
    }
    loop {
        let mut bytes = Vec::new();
        let event = match reader.read(&mut bytes) {
            Ok((command, payload)) => Event::Message { from: id, command, bytes, payload },
            Err(error) => Event::Closed(id, error),
        };
        let is_end = matches!(event, Event::Closed(..));
        if events.send(event).is_err() || is_end {
            return;
        }
    }
}

/// Sends messages until the queue or the connection is closed.
fn send_all(mut to: &TcpStream, mut writer: Writer, queue: &Receiver<Outgoing>) {
    let mut bytes = Vec::new();
    while let Ok(first) = queue.recv() {
        bytes.clear();
        for Outgoing { command, payload } in std::iter::once(first).chain(queue.try_iter()) {
            writer.encode(&Raw(command, &payload), &mut bytes);
        }
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
