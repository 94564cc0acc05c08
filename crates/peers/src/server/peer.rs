//! One connection that a peer opened: its thread reads a message, answers it, and reads the next.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use apus_net::{
    ConnectionType, EvictionCandidate, Handled, Ourselves, Outgoing, PeerId, Serving, Session,
    Themselves, Transport, TransportError, Writer, respond,
};
use apus_progress::PeerInfo;
use apus_progress::clock::unix_time;
use apus_wire::message::{Command, INVENTORY_MAX, Message, MessageError, Raw, Services};

use crate::budget::{Budget, Moved, Permit, Socket};
use crate::connections::USER_AGENT;
use crate::peer_infos::basic_info;
use crate::random::random;
use crate::receiving::time_for;
use crate::route::TIMEOUT;
use crate::stock::{NotSent, Stock, is_read_from_files};

/// The most bytes of a message: a `getdata` with as many items as are allowed. Nothing that we take
/// is longer.
const MESSAGE_BYTES_MAX: usize = 64 + 36 * INVENTORY_MAX;
/// A buffer that is larger than this is released when its message was answered.
const BUFFER_BYTES: usize = 16 << 10;
/// The time limit for the handshake of the transport.
const OPENING_TIME: Duration = Duration::from_secs(60);

/// Data shared by all connections.
pub(super) struct Common {
    pub stock: Stock,
    pub budget: Arc<Budget>,
    pub magic: [u8; 4],
    /// Whether the v2 transport is spoken, too.
    pub v2: bool,
}

/// A connection that a peer has opened.
pub(super) struct Inbound {
    pub id: PeerId,
    pub address: SocketAddr,
    /// The part of the network that the peer is in, hashed.
    group: u64,
    connected: Duration,
    /// The same in seconds since 1970.
    connected_time: i64,
    socket: Socket,
    /// When the message must be complete that takes from the shared memory, in milliseconds of the
    /// server's clock; `u64::MAX` if none does.
    until: AtomicU64,
    /// The quickest answer to a ping in nanoseconds, `u64::MAX` before the first.
    min_ping: AtomicU64,
    /// Bytes of the messages that have arrived.
    received: Moved,
    /// The peer's version message, once the handshake is complete.
    them: OnceLock<Themselves>,
    /// The transport, once it is agreed on.
    transport: OnceLock<Transport>,
    /// `None` until the transport is agreed on. Locked while a message is answered.
    talk: Mutex<Option<Talk>>,
}

struct Talk {
    session: Session,
    /// `None` until the handshake is complete.
    serving: Option<Serving>,
    writer: Writer,
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error(transparent)]
    Session(#[from] apus_net::SessionFault),
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error(transparent)]
    NotSent(#[from] NotSent),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        NotSent::Io(error).into()
    }
}

impl Inbound {
    /// Returns a connection that was just accepted.
    pub fn new(
        id: PeerId,
        (socket, address): (Socket, SocketAddr),
        group: u64,
        connected: Duration,
    ) -> Self {
        Self {
            id,
            address,
            group,
            connected,
            connected_time: unix_time(),
            socket,
            until: AtomicU64::new(u64::MAX),
            min_ping: AtomicU64::new(u64::MAX),
            received: Moved::default(),
            them: OnceLock::new(),
            transport: OnceLock::new(),
            talk: Mutex::new(None),
        }
    }

    /// Closes the connection, which ends its thread, also if it waits for memory.
    pub fn close(&self) {
        self.socket.close();
    }

