//! The address book of peers: known addresses, and the results of connecting to them (Core's
//! `AddrMan`). A pure function of its inputs and the time, in seconds since 1970.
//!
//! An attacker who sends many addresses must not fill the book with his own, nor displace those of
//! others. So there are two tables, as in Core: `tried` for addresses that a handshake was
//! completed with, and `new` for the others. A secret key decides where an address belongs.
//!
//! - An address is put into `new` only where no other is, unless that one is useless. What one part
//!   of the network sends has room in a sixteenth of the table.
//! - An address in `tried` gives way to another one that works only after a connection to it has
//!   failed.
//! - Every other choice is of `tried`, and a choice is of a random bucket, so that addresses gain
//!   nothing by their number.

use std::collections::{BTreeMap, BTreeSet};

use apus_hash::HashKey;
use apus_wire::message::{Host, NetAddress, Services};

use super::bad_ports::is_bad_port;
use super::buckets::{BUCKET_SIZE, Buckets, Slot};
use super::group::{Group, Place, is_routable};
use super::peer_options::NetKind;
use super::random::Random;

/// Core's `ADDRMAN_NEW_BUCKET_COUNT`.
const NEW_BUCKETS: u64 = 1024;
/// Core's `ADDRMAN_TRIED_BUCKET_COUNT`.
const TRIED_BUCKETS: u64 = 256;
/// Buckets of `new` for the addresses that come from one part of the network (Core's
/// `ADDRMAN_NEW_BUCKETS_PER_SOURCE_GROUP`).
const NEW_BUCKETS_PER_SOURCE: u64 = 64;
/// Buckets of `tried` for the addresses in one part of the network (Core's
/// `ADDRMAN_TRIED_BUCKETS_PER_GROUP`).
const TRIED_BUCKETS_PER_GROUP: u64 = 8;
/// Seconds after which an address that was not seen again is useless (Core's `ADDRMAN_HORIZON`).
const HORIZON: i64 = 30 * 24 * 60 * 60;
/// Failures after which an address that never worked is useless (Core's `ADDRMAN_RETRIES`).
const FAILURES_NEW_MAX: u32 = 3;
/// Failures after which an address that has not worked for [`FAILING_TIME`] is useless (Core's
/// `ADDRMAN_MAX_FAILURES`).
const FAILURES_MAX: u32 = 10;
/// Core's `ADDRMAN_MIN_FAIL`, in seconds.
const FAILING_TIME: i64 = 7 * 24 * 60 * 60;
/// Seconds for which an address is not replaced in `tried` after it has worked, and within which a
/// failed attempt counts against it (Core's `ADDRMAN_REPLACEMENT`).
const REPLACEMENT_TIME: i64 = 4 * 60 * 60;
/// Seconds in which a connection to an address of `tried` must have been attempted, once another
/// one wants its place (Core's `ADDRMAN_TEST_WINDOW`).
const TEST_TIME: i64 = 40 * 60;
/// The most addresses that wait for a place in `tried` (Core's
/// `ADDRMAN_SET_TRIED_COLLISION_SIZE`).
const WAITING_MAX: usize = 10;
/// Seconds that a connection may take to work.
const OPENING_TIME: i64 = 60;
/// Seconds from one attempt to the next.
const RETRY_TIME: i64 = 10 * 60;
/// The same while we may be offline.
const RETRY_TIME_OFFLINE: i64 = 30;
/// Seconds that the time when an address was seen may lie in the future.
const FUTURE_MAX: i64 = 10 * 60;
/// The most addresses that are looked at for one choice, as in Core.
const LOOKED_AT: usize = 100;
/// How many of them are looked at before one with the port of another service is taken, as in Core.
const LOOKED_AT_PORTS: usize = 50;

/// The address book of peers.
pub struct Addresses {
    /// Decides where an address belongs in the tables.
    pub(super) key: HashKey,
    pub(super) known: BTreeMap<Place, Known>,
    new: Buckets,
    tried: Buckets,
    /// Addresses that work and belong where `tried` has another one (Core's
    /// `m_tried_collisions`).
    waiting: BTreeSet<Place>,
    /// When a connection last worked.
    last_worked: i64,
}

