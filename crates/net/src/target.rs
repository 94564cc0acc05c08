//! Where to connect to: a name or an address, and a port.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use apus_wire::message::Host;
use sha3::{Digest as _, Sha3_256};

use super::Place;

/// Where to connect to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    host: String,
    port: u16,
}

/// The kind of network that a host is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostKind {
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A name that DNS may resolve.
    Name,
    /// An onion service of Tor.
    Onion,
    /// A host of I2P.
    I2p,
}

impl Target {
    /// Reads `HOST`, `HOST:PORT`, an IPv6 address, or `[IPV6]:PORT`.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, String> {
        if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Ok(Self { host: ip.to_string(), port: default_port });
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: address.ip().to_string(), port: address.port() });
        }
        let (host, port) = match text.rsplit_once(':') {
            None => (text, default_port),
            Some((host, port)) => {
                let wrong = || format!("'{text}': '{port}' is not a port");
                (host, port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?)
            }
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if !host.is_empty() && host.chars().all(is_name) {
            Ok(Self { host: host.to_string(), port })
        } else {
            Err(format!("'{text}' is not the name or address of a host"))
        }
    }

    /// Returns the host, without brackets if it is an IPv6 address, and the port.
    pub fn name(&self) -> (String, u16) {
        (self.host.clone(), self.port)
    }

    /// Returns the kind of network that the host is in.
    pub fn kind(&self) -> HostKind {
        match self.host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
            Ok(IpAddr::V4(_)) => HostKind::Ipv4,
            Ok(IpAddr::V6(_)) => HostKind::Ipv6,
            Err(_) => {
                // A name may be written with a dot at its end.
                let name = self.host.trim_end_matches('.').to_ascii_lowercase();
                match name.rsplit_once('.') {
                    Some((_, "onion")) => HostKind::Onion,
                    Some((_, "i2p")) => HostKind::I2p,
                    _ => HostKind::Name,
                }
            }
        }
    }

    /// Returns whether the host can only be reached through a proxy.
    pub fn needs_a_proxy(&self) -> bool {
        matches!(self.kind(), HostKind::Onion | HostKind::I2p)
    }

    /// Returns the message for a host that can only be reached through a proxy, if none is set.
    pub fn words_on_proxy(&self) -> String {
        let host = &self.host;
        match self.kind() {
            HostKind::I2p => format!(
                "{host} is an I2P address, which can only be reached through a proxy: set I2P's \
                 SOCKS5 proxy with --proxy, such as --proxy=127.0.0.1:4447"
            ),
            _ => format!(
                "{host} is an onion service, which can only be reached through a proxy: set \
                 Tor's proxy with --onion or --proxy, such as --onion=127.0.0.1:9050"
            ),
        }
    }

    /// Returns the address and the port, unless the host is a name.
    pub fn place(&self) -> Option<Place> {
        Some((Host::from(self.host.parse::<IpAddr>().ok()?), self.port))
    }
}

impl From<Place> for Target {
    fn from((host, port): Place) -> Self {
        let host = match host.ip() {
            Some(ip) => ip.to_string(),
            None => match host {
                Host::TorV3(key) => onion_name(&key),
                _ => String::new(),
            },
        };
        Self { host, port }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse::<Ipv6Addr>() {
            Ok(ip) => write!(f, "[{ip}]:{}", self.port),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The version of onion services in their names.
const ONION_VERSION: u8 = 3;

/// Returns the name of the onion service with this key (Tor's rend-spec-v3).
fn onion_name(key: &[u8; 32]) -> String {
    let mut hash = Sha3_256::new();
    hash.update(b".onion checksum");
    hash.update(key);
    hash.update([ONION_VERSION]);
    let checksum = hash.finalize();
    let mut bytes = key.to_vec();
    bytes.extend_from_slice(&checksum[..2]);
    bytes.push(ONION_VERSION);
    base32(&bytes) + ".onion"
}

/// Encodes `bytes`, whose number is a multiple of five, in base 32 (RFC 4648) in lower case.
fn base32(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut text = String::new();
    for group in bytes.chunks(5) {
        let number = group.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let digit = |at: u32| char::from(DIGITS[(number >> (35 - 5 * at)) as usize & 31]);
        text.extend((0..8).map(digit));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read_as_core_reads_them() {
        for (text, expected) in [
            ("127.0.0.1", Ok("127.0.0.1:8333")),
            ("127.0.0.1:18444", Ok("127.0.0.1:18444")),
            ("::1", Ok("[::1]:8333")),
            ("[::1]", Ok("[::1]:8333")),
            ("[::1]:18444", Ok("[::1]:18444")),
            ("seed.example.org", Ok("seed.example.org:8333")),
            ("seed.example.org:18333", Ok("seed.example.org:18333")),
            ("a:b", Err("'a:b': 'b' is not a port")),
            ("a:0", Err("'a:0': '0' is not a port")),
            ("a b", Err("'a b' is not the name or address of a host")),
            ("", Err("'' is not the name or address of a host")),
        ] {
            let found = Target::parse(text, 8333).map(|target| target.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }

    #[test]
    fn an_onion_service_has_the_name_that_tor_gives_it() {
        // BIP155 and Core's tests have this service.
        let name = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
        let key = [
            0x79, 0xbc, 0xc6, 0x25, 0x18, 0x4b, 0x05, 0x19, 0x49, 0x75, 0xc2, 0x8b, 0x66, 0xb6,
            0x6b, 0x04, 0x69, 0xf7, 0xf6, 0x55, 0x6f, 0xb1, 0xac, 0x31, 0x89, 0xa7, 0x9b, 0x40,
            0xdd, 0xa3, 0x2f, 0x1f,
        ];
        let target = Target::from((Host::TorV3(key), 8333));
        assert_eq!(target.to_string(), format!("{name}:8333"));
    }
}