    /// Closes the connection if the peer has kept us waiting for too long. A peer that is being
    /// answered has not: the time limit for writing applies to it.
    pub fn check_time(&self, now: Duration) {
        let is_late = match self.talk.try_lock() {
            Ok(talk) => match &*talk {
                Some(talk) => talk.session.check_time(now).is_err() || self.holds_too_long(now),
                None => now > self.connected + OPENING_TIME,
            },
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Poisoned(_)) => true,
        };
        if is_late {
            self.close();
        }
    }

    /// Returns whether a message that takes from the shared memory takes too long.
    fn holds_too_long(&self, now: Duration) -> bool {
        now.as_millis() > u128::from(self.until.load(Relaxed))
    }

    /// Returns what decides whether this peer makes room for another.
    pub fn candidate(&self) -> EvictionCandidate {
        // Not from the session, which is locked while blocks are sent.
        let min_ping = Some(self.min_ping.load(Relaxed)).filter(|nanos| *nanos != u64::MAX);
        let min_ping = min_ping.map(Duration::from_nanos);
        let id = self.id;
        let connected = self.connected;
        let group = self.group;
        let is_local = self.address.ip().is_loopback();
        EvictionCandidate { id, connected, min_ping, last_block: None, group, is_local }
    }

    /// Returns what is known about the peer; `None` before the handshake is complete.
    pub fn info(&self) -> Option<PeerInfo> {
        let them = self.them.get()?;
        let min_ping = Some(self.min_ping.load(Relaxed)).filter(|nanos| *nanos != u64::MAX);
        let ping = min_ping.map(Duration::from_nanos);
        Some(PeerInfo {
            connected: self.connected_time,
            ping,
            min_ping: ping,
            ..basic_info(
                (self.id, self.address.to_string()),
                ConnectionType::Inbound,
                them,
                *self.transport.get()?,
                (&self.socket, &self.received),
            )
        })
    }

    /// Talks to the peer until the connection ends, and returns why it does.
    pub fn talk(&self, common: &Common) -> Result<std::convert::Infallible, Ended> {
        let stream: &TcpStream = &self.socket;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut permit = None;
        let (mut reader, writer) =
            respond(common.magic, common.v2, stream, &mut &*stream, &mut |bytes| {
                self.admit(bytes, &mut permit, || common.stock.now())
            })?;
        drop(permit);
        self.until.store(u64::MAX, Relaxed);
        let _ = self.transport.set(writer.transport());
        let ourselves = ourselves(common, self.connected_time);
        *self.talk.lock().unwrap_or_else(PoisonError::into_inner) = Some(Talk {
            session: Session::new(true, ourselves, Services::default(), self.connected).0,
            serving: None,
            writer,
        });
        let mut buffer = Vec::new();
        loop {
            let mut permit = None;
            let mut admit = |bytes| self.admit(bytes, &mut permit, || common.stock.now());
            let (command, payload) = reader.read_watched(&mut buffer, &mut admit, &mut |_| {})?;
            self.until.store(u64::MAX, Relaxed);
            let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(talk) = &mut *talk {
                self.received.add(buffer.len());
                talk.answer(command, &buffer[payload], common, &self.socket)?;
                if talk.session.is_ready()
                    && let Some(them) = talk.session.them()
                {
                    self.them.get_or_init(|| them.clone());
                }
                if let Some(ping) = talk.session.min_ping() {
                    self.min_ping.store(ping.as_nanos() as u64, Relaxed);
                }
            }
            drop(talk);
            if buffer.capacity() > BUFFER_BYTES {
                buffer = Vec::new();
            }
        }
    }

    /// Takes memory for a message or packet, unless it is longer than any request. No peer may hold
    /// it and send nothing.
    fn admit<'a>(
        &'a self,
        bytes: usize,
        permit: &mut Option<Permit<'a>>,
        now: impl Fn() -> Duration,
    ) -> io::Result<()> {
        if bytes > MESSAGE_BYTES_MAX {
            return Err(io::Error::other("it sent a message longer than any request"));
        }
        self.socket.admit(bytes, permit)?;
        if permit.is_some() {
            let until = now() + time_for(bytes);
            self.until.store(until.as_millis() as u64, Relaxed);
        }
        Ok(())
    }
}

