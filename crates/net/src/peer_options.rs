//! The options for finding and using peers.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use apus_wire::message::Host;

use super::max_download::MaxDownload;
use super::proxy::Proxies;
use super::target::{HostKind, Target};

/// Core's default of `-maxconnections`.
pub const MAXCONNECTIONS: usize = 125;
/// Core's default of `-timeout`.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The default for [`PeerOptions::patience`].
const PATIENCE: Duration = Duration::from_secs(2 * 60);
/// The default for [`PeerOptions::gone_after`].
const GONE_AFTER: Duration = Duration::from_secs(30);

/// How peers are found and used. Options that Core has have its names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerOptions {
    /// Connect only to these; empty to find peers.
    pub connect: Vec<Target>,
    /// Connect to these as well.
    pub addnode: Vec<Target>,
    /// Ask these for addresses.
    pub seednode: Vec<Target>,
    /// Ask DNS seeds for addresses.
    pub dnsseed: bool,
    /// Use fixed addresses if neither the address book nor DNS seeds have any.
    pub fixedseeds: bool,
    /// Look for nodes on the local network at the start; not an option of Core.
    pub lan: bool,
    /// Announce this node on the local network while it serves peers; not an option of Core.
    pub announce: bool,
    /// The SOCKS5 proxies (Core's `-proxy` and `-onion`).
    pub proxies: Proxies,
    /// The maximum number of connections.
    pub maxconnections: usize,
    /// Connect only to hosts of these kinds; empty for all.
    pub onlynet: Vec<NetKind>,
    /// Whether to accept connections from others, and serve blocks to all peers.
    pub listen: bool,
    /// The addresses of this machine for connections from others; empty for all.
    pub bind: Vec<SocketAddr>,
    /// The port for connections from others if `bind` is empty.
    pub port: u16,
    /// Time limit for opening a connection.
    pub timeout: Duration,
    /// Whether the encrypted transport (BIP324) is tried first.
    pub v2transport: bool,
    /// The most bytes of blocks to send in 24 hours; `None` for no limit.
    pub maxuploadtarget: Option<u64>,
    /// The most bytes to download in a second, by the time of day; `None` for no limit at any
    /// time. Not an option of Core.
    pub maxdownload: Option<MaxDownload>,
    /// Whether to stay at the tip; not an option of Core.
    pub follow: bool,
    /// How long a sync that has connected everything waits for a peer that does not say whether it
    /// has more; not an option of Core.
    pub patience: Duration,
    /// Time after which a block that no peer has is given up or reported, while there are peers;
    /// not an option of Core.
    pub gone_after: Duration,
}

impl PeerOptions {
    /// Returns Core's defaults, except that connections from others are refused. The local network
    /// is left alone.
    pub fn new(port: u16) -> Self {
        Self {
            connect: Vec::new(),
            addnode: Vec::new(),
            seednode: Vec::new(),
            dnsseed: true,
            fixedseeds: true,
            lan: false,
            announce: false,
            proxies: Proxies::default(),
            maxconnections: MAXCONNECTIONS,
            onlynet: Vec::new(),
            listen: false,
            bind: Vec::new(),
            port,
            timeout: TIMEOUT,
            v2transport: true,
            maxuploadtarget: None,
            maxdownload: None,
            follow: false,
            patience: PATIENCE,
            gone_after: GONE_AFTER,
        }
    }

    /// Returns the addresses of this machine to listen on; `[::]` stands for those of IPv4, too.
    pub fn listening(&self) -> Vec<SocketAddr> {
        if self.bind.is_empty() {
            return vec![SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), self.port)];
        }
        self.bind.clone()
    }

    /// Returns whether connections that the user did not ask for may go to hosts of this kind, and
    /// can.
    pub fn reaches(&self, kind: NetKind) -> bool {
        let can = kind != NetKind::Onion || self.proxies.onion.is_some();
        can && (self.onlynet.is_empty() || self.onlynet.contains(&kind))
    }

    /// Like [`PeerOptions::reaches`], for the kind of a host that is given by name or address.
    pub fn reaches_host(&self, target: &Target) -> bool {
        match target.kind() {
            HostKind::Ipv4 => self.reaches(NetKind::Ipv4),
            HostKind::Ipv6 => self.reaches(NetKind::Ipv6),
            HostKind::Name => self.reaches(NetKind::Ipv4) || self.reaches(NetKind::Ipv6),
            HostKind::Onion => self.reaches(NetKind::Onion),
            HostKind::I2p => self.proxies.names.is_some() && self.onlynet.is_empty(),
        }
    }

    /// Returns whether a host that the user names can be reached, directly or through a proxy.
    pub fn has_way_to(&self, target: &Target) -> bool {
        match target.kind() {
            HostKind::Onion => self.proxies.onion.is_some(),
            HostKind::I2p => self.proxies.names.is_some(),
            HostKind::Ipv4 | HostKind::Ipv6 | HostKind::Name => true,
        }
    }

    /// Returns whether to ask DNS seeds, which only know IPv4 and IPv6 peers.
    pub fn asks_dns_seeds(&self) -> bool {
        self.dnsseed && (self.reaches(NetKind::Ipv4) || self.reaches(NetKind::Ipv6))
    }
}

/// A kind of network, as Core's `-onlynet` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetKind {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Onion services of Tor.
    Onion,
}

impl NetKind {
    /// Returns the kind of network that a host of the address book is in.
    pub fn of(host: &Host) -> Self {
        match host {
            Host::Ipv4(_) => Self::Ipv4,
            Host::Ipv6(_) => Self::Ipv6,
            Host::TorV3(_) => Self::Onion,
        }
    }
}
