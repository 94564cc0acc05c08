//! The protocol of one connection, except for headers, blocks and addresses: handshake, pings, and
//! what a peer may not do. A pure function of messages and time.

use std::time::Duration;

use apus_wire::message::{
    Command, Feature, InventoryKind, InventoryList, Message, Nonce, Payload, Raw, Services, Version,
};

/// The version of the protocol that we speak (Core's `PROTOCOL_VERSION`).
pub const PROTOCOL_VERSION: i32 = 70_017;
/// Core's `MIN_PEER_PROTO_VERSION`: older peers have no `getheaders`.
const MIN_PEER_PROTO_VERSION: i32 = 31_800;
/// Core's `WTXID_RELAY_VERSION`, and the version from which peers accept `sendaddrv2`.
const WTXID_RELAY_VERSION: i32 = 70_016;
/// Core's `FEATURE_VERSION` (BIP434).
const FEATURE_VERSION: i32 = 70_017;
/// Core's `SENDHEADERS_VERSION` (BIP130).
const SENDHEADERS_VERSION: i32 = 70_012;
/// Core's `BIP0031_VERSION`: peers of a higher one answer a ping.
const BIP0031_VERSION: i32 = 60_000;

/// The time limit for a handshake, from the first byte to `verack` (Core's `-peertimeout`).
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// Core's `TIMEOUT_INTERVAL`: the longest time without a message, or without the answer to a ping.
const TIMEOUT_INTERVAL: Duration = Duration::from_secs(20 * 60);
/// Core's `PING_INTERVAL`: the time from one ping to the next.
const PING_INTERVAL: Duration = Duration::from_secs(2 * 60);

/// A message to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The name of the message.
    pub command: Command,
    /// The payload of the message.
    pub payload: Vec<u8>,
}

impl Outgoing {
    /// Creates the message with this payload.
    pub fn new(payload: &impl Payload) -> Self {
        let mut bytes = Vec::with_capacity(payload.size());
        payload.put(&mut bytes);
        Self { command: payload.command(), payload: bytes }
    }

    /// Creates the message with this name, without payload.
    pub fn empty(command: Command) -> Self {
        Self::new(&Raw(command, &[]))
    }
}

/// The feature of a node that sends the coins that a block spends (draft BIP 455).
pub const BLOCK_SPENT_COINS: &str = "blockspentcoinsv1";
/// The feature of a node that sends a hints file, which its data describes. No BIP has it.
pub const HINTS_FILE: &str = "hintsfilev1";
/// The features whose data is kept if a peer offers them; all others are ignored.
const FEATURES_KNOWN: [&str; 2] = [BLOCK_SPENT_COINS, HINTS_FILE];

/// A feature that one side of a connection offers, and what its specification says about it
/// (BIP434).
pub type OfferedFeature = (&'static str, Vec<u8>);

/// Our side of the handshake on one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ourselves {
    /// A random number, different for each connection, by which we notice that we connected to
    /// ourselves.
    pub nonce: u64,
    /// Program and version (BIP14).
    pub user_agent: &'static str,
    /// The services that we announce; none by default.
    pub services: Services,
    /// The features that we announce.
    pub features: Vec<OfferedFeature>,
    /// Our time in seconds since 1970, when the connection was made.
    pub time: i64,
    /// The height of our best block.
    pub start_height: i32,
}

/// The peer's side of the handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Themselves {
    /// The version of the protocol that both speak.
    pub version: i32,
    /// The services that the peer announces.
    pub services: Services,
    /// The features that the peer announces, of those that we know.
    pub features: Vec<OfferedFeature>,
    /// Its program and version, without characters that are not printable.
    pub user_agent: String,
    /// The height of its best block when it connected.
    pub start_height: i32,
    /// Its time minus ours, in seconds.
    pub time_offset: i64,
}

impl Themselves {
    /// Returns the data of a feature; `None` if the peer does not offer it.
    pub fn feature(&self, id: &str) -> Option<&[u8]> {
        let feature = self.features.iter().find(|(offered, _)| *offered == id);
        feature.map(|(_, data)| &data[..])
    }
}