/// An address and its history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    pub services: Services,
    /// When the address was last seen.
    pub seen: i64,
    /// When a connection to it was last attempted; 0 for never.
    pub attempted: i64,
    /// When an attempt last counted as a failure.
    pub counted: i64,
    /// When a connection to it last worked; 0 for never.
    pub worked: i64,
    /// Failures since then.
    pub failures: u32,
    /// Bytes a second that the peer sent last time.
    pub speed: u64,
    /// The part of the network that the address came from.
    pub source: Group,
    pub is_tried: bool,
    /// When it may be connected to again. It is not stored.
    pub avoid_until: i64,
}

/// The conditions on an address to connect to.
pub struct Needs<'a> {
    /// Services that the peer must be said to offer.
    pub services: Services,
    /// Whether there may be a connection to a host.
    pub may_connect_to: &'a dyn Fn(&Host) -> bool,
    /// The time in seconds since 1970.
    pub now: i64,
}

impl Known {
    /// Returns whether the address is useless (Core's `IsTerrible`).
    pub fn is_terrible(&self, now: i64) -> bool {
        // An address that was just tried may still work.
        if now.saturating_sub(self.attempted) <= OPENING_TIME {
            return false;
        }
        self.seen > now + FUTURE_MAX
            || now.saturating_sub(self.seen) > HORIZON
            || (self.worked == 0 && self.failures >= FAILURES_NEW_MAX)
            || (now.saturating_sub(self.worked) > FAILING_TIME && self.failures >= FAILURES_MAX)
    }

    /// Returns the probability that the address is taken if it comes up (Core's `GetChance`).
    fn chance(&self) -> f64 {
        0.66f64.powi(self.failures.min(8) as i32)
    }
}

impl Addresses {
    /// Creates an empty book.
    pub fn new(key: HashKey) -> Self {
        Self {
            key,
            known: BTreeMap::new(),
            new: Buckets::new(NEW_BUCKETS as usize),
            tried: Buckets::new(TRIED_BUCKETS as usize),
            waiting: BTreeSet::new(),
            last_worked: 1,
        }
    }

    /// Returns the number of addresses.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns whether there are no addresses.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns how many addresses are in `new` and in `tried`: of IPv4, IPv6 and onion services.
    pub fn counts(&self) -> [[u64; 2]; 3] {
        let mut counts = [[0; 2]; 3];
        for ((host, _), known) in &self.known {
            counts[NetKind::of(host) as usize][usize::from(known.is_tried)] += 1;
        }
        counts
    }

    /// Returns whether there is an address of a host like this.
    pub fn has_any(&self, mut is_one: impl FnMut(&Host) -> bool) -> bool {
        self.known.keys().any(|(host, _)| is_one(host))
    }

    /// Adds addresses that a peer in `source`, a DNS seed or the user gave. Skips useless ones, and
    /// those for which there is no room. Returns how many were new.
    pub fn add(&mut self, list: &[NetAddress], source: Group, now: i64) -> usize {
        let before = self.known.len();
        for address in list {
            let place = (address.host, address.port);
            // The clocks of others may be wrong, and they may lie about what they have just seen.
            let seen = i64::from(address.time).min(now);
            if let Some(known) = self.known.get_mut(&place) {
                known.seen = known.seen.max(seen);
                known.services = known.services.with(address.services);
                continue;
            }
            let known = Known {
                services: address.services,
                seen,
                attempted: 0,
                counted: 0,
                worked: 0,
                failures: 0,
                speed: 0,
                source,
                is_tried: false,
                avoid_until: 0,
            };
            self.insert_new(place, known, now);
        }
        self.known.len().saturating_sub(before)
    }

    /// Puts an address into `new`, if its place is free or has a useless one.
    pub(super) fn insert_new(&mut self, place: Place, known: Known, now: i64) {
        if !is_routable(&place.0) || known.is_terrible(now) || self.known.contains_key(&place) {
            return;
        }
        let slot = self.new_slot(&place, known.source);
        if let Some(old) = self.new.get(slot) {
            if !self.known[&old].is_terrible(now) {
                return;
            }
            self.forget_new(&old);
        }
        self.new.put(slot, place);
        self.known.insert(place, Known { is_tried: false, ..known });
    }

