//! All connections, and the one thread that talks over them: it passes what arrives to the manager,
//! carries out the manager's actions, and gives blocks to the feed.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use apus_chain::{BlockId, Tree};
use apus_hash::Hash;
use apus_net::{
    Action, ConnectionType, Fault, HeaderChain, Missing, Ourselves, PeerError, PeerId, PeerManager,
    PeerOptions, SessionFault, TimeOffsets, Transport, TransportError,
};
use apus_node::block_peers::Wanted;
use apus_node::fault::Fault as NodeFault;
use apus_node::opened::Node;
use apus_node::options::Options;
use apus_progress::Observer;
use apus_progress::clock::unix_time;
use apus_progress::words::about;
use apus_wire::message::{Command, Services};
use crossbeam_channel::{Receiver, select};

use super::advice::Advice;
use super::dialer::{Dialer, FailedManual};
use super::feed::{Feed, Note};
use super::link::{Event, Link, ReceivedMessage};
use super::peer_infos::peer_infos;
use super::random::random;
use super::report::{PeerReport, Reports, Traffic, limits};
use super::roles::Closing;
use super::route::Unreachable;
use super::served_peers::ServedPeers;
use super::upkeep::Upkeep;

/// How long the thread waits for an event.
const WAIT: Duration = Duration::from_millis(100);
/// The most events that are handled before blocks are requested again.
const BATCH: usize = 64;
/// Time from one check of what takes long to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time from one save of the address book to the next.
const SAVE_EVERY: Duration = Duration::from_secs(15 * 60);
/// All connections are closed if the machine was suspended for longer than this (Core's
/// `TIMEOUT_INTERVAL`, after which it drops a peer that was not heard).
const SUSPENDED_MIN: Duration = Duration::from_secs(20 * 60);
/// Time without any peer after which the user is told.
const ALONE_AFTER: Duration = Duration::from_secs(10);
/// Time from one message about a proxy that does not answer to the next, while there is no peer.
const PROXY_WORDS_EVERY: Duration = Duration::from_secs(60);
/// Why a peer is dropped for which too much waits to be sent.
const NOT_READ: &str = "it does not read what we send";
/// Program and version (BIP14).
pub(super) const USER_AGENT: &str = concat!("/Apus:", env!("CARGO_PKG_VERSION"), "/");

/// All connections, and the state of the thread that talks over them.
pub(super) struct Connections {
    manager: PeerManager,
    links: BTreeMap<PeerId, Link>,
    dialer: Dialer,
    upkeep: Upkeep,
    feed: Arc<Feed>,
    events: Receiver<Event>,
    wakes: Receiver<()>,
    started: Instant,
    /// The secret that the commitments of [`apus_net::Presync`] are made with.
    secret: [u8; 16],
    served: ServedPeers,
    reports: Reports,
    traffic: Arc<Traffic>,
    /// The height of the tip.
    height: Arc<AtomicU32>,
    time_offsets: TimeOffsets,
    missing: Missing,
    /// When a good block near the tip last came, or such blocks were first awaited.
    last_block: Duration,
    /// The time at which these connections were created, by the clock as it is now.
    began: Option<i64>,
    looked: Duration,
    saved: Duration,
    /// Since when no peer has connected or the last one was lost; `None` after the user was told
    /// that there is no peer.
    alone_since: Option<Duration>,
    /// When coins were last not wanted, or a peer offered them; `None` after the user was told that
    /// none does.
    coins_missed_since: Option<Duration>,
    /// When the user was last told that the proxy does not answer.
    proxy_told: Option<Duration>,
    advice: Advice,
}

/// The receiving ends of the channels to [`Connections`].
pub(super) struct Ears {
    pub events: Receiver<Event>,
    pub wakes: Receiver<()>,
}

