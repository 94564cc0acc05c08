//! Peers: the transport and protocol of a connection, the headers of a peer whose chain may have
//! too little work, the choice of the peer that each block is requested from, and what peers are
//! sent that request blocks from us. Nothing here validates blocks, starts threads or looks at a
//! clock: bytes, messages and the time are inputs.

#![warn(missing_docs)]

mod address_file;
mod addresses;
mod bad_ports;
mod buckets;
mod candidates;
mod coin_schedule;
mod eviction;
mod feelers;
mod fixed_seeds;
mod group;
mod headers;
mod line;
mod manager;
mod max_download;
mod missing;
mod near_tip;
mod peer;
mod peer_options;
mod presync;
mod proxy;
mod random;
mod schedule;
mod serving;
mod session;
mod socks5;
mod target;
mod time_offsets;
mod tip_watch;
mod transport;
mod upload;
mod v2;
mod wanted;

#[cfg(test)]
mod tests;

pub use addresses::{Addresses, Needs};
pub use bad_ports::is_bad_port;
pub use candidates::{Candidates, Runner, Slot, Trial};
pub use coin_schedule::{COIN_RANGE_BLOCKS, CoinSchedule, coins_cutoff};
pub use eviction::{EvictionCandidate, select_to_evict};
pub use feelers::Feelers;
pub use fixed_seeds::fixed_seeds;
pub use group::{Group, Place, is_routable};
pub use headers::{HeaderChain, HeadersFault};
pub use manager::{Action, ConnectionType, PeerError, PeerManager, Settings};
pub use max_download::MaxDownload;
pub use missing::{GivesUp, Missing};
pub use near_tip::{NEAR_BLOCKS, claim};
pub use peer::{Has, PeerId};
pub use peer_options::{MAXCONNECTIONS, NetKind, PeerOptions};
pub use presync::{Presync, PresyncParams, PresyncStart, Presynced};
pub use proxy::{Proxies, Proxy};
pub use schedule::{Arrival, Fault, Limits, Schedule};
pub use serving::{
    Answer, BlockForm, NODE_NETWORK_LIMITED_MIN_BLOCKS, Refused, ServedChain, Serving,
};
pub use session::{
    BLOCK_SPENT_COINS, HINTS_FILE, Handled, OfferedFeature, Ourselves, Outgoing, PROTOCOL_VERSION,
    Session, SessionFault, Themselves,
};
pub use socks5::{Credentials, Socks5Error, connect as socks5_connect};
pub use target::{HostKind, Target};
pub use time_offsets::TimeOffsets;
pub use tip_watch::{Chosen, TipWatch, Verdict};
pub use transport::{Frame, Reader, Transport, TransportError, Unread, Writer, initiate, respond};
pub use upload::UploadTarget;
