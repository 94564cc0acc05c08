//! The address book of peers: known addresses, and the results of connecting to them (Core's
//! `AddrMan`, with fewer tables). A pure function of its inputs and the time, in seconds since
//! 1970.
//!
//! An attacker who sends many addresses must not fill the book with his own: it holds at most
//! [`FROM_GROUP_MAX`] of those that came from one part of the network and were never connected to,
//! and no two connections go to the same part.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use apus_wire::message::{Host, NetAddress, Services};

/// The most addresses in the book.
const ADDRESSES_MAX: usize = 20_000;
/// The most addresses from one part of the network that were never connected to.
const FROM_GROUP_MAX: usize = 1_000;
/// Seconds after which an address that was not seen again is useless (Core's `ADDRMAN_HORIZON`).
const HORIZON: i64 = 30 * 24 * 60 * 60;
/// Failures after which an address that never worked is useless (Core's `ADDRMAN_RETRIES`).
const FAILURES_NEW_MAX: u32 = 3;
/// Failures after which an address that has not worked for [`FAILING_TIME`] is useless (Core's
/// `ADDRMAN_MAX_FAILURES`).
const FAILURES_MAX: u32 = 10;
/// Core's `ADDRMAN_MIN_FAIL`, in seconds.
const FAILING_TIME: i64 = 7 * 24 * 60 * 60;
/// Seconds from one attempt to the next.
const RETRY_TIME: i64 = 10 * 60;
/// Seconds that the time when an address was seen may lie in the future.
const FUTURE_MAX: i64 = 10 * 60;
/// The first line of a file of addresses.
const FIRST_LINE: &str = "apus peers 1";

/// The host and port of a peer.
pub type Place = (Host, u16);

/// The address book of peers.
#[derive(Default)]
pub struct Addresses {
    known: BTreeMap<Place, Known>,
    /// Number of addresses that were never connected to, by the part of the network that they came
    /// from.
    from_group: BTreeMap<Group, usize>,
}

/// What is known about an address.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    services: Services,
    /// When the address was last seen.
    seen: i64,
    tried: i64,
    /// When a connection to it last worked; 0 for never.
    worked: i64,
    /// Failures since then.
    failures: u32,
    /// Bytes a second that the peer sent last time.
    speed: u64,
    /// The part of the network that the address came from.
    source: Group,
}

/// A part of the network that one party probably controls (Core's `GetGroup`): 16 bits of an IPv4
/// address, 32 of an IPv6 address, four of the key of an onion service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Group([u8; 5]);

impl Group {
    /// Returns the part that `host` is in.
    pub fn of(host: &Host) -> Self {
        match host {
            Host::Ipv4(ip) => {
                let [a, b, ..] = ip.octets();
                Self([1, a, b, 0, 0])
            }
            Host::Ipv6(ip) => {
                let [a, b, c, d, ..] = ip.octets();
                Self([2, a, b, c, d])
            }
            Host::TorV3(key) => Self([3, key[0] & 0xf0, 0, 0, 0]),
        }
    }
}

impl Known {
    /// Returns whether the address is useless (Core's `IsTerrible`).
    fn is_terrible(&self, now: i64) -> bool {
        // An address that was just tried may still work.
        if now - self.tried <= 60 {
            return false;
        }
        self.seen > now + FUTURE_MAX
            || now - self.seen > HORIZON
            || (self.worked == 0 && self.failures >= FAILURES_NEW_MAX)
            || (now - self.worked > FAILING_TIME && self.failures >= FAILURES_MAX)
    }
}

impl Addresses {
    /// Returns the number of addresses.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns whether there are no addresses.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Adds addresses that `source` sent or, without one, DNS or the user gave. Skips useless ones.
    /// Returns how many were new.
    pub fn add(&mut self, list: &[NetAddress], source: Option<Host>, now: i64) -> usize {
        let source = source.as_ref().map_or(Group::default(), Group::of);
        let before = self.known.len();
        for address in list.iter().filter(|address| is_routable(&address.host)) {
            let place = (address.host, address.port);
            // The clocks of others may be wrong, and they may lie about what they have just seen.
            let seen = i64::from(address.time).min(now);
            if let Some(known) = self.known.get_mut(&place) {
                known.seen = known.seen.max(seen);
                known.services = known.services.with(address.services);
                continue;
            }
            let count = self.from_group.entry(source).or_default();
            // Addresses that the user or DNS gave are not limited: an attacker cannot add many of
            // them.
            if source != Group::default() && *count >= FROM_GROUP_MAX {
                continue;
            }
            let services = address.services;
            let known =
                Known { services, seen, tried: 0, worked: 0, failures: 0, speed: 0, source };
            if known.is_terrible(now) {
                continue;
            }
            *count += 1;
            self.known.insert(place, known);
            if self.known.len() > ADDRESSES_MAX {
                self.forget_worst(now);
            }
        }
        self.known.len().saturating_sub(before)
    }

    /// Removes a twentieth of all addresses: useless ones first, then those that never worked and
    /// were seen longest ago.
    fn forget_worst(&mut self, now: i64) {
        let rank = |known: &Known| (!known.is_terrible(now), known.worked != 0, known.seen);
        let mut ranked: Vec<_> =
            self.known.iter().map(|(place, known)| (rank(known), *place)).collect();
        ranked.sort_unstable();
        for (_, place) in &ranked[..ranked.len() / 20] {
            self.forget(place);
        }
    }

    fn forget(&mut self, place: &Place) {
        if let Some(known) = self.known.remove(place)
            && known.worked == 0
        {
            self.count_down(known.source);
        }
    }

