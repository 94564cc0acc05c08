//! All connections together (Core's `PeerManager`): headers first, then blocks as the schedule
//! requests them. A pure function of events and time: sockets, threads and clocks are the caller's.

use std::collections::BTreeMap;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_hash::sha256d;
use apus_wire::message::{
    Command, Inventory, InventoryItem, InventoryKind, Message, MessageError, NetAddress, Services,
};
use apus_wire::{BlockView, HEADER_BYTES};

use super::headers::{HeaderChain, HeadersFault, HeadersOf};
use super::peer::{Has, PeerId};
use super::schedule::{Arrival, Fault, Limits, Schedule};
use super::session::{Handled, Ourselves, Outgoing, Session, SessionFault, Themselves};

/// Addresses that a peer may send each second (Core's `MAX_ADDR_RATE_PER_SECOND`).
const ADDRESSES_PER_SECOND: f64 = 0.1;
/// The most address tokens that a peer may save up (Core's `MAX_ADDR_PROCESSING_TOKEN_BUCKET`), and
/// the number that it gets when we ask it for addresses.
const ADDRESS_TOKENS_MAX: f64 = 1000.0;

/// Time after which another peer is asked for headers as well, if one does not answer.
const ANOTHER_AFTER: Duration = Duration::from_secs(5);

/// Why a peer is dropped.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PeerError {
    /// It broke the protocol, or took too long.
    #[error(transparent)]
    Session(#[from] SessionFault),
    /// It sent bytes that are not a valid message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// It sent invalid headers, or none.
    #[error(transparent)]
    Headers(#[from] HeadersFault),
    /// It holds up the download of blocks.
    #[error(transparent)]
    Download(#[from] Fault),
    /// It sent a block that was not asked for.
    #[error("it sent a block that was not asked for")]
    UnaskedBlock,
    /// It sent a block whose bytes do not match its hash.
    #[error("it sent a block that was changed on its way: {0}")]
    ChangedBlock(String),
    /// It sent a block that breaks a rule.
    #[error("it sent an invalid block: {0}")]
    InvalidBlock(String),
}

/// What the caller must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a message.
    Send(PeerId, Outgoing),
    /// Close a connection. The manager has removed the peer.
    Disconnect(PeerId, PeerError),
    /// Take the block in the last message, which was requested.
    Block(PeerId, BlockId),
    /// Take addresses of other peers.
    Addresses(PeerId, Vec<NetAddress>),
    /// Note that the handshake with a peer is complete.
    Ready(PeerId),
}

/// Who opened a connection, and why (Core's `ConnectionType`, with fewer types).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionType {
    /// The peer opened it.
    Inbound,
    /// The user asked for it.
    Manual,
    /// We chose the peer.
    Automatic,
}

/// Settings of a manager.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Services that peers chosen by us must offer.
    pub needs: Services,
    /// Limits of the download of blocks.
    pub limits: Limits,
}

/// All peers, and what is requested from them.
pub struct PeerManager {
    settings: Settings,
    peers: BTreeMap<PeerId, Peer>,
    schedule: Schedule,
    /// The peer that headers are requested from while there are many to come.
    header_peer: Option<PeerId>,
    /// When that peer was asked, or the last header came that was new to the tree.
    news: Duration,
    /// When the first peer said that it has sent all its headers.
    ended: Option<Duration>,
    /// The height below which blocks are requested without their witnesses.
    stripped_below: u32,
}

struct Peer {
    session: Session,
    headers: HeadersOf,
    inbound: bool,
    address_tokens: f64,
    tokens_at: Duration,
}

impl PeerManager {
    /// Creates a manager without peers.
    pub fn new(settings: Settings) -> Self {
        let schedule = Schedule::new(settings.limits);
        Self {
            settings,
            peers: BTreeMap::new(),
            schedule,
            header_peer: None,
            news: Duration::ZERO,
            ended: None,
            stripped_below: 0,
        }
    }

    /// Returns the schedule of the download of blocks.
    pub fn schedule(&mut self) -> &mut Schedule {
        &mut self.schedule
    }

    /// Returns the blocks that are requested from a peer and have not come.
    pub fn in_flight(&self, peer: PeerId) -> Vec<BlockId> {
        self.schedule.in_flight(peer)
    }

    /// Returns the bytes a second that a peer sends, if known.
    pub fn speed(&self, peer: PeerId) -> Option<u64> {
        self.schedule.speed(peer)
    }

