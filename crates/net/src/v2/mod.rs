//! The encrypted v2 transport (BIP324): the handshake, and the packets after it. Both are functions
//! of bytes; `transport` reads and writes these.

mod cipher;
mod error;
mod handshake;

#[cfg(test)]
mod tests;

pub use cipher::{
    HEADER_BYTES, Inbound, LENGTH_BYTES, Outbound, PACKET_OVERHEAD, PEEK_BYTES, Pad, TAG_BYTES,
};
pub use error::V2Error;
pub use handshake::{GARBAGE_BYTES_MAX, Handshake, KEY_BYTES, Role, TERMINATOR_BYTES};
