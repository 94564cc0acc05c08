//! Chooses the peers to connect to: peers that the user names, nodes on the local network, and
//! those of the address book, which DNS seeds and other peers fill.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apus_disk::{Disk, StoreError};
use apus_hash::HashKey;
use apus_host::threads;
use apus_net::{
    Addresses, ConnectionType, Feelers, Group, Needs, NetKind, PeerId, PeerOptions, Place, Slot,
    Target, fixed_seeds,
};
use apus_progress::clock::unix_time;
use apus_wire::Network;
use apus_wire::message::{Host, NetAddress, Services};

use super::budget::Socket;
use super::keyed_groups::KeyedGroups;
use super::lan::{LanNode, LanSearch};
use super::link::{self, Dialing, Event};
use super::random::random;
use super::roles::{Automatic, Closing, Inbound, Role, Roles};
use super::seeds::Seeds;

/// The most connections that we open by ourselves: as many as Core, which opens 8 for everything
/// and 2 for blocks alone.
pub(super) const OUTBOUND_MAX: usize = 10;
/// The most connections beyond these that we open for a while: a feeler, a candidate, or one more
/// if the tip is stale (Core's `MAX_FEELER_CONNECTIONS`).
const EXTRA_MAX: usize = 1;
/// The most peers that are connected to first after a restart (Core's
/// `MAX_BLOCK_RELAY_ONLY_ANCHORS`).
const ANCHORS_MAX: usize = 2;
/// Time after which fixed seeds are used, if other sources have given no address (Core's).
const FIXED_SEEDS_DELAY: Duration = Duration::from_secs(60);
/// Seconds since fixed seeds were last seen, as in Core at least.
const FIXED_SEEDS_AGE: i64 = 7 * 24 * 60 * 60;
/// Time from one look for a peer to connect to to the next, if none is found (Core's).
const SEARCH_EVERY: Duration = Duration::from_millis(500);
/// We open no further connections by ourselves while this many are being opened.
const DIALING_MAX: usize = 8;
/// The time after which a connection that the user asked for, or to a node on the local network, is
/// tried again, if it cannot be opened; it doubles each time.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest time after which such a connection is tried again.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// The time after which such a peer is tried again after we dropped it.
const RETRY_DROPPED: Duration = Duration::from_secs(10 * 60);
/// Time after which DNS seeds are asked, if the address book is not empty (Core's
/// `DNSSEEDS_DELAY_FEW_PEERS`).
const DNS_DELAY: Duration = Duration::from_secs(11);
/// DNS seeds are not asked while there are this many peers.
const DNS_PEERS: usize = 2;
/// Time from one request to all DNS seeds to the next.
const DNS_EVERY: Duration = Duration::from_secs(10 * 60);
/// The most addresses that are taken from one DNS seed (Core's).
const DNS_ADDRESSES_MAX: usize = 32;
/// The subdomain under which DNS seeds list only peers with [`NEEDED`]: `x` and the services in
/// hex.
const DNS_PREFIX: &str = "x9.";

/// The services of peers that we choose: all blocks, with witnesses.
pub(super) const NEEDED: Services = Services::NETWORK.with(Services::WITNESS);

/// The file with addresses of peers, next to Core's `peers.dat`.
pub const FILE: &str = "apus-peers.txt";

/// A connection that the user asked for, or to a node on the local network, that could not be
/// opened.
pub(super) struct FailedManual {
    /// The host and port of the peer, and where it was found.
    pub name: String,
    /// Whether no attempt has failed and no connection has closed since the last handshake.
    pub is_first: bool,
    /// The time until the connection is tried again.
    pub wait: Duration,
}