    fn count_down(&mut self, source: Group) {
        if let Some(count) = self.from_group.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.from_group.remove(&source);
            }
        }
    }

    /// Returns whether the peer at `place` is said to offer `services`.
    pub fn offers(&self, place: &Place, services: Services) -> bool {
        self.known.get(place).is_some_and(|known| known.services.has(services))
    }

    /// Records an attempt to connect to `place`.
    pub fn tried(&mut self, place: &Place, now: i64) {
        if let Some(known) = self.known.get_mut(place) {
            known.tried = now;
            known.failures += 1;
        }
    }

    /// Records that a handshake with the peer at `place` is complete.
    pub fn worked(&mut self, place: &Place, services: Services, now: i64) {
        let Some(known) = self.known.get_mut(place) else { return };
        let was_new = known.worked == 0;
        let source = known.source;
        (known.worked, known.seen, known.failures) = (now, now, 0);
        known.services = services;
        if was_new {
            self.count_down(source);
        }
    }

    /// Records how many bytes a second the peer at `place` sends.
    pub fn speed(&mut self, place: &Place, speed: u64) {
        if let Some(known) = self.known.get_mut(place) {
            known.speed = speed;
        }
    }

    /// Returns the next peer to connect to: one that is in a part of the network without a peer of
    /// `connected`, offers the services needed, and is allowed by the user. Every other time this
    /// is one that has worked, the fastest first. `random` is random.
    pub fn next(
        &self,
        needs: Services,
        connected: &[Host],
        may_connect_to: impl Fn(&Host) -> bool,
        now: i64,
        random: u64,
    ) -> Option<Place> {
        let taken: BTreeSet<Group> = connected.iter().map(Group::of).collect();
        let usable = self.known.iter().filter(|((host, _), known)| {
            !taken.contains(&Group::of(host))
                && may_connect_to(host)
                && known.services.has(needs)
                && now - known.tried >= RETRY_TIME
                && !known.is_terrible(now)
        });
        let (proven, new): (Vec<_>, Vec<_>) = usable.partition(|(_, known)| known.worked != 0);
        let fastest = proven.iter().max_by_key(|(_, known)| known.speed).map(|(place, _)| **place);
        let any = match new.len() {
            0 => None,
            count => Some(*new[(random >> 1) as usize % count].0),
        };
        match random & 1 {
            0 => fastest.or(any),
            _ => any.or(fastest),
        }
    }

    /// Returns the addresses as a text, one a line.
    pub fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for ((host, port), known) in &self.known {
            let Known { services, seen, worked, failures, speed, .. } = known;
            let host = host_text(host);
            let _ =
                writeln!(text, "{host} {port} {:x} {seen} {worked} {failures} {speed}", services.0);
        }
        text
    }

    /// Adds the addresses from a text of [`Addresses::to_text`]. Skips damaged lines, since no
    /// address is indispensable. Returns `None` if the text has another format.
    pub fn read(&mut self, text: &str, now: i64) -> Option<()> {
        let mut lines = text.lines();
        lines.next().filter(|first| *first == FIRST_LINE)?;
        for (place, known) in lines.filter_map(parse_line) {
            if self.known.len() >= ADDRESSES_MAX {
                break;
            }
            if is_routable(&place.0) && !known.is_terrible(now) && !self.known.contains_key(&place)
            {
                if known.worked == 0 {
                    *self.from_group.entry(known.source).or_default() += 1;
                }
                self.known.insert(place, known);
            }
        }
        Some(())
    }
}

fn parse_line(line: &str) -> Option<(Place, Known)> {
    let fields: Vec<&str> = line.split(' ').collect();
    let [host, port, services, seen, worked, failures, speed] = fields[..] else { return None };
    let known = Known {
        services: Services(u64::from_str_radix(services, 16).ok()?),
        seen: seen.parse().ok()?,
        tried: 0,
        worked: worked.parse().ok()?,
        failures: failures.parse().ok()?,
        speed: speed.parse().ok()?,
        source: Group::default(),
    };
    Some(((parse_host(host)?, port.parse().ok()?), known))
}

fn host_text(host: &Host) -> String {
    match host {
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => ip.to_string(),
        Host::TorV3(key) => key.iter().fold("tor:".to_string(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
    }
}

fn parse_host(text: &str) -> Option<Host> {
    let Some(key) = text.strip_prefix("tor:") else {
        return text.parse::<IpAddr>().ok().map(Host::from);
    };
    let is_hex = key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = |at: usize| u8::from_str_radix(&key[2 * at..2 * at + 2], 16).unwrap_or(0);
    is_hex.then(|| Host::TorV3(std::array::from_fn(byte)))
}

/// Returns whether a host may be reachable on the internet (Core's `IsRoutable`).
fn is_routable(host: &Host) -> bool {
    match host {
        Host::Ipv4(ip) => is_routable_v4(ip),
        Host::Ipv6(ip) => is_routable_v6(ip),
        Host::TorV3(_) => true,
    }
}

fn is_routable_v4(ip: &Ipv4Addr) -> bool {
    let [a, b, ..] = ip.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    !(ip.is_unspecified()
        || a == 0
        || ip.is_broadcast()
        || ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_documentation()
        || is_shared
        || is_benchmark)
}

fn is_routable_v6(ip: &Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    let is_documentation = a == 0x2001 && b == 0xdb8;
    let is_link_local = a & 0xffc0 == 0xfe80;
    let is_unique_local = a & 0xfe00 == 0xfc00;
    // ORCHID and ORCHIDv2 (RFC 4843, RFC 7343).
    let is_orchid = a == 0x2001 && (b & 0xfff0 == 0x10 || b & 0xfff0 == 0x20);
    !(ip.is_unspecified()
        || ip.is_loopback()
        || is_documentation
        || is_link_local
        || is_unique_local
        || is_orchid)
}
