//! One connection: the thread that opens it and then reads, and the thread that writes.

use std::fmt::Display;
use std::io::{self, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apus_hash::Hash;
use apus_host::threads;
use apus_net::{
    NetKind, Outgoing, PeerId, PeerOptions, Reader, Target, Transport, TransportError, Writer,
    initiate, respond,
};
use apus_progress::clock::unix_time;
use apus_wire::message::{Command, Message, Raw};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};

use super::budget::{Budget, MESSAGES_BYTES_MAX, Moved, Socket};
use super::limiter::Limiter;
use super::receiving::{Received, Receiving};
use super::route::{Routes, TIMEOUT, Unreachable, system_resolver};
use super::stock::{NotSent, Stock};

/// The most messages that wait to be sent: a peer that does not read them is dropped.
const OUTGOING_MAX: usize = 1024;
/// The bytes that are read ahead, so that small messages need few system calls.
const READ_AHEAD: usize = 64 << 10;
/// Time from one look for connections that others have opened to the next.
const ACCEPT_EVERY: Duration = Duration::from_millis(100);

/// The messages that are answered before the next one of the peer is read.
const REQUESTS: [Command; 8] = [
    Command::GETDATA,
    Command::GETBSPENT,
    Command::GETBLOCKTXN,
    Command::GETHEADERS,
    Command::GETBLOCKS,
    Command::GETCFILTERS,
    Command::GETCFHEADERS,
    Command::GETCFCHECKPT,
];

/// An event from the thread of a connection.
pub(super) enum Event {
    /// A connection is open.
    Connected(PeerId, Link),
    /// No connection could be opened.
    Failed(PeerId, Unreachable),
    /// A peer has connected to us.
    Accepted(TcpStream, SocketAddr),
    /// A message has arrived.
    Message(ReceivedMessage),
    /// The connection is closed, or sent bytes that are not a message.
    Closed(PeerId, TransportError),
    /// The name of a DNS seed, and the addresses that it returned.
    Resolved(String, Vec<SocketAddr>),
}

/// A message of a peer.
pub(super) struct ReceivedMessage {
    pub from: PeerId,
    pub command: Command,
    pub bytes: Vec<u8>,
    /// The range of the payload in `bytes`.
    pub payload: Range<usize>,
    /// The next message is read when this is dropped, if this one is a request or takes memory of
    /// the budget.
    pub answered: Option<Answered>,
}

/// Held until a message of a peer is handled and, if it is a request, answered. So there is at most
/// one of each peer.
pub(super) struct Answered {
    _until: Sender<()>,
}

/// Messages that wait to be sent.
enum Waiting {
    /// A message, and the request that it answers, if it is an answer.
    Message(Outgoing, Option<Answered>),
    /// Requested blocks.
    Blocks(Box<BlocksRequest>),
}

/// A peer's request for blocks, which are read when they are sent.
pub(super) struct BlocksRequest {
    pub stock: Arc<Stock>,
    pub command: Command,
    /// The message with the request.
    pub bytes: Vec<u8>,
    /// The range of the payload in `bytes`.
    pub payload: Range<usize>,
    /// The block after which the hash of the tip is sent.
    pub continuation: Option<Hash>,
    pub answered: Option<Answered>,
}

/// An open connection, which is closed when this is dropped.
pub(super) struct Link {
    socket: Arc<Socket>,
    outgoing: Sender<Waiting>,
    /// Whether requested blocks are being sent.
    is_sending: Arc<AtomicBool>,
    received: Arc<Received>,
    pub transport: Transport,
    /// When it was opened, in seconds since 1970.
    pub connected: i64,
    /// When the last requested block came, in seconds since 1970; 0 if none did.
    pub last_block: i64,
}

/// How to open connections.
pub(super) struct Dialing {
    pub magic: [u8; 4],
    pub routes: Routes,
    /// Whether the v2 transport is used (Core's `-v2transport`).
    pub v2: bool,
    pub limiter: Arc<Limiter>,
    /// The memory for large messages of peers that connect to us.
    pub budget: Arc<Budget>,
    pub events: Sender<Event>,
}

impl Dialing {
    /// Returns how the options say to open connections, whose events go to `events`.
    pub fn new(
        magic: [u8; 4],
        peers: &PeerOptions,
        limiter: Arc<Limiter>,
        events: Sender<Event>,
    ) -> Self {
        Self {
            magic,
            routes: Routes {
                proxies: peers.proxies.clone(),
                timeout: peers.timeout,
                resolver: Box::new(system_resolver),
            },
            v2: peers.v2transport,
            limiter,
            budget: Arc::new(Budget::new(MESSAGES_BYTES_MAX)),
            events,
        }
    }
}

impl Event {
    /// Returns the event for a connection that failed for a reason other than the proxy.
    fn failed(id: PeerId, why: &dyn Display) -> Self {
        Self::Failed(id, Unreachable::Host(why.to_string()))
    }
}