/// Why a connection ends. Every fault ends it at once, as in Core since v24.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SessionFault {
    /// The connection leads to ourselves.
    #[error("it is ourselves")]
    Ourselves,
    /// The peer speaks a version of the protocol that is too old.
    #[error("it speaks version {0} of the protocol, which is too old")]
    Obsolete(i32),
    /// The peer does not serve blocks with witnesses.
    #[error("it does not serve the blocks we need (services {0:x})")]
    Services(u64),
    /// The handshake takes too long.
    #[error("the handshake took more than a minute")]
    HandshakeTimeout,
    /// Nothing came for twenty minutes.
    #[error("it sent nothing for twenty minutes")]
    Idle,
    /// A ping was not answered.
    #[error("it did not answer a ping for twenty minutes")]
    PingTimeout,
    /// A handshake message came after the handshake.
    #[error("it sent `{0}` after the handshake")]
    AfterHandshake(Command),
    /// A `feature` that is invalid, or of a peer whose version of the protocol does not have it.
    #[error("it sent an invalid `feature`")]
    Feature,
    /// A transaction or its announcement came, though we said that we want none.
    #[error("it sent a transaction, though we said that we want none")]
    Transaction,
    /// A `sendcmpct` that says neither yes nor no (BIP152).
    #[error("it sent a `sendcmpct` that says neither yes nor no")]
    SendCmpct,
    /// A message for nodes with a service that we do not offer.
    #[error("it sent `{0}`, though we do not offer the service")]
    NotOffered(Command),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Version,
    Verack,
    Ready,
}

/// The state of a connection.
pub struct Session {
    inbound: bool,
    ourselves: Ourselves,
    /// The services that the peer must announce.
    needs: Services,
    stage: Stage,
    them: Option<Themselves>,
    started: Duration,
    last_received: Duration,
    /// When the peer was last reading what it had requested.
    last_read: Duration,
    ping: Option<(Nonce, Duration)>,
    last_ping: Duration,
    ping_time: Option<Duration>,
    min_ping: Option<Duration>,
}

/// How a message was handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handled {
    /// Nothing more is to be done.
    Done,
    /// The handshake is complete.
    Ready,
    /// The message is about headers, blocks or addresses, or is a request for what we serve: the
    /// caller must handle it.
    Pass,
}

impl Session {
    /// Creates the state of a connection that begins now, and our first message if we opened it.
    pub fn new(
        inbound: bool,
        ourselves: Ourselves,
        needs: Services,
        now: Duration,
    ) -> (Self, Option<Outgoing>) {
        let session = Self {
            inbound,
            ourselves,
            needs,
            stage: Stage::Version,
            them: None,
            started: now,
            last_received: now,
            last_read: now,
            ping: None,
            last_ping: now,
            ping_time: None,
            min_ping: None,
        };
        let version = (!inbound).then(|| session.version(now));
        (session, version)
    }

    /// Returns our time in seconds since 1970.
    fn unix_time(&self, now: Duration) -> i64 {
        self.ourselves.time + now.saturating_sub(self.started).as_secs() as i64
    }

    fn version(&self, now: Duration) -> Outgoing {
        Outgoing::new(&Version {
            version: PROTOCOL_VERSION,
            services: self.ourselves.services,
            time: self.unix_time(now),
            receiver: [0; 26],
            nonce: self.ourselves.nonce,
            user_agent: self.ourselves.user_agent.as_bytes(),
            start_height: self.ourselves.start_height,
            relay: false,
        })
    }

    /// Returns what the peer said about itself; `None` before it did.
    pub fn them(&self) -> Option<&Themselves> {
        self.them.as_ref()
    }

    /// Returns the shortest time that the answer to a ping took (Core's `m_min_ping_time`); `None`
    /// before the first answer.
    pub fn min_ping(&self) -> Option<Duration> {
        self.min_ping
    }

    /// Returns the time that the last answer to a ping took (Core's `m_last_ping_time`); `None`
    /// before the first answer.
    pub fn ping_time(&self) -> Option<Duration> {
        self.ping_time
    }

    /// Returns whether the handshake is complete.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Returns whether we opened this connection with `nonce`, and its handshake is not complete.
    pub fn opens_with(&self, nonce: u64) -> bool {
        !self.inbound && !self.is_ready() && self.ourselves.nonce == nonce
    }

    /// Records that a message came.
    pub fn heard(&mut self, now: Duration) {
        self.last_received = now;
    }

    /// Records that the peer reads what it has requested: it may not have come to a ping, which
    /// waits behind that.
    pub fn has_read(&mut self, now: Duration) {
        self.last_received = now;
        self.last_read = now;
    }

