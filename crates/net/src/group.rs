//! Where peers are: parts of the network that one party probably controls, and hosts that cannot be
//! reached.

use std::net::{Ipv4Addr, Ipv6Addr};

use apus_hash::sha256;
use apus_wire::message::Host;

/// The host and port of a peer.
pub type Place = (Host, u16);

/// A part of the network that one party probably controls (Core's `GetGroup`): 16 bits of an IPv4
/// address, 32 of an IPv6 address (36 of Hurricane Electric's, and the IPv4 address that a tunnel
/// leads to), four of the key of an onion service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Group([u8; 6]);

impl Group {
    /// Returns the part that `host` is in.
    pub fn of(host: &Host) -> Self {
        match host {
            Host::Ipv4(ip) => Self::of_v4(ip),
            Host::Ipv6(ip) => match tunnelled(ip) {
                Some(ip) => Self::of_v4(&ip),
                None => {
                    let [a, b, c, d, e, ..] = ip.octets();
                    let is_he_net = [a, b, c, d] == [0x20, 0x01, 0x04, 0x70];
                    Self([2, a, b, c, d, if is_he_net { e | 0x0f } else { 0 }])
                }
            },
            Host::TorV3(key) => Self([3, key[0] | 0x0f, 0, 0, 0, 0]),
        }
    }

    /// Returns a part of its own for a source of addresses that has a name and no address, such as
    /// a DNS seed.
    pub fn named(name: &str) -> Self {
        let [a, b, c, d, e, ..] = sha256(name.as_bytes());
        Self([0, a, b, c, d, e])
    }

    /// Returns the bytes that tell parts apart.
    pub fn as_bytes(&self) -> &[u8; 6] {
        &self.0
    }

    /// Restores a part from [`Group::as_bytes`].
    pub fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    fn of_v4(ip: &Ipv4Addr) -> Self {
        let [a, b, ..] = ip.octets();
        Self([1, a, b, 0, 0, 0])
    }
}

/// Returns the IPv4 address that an IPv6 address leads to (Core's `HasLinkedIPv4`).
fn tunnelled(ip: &Ipv6Addr) -> Option<Ipv4Addr> {
    let octets = ip.octets();
    let four = |at: usize| <[u8; 4]>::try_from(&octets[at..at + 4]).ok();
    match ip.segments() {
        // NAT64 (RFC 6052), and SIIT (RFC 6145).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => four(12),
        // 6to4 (RFC 3964).
        [0x2002, ..] => four(2),
        // Teredo (RFC 4380).
        [0x2001, 0, ..] => four(12).map(|bytes| bytes.map(|byte| !byte)),
        _ => None,
    }
    .map(Ipv4Addr::from)
}

/// Returns whether a host may be reachable on the internet (Core's `IsRoutable`).
pub fn is_routable(host: &Host) -> bool {
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
