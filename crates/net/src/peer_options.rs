//! How peers are found and used, by Core's names.

use std::time::Duration;

use apus_wire::message::Host;

use super::target::{HostKind, Target};

/// Core's default of `-maxconnections`.
const MAXCONNECTIONS: usize = 125;
/// Core's default of `-timeout`.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The default for [`PeerOptions::patience`].
const PATIENCE: Duration = Duration::from_secs(2 * 60);
/// The default for [`PeerOptions::gone_after`].
const GONE_AFTER: Duration = Duration::from_secs(30);

/// How peers are found and used. Each option has the name of Core's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerOptions {
    /// Connect to these alone; empty for whomever there is.
    pub connect: Vec<Target>,
    /// Connect to these, too.
    pub addnode: Vec<Target>,
    /// Ask these for addresses.
    pub seednode: Vec<Target>,
    /// Ask DNS seeds for addresses.
    pub dnsseed: bool,
    /// The SOCKS5 proxy through which connections go, but for those to onion services.
    pub proxy: Option<Target>,
    /// The SOCKS5 proxy through which connections to onion services go; without one there are none.
    pub onion: Option<Target>,
    /// The most connections.
    pub maxconnections: usize,
    /// Connect to hosts of these kinds alone; empty for all.
    pub onlynet: Vec<NetKind>,
    /// Whether others may connect to us.
    pub listen: bool,
    /// The port that they connect to.
    pub port: u16,
    /// Time to open a connection.
    pub timeout: Duration,
    /// Whether the encrypted transport (BIP324) is tried first.
    pub v2transport: bool,
    /// The most bytes that are downloaded in a second; not an option of Core's.
    pub maxdownload: Option<u64>,
    /// Whether to stay at the tip; not an option of Core's.
    pub follow: bool,
    /// How long a sync that has connected everything waits for a peer that does not say whether it
    /// has more; not an option of Core's.
    pub patience: Duration,
    /// Time after which a block that no peer has is given up or spoken of, while there are peers;
    /// not an option of Core's.
    pub gone_after: Duration,
}

impl PeerOptions {
    /// Core's defaults, but that nobody may connect to us, since we serve nothing yet.
    pub fn new(port: u16) -> Self {
        Self {
            connect: Vec::new(),
            addnode: Vec::new(),
            seednode: Vec::new(),
            dnsseed: true,
            proxy: None,
            onion: None,
            maxconnections: MAXCONNECTIONS,
            onlynet: Vec::new(),
            listen: false,
            port,
            timeout: TIMEOUT,
            v2transport: true,
            maxdownload: None,
            follow: false,
            patience: PATIENCE,
            gone_after: GONE_AFTER,
        }
    }
}

impl PeerOptions {
    /// Whether connections that the user did not ask for may go to hosts of this kind, and can.
    pub fn reaches(&self, kind: NetKind) -> bool {
        let can = kind != NetKind::Onion || self.onion.is_some();
        can && (self.onlynet.is_empty() || self.onlynet.contains(&kind))
    }

    /// [`PeerOptions::reaches`] for the kind of a host that has a name or an address.
    pub fn reaches_host(&self, target: &Target) -> bool {
        match target.kind() {
            HostKind::Ipv4 => self.reaches(NetKind::Ipv4),
            HostKind::Ipv6 => self.reaches(NetKind::Ipv6),
            HostKind::Name => self.reaches(NetKind::Ipv4) || self.reaches(NetKind::Ipv6),
            HostKind::Onion => self.reaches(NetKind::Onion),
            HostKind::I2p => self.proxy.is_some() && self.onlynet.is_empty(),
        }
    }

    /// Whether a host that the user names can be reached: directly, or through a proxy.
    pub fn has_way_to(&self, target: &Target) -> bool {
        match target.kind() {
            HostKind::Onion => self.onion.is_some(),
            HostKind::I2p => self.proxy.is_some(),
            HostKind::Ipv4 | HostKind::Ipv6 | HostKind::Name => true,
        }
    }

    /// Whether DNS seeds are asked, which know peers of IPv4 and IPv6 alone.
    pub fn asks_dns_seeds(&self) -> bool {
        self.dnsseed && (self.reaches(NetKind::Ipv4) || self.reaches(NetKind::Ipv6))
    }
}

/// A part of the internet, as Core's `-onlynet` names it.
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
    /// The part of the internet that a host of the address book is in.
    pub fn of(host: &Host) -> Self {
        match host {
            Host::Ipv4(_) => Self::Ipv4,
            Host::Ipv6(_) => Self::Ipv6,
            Host::TorV3(_) => Self::Onion,
        }
    }
}
