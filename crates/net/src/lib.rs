//! Peers: transport and protocol of one connection, the headers of one whose work is not known yet,
//! and which block is asked of whom. Nothing here validates blocks, starts threads or looks at a
//! clock: what comes in are bytes, messages and the time.

mod addresses;
mod headers;
mod manager;
mod peer_options;
mod presync;
mod schedule;
mod session;
mod socks5;
mod target;
mod time_offsets;
mod transport;

#[cfg(test)]
mod tests;

pub use addresses::{Addresses, Group, Place};
pub use headers::{HeaderChain, HeadersFault};
pub use manager::{Action, ConnectionType, PeerError, PeerManager, Settings};
pub use peer_options::{NetKind, PeerOptions};
pub use presync::{Presync, PresyncParams, PresyncStart, Presynced};
pub use schedule::{Arrival, Fault, Has, Limits, PeerId, Schedule};
pub use session::{
    Handled, Ourselves, Outgoing, PROTOCOL_VERSION, Session, SessionFault, Themselves,
};
pub use socks5::{Credentials, Socks5Error, connect as socks5_connect};
pub use target::{HostKind, Target};
pub use time_offsets::TimeOffsets;
pub use transport::{Reader, Transport, TransportError, Unread, Writer, initiate, respond};
