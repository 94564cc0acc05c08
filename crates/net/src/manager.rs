//! All connections together (Core's `PeerManager`): headers first, then blocks as the schedule
//! requests them. A pure function of events and time: sockets, threads and clocks are the caller's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_hash::sha256d;
use apus_wire::message::{
    Command, HEADERS_MAX, Inventory, InventoryItem, InventoryKind, Message, MessageError,
    NetAddress, Services,
};
use apus_wire::{BlockView, HEADER_BYTES};

use super::coin_schedule::{CoinSchedule, offers_coins};
use super::headers::{HeaderChain, HeadersFault, HeadersOf};
use super::peer::{Has, PeerId};
use super::schedule::{Arrival, Fault, Limits, Schedule};
use super::session::{Handled, Ourselves, Outgoing, Session, SessionFault, Themselves};

/// Addresses that a peer may send each second (Core's `MAX_ADDR_RATE_PER_SECOND`).
const ADDRESSES_PER_SECOND: f64 = 0.1;
/// The most address tokens that a peer may save up (Core's `MAX_ADDR_PROCESSING_TOKEN_BUCKET`), and
/// the number that it gets when we ask it for addresses.
const ADDRESS_TOKENS_MAX: f64 = 1000.0;

/// Time after which another peer is asked for headers as well, if one has sent nothing new yet, and
/// if it has.
const ANOTHER_AFTER: Duration = Duration::from_secs(1);
const ANOTHER_AFTER_NEWS: Duration = Duration::from_secs(5);
/// One byte in this many of those that may wait is for coins, if they are wanted: a block is
/// several times as large as the coins that it spends.
const COINS_SHARE: u64 = 4;

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
    /// It sent coins that were not asked for.
    #[error("it sent spent coins that were not asked for")]
    UnaskedCoins,
    /// It sent coins that are not those that the block spends.
    #[error("it sent wrong spent coins: {0}")]
    WrongCoins(String),
}

/// An action for the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a message.
    Send(PeerId, Outgoing),
    /// Close a connection. The manager has removed the peer.
    Disconnect(PeerId, PeerError),
    /// Take the block in the last message, which was requested.
    Block(PeerId, BlockId),
    /// Take the coins that the block spends, in the last message, which were requested.
    Coins(PeerId, BlockId),
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
    coins: CoinSchedule,
    search: Search,
    /// When the best header last came to have more work by a full message of headers.
    improved: Duration,
    /// The tip, and the greatest height, above which the blocks of all branches are wanted while
    /// the tree grows.
    followed: Option<(BlockId, u32)>,
    /// The height below which blocks are requested without their witnesses.
    stripped_below: u32,
}