    /// Handles a message, and appends the answers to `out`.
    ///
    /// # Errors
    /// The peer must be disconnected.
    pub fn handle(
        &mut self,
        message: &Message,
        now: Duration,
        out: &mut Vec<Outgoing>,
    ) -> Result<Handled, SessionFault> {
        match (self.stage, message) {
            (Stage::Version, Message::Version(version)) => self.greet(version, now, out),
            (Stage::Verack, Message::Verack) => {
                self.stage = Stage::Ready;
                let version = self.them.as_ref().map_or(0, |them| them.version);
                if version >= SENDHEADERS_VERSION {
                    out.push(Outgoing::empty(Command::SENDHEADERS));
                }
                Ok(Handled::Ready)
            }
            (Stage::Ready, message) => self.handle_ready(message, now, out),
            (Stage::Verack, Message::Feature(feature)) => self.note_feature(*feature),
            // Core ignores everything else before the handshake is complete.
            (Stage::Verack, Message::SendCmpct(send)) if send.announce > 1 => {
                Err(SessionFault::SendCmpct)
            }
            (Stage::Version | Stage::Verack, _) => Ok(Handled::Done),
        }
    }

    fn greet(
        &mut self,
        version: &Version,
        now: Duration,
        out: &mut Vec<Outgoing>,
    ) -> Result<Handled, SessionFault> {
        // The peer has sent our own nonce.
        if self.opens_with(version.nonce) {
            return Err(SessionFault::Ourselves);
        }
        if !offers(version.services, self.needs) {
            return Err(SessionFault::Services(version.services.0));
        }
        if version.version < MIN_PEER_PROTO_VERSION {
            return Err(SessionFault::Obsolete(version.version));
        }
        if self.inbound {
            out.push(self.version(now));
        }
        let common = version.version.min(PROTOCOL_VERSION);
        self.them = Some(Themselves {
            version: common,
            services: version.services,
            features: Vec::new(),
            user_agent: printable(version.user_agent),
            start_height: version.start_height,
            time_offset: version.time.saturating_sub(self.unix_time(now)),
        });
        if common >= WTXID_RELAY_VERSION {
            out.push(Outgoing::empty(Command::WTXIDRELAY));
            out.push(Outgoing::empty(Command::SENDADDRV2));
        }
        if common >= FEATURE_VERSION {
            let features = self.ourselves.features.iter();
            out.extend(features.map(|(id, data)| {
                let id = id.as_bytes();
                Outgoing::new(&Feature { id, data })
            }));
        }
        out.push(Outgoing::empty(Command::VERACK));
        self.stage = Stage::Verack;
        Ok(Handled::Done)
    }

    /// Keeps a feature that the peer offers, if we know it. Of two with the same name, the first
    /// counts.
    fn note_feature(&mut self, feature: Option<Feature>) -> Result<Handled, SessionFault> {
        let them = self.them.as_mut().filter(|them| them.version >= FEATURE_VERSION);
        let (Some(feature), Some(them)) = (feature, them) else {
            return Err(SessionFault::Feature);
        };
        let known = FEATURES_KNOWN.into_iter().find(|known| known.as_bytes() == feature.id);
        if let Some(id) = known.filter(|id| them.feature(id).is_none()) {
            them.features.push((id, feature.data.to_vec()));
        }
        Ok(Handled::Done)
    }