/// The choice of peers to connect to, and the connections that there are.
pub(super) struct Dialer {
    how: Arc<Dialing>,
    network: Network,
    options: PeerOptions,
    book: Addresses,
    disk: Disk,
    file: PathBuf,
    /// The peers that are tried again and again: those of the options, then those of the local
    /// network.
    manual: Vec<Manual>,
    /// The number of those of the options.
    named: usize,
    /// The search for nodes on the local network, if there is one.
    pub lan: Option<LanSearch>,
    /// Peers that are asked for addresses alone.
    seeds: Vec<Target>,
    /// Those of them, and of the peers of DNS seeds, that are asked now.
    asked: Seeds,
    roles: Roles,
    groups: KeyedGroups,
    /// Number of connections that are being opened, without those for addresses alone.
    dialing: usize,
    names_asked: Option<Duration>,
    /// When a peer to connect to is looked for again.
    next_search: Duration,
    /// Peers to connect to first.
    anchors: Vec<Place>,
    feelers: Feelers,
    are_fixed_seeds_used: bool,
    /// Whether one more peer than usual is wanted.
    wants_extra: bool,
    next_id: u64,
}

/// A peer that the user asked for, or that was found on the local network.
struct Manual {
    target: Target,
    is_tried: bool,
    next: Duration,
    wait: Duration,
}

/// Adds a peer to connect to. Returns `false` if it is there already.
fn add_manual(all: &mut Vec<Manual>, target: Target) -> bool {
    let is_new = all.iter().all(|manual| manual.target != target);
    if is_new {
        all.push(Manual { target, is_tried: false, next: Duration::ZERO, wait: RETRY_FIRST });
    }
    is_new
}

impl Dialer {
    /// Creates a dialer without connections, and reads the address book.
    ///
    /// # Errors
    /// The file of addresses cannot be read.
    pub fn new(
        how: Arc<Dialing>,
        network: &Network,
        options: &PeerOptions,
        (disk, file): (&Disk, PathBuf),
        unix_time: i64,
    ) -> Result<Self, StoreError> {
        let text = disk.read(&file)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let (book, anchors) = Addresses::read(&text, HashKey::random(), unix_time);
        let mut manual = Vec::new();
        for target in options.connect.iter().chain(&options.addnode) {
            add_manual(&mut manual, target.clone());
        }
        let dialer = Self {
            how,
            network: network.clone(),
            book,
            disk: disk.clone(),
            file,
            named: manual.len(),
            manual,
            lan: None,
            asked: Seeds::default(),
            seeds: options.seednode.iter().filter(|t| options.reaches_host(t)).cloned().collect(),
            roles: Roles::default(),
            groups: KeyedGroups::default(),
            dialing: 0,
            names_asked: None,
            next_search: Duration::ZERO,
            anchors,
            feelers: Feelers::default(),
            are_fixed_seeds_used: false,
            wants_extra: false,
            next_id: 1,
            options: options.clone(),
        };
        // As in Core, anchors are used once: one that makes us fail must not do so again and again.
        if !dialer.anchors.is_empty() {
            dialer.write(&[])?;
        }
        Ok(dialer)
    }

    /// Returns the address of a peer as messages show it.
    pub fn name_of(&self, id: PeerId) -> String {
        self.roles.0.get(&id).map_or_else(|| format!("peer {}", id.0), Role::name)
    }

    /// Returns how many addresses are known ([`Addresses::counts`]).
    pub fn address_counts(&self) -> [[u64; 2]; 3] {
        self.book.counts()
    }

    /// Returns whether the peer is asked for addresses alone.
    pub fn is_seed(&self, id: PeerId) -> bool {
        matches!(self.roles.0.get(&id), Some(Role::Seed(_)))
    }

    /// Returns whether the connection only shows that the address works.
    pub fn is_feeler(&self, id: PeerId) -> bool {
        matches!(self.roles.0.get(&id), Some(Role::Feeler(_)))
    }

    pub fn connection_type(&self, id: PeerId) -> ConnectionType {
        let role = self.roles.0.get(&id);
        role.map_or(ConnectionType::Automatic, Role::connection_type)
    }

    /// Returns why there is each connection.
    pub fn roles(&mut self) -> &mut Roles {
        &mut self.roles
    }

    /// Adds the nodes that were found on the local network since the last call, except those that
    /// the user has named, and returns them.
    pub fn take_found(&mut self) -> Vec<LanNode> {
        let mut found = self.lan.as_ref().map(LanSearch::take).unwrap_or_default();
        found.retain(|node| add_manual(&mut self.manual, node.target()));
        found
    }