impl Connections {
    /// Creates the state without connections. `height` is the height of the tip, now and later.
    pub fn new(
        manager: PeerManager,
        dialer: Dialer,
        feed: Arc<Feed>,
        ears: Ears,
        (traffic, height): (Arc<Traffic>, Arc<AtomicU32>),
        (of, options): (&Options, &PeerOptions),
    ) -> Self {
        let [a, b] = [random(), random()];
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&a.to_le_bytes());
        secret[8..].copy_from_slice(&b.to_le_bytes());
        Self {
            manager,
            links: BTreeMap::new(),
            dialer,
            upkeep: Upkeep::default(),
            feed,
            events: ears.events,
            wakes: ears.wakes,
            started: Instant::now(),
            secret,
            served: ServedPeers::new(of, options),
            reports: Reports::default(),
            traffic,
            height,
            time_offsets: TimeOffsets::default(),
            missing: Missing::new(options.gone_after),
            last_block: Duration::ZERO,
            began: None,
            looked: Duration::ZERO,
            saved: Duration::ZERO,
            alone_since: Some(Duration::ZERO),
            coins_missed_since: None,
            proxy_told: None,
            advice: Advice::new(options),
        }
    }

    /// Returns the time since these connections were created.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the secret for [`apus_net::Presync`].
    pub fn secret(&self) -> [u8; 16] {
        self.secret
    }

    pub fn manager(&mut self) -> &mut PeerManager {
        &mut self.manager
    }

    /// Returns whether we are opening a connection, or the handshake of one that we opened is not
    /// complete.
    pub fn is_opening(&self) -> bool {
        self.dialer.is_dialing() || self.manager.is_opening()
    }

    /// Notes that a good block near the tip is here, or that the wait for such blocks begins.
    pub fn note_block(&mut self) {
        self.last_block = self.now();
    }

    /// Returns whether blocks near the tip may still come: one did, or the wait for them began,
    /// less than `patience` ago.
    pub fn awaits_blocks(&mut self, tree: &Tree, patience: Duration) -> bool {
        self.now() <= self.last_block + patience && self.manager.awaits_any(tree)
    }

    /// Closes the connection to the peer that sent these bytes for a block: they are others, or
    /// break a rule.
    pub fn blame(&mut self, from: PeerId, id: BlockId, fault: &NodeFault, observer: &dyn Observer) {
        let mut actions = Vec::new();
        match fault {
            NodeFault::Damaged(_, what) => {
                self.manager.changed_block(from, id, what.clone(), &mut actions);
            }
            NodeFault::Rule(_, error) => {
                self.manager.invalid_block(from, error.to_string(), &mut actions);
            }
            _ => {}
        }
        self.carry_out(actions, observer);
    }

    pub fn reports(&mut self) -> Vec<PeerReport> {
        for id in self.links.keys() {
            let speed = self.manager.schedule().speed(*id);
            self.reports.note_speed(*id, speed);
        }
        self.reports.all()
    }

    /// Replaces the wanted blocks.
    pub fn want(&mut self, wanted: Wanted) {
        let Wanted { blocks, lanes, gives_up, stripped_below, coins, .. } = wanted.clone();
        self.traffic.want(wanted.bytes());
        self.feed.begin(wanted);
        self.manager.want_nothing();
        self.manager.strip_below(stripped_below);
        self.manager.schedule().want(blocks, lanes);
        self.manager.want_coins(coins);
        self.missing.begin(gives_up);
    }

    /// Serves what `node` has now, and announces a new tip.
    pub fn serve(&mut self, node: &Node, observer: &dyn Observer) {
        node.publish_headers();
        let announced = self.served.follow(node.view());
        if let Some(words) = self.served.announce() {
            observer.note(&words);
        }
        let send = |(id, message)| Action::Send(id, message);
        self.carry_out(announced.into_iter().map(send).collect(), observer);
    }

    /// Stops requesting blocks. Blocks that have arrived can still be taken.
    pub fn want_nothing(&mut self) {
        self.manager.want_nothing();
        self.traffic.want(0);
        self.feed.take_notes();
        self.feed.drop_coins();
    }

    /// Does the work that is due, then waits a moment for events and handles them.
    pub fn turn(&mut self, chain: &mut HeaderChain, observer: &dyn Observer) {
        let unix_time = unix_time();
        chain.set_time(unix_time);
        self.look_for_suspension(unix_time, observer);
        // Events that arrived between two turns must not count as silence.
        self.handle_waiting(None, chain, observer);
        self.take_notes(observer);
        self.traffic.set_waited(self.feed.waited());
        let mut actions = Vec::new();
        let now = self.now();
        self.traffic.set_open_bytes(self.links.values().map(Link::block_bytes).sum());
        for (id, link) in &self.links {
            self.manager.schedule().heard(*id, link.block_bytes(), now);
            self.manager.coins().heard(*id, link.block_bytes(), now);
            if link.is_sending() {
                self.manager.has_read(*id, now);
            }
        }
        if let Some(bytes_max) = self.feed.memory_alone() {
            self.manager.set_bytes_max(bytes_max);
        }
        while let Some(block) = self.manager.coins().give_up(chain.tree()) {
            self.feed.coins_gone(block);
        }
        self.manager.tick(chain, now, random(), &mut actions);
        self.carry_out(actions, observer);
        for node in self.dialer.take_found() {
            observer.note(&node.words());
        }
        self.dialer.dial_more(now, unix_time);
        if now >= self.looked + LOOK_EVERY {
            self.looked = now;
            self.look(chain.tree(), observer);
        }
        let first = select! {
            recv(self.events) -> event => event.ok(),
            recv(self.wakes) -> _ => None,
            default(WAIT) => None,
        };
        self.handle_waiting(first, chain, observer);
    }

    /// Closes all connections that we opened if the clock has gone much further than this process
    /// has run: the machine was suspended, and the connections are dead.
    fn look_for_suspension(&mut self, unix_time: i64, observer: &dyn Observer) {
        let now = self.now();
        let ran = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let began = unix_time - ran;
        let suspended = SUSPENDED_MIN.as_secs() as i64;
        let before = self.began.replace(began);
        if before.is_some_and(|before| began > before.saturating_add(suspended)) {
            for id in self.links.keys().copied().collect::<Vec<PeerId>>() {
                let why = "the machine was suspended, or its clock was set".to_string();
                self.close(id, Closing::Lost, why, observer);
            }
        }
    }

    /// Replaces peers that do not keep us at `tip`. It must be called often while there is nothing
    /// to download.
    pub fn stay_at_tip(&mut self, tree: &Tree, tip: BlockId, observer: &dyn Observer) {
        let manager = &self.manager;
        let dialer = &mut self.dialer;
        let now = self.started.elapsed();
        let (actions, leaving) = self.upkeep.stay_at_tip(manager, dialer, (tree, tip), now);
        self.carry_out(actions, observer);
        for (id, why) in leaving {
            self.close(id, Closing::Dropped, why.to_string(), observer);
        }
    }

    /// Handles `first`, and at most [`BATCH`] events that wait.
    fn handle_waiting(
        &mut self,
        first: Option<Event>,
        chain: &mut HeaderChain,
        observer: &dyn Observer,
    ) {
        let others = self.events.try_iter().take(BATCH);
        let events: Vec<Event> = first.into_iter().chain(others).collect();
        for event in events {
            self.handle(event, chain, observer);
        }
    }

    fn handle(&mut self, event: Event, chain: &mut HeaderChain, observer: &dyn Observer) {
        let now = self.now();
        match event {
            // It has made room for another peer before it was open.
            Event::Connected(id, _) | Event::Failed(id, _)
                if !self.dialer.roles().0.contains_key(&id) => {}
            Event::Connected(id, link) => self.begin_session(id, link, observer),
            Event::Failed(id, why) => {
                tracing::debug!(
                    target: "net",
                    peer = self.dialer.name_of(id), %why, "no connection"
                );
                let manual = self.dialer.failed(id, now);
                self.tell_of_failure(manual, &why, observer);
            }
            Event::Accepted(stream, address) => {
                if self.dialer.is_full() {
                    self.make_room(observer);
                }
                self.dialer.accept((stream, address), now);
            }
            Event::Message(message) => self.receive(message, chain, observer),
            Event::Closed(id, error) => self.lose(id, &error, observer),
            Event::Resolved(seed, found) => self.dialer.resolved(&seed, &found, unix_time()),
        }
    }

    /// Begins the handshake over a connection that is open.
    fn begin_session(&mut self, id: PeerId, link: Link, observer: &dyn Observer) {
        self.dialer.opened(id);
        let kind = self.dialer.connection_type(id);
        let inbound = kind == ConnectionType::Inbound;
        if !self.dialer.is_feeler(id) {
            self.reports.begin(id, self.dialer.name_of(id), link.transport, inbound);
        }
        self.links.insert(id, link);
        // Two peers must not be able to tell from this that they talk to the same node.
        let height = self.served.height().unwrap_or_else(|| self.height.load(Relaxed));
        let ourselves = Ourselves {
            nonce: random(),
            user_agent: USER_AGENT,
            services: self.served.services(),
            features: self.served.features(),
            time: unix_time(),
            start_height: height as i32,
        };
        let mut actions = Vec::new();
        self.manager.connected(id, kind, ourselves, self.now(), &mut actions);
        self.carry_out(actions, observer);
    }

    /// Passes a message to the manager, a wanted block to the feed, and a request to what serves
    /// peers.
    fn receive(
        &mut self,
        message: ReceivedMessage,
        chain: &mut HeaderChain,
        observer: &dyn Observer,
    ) {
        let ReceivedMessage { from, command, mut bytes, payload, answered } = message;
        // The message may come from a peer that was dropped meanwhile.
        if !self.links.contains_key(&from) {
            return;
        }
        self.traffic.add(bytes.len() as u64);
        let now = self.now();
        let mut actions = Vec::new();
        let content = &bytes[payload.clone()];
        self.manager.received(from, command, content, chain, now, &mut actions);
        if command == Command::BLOCK
            && let Some(Action::Block(_, id)) =
                actions.iter().find(|action| matches!(action, Action::Block(..)))
        {
            bytes.truncate(payload.end);
            bytes.drain(..payload.start);
            self.reports.add_block(from, bytes.len() as u64);
            if let Some(link) = self.links.get_mut(&from) {
                link.last_block = unix_time();
            }
            self.traffic.arrived(self.feed.expected_bytes(chain.tree(), *id));
            self.dialer.roles().note_block(from, now);
            self.feed.arrive(*id, from, bytes);
        } else if command == Command::BSPENT {
            if let Some(Action::Coins(_, id)) =
                actions.iter().find(|action| matches!(action, Action::Coins(..)))
            {
                bytes.truncate(payload.end);
                bytes.drain(..payload.start + size_of::<Hash>());
                self.feed.arrive_coins(*id, from, bytes);
            }
        } else if let Some(link) = self.links.get(&from)
            && !self.served.answer((from, link), command, (bytes, payload), answered)
        {
            self.close(from, Closing::Dropped, NOT_READ.to_string(), observer);
        }
        self.carry_out(actions, observer);
    }

    /// Closes a connection that a peer opened, if one may be closed for another.
    fn make_room(&mut self, observer: &dyn Observer) {
        let min_ping = |id| self.manager.session(id)?.min_ping();
        if let Some(id) = self.dialer.roles().to_evict(min_ping) {
            let why = "it makes room for another peer".to_string();
            self.close(id, Closing::Dropped, why, observer);
            // It has its role alone while it is not open.
            self.dialer.roles().remove(id);
        }
    }

    /// Tells the user why a connection could not be opened: the first time if the user asked for
    /// it, and each time while there is no peer at all.
    fn tell_of_failure(
        &mut self,
        manual: Option<FailedManual>,
        why: &Unreachable,
        observer: &dyn Observer,
    ) {
        let is_alone = self.manager.ready() == 0;
        let now = self.now();
        match (manual, why) {
            (Some(FailedManual { name, is_first, wait }), _) if is_first || is_alone => {
                let wait = about(wait);
                observer.note(&format!("Cannot connect to {name}: {why}; trying again in {wait}"));
            }
            (None, Unreachable::Proxy(why))
                if is_alone
                    && self.proxy_told.is_none_or(|told| now > told + PROXY_WORDS_EVERY) =>
            {
                self.proxy_told = Some(now);
                observer.note(&format!("Cannot connect to any peer: {why}"));
            }
            _ => {}
        }
    }

    /// Passes on to the manager what threads have noted about blocks.
    fn take_notes(&mut self, observer: &dyn Observer) {
        let mut actions = Vec::new();
        for note in self.feed.take_notes() {
            match note {
                Note::Waits(lane) => self.manager.schedule().read(lane),
                Note::Good(lane, id) => self.manager.schedule().taken(lane, id),
                Note::Changed(peer, id, what) => {
                    self.manager.changed_block(peer, id, what, &mut actions);
                }
                Note::Invalid(peer, why) => self.manager.invalid_block(peer, why, &mut actions),
                Note::WaitsForCoins => self.manager.coins().read(),
                Note::TookCoins(id) => self.manager.coins().taken(id),
                Note::WrongCoins(peer, id, what) => {
                    self.manager.wrong_coins(peer, id, what, &mut actions);
                }
            }
        }
        self.carry_out(actions, observer);
    }

    fn carry_out(&mut self, actions: Vec<Action>, observer: &dyn Observer) {
        for action in actions {
            match action {
                Action::Send(id, message) => {
                    if self.links.get(&id).is_some_and(|link| !link.send(message)) {
                        self.close(id, Closing::Dropped, NOT_READ.to_string(), observer);
                    }
                }
                Action::Disconnect(id, error) => {
                    let closing = match error {
                        PeerError::Download(Fault::Silent(_)) => Closing::Silent,
                        _ => Closing::Dropped,
                    };
                    let inbound = self.dialer.connection_type(id) == ConnectionType::Inbound;
                    if inbound && error == PeerError::Session(SessionFault::Ourselves) {
                        let name = self.dialer.name_of(id);
                        observer.note(&format!("Dropped peer {name}: {error}"));
                    }
                    self.close(id, closing, error.to_string(), observer);
                }
                Action::Ready(id) => self.greet(id, observer),
                Action::Addresses(id, list) => {
                    self.dialer.heard(id, &list, unix_time());
                    if self.dialer.is_seed(id) && list.len() > 1 {
                        let why = "it has sent addresses".to_string();
                        self.close(id, Closing::Lost, why, observer);
                    }
                }
                Action::Block(..) | Action::Coins(..) => {}
            }
        }
    }

    fn greet(&mut self, id: PeerId, observer: &dyn Observer) {
        let Some(them) = self.manager.them(id) else { return };
        let is_v2 = self.links.get(&id).is_some_and(|link| link.transport == Transport::V2);
        let of_transport = if is_v2 { Services::P2P_V2 } else { Services::default() };
        let services = them.services.with(of_transport);
        self.dialer.worked(id, services, self.started.elapsed(), unix_time());
        if self.dialer.is_feeler(id) {
            self.close(id, Closing::Lost, "its address works".to_string(), observer);
            return;
        }
        self.reports.greet(id, them);
        self.served.add(id);
        if let Some(report) = self.reports.get(id) {
            let text = format!("Connected to {report}{}", limits(them.services));
            self.tell(id, text, observer);
        }
        // As in Core, inbound peers do not count: they could make us doubt our clock.
        if self.dialer.connection_type(id) != ConnectionType::Inbound
            && let Some(words) = self.time_offsets.add(them.time_offset)
        {
            observer.note(&words);
        }
        self.alone_since = Some(self.now());
        self.count_peers();
    }

    /// Tells the user about a peer. As in Core, inbound ones are logged with `--debug=net` alone:
    /// strangers could fill the disk.
    fn tell(&self, id: PeerId, text: String, observer: &dyn Observer) {
        match self.dialer.connection_type(id) {
            ConnectionType::Inbound => tracing::debug!(target: "net", "{text}"),
            _ => observer.note(&text),
        }
    }

    /// Handles a connection that is closed or cannot be read any more.
    fn lose(&mut self, id: PeerId, error: &TransportError, observer: &dyn Observer) {
        match error {
            TransportError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.close(id, Closing::Lost, "it closed the connection".to_string(), observer);
            }
            TransportError::Io(_) => self.close(id, Closing::Lost, error.to_string(), observer),
            _ => self.close(id, Closing::Dropped, error.to_string(), observer),
        }
    }

    /// Closes a connection, and tells the user once.
    fn close(&mut self, id: PeerId, closing: Closing, why: String, observer: &dyn Observer) {
        let speed = self.manager.schedule().speed(id);
        self.reports.note_speed(id, speed);
        self.manager.closed(id);
        if self.links.remove(&id).is_none() {
            return;
        }
        self.served.remove(id);
        let name = self.dialer.name_of(id);
        let what = if closing == Closing::Lost { "Lost" } else { "Dropped" };
        if self.dialer.is_feeler(id) {
            tracing::debug!(target: "net", peer = name, why, "the end of a feeler")
        } else {
            self.tell(id, format!("{what} peer {name}: {why}"), observer)
        }
        self.reports.end(id, why);
        let now = self.now();
        self.dialer.closed(id, closing, speed, now);
        self.count_peers();
        if self.links.is_empty() {
            self.alone_since = Some(now);
        }
    }

    /// Checks what takes long.
    fn look(&mut self, tree: &Tree, observer: &dyn Observer) {
        let now = self.now();
        self.count_peers();
        if observer.wants_peers() {
            let of = (&self.dialer, &self.reports);
            observer.peers(peer_infos(&self.links, &mut self.manager, of, tree));
            observer.addresses(self.dialer.address_counts());
        }
        self.served.tend();
        observer.heard(self.traffic.download());
        if let Some(words) = self.advice.look(now, self.traffic.download()) {
            observer.note(&words);
        }
        let is_alone = self.manager.ready() == 0;
        if is_alone && self.alone_since.is_some_and(|since| now > since + ALONE_AFTER) {
            self.alone_since = None;
            observer.note("No peer is connected: waiting for one");
        }
        self.look_for_missing(tree, observer);
        self.look_for_coins(observer);
        let leaving = self.upkeep.look_for_faster(&mut self.manager, &mut self.dialer, now);
        if let Some((id, why)) = leaving {
            self.close(id, Closing::Dropped, why.to_string(), observer);
        }
        for id in self.dialer.old_seeds(now) {
            self.close(id, Closing::Lost, "it has sent no addresses".to_string(), observer);
        }
        if now > self.saved + SAVE_EVERY {
            self.saved = now;
            self.save(false);
        }
    }

    /// Counts the peers that have completed the handshake, for progress reports.
    fn count_peers(&self) {
        let type_of = |id: &PeerId| self.dialer.connection_type(*id);
        let ready = self.links.keys().filter(|id| self.manager.them(**id).is_some());
        let outbound = ready.filter(|id| type_of(id) != ConnectionType::Inbound).count();
        self.traffic.set_peers(self.manager.ready(), outbound);
    }

    /// Gives up blocks that threads wait for and that do not come, or tells the user.
    fn look_for_missing(&mut self, tree: &Tree, observer: &dyn Observer) {
        let now = self.now();
        let is_alone = self.manager.ready() == 0;
        let (gone, words) = self.missing.look(self.manager.schedule(), is_alone, tree, now);
        if let Some(words) = words {
            observer.note(&words);
        }
        // None that builds on it can be connected either, and other threads may wait for them.
        if let Some(block) = gone {
            let height = tree.height(block);
            self.feed.gone(self.manager.schedule().awaited_from(tree, height));
        }
    }

    /// Tells the user if coins are wanted and no connected peer offers them.
    fn look_for_coins(&mut self, observer: &dyn Observer) {
        let now = self.now();
        let coins = self.manager.coins();
        if !coins.is_wanting() || coins.has_peers() {
            self.coins_missed_since = Some(now);
        } else if self.coins_missed_since.is_some_and(|since| now > since + ALONE_AFTER) {
            self.coins_missed_since = None;
            observer.note(
                "No connected peer offers the coins that blocks spend: waiting for one that does",
            );
        }
    }

    /// Saves the address book, with `is_last` for a restart. If that fails, only addresses are
    /// lost, which are found again.
    pub fn save(&mut self, is_last: bool) {
        for id in self.links.keys() {
            if let Some(speed) = self.manager.schedule().speed(*id) {
                self.dialer.note_speed(*id, speed);
            }
        }
        if let Err(error) = self.dialer.save(is_last) {
            tracing::warn!("cannot save the addresses of peers: {error}");
        }
    }
}

#[cfg(test)]
mod tests;