/// Returns what we say about ourselves on a connection that was accepted at `time`, in seconds
/// since 1970.
fn ourselves(common: &Common, time: i64) -> Ourselves {
    let v2 = if common.v2 { Services::P2P_V2 } else { Services::default() };
    let served = &common.stock.served;
    let features = common.stock.features();
    served.look(|chain| Ourselves {
        nonce: random(),
        user_agent: USER_AGENT,
        services: chain.services.with(v2),
        features,
        time,
        start_height: chain.height() as i32,
    })
}

impl Talk {
    /// Answers a message.
    fn answer(
        &mut self,
        command: Command,
        payload: &[u8],
        common: &Common,
        to: &Socket,
    ) -> Result<(), Ended> {
        let stock = &common.stock;
        self.session.heard(stock.now());
        let is_ready = self.session.is_ready();
        let message = match Message::decode(command, payload) {
            Ok(message) => message,
            Err(error @ MessageError::TooMany(..)) if is_ready => return Err(error.into()),
            // As in Core.
            Err(why) => {
                tracing::debug!(target: "net", %why, "a message is ignored");
                return Ok(());
            }
        };
        if is_ready && let Message::Other = message {
            tracing::debug!(target: "net", %command, "an unknown message is ignored");
        }
        let mut out = Vec::new();
        match (&message, &mut self.serving) {
            // We said that we want no transactions, and take none.
            (Message::Tx(_) | Message::Inv(_), Some(_)) => {}
            _ => match (self.session.handle(&message, stock.now(), &mut out)?, &message) {
                (Handled::Done, _) => {}
                (Handled::Ready, _) => self.serving = Some(stock.served.look(Serving::new)),
                (Handled::Pass, message) if is_read_from_files(message) => {
                    let serving = self.serving.as_mut();
                    let continuation = serving.and_then(|serving| serving.continuation(message));
                    stock.send_requested(message, continuation, &mut self.writer, to)?;
                    // It may have taken long, and the peer had to wait.
                    self.session.heard(stock.now());
                }
                (Handled::Pass, message) => {
                    if let Some(serving) = &mut self.serving {
                        out.extend(stock.served.look(|chain| serving.handle(message, chain)));
                    }
                }
            },
        }
        self.session.tick(stock.now(), random(), &mut out)?;
        for Outgoing { command, payload } in out {
            stock.send(Raw(command, &payload), &mut self.writer, to)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const BYTES: usize = 1 << 20;

    fn inbound(budget: &Arc<Budget>) -> (Inbound, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, address) = listener.accept().unwrap();
        let socket = Socket::inbound(stream, budget);
        (Inbound::new(PeerId(1), (socket, address), 0, Duration::ZERO), client)
    }

    /// The time limit for the handshake holds also while it waits for memory that others have.
    #[test]
    fn a_handshake_does_not_wait_for_memory_longer_than_its_limit() {
        let budget = Arc::new(Budget::new(BYTES));
        let _all = budget.try_take(BYTES).unwrap();
        let (inbound, _client) = inbound(&budget);
        std::thread::scope(|scope| {
            let admit = || inbound.admit(BYTES, &mut None, || Duration::ZERO).is_err();
            let waiting = scope.spawn(admit);
            inbound.check_time(OPENING_TIME);
            assert!(!waiting.is_finished(), "it has 60 s");
            inbound.check_time(OPENING_TIME + Duration::from_secs(1));
            assert!(waiting.join().unwrap());
        });
    }

    /// A message that takes shared memory must come in time.
    #[test]
    fn a_peer_does_not_hold_memory_and_send_nothing() {
        let budget = Arc::new(Budget::new(BYTES));
        let (inbound, _client) = inbound(&budget);
        let mut permit = None;
        let second = Duration::from_secs(1);
        assert!(!inbound.holds_too_long(second * 3_600), "it holds nothing");
        inbound.admit(BYTES, &mut permit, || second).unwrap();
        assert!(!inbound.holds_too_long(second + time_for(BYTES)));
        assert!(inbound.holds_too_long(second * 2 + time_for(BYTES)));
    }
}