impl Link {
    /// Returns the number of bytes of blocks that have arrived so far, complete or not.
    pub fn block_bytes(&self) -> u64 {
        self.received.block_bytes()
    }

    /// Returns whether requested blocks are being sent.
    pub fn is_sending(&self) -> bool {
        self.is_sending.load(Relaxed)
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns what has arrived.
    pub fn received(&self) -> &Moved {
        self.received.all()
    }

    /// Queues a message to be sent. Returns `false` if too many wait.
    pub fn send(&self, message: Outgoing) -> bool {
        self.queue(Waiting::Message(message, None))
    }

    /// Queues the answer to a request. Returns `false` if too many messages wait.
    pub fn answer(&self, message: Outgoing, answered: Option<Answered>) -> bool {
        self.queue(Waiting::Message(message, answered))
    }

    /// Queues requested blocks. Returns `false` if too many messages wait.
    pub fn send_blocks(&self, request: BlocksRequest) -> bool {
        self.queue(Waiting::Blocks(Box::new(request)))
    }

    fn queue(&self, waiting: Waiting) -> bool {
        // If the connection is closed, its reader reports that.
        !matches!(self.outgoing.try_send(waiting), Err(TrySendError::Full(_)))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.socket.close();
    }
}

/// Opens a connection in a thread of its own, which then reads from it; with the v2 transport first
/// if `v2` says so. A name leads only to addresses in `nets`, which is empty for all. Returns
/// `false` if the system refuses the thread, of which no event comes then.
pub(super) fn dial(
    id: PeerId,
    target: Target,
    v2: bool,
    nets: Vec<NetKind>,
    how: &Arc<Dialing>,
) -> bool {
    let how = Arc::clone(how);
    threads::spawn_free(format!("apus-peer-{}", id.0), move || {
        match open(&target, v2, &nets, &how) {
            Ok(open) => talk(id, open, &how),
            Err(why) => drop(how.events.send(Event::Failed(id, why))),
        }
    })
}

/// Accepts a connection that a peer opened to us, in a thread of its own, which then reads from it.
/// Returns `false` if the system refuses the thread, of which no event comes then.
pub(super) fn accept(id: PeerId, socket: Arc<Socket>, how: &Arc<Dialing>) -> bool {
    let how = Arc::clone(how);
    threads::spawn_free(format!("apus-peer-{}", id.0), move || {
        let begin = || -> Result<_, TransportError> {
            let (from, received) = prepare(&socket, &how, true)?;
            let mut permit = None;
            let mut admit = |bytes| socket.admit(bytes, &mut permit);
            let to = &mut &**socket;
            Ok((respond(how.magic, how.v2, from, to, &mut admit)?, received))
        };
        match begin() {
            Ok(((reader, writer), received)) => {
                talk(id, Open { socket, received, reader, writer }, &how);
            }
            Err(error) => drop(how.events.send(Event::failed(id, &error))),
        }
    })
}

/// Reports connections to `address` until the sender of `over` is dropped, in a thread of its own.
///
/// # Errors
/// The address cannot be listened on, or the system refuses the thread.
pub(super) fn listen(
    address: SocketAddr,
    over: Receiver<()>,
    events: Sender<Event>,
) -> io::Result<()> {
    // As `apus serve`: both protocols, or IPv4 alone where there is no other.
    let listener = TcpListener::bind(address).or_else(|error| match address.ip() {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
        }
        _ => Err(error),
    })?;
    listener.set_nonblocking(true)?;
    is_started(threads::spawn_free("apus-listen".to_string(), move || {
        loop {
            match listener.accept() {
                Ok((stream, address)) => {
                    let is_ready = stream.set_nonblocking(false).is_ok();
                    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
                    if is_ready && events.send(Event::Accepted(stream, address)).is_err() {
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
    }))
}

fn is_started(is_started: bool) -> io::Result<()> {
    if is_started { Ok(()) } else { Err(io::Error::other("the system refuses to start a thread")) }
}

/// A connection whose transport is agreed on.
pub(super) struct Open<R> {
    pub socket: Arc<Socket>,
    received: Arc<Received>,
    pub reader: Reader<R>,
    pub writer: Writer,
}

/// Opens a connection: with the v2 transport first if `v2` says so, and with v1 if the peer then
/// hangs up without a word, as peers do that do not know v2 (Core's `ShouldReconnectV1`).
pub(super) fn open(
    target: &Target,
    v2: bool,
    nets: &[NetKind],
    how: &Dialing,
) -> Result<Open<BufReader<Receiving>>, Unreachable> {
    let because = |error: TransportError| {
        let why = match &error {
            TransportError::Io(error) if has_hung_up(error) => {
                "it closed the connection before the handshake: it may be full, or this is not \
                 its port for peers"
                    .to_string()
            }
            error => error.to_string(),
        };
        Unreachable::Host(why)
    };
    let connect = || -> Result<_, Unreachable> {
        let socket = Arc::new(Socket::outbound(how.routes.connect(target, nets)?));
        let (from, received) =
            prepare(&socket, how, false).map_err(|error| because(error.into()))?;
        Ok((socket, from, received))
    };
    if v2 {
        let (socket, from, received) = connect()?;
        match initiate(Transport::V2, how.magic, from, &mut &**socket) {
            Ok((reader, writer)) => return Ok(Open { socket, received, reader, writer }),
            Err(TransportError::Io(error))
                if has_hung_up(&error) && received.all().bytes() == 0 => {}
            Err(error) => return Err(because(error)),
        }
    }
    let (socket, from, received) = connect()?;
    let (reader, writer) =
        initiate(Transport::V1, how.magic, from, &mut &**socket).map_err(because)?;
    Ok(Open { socket, received, reader, writer })
}

/// Returns whether the peer has closed the connection.
pub(super) fn has_hung_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof].contains(&error.kind())
}

/// Prepares a new connection for the handshake of the transport.
fn prepare(
    stream: &TcpStream,
    how: &Dialing,
    inbound: bool,
) -> io::Result<(BufReader<Receiving>, Arc<Received>)> {
    // A Unix socket, of a proxy, has no such option.
    let _ = stream.set_nodelay(true);
    stream.set_write_timeout(Some(TIMEOUT))?;
    let from = Receiving::new(stream, &how.limiter, inbound)?;
    let received = from.received();
    Ok((BufReader::with_capacity(READ_AHEAD, from), received))
}

/// Reads messages and reports them until the connection is closed. Another thread writes.
fn talk<R: io::Read>(id: PeerId, open: Open<R>, how: &Dialing) {
    let Open { socket, received, mut reader, writer } = open;
    let record = Arc::clone(&received);
    let begin = || -> io::Result<Link> {
        received.end_limit(&socket)?;
        let (outgoing, queue) = bounded(OUTGOING_MAX);
        let transport = writer.transport();
        let to = Arc::clone(&socket);
        let is_sending = Arc::new(AtomicBool::new(false));
        let sends = Arc::clone(&is_sending);
        is_started(threads::spawn_free(format!("apus-send-{}", id.0), move || {
            if let Err(why) = send_all(&to, writer, &queue, &sends) {
                tracing::debug!(target: "net", peer = id.0, %why, "nothing more is sent");
            }
            to.close();
            // The reader may wait for an answer that is in the queue. Then it learns of the end.
            queue.iter().for_each(drop);
        }))?;
        let socket = Arc::clone(&socket);
        let connected = unix_time();
        let last_block = 0;
        Ok(Link { socket, outgoing, is_sending, received, transport, connected, last_block })
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
    let mut count = |bytes| record.add_block(bytes);
    loop {
        let mut bytes = Vec::new();
        let mut permit = None;
        let mut until_answered = None;
        let mut admit = |len| {
            socket.admit(len, &mut permit)?;
            match permit {
                Some(_) => record.begin_limit(len),
                None => record.end_limit(&socket)?,
            }
            Ok(())
        };
        let event = match reader.read_watched(&mut bytes, &mut admit, &mut count) {
            Ok((command, payload)) => {
                // If the socket is closed, the next read says so.
                let _ = record.end_limit(&socket);
                let is_request = REQUESTS.contains(&command);
                let answered = (is_request || permit.is_some()).then(|| {
                    let (until, over) = bounded(0);
                    until_answered = Some(over);
                    Answered { _until: until }
                });
                Event::Message(ReceivedMessage { from: id, command, bytes, payload, answered })
            }
            Err(error) => Event::Closed(id, error),
        };
        let is_end = matches!(event, Event::Closed(..));
        if events.send(event).is_err() || is_end {
            return;
        }
        if let Some(over) = until_answered {
            let _: Result<(), _> = over.recv();
        }
    }
}

/// Sends messages until the queue or the connection is closed.
fn send_all(
    socket: &Socket,
    mut writer: Writer,
    queue: &Receiver<Waiting>,
    is_sending: &AtomicBool,
) -> Result<(), NotSent> {
    let mut to: &TcpStream = socket;
    let mut bytes = Vec::new();
    while let Ok(first) = queue.recv() {
        let mut answered = Vec::new();
        for waiting in std::iter::once(first).chain(queue.try_iter()) {
            match waiting {
                Waiting::Message(Outgoing { command, payload }, of) => {
                    writer.encode(&Raw(command, &payload), &mut bytes);
                    answered.push(of);
                }
                Waiting::Blocks(request) => {
                    to.write_all(&bytes)?;
                    socket.sent.add(bytes.len());
                    bytes.clear();
                    is_sending.store(true, Relaxed);
                    let BlocksRequest { stock, command, bytes, payload, continuation, answered } =
                        *request;
                    if let Ok(message) = Message::decode(command, &bytes[payload]) {
                        stock.send_requested(&message, continuation, &mut writer, socket)?;
                    }
                    is_sending.store(false, Relaxed);
                    drop(answered);
                }
            }
        }
        to.write_all(&bytes)?;
        socket.sent.add(bytes.len());
        bytes.clear();
    }
    Ok(())
}