    /// Puts an address that has worked into `tried` or, if another one is there, into `new`.
    pub(super) fn insert_tried(&mut self, place: Place, known: Known, now: i64) {
        if !is_routable(&place.0) || self.known.contains_key(&place) {
            return;
        }
        let slot = self.tried_slot(&place);
        match self.tried.get(slot) {
            Some(_) => self.insert_new(place, known, now),
            None => {
                self.tried.put(slot, place);
                self.known.insert(place, Known { is_tried: true, ..known });
            }
        }
    }

    fn forget_new(&mut self, place: &Place) {
        if let Some(known) = self.known.remove(place) {
            self.new.clear(self.new_slot(place, known.source));
            self.waiting.remove(place);
        }
    }

    /// Returns where an address from `source` belongs in `new` (Core's `GetNewBucket`).
    fn new_slot(&self, place: &Place, source: Group) -> Slot {
        let group = Group::of(&place.0);
        let source = source.as_bytes();
        let of_group = self.hash(b'g', &[group.as_bytes(), source]) % NEW_BUCKETS_PER_SOURCE;
        let bucket = self.hash(b'n', &[source, &of_group.to_le_bytes()]) % NEW_BUCKETS;
        let position = self.hash(b'N', &[&bucket.to_le_bytes(), &bytes_of(place)]) % BUCKET_SIZE;
        (bucket as u16, position as u8)
    }

    /// Returns where an address belongs in `tried` (Core's `GetTriedBucket`).
    fn tried_slot(&self, place: &Place) -> Slot {
        let group = Group::of(&place.0);
        let bytes = bytes_of(place);
        let of_group = self.hash(b'a', &[&bytes]) % TRIED_BUCKETS_PER_GROUP;
        let of_group = of_group.to_le_bytes();
        let bucket = self.hash(b't', &[group.as_bytes(), &of_group]) % TRIED_BUCKETS;
        let position = self.hash(b'T', &[&bucket.to_le_bytes(), &bytes]) % BUCKET_SIZE;
        (bucket as u16, position as u8)
    }

    fn hash(&self, what: u8, parts: &[&[u8]]) -> u64 {
        let hash = self.key.hash(&[&[what], parts.concat().as_slice()].concat());
        u64::from_le_bytes(hash[..8].try_into().expect("8 of 16 bytes"))
    }

    /// Returns the services that the peer at `place` is said to offer.
    pub fn services(&self, place: &Place) -> Services {
        self.known.get(place).map_or(Services::default(), |known| known.services)
    }

    /// Records an attempt to connect to `place`. It `counts` as a failure until it works; it should
    /// not if we may be offline. Unless a connection has worked since the last failure of this
    /// address, it is not counted again.
    pub fn attempted(&mut self, place: &Place, counts: bool, now: i64) {
        if let Some(known) = self.known.get_mut(place) {
            known.attempted = now;
            known.avoid_until = now + if counts { RETRY_TIME } else { RETRY_TIME_OFFLINE };
            if counts && known.counted < self.last_worked {
                known.counted = now;
                known.failures = known.failures.saturating_add(1);
            }
        }
    }

    /// Avoids the peer at `place` for a while, since we dropped it.
    pub fn avoid(&mut self, place: &Place, now: i64) {
        if let Some(known) = self.known.get_mut(place) {
            known.avoid_until = now + RETRY_TIME;
        }
    }

    /// Records that a handshake with the peer at `place` is complete. The address is put into
    /// `tried`, or waits until the one that is there fails.
    pub fn worked(&mut self, place: &Place, services: Services, now: i64) {
        self.last_worked = now;
        let Some(known) = self.known.get_mut(place) else { return };
        (known.worked, known.seen, known.attempted, known.failures) = (now, now, now, 0);
        known.avoid_until = now + RETRY_TIME;
        known.services = services;
        if known.is_tried {
            return;
        }
        match self.tried.get(self.tried_slot(place)) {
            None => self.make_tried(place),
            Some(_) if self.waiting.len() < WAITING_MAX => {
                self.waiting.insert(*place);
            }
            Some(_) => {}
        }
    }