    /// Returns whether a connection is being opened.
    pub fn is_dialing(&self) -> bool {
        self.dialing > 0
    }

    /// Opens the connections that are due.
    pub fn dial_more(&mut self, now: Duration, unix_time: i64) {
        for at in 0..self.manual.len() {
            let manual = &mut self.manual[at];
            if !manual.is_tried && now >= manual.next {
                manual.is_tried = true;
                let target = manual.target.clone();
                let is_named = at < self.named;
                let role = if is_named { Role::Manual } else { Role::Local };
                if !self.dial(role(at, target.clone()), target, true) {
                    self.retry(at, now);
                }
            }
        }
        if !self.options.connect.is_empty() {
            return;
        }
        self.ask_seeds(now);
        self.dial_seeds();
        self.use_fixed_seeds(now, unix_time);
        if now < self.next_search {
            return;
        }
        self.book.resolve_waiting(unix_time);
        let wanted = self.slots() + usize::from(self.wants_extra && self.may_have_extra());
        while self.roles.in_slots() < wanted && self.dialing < DIALING_MAX {
            let next = self.next_place(unix_time);
            let is_begun = next.is_some_and(|(place, slot)| {
                self.dial_place(place, Role::automatic(place, slot), unix_time)
            });
            if !is_begun {
                self.next_search = now + SEARCH_EVERY;
                return;
            }
        }
        let is_full = self.roles.in_slots() >= self.slots();
        if is_full && self.may_have_extra() && self.feelers.is_due(now, random()) {
            self.dial_feeler(unix_time);
        }
    }

    /// Returns the number of connections that we keep open by ourselves.
    pub fn slots(&self) -> usize {
        OUTBOUND_MAX.min(self.options.maxconnections)
    }

    /// Returns whether there may be a connection beyond [`Dialer::slots`].
    fn may_have_extra(&self) -> bool {
        let has_room = self.roles.extra(self.slots()) < EXTRA_MAX;
        has_room && self.options.maxconnections >= OUTBOUND_MAX + EXTRA_MAX
    }

    /// Sets whether one more peer than usual is wanted.
    pub fn want_extra(&mut self, wants_extra: bool) {
        self.wants_extra = wants_extra;
    }

    /// Connects to a peer without a slot, to measure it, if there is one and there may be a
    /// connection more.
    pub fn dial_candidate(&mut self, unix_time: i64) {
        if !self.may_have_extra() || !self.options.connect.is_empty() {
            return;
        }
        if let Some(place) =
            self.choose(unix_time, |book, needs| book.select(false, needs, random()))
        {
            self.dial_place(place, Role::automatic(place, Slot::Candidate), unix_time);
        }
    }

    /// Gives a slot to a candidate.
    pub fn give_slot(&mut self, id: PeerId, slot: Slot) {
        if let Some(Role::Automatic(automatic)) = self.roles.0.get_mut(&id) {
            automatic.slot = slot;
        }
    }

    /// Returns the peer that `choose` picks from the candidates.
    fn choose(
        &self,
        unix_time: i64,
        choose: impl Fn(&Addresses, &Needs) -> Option<Place>,
    ) -> Option<Place> {
        let taken = self.roles.groups();
        let may_connect_to = |host: &Host| {
            self.options.reaches(NetKind::of(host)) && !taken.contains(&Group::of(host))
        };
        let needs = Needs { services: NEEDED, may_connect_to: &may_connect_to, now: unix_time };
        choose(&self.book, &needs)
    }

