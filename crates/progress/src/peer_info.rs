//! Facts about a connected peer (Core's `getpeerinfo`).

use std::time::Duration;

/// A connected peer whose handshake is complete.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PeerInfo {
    /// The number of the connection, which no other connection of this process has.
    pub id: u64,
    /// The peer's address as HOST:PORT.
    pub address: String,
    /// The address at our end; `None` if it is unknown.
    pub bind: Option<String>,
    /// The kind of network, as Core names it: `ipv4`, `ipv6`, `onion` or `not_publicly_routable`.
    pub network: &'static str,
    /// The services that the peer offers, as bits.
    pub services: u64,
    /// When the connection was opened, in seconds since 1970.
    pub connected: i64,
    /// When bytes were last sent and received, in seconds since 1970; 0 if never.
    pub last: [i64; 2],
    /// When the last requested block arrived, in seconds since 1970; 0 if none did.
    pub last_block: i64,
    /// Bytes sent and received over the connection.
    pub bytes: [u64; 2],
    /// The peer's time minus ours, in seconds.
    pub time_offset: i64,
    /// The time that the peer took to answer the last ping; `None` if it has answered none.
    pub ping: Option<Duration>,
    /// The shortest of these times.
    pub min_ping: Option<Duration>,
    /// The version of the protocol that the peer speaks.
    pub version: i32,
    /// The peer's program and version.
    pub user_agent: String,
    /// The height of the peer's best block when it connected.
    pub start_height: i32,
    /// Whether the peer connected to us.
    pub inbound: bool,
    /// The type of the connection, as Core names it: `inbound`, `manual`, `outbound-full-relay`,
    /// `block-relay-only`.
    pub connection_type: &'static str,
    /// `v1` or `v2` (BIP324).
    pub transport: &'static str,
    /// Height of the best header that the peer is known to have; `None` if unknown.
    pub synced_headers: Option<u32>,
    /// Heights of the blocks that are requested from the peer.
    pub in_flight: Vec<u32>,
    /// Number of requested blocks that the peer sent.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub block_bytes: u64,
    /// Bytes a second that the peer sent while blocks were requested from it; `None` if it sent
    /// few.
    pub speed: Option<u64>,
}
