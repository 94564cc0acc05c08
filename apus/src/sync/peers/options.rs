//! How peers are found and used, by Core's names.

use std::time::Duration;

use super::target::Target;

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
    /// The SOCKS5 proxy through which connections go, as `HOST:PORT`.
    pub proxy: Option<Target>,
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