    /// Returns the next peer to connect to: an anchor; one that was fast, while such peers have
    /// less than half of the slots; or one chosen without regard to speed.
    fn next_place(&mut self, unix_time: i64) -> Option<(Place, Slot)> {
        while let Some(anchor) = self.anchors.pop() {
            let is_usable =
                |_: &Addresses, needs: &Needs| (needs.may_connect_to)(&anchor.0).then_some(anchor);
            if self.choose(unix_time, is_usable).is_some() {
                return Some((anchor, Slot::Any));
            }
        }
        if self.roles.fast() < Slot::fast_max(self.slots())
            && let Some(place) = self.choose(unix_time, Addresses::fastest)
        {
            return Some((place, Slot::Fast));
        }
        let any = |book: &Addresses, needs: &Needs| book.select(false, needs, random());
        self.choose(unix_time, any).map(|place| (place, Slot::Any))
    }

    /// Opens a connection to a peer of the address book. Returns `false` if the system refuses.
    fn dial_place(&mut self, place: Place, role: Role, unix_time: i64) -> bool {
        let counts = self.roles.are_online(self.options.maxconnections);
        self.book.attempted(&place, counts, unix_time);
        // Peers named by the user and seeds are always tried with v2, as in Core: nothing is known
        // about them.
        let v2 = self.book.services(&place).has(Services::P2P_V2);
        self.dial(role, Target::from(place), v2)
    }

    /// Opens a connection that shows whether an address works: one of `tried` whose place another
    /// one waits for, otherwise one of `new`.
    pub fn dial_feeler(&mut self, unix_time: i64) {
        let old = self.book.to_test(random());
        let place = match old {
            Some(old) if self.roles.has(&old) => {
                self.book.worked(&old, self.book.services(&old), unix_time);
                None
            }
            Some(old) => Some(old).filter(|(host, _)| self.options.reaches(NetKind::of(host))),
            None => None,
        };
        let new = || {
            let may_connect_to = |host: &Host| self.options.reaches(NetKind::of(host));
            let needs = Needs { services: NEEDED, may_connect_to: &may_connect_to, now: unix_time };
            self.book.select(true, &needs, random())
        };
        if let Some(place) = place.or_else(new) {
            self.dial_place(place, Role::Feeler(place), unix_time);
        }
    }

    /// Adds fixed seeds to the address book if it has no address that can be connected to, of one
    /// kind of network or all, and other sources had their time.
    fn use_fixed_seeds(&mut self, now: Duration, unix_time: i64) {
        let has_dns = self.options.asks_dns_seeds() && !self.network.dns_seeds.is_empty();
        let has_others = has_dns || !self.seeds.is_empty() || !self.options.addnode.is_empty();
        let is_time = !has_others || now > FIXED_SEEDS_DELAY;
        if self.are_fixed_seeds_used || !self.options.fixedseeds || !is_time {
            return;
        }
        self.are_fixed_seeds_used = true;
        let lacks = |kind: NetKind| {
            self.options.reaches(kind) && !self.book.has_any(|host| NetKind::of(host) == kind)
        };
        let lacking =
            [NetKind::Ipv4, NetKind::Ipv6, NetKind::Onion].map(|kind| (kind, lacks(kind)));
        let is_lacking = |host: &Host| lacking.contains(&(NetKind::of(host), true));
        let time = (unix_time - FIXED_SEEDS_AGE) as u32;
        let found = fixed_seeds(&self.network).filter(|(host, _)| is_lacking(host));
        let found: Vec<NetAddress> =
            found.map(|(host, port)| NetAddress { time, services: NEEDED, host, port }).collect();
        let new = self.book.add(&found, Group::named("fixed seeds"), unix_time);
        tracing::debug!(target: "net", new, "added fixed seeds");
    }

    /// Opens a connection, with the v2 transport first if the peer may speak it. Returns `false` if
    /// the system refuses to start its thread.
    fn dial(&mut self, role: Role, target: Target, v2: bool) -> bool {
        let id = self.new_id();
        tracing::debug!(target: "net", %target, id = id.0, "connecting");
        // The user may name a peer of any network.
        let nets = match role {
            Role::Manual(..) | Role::Local(..) => Vec::new(),
            _ => self.options.onlynet.clone(),
        };
        let is_begun = link::dial(id, target, v2 && self.how.v2, nets, &self.how);
        if is_begun {
            self.dialing += usize::from(!matches!(role, Role::Seed(_)));
            self.roles.0.insert(id, role);
        }
        is_begun
    }