    /// Requests blocks below a height without their witnesses from now on (BIP144).
    pub fn strip_below(&mut self, height: u32) {
        self.stripped_below = height;
    }

    /// Returns the number of peers.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Returns whether there are no peers.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Returns what a peer said about itself.
    pub fn them(&self, peer: PeerId) -> Option<&Themselves> {
        self.peers.get(&peer)?.session.them()
    }

    /// Returns the best block that a peer is known to have.
    pub fn best(&self, peer: PeerId) -> Option<BlockId> {
        self.peers.get(&peer)?.headers.best()
    }

    /// Returns the shortest time in which a peer answered a ping; `None` if it has answered none.
    pub fn min_ping(&self, peer: PeerId) -> Option<Duration> {
        self.peers.get(&peer)?.session.min_ping()
    }

    /// Returns the time in which a peer answered the last ping; `None` if it has answered none.
    pub fn ping_time(&self, peer: PeerId) -> Option<Duration> {
        self.peers.get(&peer)?.session.ping_time()
    }

    /// Notes that a peer has read what it requested: it cannot be heard meanwhile.
    pub fn has_read(&mut self, peer: PeerId, now: Duration) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.session.heard(now);
        }
    }

    /// Returns the number of peers whose handshake is complete.
    pub fn ready(&self) -> usize {
        self.peers.values().filter(|peer| peer.session.is_ready()).count()
    }

    /// Returns whether there are peers and all have said that they have no more headers. Once one
    /// has said so, all others together have `patience`, which begins anew with each header that
    /// is new to the tree.
    pub fn has_all_headers(&self, now: Duration, patience: Duration) -> bool {
        // Inbound peers must not keep us waiting.
        let ready = || self.peers.values().filter(|peer| peer.session.is_ready() && !peer.inbound);
        let is_asked = |peer: &Peer| !peer.headers.is_to_be_asked();
        let is_over =
            self.ended.is_some_and(|ended| now.saturating_sub(ended.max(self.news)) > patience);
        ready().any(|peer| peer.headers.is_at_end())
            && ready().all(|peer| peer.headers.is_at_end() || is_over && is_asked(peer))
    }

    /// Starts to request headers from all peers again.
    pub fn ask_for_headers(&mut self) {
        (self.header_peer, self.ended) = (None, None);
        self.peers.values_mut().for_each(|peer| peer.headers.begin_anew());
    }

    /// Handles a new connection. `ourselves` is what we say about ourselves on it.
    pub fn connected(
        &mut self,
        id: PeerId,
        kind: ConnectionType,
        ourselves: Ourselves,
        now: Duration,
        out: &mut Vec<Action>,
    ) {
        let inbound = kind == ConnectionType::Inbound;
        // As in Core, peers that the user named may offer anything (`ExpectServicesFromConn`).
        let needs = match kind {
            ConnectionType::Automatic => self.settings.needs,
            ConnectionType::Inbound | ConnectionType::Manual => Services::default(),
        };
        let (session, version) = Session::new(inbound, ourselves, needs, now);
        out.extend(version.map(|version| Action::Send(id, version)));
        let headers = HeadersOf::default();
        let peer = Peer { session, headers, inbound, address_tokens: 1.0, tokens_at: now };
        self.peers.insert(id, peer);
    }

    /// Handles the end of a connection.
    pub fn closed(&mut self, id: PeerId) {
        self.peers.remove(&id);
        self.schedule.remove_peer(id);
        if self.header_peer == Some(id) {
            self.header_peer = None;
        }
    }

    /// Handles a message. A peer that breaks the protocol is dropped.
    pub fn received(
        &mut self,
        id: PeerId,
        command: Command,
        payload: &[u8],
        chain: &mut HeaderChain,
        now: Duration,
        out: &mut Vec<Action>,
    ) {
        if let Err(error) = self.try_receive(id, command, payload, chain, now, out) {
            self.drop_peer(id, error, out);
        }
    }

    /// Drops a peer that sent a block whose bytes do not match its hash.
    pub fn changed_block(
        &mut self,
        id: PeerId,
        block: BlockId,
        what: String,
        out: &mut Vec<Action>,
    ) {
        self.schedule.refused(id, block);
        if self.peers.contains_key(&id) {
            self.drop_peer(id, PeerError::ChangedBlock(what), out);
        }
    }

    /// Drops a peer that sent a block that breaks a rule.
    pub fn invalid_block(&mut self, id: PeerId, why: String, out: &mut Vec<Action>) {
        if self.peers.contains_key(&id) {
            self.drop_peer(id, PeerError::InvalidBlock(why), out);
        }
    }

    fn drop_peer(&mut self, id: PeerId, error: PeerError, out: &mut Vec<Action>) {
        self.closed(id);
        out.push(Action::Disconnect(id, error));
    }

    fn try_receive(
        &mut self,
        id: PeerId,
        command: Command,
        payload: &[u8],
        chain: &mut HeaderChain,
        now: Duration,
        out: &mut Vec<Action>,
    ) -> Result<(), PeerError> {
        let Some(peer) = self.peers.get_mut(&id) else { return Ok(()) };
        peer.session.heard(now);
        let message = match Message::decode(command, payload) {
            Ok(message) => message,
            Err(error @ MessageError::TooMany(..)) if peer.session.is_ready() => {
                return Err(error.into());
            }
            // As in Core, which ignores most messages before the handshake is complete.
            Err(error) => {
                tracing::debug!(target: "net", peer = id.0, %error, "a message is ignored");
                return Ok(());
            }
        };
        let (inbound, is_ready) = (peer.inbound, peer.session.is_ready());
        if let Message::Version(version) = &message
            && inbound
            && !is_ready
            && self.peers.values().any(|peer| peer.session.opens_with(version.nonce))
        {
            return Err(SessionFault::Ourselves.into());
        }
        let Some(peer) = self.peers.get_mut(&id) else { return Ok(()) };
        let mut answers = Vec::new();
        let handled = peer.session.handle(&message, now, &mut answers);
        out.extend(answers.into_iter().map(|answer| Action::Send(id, answer)));
        match handled? {
            Handled::Done => {}
            Handled::Ready => {
                if !peer.inbound {
                    peer.address_tokens += ADDRESS_TOKENS_MAX;
                    out.push(Action::Send(id, Outgoing::empty(Command::GETADDR)));
                }
                out.push(Action::Ready(id));
            }
            Handled::Pass => self.handle(id, &message, chain, now, out)?,
        }
        Ok(())
    }

    fn handle(
        &mut self,
        id: PeerId,
        message: &Message,
        chain: &mut HeaderChain,
        now: Duration,
        out: &mut Vec<Action>,
    ) -> Result<(), PeerError> {
        let Some(peer) = self.peers.get_mut(&id) else { return Ok(()) };
        match message {
            Message::Headers(list) => {
                let before = chain.tree().len();
                let request = peer.headers.take(list, chain, now)?;
                if chain.tree().len() > before {
                    self.news = now;
                }
                if peer.headers.is_at_end() && !peer.inbound {
                    self.ended.get_or_insert(now);
                }
                out.extend(request.map(|request| Action::Send(id, request)));
                self.note_best(id);
            }
            Message::Inv(list) => {
                let is_block = |item: &InventoryItem| item.kind == InventoryKind::BLOCK;
                // As in Core, the last is the best.
                if let Some(item) = list.iter().filter(is_block).last() {
                    let request = peer.headers.announced(&item.hash, chain, now);
                    out.extend(request.map(|request| Action::Send(id, request)));
                    self.note_best(id);
                }
            }
            Message::NotFound(list) => {
                for item in list.iter() {
                    if let Some(block) = chain.tree().find(&item.hash) {
                        self.schedule.refused_by(id, block);
                    }
                }
            }
            Message::Block(bytes) => {
                let arrival = bytes.first_chunk::<HEADER_BYTES>().and_then(|header| {
                    let block = chain.tree().find(&sha256d(header))?;
                    Some((block, self.schedule.arrived(id, block, bytes.len() as u64, now)))
                });
                match arrival {
                    Some((block, Arrival::Wanted)) => out.push(Action::Block(id, block)),
                    Some((_, Arrival::Late)) => {}
                    // Core cannot decode such a block either, and ignores it.
                    _ if BlockView::parse(bytes).is_err() => {
                        self.schedule.useless(id, bytes.len() as u64);
                    }
                    Some((_, Arrival::NotAsked)) | None => return Err(PeerError::UnaskedBlock),
                }
            }
            Message::Addresses(list) => {
                let taken = peer.take_addresses(&list.0, now);
                if !taken.is_empty() {
                    out.push(Action::Addresses(id, taken));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells the schedule which blocks a peer has.
    fn note_best(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get(&id) else { return };
        let services = peer.session.them().map_or(Services::default(), |them| them.services);
        let serves = services.has(Services::NETWORK) || services.has(Services::NETWORK_LIMITED);
        if let Some(best) =
            peer.headers.best().filter(|_| serves && services.has(Services::WITNESS))
        {
            let is_limited = !services.has(Services::NETWORK);
            self.schedule.set_peer(id, Has { best, is_limited, is_inbound: peer.inbound });
        }
    }

    /// Sends requests and pings that are due, and drops peers that take too long. It must be called
    /// after every event, and several times a second. `random` is random.
    pub fn tick(
        &mut self,
        chain: &mut HeaderChain,
        now: Duration,
        random: u64,
        out: &mut Vec<Action>,
    ) {
        let mut dropped: Vec<(PeerId, PeerError)> = Vec::new();
        let mut answers = Vec::new();
        for (id, peer) in &mut self.peers {
            if let Err(fault) = peer.session.tick(now, random ^ id.0, &mut answers) {
                dropped.push((*id, fault.into()));
            }
            if let Err(fault) = peer.headers.tick(chain, now) {
                dropped.push((*id, fault.into()));
            }
            out.extend(answers.drain(..).map(|answer| Action::Send(*id, answer)));
            let again = peer.headers.ask_again(chain, now);
            out.extend(again.map(|request| Action::Send(*id, request)));
        }
        let faults = self.schedule.tick(now);
        dropped.extend(faults.into_iter().map(|(id, fault)| (id, fault.into())));
        for (id, error) in dropped {
            if self.peers.contains_key(&id) {
                self.drop_peer(id, error, out);
            }
        }
        self.request_headers(chain, now, out);
        self.request_blocks(chain.tree(), now, out);
    }

    /// Requests headers from one peer while there are many to come, and from all others after that.
    fn request_headers(&mut self, chain: &HeaderChain, now: Duration, out: &mut Vec<Action>) {
        let busy = self.header_peer.and_then(|id| self.peers.get(&id));
        // A peer that sends headers that are known already delays no other request.
        let is_busy = |peer: &Peer| !peer.headers.is_at_end() && now < self.news + ANOTHER_AFTER;
        if busy.is_some_and(is_busy) {
            return;
        }
        let is_first = !self.peers.values().any(|peer| peer.headers.is_at_end());
        let waiting = self
            .peers
            .iter_mut()
            .filter(|(_, peer)| peer.session.is_ready() && peer.headers.is_to_be_asked());
        for (id, peer) in waiting {
            out.push(Action::Send(*id, peer.headers.begin(chain, now)));
            (self.header_peer, self.news) = (Some(*id), now);
            if is_first {
                break;
            }
        }
    }

    fn request_blocks(&mut self, tree: &Tree, now: Duration, out: &mut Vec<Action>) {
        for (id, blocks) in self.schedule.requests(tree, now) {
            let item = |block: &BlockId| {
                let node = tree.node(*block);
                let kind = match node.height < self.stripped_below {
                    true => InventoryKind::BLOCK,
                    false => InventoryKind::WITNESS_BLOCK,
                };
                InventoryItem { kind, hash: node.hash }
            };
            let items: Vec<InventoryItem> = blocks.iter().map(item).collect();
            out.push(Action::Send(id, Outgoing::new(&Inventory(Command::GETDATA, &items))));
        }
    }
}

impl Peer {
    /// Returns the first of the addresses, as many as the peer may send now, and drops the rest
    /// (Core's `ProcessAddrs`).
    fn take_addresses(&mut self, list: &[NetAddress], now: Duration) -> Vec<NetAddress> {
        let passed = now.saturating_sub(self.tokens_at).as_secs_f64();
        if self.address_tokens < ADDRESS_TOKENS_MAX {
            let tokens = self.address_tokens + passed * ADDRESSES_PER_SECOND;
            self.address_tokens = tokens.min(ADDRESS_TOKENS_MAX);
        }
        self.tokens_at = now;
        let count = list.len().min(self.address_tokens as usize);
        self.address_tokens -= count as f64;
        list[..count].to_vec()
    }
}