/// How peers are asked for headers.
enum Search {
    /// Many headers may be to come: one outbound peer after another is asked.
    OneByOne {
        /// When a peer was last asked, or a header came that was new to the tree.
        moved: Duration,
        /// Whether such a header has come.
        has_news: bool,
    },
    /// A peer has said that it has no more, now or in a search before, so few are to come: all are
    /// asked.
    All {
        /// When an outbound peer first said so in this search.
        ended: Option<Duration>,
    },
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
            peers: BTreeMap::new(),
            schedule,
            coins: CoinSchedule::new(settings.limits),
            settings,
            search: Search::new(),
            improved: Duration::ZERO,
            followed: None,
            stripped_below: 0,
        }
    }

    /// Returns the schedule of the download of blocks.
    pub fn schedule(&mut self) -> &mut Schedule {
        &mut self.schedule
    }

    /// Returns the schedule of the download of the coins that blocks spend.
    pub fn coins(&mut self) -> &mut CoinSchedule {
        &mut self.coins
    }

    /// Wants the coins that these blocks spend ([`CoinSchedule::want`]).
    pub fn want_coins(&mut self, blocks: Arc<[BlockId]>) {
        self.coins.want(blocks);
        self.share_out();
    }

    /// Changes [`Limits::bytes_max`], which blocks and coins share.
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        self.settings.limits.bytes_max = bytes_max;
        self.share_out();
    }

    fn share_out(&mut self) {
        let bytes_max = self.settings.limits.bytes_max;
        let for_coins = if self.coins.is_wanting() { bytes_max / COINS_SHARE } else { 0 };
        self.coins.set_bytes_max(for_coins);
        self.schedule.set_bytes_max(bytes_max - for_coins);
    }

    /// Returns whether a peer offers the coins that blocks spend.
    pub fn offers_coins(&self) -> bool {
        let mut ready = self.peers.values().filter(|peer| peer.session.is_ready());
        ready.any(|peer| peer.session.them().is_some_and(offers_coins))
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

    /// Returns the session with a peer.
    pub fn session(&self, peer: PeerId) -> Option<&Session> {
        self.peers.get(&peer).map(|peer| &peer.session)
    }

    /// Returns what a peer said about itself.
    pub fn them(&self, peer: PeerId) -> Option<&Themselves> {
        self.session(peer)?.them()
    }

    /// Returns the best block that a peer is known to have.
    pub fn best(&self, peer: PeerId) -> Option<BlockId> {
        self.peers.get(&peer)?.headers.best()
    }

    /// Notes that a peer reads what it has requested: it cannot be heard meanwhile.
    pub fn has_read(&mut self, peer: PeerId, now: Duration) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.session.has_read(now);
        }
    }

    /// Returns the number of peers whose handshake is complete.
    pub fn ready(&self) -> usize {
        self.peers.values().filter(|peer| peer.session.is_ready()).count()
    }

    /// Wants the blocks of all branches with more work than `tip`, up to height `top`, from now on
    /// while the tree grows, until others are wanted.
    pub fn follow(&mut self, tip: BlockId, top: u32) {
        self.followed = Some((tip, top));
    }

    /// Wants the blocks of the branches that are followed now.
    fn want_followed(&mut self, tree: &Tree) {
        if let Some((tip, top)) = self.followed {
            self.schedule.follow(tree, tip, top);
        }
    }

    /// Returns whether a block of a branch that is followed may still come from a peer.
    pub fn awaits_any(&mut self, tree: &Tree) -> bool {
        self.want_followed(tree);
        self.schedule.awaits_any(tree)
    }

    /// Wants no block.
    pub fn want_nothing(&mut self) {
        self.followed = None;
        self.schedule.want(Arc::new([]), []);
        self.want_coins(Arc::new([]));
    }

    /// Returns how many outbound peers have said that they have no more headers.
    pub fn heard(&self) -> usize {
        let outbound = self.peers.values().filter(|peer| !peer.inbound);
        outbound.filter(|peer| peer.headers.is_at_end()).count()
    }

    /// Returns whether an outbound peer has said that its chain ends in `block`.
    pub fn ends_in(&self, block: BlockId) -> bool {
        let mut outbound = self.peers.values().filter(|peer| !peer.inbound);
        outbound.any(|peer| peer.headers.is_at_end() && peer.headers.best() == Some(block))
    }

    /// Returns whether the handshake of an outbound peer is not complete.
    pub fn is_opening(&self) -> bool {
        self.peers.values().any(|peer| !peer.inbound && !peer.session.is_ready())
    }

    /// Returns whether there are peers and all have said that they have no more headers. Once one
    /// has said so, all others together have `patience`, which begins anew with each full message
    /// of headers that ends with more work than all before.
    pub fn has_all_headers(&self, now: Duration, patience: Duration) -> bool {
        // Inbound peers must not keep us waiting.
        let ready = || self.peers.values().filter(|peer| peer.session.is_ready() && !peer.inbound);
        let is_asked = |peer: &Peer| !peer.headers.is_to_be_asked();
        let is_over = match self.search {
            Search::All { ended: Some(ended) } => {
                now.saturating_sub(ended.max(self.improved)) > patience
            }
            _ => false,
        };
        ready().any(|peer| peer.headers.is_at_end())
            && ready().all(|peer| peer.headers.is_at_end() || is_over && is_asked(peer))
    }

    /// Starts to request headers from all peers again.
    pub fn ask_for_headers(&mut self) {
        self.search = match self.search {
            Search::OneByOne { .. } => Search::new(),
            Search::All { .. } => Search::All { ended: None },
        };
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
        self.coins.remove_peer(id);
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

    /// Drops a peer that sent coins that are not those that `block` spends.
    pub fn wrong_coins(&mut self, id: PeerId, block: BlockId, what: String, out: &mut Vec<Action>) {
        self.coins.refused(id, block);
        if self.peers.contains_key(&id) {
            self.drop_peer(id, PeerError::WrongCoins(what), out);
        }
    }

    /// Panics unless the invariants 1 to 4 of docs/peers.md hold.
    #[cfg(test)]
    pub(super) fn assert_right(&self, chain: &HeaderChain, now: Duration) {
        let is_near_end = matches!(self.search, Search::All { .. });
        let outbound = || self.peers.values().filter(|peer| !peer.inbound);
        let waits = |peer: &Peer| peer.session.is_ready() && peer.headers.is_to_be_asked();
        let is_asked = outbound().any(|peer| peer.headers.is_asking());
        assert!(!outbound().any(waits) || is_asked && !is_near_end, "headers are not requested");
        assert!(!is_near_end || !self.peers.values().any(waits), "headers wait at the tip");
        self.schedule.assert_right(chain.tree(), now);
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
            Err(error) if command == Command::BSPENT && peer.session.is_ready() => {
                return Err(error.into());
            }
            // As in Core, which ignores most messages before the handshake is complete.
            Err(error) => {
                tracing::debug!(target: "net", peer = id.0, %error, "a message is ignored");
                return Ok(());
            }
        };
        let inbound = peer.inbound;
        let is_ready = peer.session.is_ready();
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
                let best_of = |chain: &HeaderChain| chain.tree().node(chain.tree().best_header());
                let before = chain.tree().len();
                let best = best_of(chain).work;
                let taken = peer.headers.take(list, chain, now);
                if chain.tree().len() > before {
                    self.search.note_new(now);
                }
                // Few headers are the last of a chain.
                if best_of(chain).work > best && list.len() == HEADERS_MAX {
                    self.improved = now;
                }
                let request = taken?;
                if peer.headers.is_at_end() && !peer.inbound {
                    self.search.note_end(now);
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
                    let Some(block) = chain.tree().find(&item.hash) else { continue };
                    let is_of_block = self.schedule.in_flight(id).contains(&block);
                    // Blocks are requested with their witnesses while coins are wanted.
                    let is_of_coins = self.coins.is_wanting() && item.kind == InventoryKind::BLOCK;
                    if is_of_coins || !is_of_block {
                        self.coins.lacks(id, block);
                    }
                    if !is_of_coins {
                        self.schedule.refused_by(id, block);
                    }
                }
            }
            Message::Block(bytes) => {
                self.coins.heard_block(id, bytes.len() as u64);
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
            Message::SpentCoins(sent) => {
                let bytes = sent.size() as u64;
                self.schedule.heard_other(id, bytes);
                let block = chain.tree().find(&sent.block).ok_or(PeerError::UnaskedCoins)?;
                match self.coins.arrived(id, block, bytes, now) {
                    Arrival::Wanted => out.push(Action::Coins(id, block)),
                    Arrival::Late => {}
                    Arrival::NotAsked => return Err(PeerError::UnaskedCoins),
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
            let has = Has { best, is_limited, is_inbound: peer.inbound };
            self.schedule.set_peer(id, has);
            if peer.session.them().is_some_and(offers_coins) {
                self.coins.set_peer(id, has);
            }
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
        let mut faults = self.schedule.tick(now);
        faults.extend(self.coins.tick(now));
        dropped.extend(faults.into_iter().map(|(id, fault)| (id, fault.into())));
        for (id, error) in dropped {
            if self.peers.contains_key(&id) {
                self.drop_peer(id, error, out);
            }
        }
        self.request_headers(chain, now, out);
        if chain.grows() {
            self.want_followed(chain.tree());
        }
        self.request_blocks(chain.tree(), now, out);
        let requests = self.coins.requests(chain.tree(), now);
        out.extend(requests.into_iter().map(|(id, request)| Action::Send(id, request)));
    }

    /// Requests headers from all peers at once if few are to come. While there may be many, one
    /// outbound peer after another is asked, and the next if those before send nothing new; inbound
    /// peers come last, and delay no other.
    fn request_headers(&mut self, chain: &HeaderChain, now: Duration, out: &mut Vec<Action>) {
        let mut waiting: Vec<(bool, PeerId)> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.session.is_ready() && peer.headers.is_to_be_asked())
            .map(|(id, peer)| (peer.inbound, *id))
            .collect();
        waiting.sort_unstable();
        for (inbound, id) in waiting {
            let is_busy = |peer: &Peer| (inbound || !peer.inbound) && peer.headers.is_asking();
            if !self.search.is_time(now) && self.peers.values().any(is_busy) {
                return;
            }
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            out.push(Action::Send(id, peer.headers.begin(chain, now)));
            if let Search::OneByOne { moved, .. } = &mut self.search {
                *moved = now;
            }
        }
    }

    fn request_blocks(&mut self, tree: &Tree, now: Duration, out: &mut Vec<Action>) {
        for (id, blocks) in self.schedule.requests(tree, now) {
            let item = |block: &BlockId| {
                let node = tree.node(*block);
                let kind = if node.height < self.stripped_below {
                    InventoryKind::BLOCK
                } else {
                    InventoryKind::WITNESS_BLOCK
                };
                InventoryItem { kind, hash: node.hash }
            };
            let items: Vec<InventoryItem> = blocks.iter().map(item).collect();
            out.push(Action::Send(id, Outgoing::new(&Inventory(Command::GETDATA, &items))));
        }
    }
}

impl Search {
    /// Begins before any peer has said that it has no more headers.
    fn new() -> Self {
        Self::OneByOne { moved: Duration::ZERO, has_news: false }
    }

    /// Notes that a header has come that was new to the tree.
    fn note_new(&mut self, now: Duration) {
        if let Self::OneByOne { moved, has_news } = self {
            (*moved, *has_news) = (now, true);
        }
    }

    /// Notes that an outbound peer has said that it has no more headers.
    fn note_end(&mut self, now: Duration) {
        let first = match self {
            Self::All { ended } => ended.unwrap_or(now),
            Self::OneByOne { .. } => now,
        };
        *self = Self::All { ended: Some(first) };
    }

    /// Returns whether another peer is asked though one is.
    fn is_time(&self, now: Duration) -> bool {
        match *self {
            Self::OneByOne { moved, has_news: true } => now >= moved + ANOTHER_AFTER_NEWS,
            Self::OneByOne { moved, .. } => now >= moved + ANOTHER_AFTER,
            Self::All { .. } => true,
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