    fn new_id(&mut self) -> PeerId {
        self.next_id += 1;
        PeerId(self.next_id)
    }

    /// Asks DNS seeds and the nodes of `--seednode` for addresses, if there are too few peers that
    /// we chose.
    fn ask_seeds(&mut self, now: Duration) {
        let has_few = self.roles.ready() < DNS_PEERS && (self.book.is_empty() || now > DNS_DELAY);
        let is_time = self.names_asked.is_none_or(|asked| now > asked + DNS_EVERY);
        if !has_few || !is_time {
            return;
        }
        self.names_asked = Some(now);
        let mut seeds = self.seeds.clone();
        let dns_seeds = if self.options.asks_dns_seeds() { self.network.dns_seeds } else { &[] };
        for seed in dns_seeds {
            let name = seed.trim_end_matches('.');
            if self.options.proxies.names.is_some() {
                // The proxy resolves names, so one of the seed's peers is asked for others.
                let Ok(target) = Target::parse(name, self.network.port) else { continue };
                seeds.push(target);
                continue;
            }
            let name = format!("{DNS_PREFIX}{seed}");
            let Ok(target) = Target::parse(&name, self.network.port) else { continue };
            let how = Arc::clone(&self.how);
            threads::spawn_free("apus-dns".to_string(), move || {
                let found = how.routes.resolve(&target).unwrap_or_default();
                tracing::debug!(target: "net", name, addresses = found.len(), "asked a DNS seed");
                let _ = how.events.send(Event::Resolved(name, found));
            });
        }
        self.asked.ask(seeds);
    }

    /// Connects to peers that are asked for addresses alone, few at a time.
    fn dial_seeds(&mut self) {
        let is_seed = |role: &&Role| matches!(role, Role::Seed(_));
        while let Some(target) = self.asked.next(self.roles.0.values().filter(is_seed).count()) {
            self.dial(Role::Seed(target.clone()), target, true);
        }
    }

    /// Returns the peers that were asked for addresses long ago.
    pub fn old_seeds(&self, now: Duration) -> Vec<PeerId> {
        self.asked.old(now)
    }

    /// Adds addresses that a DNS seed returned to the address book.
    pub fn resolved(&mut self, seed: &str, found: &[SocketAddr], unix_time: i64) {
        let address = |address: &SocketAddr| NetAddress {
            time: unix_time as u32,
            services: NEEDED,
            host: Host::from(address.ip()),
            port: address.port(),
        };
        let found: Vec<_> = found.iter().take(DNS_ADDRESSES_MAX).map(address).collect();
        self.book.add(&found, Group::named(seed), unix_time);
    }

    /// Adds addresses that a peer sent to the address book.
    pub fn heard(&mut self, from: PeerId, list: &[NetAddress], unix_time: i64) {
        let Some(source) = self.roles.0.get(&from).map(Role::group) else { return };
        let new = self.book.add(list, source, unix_time);
        tracing::debug!(target: "net", from = from.0, addresses = list.len(), new, "addresses");
    }

    /// Records that a connection is no longer being opened.
    pub fn opened(&mut self, id: PeerId) {
        if self.connection_type(id) != ConnectionType::Inbound && !self.is_seed(id) {
            self.dialing -= 1;
        }
    }

    /// Records that a connection could not be opened. Returns it if it will be tried again.
    pub fn failed(&mut self, id: PeerId, now: Duration) -> Option<FailedManual> {
        self.opened(id);
        let role = self.roles.0.remove(&id);
        match role {
            Some(Role::Manual(at, _) | Role::Local(at, _)) => {
                let (is_first, wait) = self.retry(at, now);
                let place = match role {
                    Some(Role::Local(..)) => ", found on the local network",
                    _ => "",
                };
                let name = format!("{}{place}", self.manual[at].target);
                Some(FailedManual { name, is_first, wait })
            }
            Some(Role::Automatic(_)) => {
                // While we are offline each attempt fails at once.
                self.next_search = self.next_search.max(now + SEARCH_EVERY);
                None
            }
            _ => None,
        }
    }

