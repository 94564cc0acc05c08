use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Services;
use super::payload::{PayloadError, bounded};
use crate::Cursor;

/// The maximum number of addresses in a message (Core's `MAX_ADDR_TO_SEND`).
pub const ADDRESSES_MAX: usize = 1000;
/// The maximum length in bytes of an address of any network (BIP155; Core's `MAX_ADDRV2_SIZE`).
const ADDRV2_BYTES_MAX: usize = 512;

/// A host that may run a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Host {
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address that does not contain an IPv4 address.
    Ipv6(Ipv6Addr),
    /// The public key of a version 3 onion service.
    TorV3([u8; 32]),
}

/// The address of a peer, and the services that it is said to offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetAddress {
    /// When the peer was last seen, in seconds since 1970.
    pub time: u32,
    /// The services that the peer offers.
    pub services: Services,
    /// The host of the peer.
    pub host: Host,
    /// The port of the peer.
    pub port: u16,
}

/// The addresses of an `addr` or `addrv2` message, in order, without those of networks that Apus
/// does not connect to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AddressList(pub Vec<NetAddress>);

impl Host {
    /// Returns the host for the 16 bytes in `addr` and `version`, where IPv4 is mapped to IPv6;
    /// `None` for old onion services, which are encoded as IPv6.
    pub fn from_v1(bytes: [u8; 16]) -> Option<Self> {
        match bytes {
            [0xfd, 0x87, 0xd8, 0x7e, 0xeb, 0x43, ..] => None,
            _ => Some(Self::from(IpAddr::V6(Ipv6Addr::from(bytes)))),
        }
    }

    /// Returns the host with this network number and address (BIP155).
    fn from_v2(network: u8, address: &[u8]) -> Result<Option<Self>, &'static str> {
        fn exact<const N: usize>(address: &[u8]) -> Result<[u8; N], &'static str> {
            address.try_into().map_err(|_| "an address whose length does not fit its network")
        }
        Ok(match network {
            1 => Some(Self::Ipv4(Ipv4Addr::from(exact::<4>(address)?))),
            // Other networks encoded as IPv6 are not allowed here; Core ignores them.
            2 => Self::from_v1(exact(address)?).filter(|host| matches!(host, Self::Ipv6(_))),
            4 => Some(Self::TorV3(exact(address)?)),
            5 => exact::<32>(address).map(|_| None)?,
            6 => exact::<16>(address).map(|_| None)?,
            _ => None,
        })
    }

    /// Returns the IP address; `None` for an onion service.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ipv4(ip) => Some(IpAddr::V4(*ip)),
            Self::Ipv6(ip) => Some(IpAddr::V6(*ip)),
            Self::TorV3(_) => None,
        }
    }

    /// Returns the 16 bytes that [`Host::from_v1`] takes; zeros for an onion service.
    pub fn to_v1(self) -> [u8; 16] {
        match self {
            Self::Ipv4(ip) => ip.to_ipv6_mapped().octets(),
            Self::Ipv6(ip) => ip.octets(),
            Self::TorV3(_) => [0; 16],
        }
    }
}

impl From<IpAddr> for Host {
    fn from(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::Ipv4(ip),
            IpAddr::V6(ip) => Self::Ipv6(ip),
        }
    }
}

impl AddressList {
    /// Reads the payload of an `addr` message.
    pub(super) fn parse_addr(cursor: &mut Cursor) -> Result<Self, PayloadError> {
        let count = cursor.compact_size()?;
        let mut list = Self::default();
        for _ in 0..count {
            let time = cursor.u32()?;
            let services = Services(cursor.u64()?);
            let host = Host::from_v1(cursor.array()?);
            let port = u16::from_be_bytes(cursor.array()?);
            let host = host.filter(|_| count <= ADDRESSES_MAX);
            list.0.extend(host.map(|host| NetAddress { time, services, host, port }));
        }
        PayloadError::if_above(ADDRESSES_MAX, count)?;
        Ok(list)
    }

    /// Reads the payload of an `addrv2` message. Unlike this function, the crate `bitcoin` refuses
    /// the whole message for an address that Core ignores.
    pub(super) fn parse_addrv2(cursor: &mut Cursor) -> Result<Self, PayloadError> {
        let count = cursor.compact_size()?;
        let mut list = Self::default();
        for _ in 0..count {
            let time = cursor.u32()?;
            let services = Services(cursor.compact_u64()?);
            let network = cursor.u8()?;
            let len = bounded(cursor, ADDRV2_BYTES_MAX, "an address of more than 512 bytes")?;
            let address = cursor.take(len)?;
            let host = Host::from_v2(network, address).map_err(|what| cursor.error(what))?;
            let port = u16::from_be_bytes(cursor.array()?);
            let host = host.filter(|_| count <= ADDRESSES_MAX);
            list.0.extend(host.map(|host| NetAddress { time, services, host, port }));
        }
        PayloadError::if_above(ADDRESSES_MAX, count)?;
        Ok(list)
    }
}

impl NetAddress {
    /// Returns the address to connect to; `None` for an onion service.
    pub fn socket(&self) -> Option<SocketAddr> {
        self.host.ip().map(|ip| SocketAddr::new(ip, self.port))
    }
}

impl fmt::Display for NetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.socket() {
            Some(socket) => socket.fmt(f),
            None => write!(f, "an onion service, port {}", self.port),
        }
    }
}
