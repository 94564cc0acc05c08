//! Chooses the peers to connect to: those that the user names, and those of the address book, which
//! DNS seeds and other peers fill.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apus_disk::{Disk, StoreError};
use apus_net::{Addresses, ConnectionType, NetKind, PeerId, PeerOptions, Place, Target};
use apus_node::clock::unix_time;
use apus_node::threads;
use apus_wire::Network;
use apus_wire::message::{Host, NetAddress, Services};

use super::link::{self, Dialing, Event};
use super::random::random;

/// The most connections that we open by ourselves: as many as Core, which opens 8 for everything
/// and 2 for blocks alone.
pub(super) const OUTBOUND_MAX: usize = 10;
/// We open no further connections by ourselves while this many are being opened.
const DIALING_MAX: usize = 8;
/// The time after which a connection that the user asked for is tried again, if it cannot be
/// opened; it doubles each time.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest time after which a connection that the user asked for is tried again.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// The time after which a peer that the user asked for is tried again after we dropped it.
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

/// What peers that we choose must offer: all blocks, with witnesses.
pub(super) const NEEDED: Services = Services::NETWORK.with(Services::WITNESS);

/// The file with addresses of peers, next to Core's `peers.dat`.
pub const FILE: &str = "apus-peers.txt";

/// A connection that the user asked for, and that could not be opened.
pub(super) struct FailedManual {
    /// The host and port of the peer.
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
    manual: Vec<Manual>,
    /// Peers that are asked for addresses alone.
    seeds: Vec<Target>,
    roles: BTreeMap<PeerId, Role>,
    /// Number of connections that are being opened.
    dialing: usize,
    names_asked: Option<Duration>,
    next_id: u64,
}

/// A peer that the user asked for.
struct Manual {
    target: Target,
    is_tried: bool,
    next: Duration,
    wait: Duration,
}