    /// Has a peer of the list be tried again. Returns whether no attempt had failed before, and the
    /// time until then.
    fn retry(&mut self, at: usize, now: Duration) -> (bool, Duration) {
        let manual = &mut self.manual[at];
        let wait = manual.wait;
        (manual.is_tried, manual.next) = (false, now + wait);
        manual.wait = (wait * 2).min(RETRY_MAX);
        (wait == RETRY_FIRST, wait)
    }

    /// Records that the handshake with a peer is complete.
    pub fn worked(&mut self, id: PeerId, services: Services, now: Duration, unix_time: i64) {
        match self.roles.0.get_mut(&id) {
            Some(Role::Automatic(Automatic { place, since, .. })) => {
                *since = Some(now);
                self.book.worked(place, services, unix_time);
            }
            Some(Role::Feeler(place)) => self.book.worked(place, services, unix_time),
            Some(Role::Seed(_)) => self.asked.worked(id, now),
            Some(Role::Manual(at, _) | Role::Local(at, _)) => {
                self.manual[*at].wait = RETRY_FIRST;
            }
            _ => {}
        }
    }

    /// Records that a connection was closed.
    pub fn closed(&mut self, id: PeerId, closing: Closing, speed: Option<u64>, now: Duration) {
        self.asked.closed(id);
        match self.roles.remove(id) {
            Some(Role::Manual(at, _) | Role::Local(at, _)) => {
                let manual = &mut self.manual[at];
                let wait = match closing {
                    Closing::Lost => manual.wait,
                    Closing::Silent => RETRY_MAX,
                    Closing::Dropped => RETRY_DROPPED,
                };
                (manual.is_tried, manual.next) = (false, now + wait);
                manual.wait = (manual.wait * 2).min(RETRY_MAX);
            }
            Some(Role::Automatic(Automatic { place, .. })) => {
                if let Some(speed) = speed {
                    self.book.speed(&place, speed);
                }
                if closing != Closing::Lost {
                    self.book.avoid(&place, unix_time());
                }
            }
            _ => {}
        }
    }

    /// Records the bytes a second that the peer sends.
    pub fn note_speed(&mut self, id: PeerId, speed: u64) {
        if let Some(Role::Automatic(Automatic { place, .. })) = self.roles.0.get(&id) {
            self.book.speed(place, speed);
        }
    }

    /// Returns whether there is no room for another connection that a peer opens to us.
    pub fn is_full(&self) -> bool {
        let inbound_max = self.options.maxconnections.saturating_sub(OUTBOUND_MAX + EXTRA_MAX);
        self.roles.inbound_count() >= inbound_max
    }

    /// Accepts a connection that a peer opened to us, if there is room for it.
    pub fn accept(&mut self, (stream, address): (TcpStream, SocketAddr), now: Duration) {
        if self.is_full() {
            return;
        }
        let id = self.new_id();
        let socket = Arc::new(Socket::inbound(stream, &self.how.budget));
        if link::accept(id, Arc::clone(&socket), &self.how) {
            let group = self.groups.of(address.ip());
            let inbound = Inbound { address, socket, group, connected: now, last_block: None };
            self.roles.0.insert(id, Role::Inbound(inbound));
        }
    }

    /// Writes the address book to its file; with `is_last` also the peers to connect to first after
    /// a restart: the two that were chosen without regard to speed and stayed the longest.
    ///
    /// # Errors
    /// The disk fails.
    pub fn save(&self, is_last: bool) -> Result<(), StoreError> {
        let anchors = self.roles.anchors(if is_last { ANCHORS_MAX } else { 0 });
        if self.book.is_empty() && anchors.is_empty() { Ok(()) } else { self.write(&anchors) }
    }

    fn write(&self, anchors: &[Place]) -> Result<(), StoreError> {
        self.disk.write_atomically(&self.file, self.book.to_text(anchors).as_bytes())
    }
}

#[cfg(test)]
mod tests;