    /// Moves an address from `new` to `tried`. The one that is there goes to `new`, where it
    /// displaces another one (Core's `MakeTried`).
    fn make_tried(&mut self, place: &Place) {
        let slot = self.tried_slot(place);
        let Some(source) = self.known.get(place).map(|known| known.source) else { return };
        self.new.clear(self.new_slot(place, source));
        if let Some(old) = self.tried.get(slot) {
            self.tried.clear(slot);
            let old_slot = self.new_slot(&old, self.known[&old].source);
            if let Some(displaced) = self.new.get(old_slot) {
                self.forget_new(&displaced);
            }
            self.new.put(old_slot, old);
            self.known.entry(old).and_modify(|known| known.is_tried = false);
        }
        self.tried.put(slot, *place);
        self.known.entry(*place).and_modify(|known| known.is_tried = true);
    }

    /// Gives those that wait for a place in `tried` theirs, if the address that is there has failed
    /// (Core's `ResolveCollisions`).
    pub fn resolve_waiting(&mut self, now: i64) {
        for place in self.waiting.clone() {
            let Some(waiting) = self.known.get(&place) else { continue };
            let old = self.tried.get(self.tried_slot(&place));
            let old = old.and_then(|old| self.known.get(&old));
            let is_due = match old {
                None => Some(true),
                Some(old) if now - old.worked < REPLACEMENT_TIME => Some(false),
                Some(old) if now - old.attempted < REPLACEMENT_TIME => {
                    (now - old.attempted > OPENING_TIME).then_some(true)
                }
                Some(_) => (now - waiting.worked > TEST_TIME).then_some(true),
            };
            if let Some(is_replaced) = is_due {
                self.waiting.remove(&place);
                if is_replaced {
                    self.make_tried(&place);
                }
            }
        }
    }

    /// Returns an address of `tried` whose place another one waits for, to be tested (Core's
    /// `SelectTriedCollision`).
    pub fn to_test(&self, random: u64) -> Option<Place> {
        let count = self.waiting.len().max(1);
        let place = self.waiting.iter().nth(random as usize % count)?;
        self.tried.get(self.tried_slot(place))
    }

    /// Records how many bytes a second the peer at `place` sends.
    pub fn speed(&mut self, place: &Place, speed: u64) {
        if let Some(known) = self.known.get_mut(place) {
            known.speed = speed;
        }
    }

    /// Returns a peer to connect to, without regard to speed (Core's `Select`): every other time
    /// one of `tried`, otherwise and with `is_new` one of `new`. One with the port of another
    /// service is the last resort. `random` is random. It may find none, though there is one.
    pub fn select(&self, is_new: bool, needs: &Needs, random: u64) -> Option<Place> {
        let new = self.new.filled();
        let tried = self.tried.filled();
        let mut random = Random::new(random);
        let mut factor = 1.0;
        for at in 0..LOOKED_AT {
            let is_of_new = match (self.new.len(), self.tried.len()) {
                _ if is_new => true,
                (0, _) => false,
                (_, 0) => true,
                _ => random.below(2) == 0,
            };
            let place = if is_of_new { &new } else { &tried }.any(&mut random)?;
            let known = &self.known[&place];
            let is_elsewhere = at < LOOKED_AT_PORTS && is_bad_port(&place);
            let is_useless = is_of_new && known.is_terrible(needs.now);
            if is_elsewhere || is_useless || !needs.are_met(&place, known) {
                continue;
            }
            if random.share() < known.chance() * factor {
                return Some(place);
            }
            factor *= 1.2;
        }
        None
    }

    /// Returns the peer to connect to that was the fastest, if the speed of any is known.
    pub fn fastest(&self, needs: &Needs) -> Option<Place> {
        let usable = self.known.iter().filter(|(place, known)| {
            known.speed > 0
                && known.is_tried
                && needs.are_met(place, known)
                && !is_bad_port(place)
                && !known.is_terrible(needs.now)
        });
        usable.max_by_key(|(_, known)| known.speed).map(|(place, _)| *place)
    }
}

impl Needs<'_> {
    fn are_met(&self, place: &Place, known: &Known) -> bool {
        known.services.has(self.services)
            && self.now >= known.avoid_until
            && (self.may_connect_to)(&place.0)
    }
}

/// Returns the bytes that tell addresses apart.
fn bytes_of((host, port): &Place) -> Vec<u8> {
    let mut bytes = match host {
        Host::Ipv4(ip) => ip.octets().to_vec(),
        Host::Ipv6(ip) => ip.octets().to_vec(),
        Host::TorV3(key) => key.to_vec(),
    };
    bytes.extend_from_slice(&port.to_le_bytes());
    bytes
}