/// Why there is a connection.
enum Role {
    /// The user asked for it. The index into [`Dialer::manual`].
    Manual(usize),
    /// It was chosen from the address book.
    Automatic(Place),
    /// The peer is asked for addresses alone.
    Seed(Target),
    /// The peer opened it.
    Inbound(String),
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
        let mut book = Addresses::default();
        if let Some(text) = disk.read(&file)? {
            // The addresses can be found again: a file with other text counts as empty.
            let _ = book.read(&String::from_utf8_lossy(&text), unix_time);
        }
        let manual = |target: &Target| Manual {
            target: target.clone(),
            is_tried: false,
            next: Duration::ZERO,
            wait: RETRY_FIRST,
        };
        Ok(Self {
            how,
            network: network.clone(),
            book,
            disk: disk.clone(),
            file,
            manual: options.connect.iter().chain(&options.addnode).map(manual).collect(),
            seeds: options.seednode.iter().filter(|t| options.reaches_host(t)).cloned().collect(),
            roles: BTreeMap::new(),
            dialing: 0,
            names_asked: None,
            next_id: 1,
            options: options.clone(),
        })
    }

    /// Returns the address of a peer as messages show it.
    pub fn name_of(&self, id: PeerId) -> String {
        match self.roles.get(&id) {
            Some(Role::Manual(at)) => self.manual[*at].target.to_string(),
            Some(Role::Automatic(place)) => Target::from(*place).to_string(),
            Some(Role::Seed(target)) => target.to_string(),
            Some(Role::Inbound(name)) => name.clone(),
            None => format!("peer {}", id.0),
        }
    }

    /// Returns whether the peer is asked for addresses alone.
    pub fn is_seed(&self, id: PeerId) -> bool {
        matches!(self.roles.get(&id), Some(Role::Seed(_)))
    }

    /// Returns why there is a connection to the peer.
    pub fn connection_type(&self, id: PeerId) -> ConnectionType {
        match self.roles.get(&id) {
            Some(Role::Inbound(_)) => ConnectionType::Inbound,
            Some(Role::Manual(_)) => ConnectionType::Manual,
            Some(Role::Automatic(_) | Role::Seed(_)) | None => ConnectionType::Automatic,
        }
    }

    /// Returns whether a connection is being opened.
    pub fn is_dialing(&self) -> bool {
        self.dialing > 0
    }

    /// Opens the connections that are due. `ready` peers have completed the handshake.
    pub fn dial_more(&mut self, now: Duration, ready: usize, unix_time: i64) {
        for at in 0..self.manual.len() {
            let manual = &mut self.manual[at];
            if !manual.is_tried && now >= manual.next {
                manual.is_tried = true;
                let target = manual.target.clone();
                self.dial(Role::Manual(at), target, true);
            }
        }
        if !self.options.connect.is_empty() {
            return;
        }
        self.ask_seeds(now, ready);
        let outbound_max = OUTBOUND_MAX.min(self.options.maxconnections);
        while self.outbound() < outbound_max && self.dialing < DIALING_MAX {
            let Some(place) = self.next_place(unix_time) else { break };
            self.book.tried(&place, unix_time);
            // Peers named by the user and seeds are always tried with v2, as in Core: nothing is
            // known about them.
            let v2 = self.book.offers(&place, Services::P2P_V2);
            self.dial(Role::Automatic(place), Target::from(place), v2);
        }
    }

    /// Returns the number of connections that we opened, or are opening, by ourselves.
    fn outbound(&self) -> usize {
        self.roles.values().filter(|role| matches!(role, Role::Automatic(_))).count()
    }

    fn next_place(&self, unix_time: i64) -> Option<Place> {
        let connected: Vec<Host> = self
            .roles
            .values()
            .filter_map(|role| match role {
                Role::Automatic((host, _)) => Some(*host),
                Role::Manual(at) => Some(self.manual[*at].target.place()?.0),
                Role::Seed(_) | Role::Inbound(_) => None,
            })
            .collect();
        let usable = |host: &Host| self.options.reaches(NetKind::of(host));
        self.book.next(NEEDED, &connected, usable, unix_time, random())
    }

    /// Opens a connection, with the v2 transport first if the peer may speak it.
    fn dial(&mut self, role: Role, target: Target, v2: bool) {
        let id = self.new_id();
        tracing::debug!(target: "net", %target, id = id.0, "connecting");
        // The user may name a peer of any network.
        let nets = match role {
            Role::Manual(_) => Vec::new(),
            _ => self.options.onlynet.clone(),
        };
        self.roles.insert(id, role);
        self.dialing += 1;
        link::dial(id, target, v2 && self.how.v2, nets, &self.how);
    }

    fn new_id(&mut self) -> PeerId {
        self.next_id += 1;
        PeerId(self.next_id)
    }

    /// Asks DNS seeds and the nodes of `--seednode` for addresses, if there are too few peers.
    fn ask_seeds(&mut self, now: Duration, ready: usize) {
        let has_few = ready < DNS_PEERS && (self.book.is_empty() || now > DNS_DELAY);
        let is_time = self.names_asked.is_none_or(|asked| now > asked + DNS_EVERY);
        if !has_few || !is_time {
            return;
        }
        self.names_asked = Some(now);
        for target in self.seeds.clone() {
            self.dial(Role::Seed(target.clone()), target, true);
        }
        if !self.options.asks_dns_seeds() {
            return;
        }
        for seed in self.network.dns_seeds {
            let name = seed.trim_end_matches('.');
            if self.options.proxy.is_some() {
                // The proxy resolves names, so one of the seed's peers is asked for others.
                let Ok(target) = Target::parse(name, self.network.port) else { continue };
                self.dial(Role::Seed(target.clone()), target, true);
                continue;
            }
            let name = format!("{DNS_PREFIX}{seed}");
            let Ok(target) = Target::parse(&name, self.network.port) else { continue };
            let how = Arc::clone(&self.how);
            threads::spawn_free("apus-dns".to_string(), move || {
                let found = how.routes.resolve(&target).unwrap_or_default();
                tracing::debug!(target: "net", name, addresses = found.len(), "asked a DNS seed");
                let _ = how.events.send(Event::Resolved(found));
            });
        }
    }

    /// Adds addresses that a DNS seed returned to the address book.
    pub fn resolved(&mut self, found: &[SocketAddr], unix_time: i64) {
        let address = |address: &SocketAddr| NetAddress {
            time: unix_time as u32,
            services: NEEDED,
            host: Host::from(address.ip()),
            port: address.port(),
        };
        let found: Vec<_> = found.iter().take(DNS_ADDRESSES_MAX).map(address).collect();
        self.book.add(&found, None, unix_time);
    }

    /// Adds addresses that a peer sent to the address book.
    pub fn heard(&mut self, from: PeerId, list: &[NetAddress], unix_time: i64) {
        let source = match self.roles.get(&from) {
            Some(Role::Automatic((host, _))) => Some(*host),
            Some(Role::Manual(at)) => self.manual[*at].target.place().map(|(host, _)| host),
            Some(Role::Seed(target)) => target.place().map(|(host, _)| host),
            Some(Role::Inbound(address)) => address.parse().ok().map(|a: SocketAddr| a.ip().into()),
            None => None,
        };
        let new = self.book.add(list, source, unix_time);
        tracing::debug!(target: "net", from = from.0, addresses = list.len(), new, "addresses");
    }

    /// Records that a connection is no longer being opened.
    pub fn opened(&mut self, id: PeerId) {
        if self.connection_type(id) != ConnectionType::Inbound {
            self.dialing -= 1;
        }
    }

    /// Records that a connection could not be opened. Returns it if the user asked for it.
    pub fn failed(&mut self, id: PeerId, now: Duration) -> Option<FailedManual> {
        self.opened(id);
        match self.roles.remove(&id) {
            Some(Role::Manual(at)) => {
                let manual = &mut self.manual[at];
                let (is_first, wait) = (manual.wait == RETRY_FIRST, manual.wait);
                (manual.is_tried, manual.next) = (false, now + wait);
                manual.wait = (wait * 2).min(RETRY_MAX);
                Some(FailedManual { name: manual.target.to_string(), is_first, wait })
            }
            _ => None,
        }
    }

    /// Records that the handshake with a peer is complete.
    pub fn worked(&mut self, id: PeerId, services: Services, unix_time: i64) {
        match self.roles.get(&id) {
            Some(Role::Automatic(place)) => self.book.worked(place, services, unix_time),
            Some(Role::Manual(at)) => self.manual[*at].wait = RETRY_FIRST,
            _ => {}
        }
    }

    /// Records that a connection was closed, by us if `was_dropped`.
    pub fn closed(&mut self, id: PeerId, was_dropped: bool, speed: Option<u64>, now: Duration) {
        match self.roles.remove(&id) {
            Some(Role::Manual(at)) => {
                let manual = &mut self.manual[at];
                let wait = if was_dropped { RETRY_DROPPED } else { manual.wait };
                (manual.is_tried, manual.next) = (false, now + wait);
                manual.wait = (manual.wait * 2).min(RETRY_MAX);
            }
            Some(Role::Automatic(place)) => {
                if let Some(speed) = speed {
                    self.book.speed(&place, speed);
                }
                if was_dropped {
                    self.book.tried(&place, unix_time());
                }
            }
            _ => {}
        }
    }

    /// Records the bytes a second that the peer sends.
    pub fn note_speed(&mut self, id: PeerId, speed: u64) {
        if let Some(Role::Automatic(place)) = self.roles.get(&id) {
            self.book.speed(place, speed);
        }
    }

    /// Accepts a connection that a peer opened to us, if there is room for it.
    pub fn accept(&mut self, stream: TcpStream) {
        let inbound = self.roles.values().filter(|role| matches!(role, Role::Inbound(_))).count();
        if inbound >= self.options.maxconnections.saturating_sub(OUTBOUND_MAX) {
            return;
        }
        let name = stream.peer_addr().map_or("?".to_string(), |address| address.to_string());
        let id = self.new_id();
        self.roles.insert(id, Role::Inbound(name));
        link::accept(id, stream, &self.how);
    }

    /// Writes the address book to its file.
    ///
    /// # Errors
    /// The disk fails.
    pub fn save(&self) -> Result<(), StoreError> {
        if self.book.is_empty() {
            return Ok(());
        }
        self.disk.write_atomically(&self.file, self.book.to_text().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use apus_wire::Chain;
    use crossbeam_channel::unbounded;

    use super::*;
    use crate::limiter::Limiter;
    use crate::route::{Routes, system_resolver};

    const NOW: i64 = 1_700_000_000;

    /// Returns a dialer with these peers, none of which is connected.
    fn dialer(roles: impl IntoIterator<Item = Role>) -> Dialer {
        let network = Network::new(Chain::Main);
        let how = Dialing {
            magic: network.magic,
            routes: Routes {
                proxy: None,
                onion: None,
                timeout: Duration::from_secs(1),
                resolver: Box::new(system_resolver),
            },
            v2: false,
            limiter: Limiter::new(None).into(),
            events: unbounded().0,
        };
        let options = PeerOptions::new(network.port);
        let file = (&Disk::new(), PathBuf::from("/nowhere/peers.txt"));
        let mut dialer = Dialer::new(Arc::new(how), &network, &options, file, NOW).unwrap();
        dialer.roles = roles.into_iter().enumerate().map(|(n, role)| (id(n), role)).collect();
        dialer
    }

    fn id(number: usize) -> PeerId {
        PeerId(number as u64)
    }

    /// Returns `count` addresses, different ones for each `number`.
    fn addresses(number: u32, count: u32) -> Vec<IpAddr> {
        let at = |index| IpAddr::V4(Ipv4Addr::from(0x0800_0000 + 10_000 * number + index));
        (0..count).map(at).collect()
    }

    fn list(number: u32, count: u32) -> Vec<NetAddress> {
        let address =
            |ip| NetAddress { time: NOW as u32, services: NEEDED, host: Host::from(ip), port: 1 };
        addresses(number, count).into_iter().map(address).collect()
    }

    #[test]
    fn a_dns_seed_names_few() {
        let mut dialer = dialer([]);
        for number in 0..3 {
            let found = addresses(number, 1000).into_iter().map(|ip| SocketAddr::new(ip, 8333));
            dialer.resolved(&found.collect::<Vec<_>>(), NOW);
            assert_eq!(dialer.book.len(), DNS_ADDRESSES_MAX * (number as usize + 1));
        }
    }

    /// Whatever the kind of connection, the addresses that a peer sends count for its part of the
    /// network.
    #[test]
    fn no_part_of_the_network_fills_the_book() {
        let target = |text| Target::parse(text, 8333).unwrap();
        let place = (Host::from(IpAddr::from([9, 2, 1, 1])), 8333);
        let mut dialer = dialer([
            Role::Automatic(place),
            Role::Inbound("9.3.1.1:50000".to_string()),
            Role::Inbound("9.3.2.2:50000".to_string()),
            Role::Inbound("[2600::1]:50000".to_string()),
            Role::Seed(target("9.4.1.1")),
        ]);
        let mut last = 0;
        for (number, new) in [1000, 1000, 0, 1000, 1000].into_iter().enumerate() {
            dialer.heard(id(number), &list(number as u32, 1500), NOW);
            assert_eq!(dialer.book.len() - last, new, "{}", dialer.name_of(id(number)));
            last = dialer.book.len();
        }
    }
}