    fn handle_ready(
        &mut self,
        message: &Message,
        now: Duration,
        out: &mut Vec<Outgoing>,
    ) -> Result<Handled, SessionFault> {
        let serves = self.ourselves.services.has(Services::WITNESS);
        match message {
            Message::WtxidRelay => Err(SessionFault::AfterHandshake(Command::WTXIDRELAY)),
            Message::Feature(_) => Err(SessionFault::AfterHandshake(Command::FEATURE)),
            Message::SendAddrV2 => Err(SessionFault::AfterHandshake(Command::SENDADDRV2)),
            Message::SendCmpct(send) if send.announce > 1 => Err(SessionFault::SendCmpct),
            Message::Tx(_) => Err(SessionFault::Transaction),
            Message::Inv(list) if has_transactions(list) => Err(SessionFault::Transaction),
            Message::Ping(nonce) => {
                out.extend(nonce.map(|nonce| Outgoing::new(&nonce.pong())));
                Ok(Handled::Done)
            }
            Message::Pong(nonce) => {
                // As in Core, a pong with another number or without one is ignored.
                if let Some((_, sent)) = self.ping.take_if(|(sent, _)| Some(*sent) == *nonce) {
                    let took = now.saturating_sub(sent);
                    self.ping_time = Some(took);
                    self.min_ping = Some(self.min_ping.map_or(took, |least| least.min(took)));
                }
                Ok(Handled::Done)
            }
            Message::Bloom(command) => Err(SessionFault::NotOffered(*command)),
            Message::GetFilters(_) if self.ourselves.services.has(Services::COMPACT_FILTERS) => {
                Ok(Handled::Pass)
            }
            Message::GetFilters(request) => Err(SessionFault::NotOffered(request.command)),
            Message::GetSpentCoins(_) if self.offers(BLOCK_SPENT_COINS) => Ok(Handled::Pass),
            Message::GetSpentCoins(_) => Err(SessionFault::NotOffered(Command::GETBSPENT)),
            Message::GetHints(_) if self.offers(HINTS_FILE) => Ok(Handled::Pass),
            Message::GetHints(_) => Err(SessionFault::NotOffered(Command::GETHINTS)),
            Message::GetHeaders(_)
            | Message::GetBlocks(_)
            | Message::GetData(_)
            | Message::GetBlockTxn(_)
            | Message::SendHeaders
                if serves =>
            {
                Ok(Handled::Pass)
            }
            // We serve nothing. Like Core while its chain has too little work, we only say that we
            // have no headers.
            Message::GetHeaders(_) => {
                out.push(Outgoing { command: Command::HEADERS, payload: vec![0] });
                Ok(Handled::Done)
            }
            Message::Version(_)
            | Message::Verack
            | Message::SendHeaders
            | Message::SendCmpct(_)
            | Message::GetAddr
            | Message::GetBlocks(_)
            | Message::GetData(_)
            | Message::GetBlockTxn(_)
            | Message::FeeFilter
            | Message::HintsChunk(_)
            | Message::Other => Ok(Handled::Done),
            Message::Addresses(_)
            | Message::Headers(_)
            | Message::Inv(_)
            | Message::NotFound(_)
            | Message::SpentCoins(_)
            | Message::Block(_) => Ok(Handled::Pass),
        }
    }

    /// Returns whether we offer a feature.
    fn offers(&self, id: &str) -> bool {
        self.ourselves.features.iter().any(|(offered, _)| *offered == id)
    }

    /// Checks how long the peer has kept us waiting.
    ///
    /// # Errors
    /// It was too long.
    pub fn check_time(&self, now: Duration) -> Result<(), SessionFault> {
        if !self.is_ready() {
            let is_late = now > self.started + HANDSHAKE_TIMEOUT;
            return if is_late { Err(SessionFault::HandshakeTimeout) } else { Ok(()) };
        }
        if now > self.last_received + TIMEOUT_INTERVAL {
            return Err(SessionFault::Idle);
        }
        if self.ping.is_some_and(|(_, sent)| now > sent.max(self.last_read) + TIMEOUT_INTERVAL) {
            return Err(SessionFault::PingTimeout);
        }
        Ok(())
    }

    /// Sends a ping with this random number, if one is due.
    ///
    /// # Errors
    /// The peer has kept us waiting for too long.
    pub fn tick(
        &mut self,
        now: Duration,
        random: u64,
        out: &mut Vec<Outgoing>,
    ) -> Result<(), SessionFault> {
        self.check_time(now)?;
        if self.is_ready() && self.ping.is_none() && now > self.last_ping + PING_INTERVAL {
            self.last_ping = now;
            let nonce = Nonce(random.max(1));
            if self.them.as_ref().is_some_and(|them| them.version > BIP0031_VERSION) {
                self.ping = Some((nonce, now));
                out.push(Outgoing::new(&nonce.ping()));
            } else {
                out.push(Outgoing::empty(Command::PING))
            }
        }
        Ok(())
    }
}

/// Returns whether a peer with `services` has what we need. Where all blocks are needed, a peer
/// that has only the last ones does not.
fn offers(services: Services, needs: Services) -> bool {
    let limited_will_do = needs.has(Services::NETWORK_LIMITED);
    let all = Services(needs.0 & !Services::NETWORK_LIMITED.0);
    services.has(needs) || (limited_will_do && services.has(all.with(Services::NETWORK)))
}

/// Returns whether a list names transactions.
fn has_transactions(list: &InventoryList) -> bool {
    list.iter().any(|item| matches!(item.kind, InventoryKind::TX | InventoryKind::WTX))
}

/// Returns the characters of a user agent that Core keeps (`SanitizeString`).
fn printable(bytes: &[u8]) -> String {
    let is_safe = |c: &char| c.is_ascii_alphanumeric() || " .,;-_/:?@()".contains(*c);
    bytes.iter().map(|byte| char::from(*byte)).filter(is_safe).collect()
}
