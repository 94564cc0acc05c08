//! Messages between peers: bytes of the messages that Apus sends, and views of the messages that
//! it receives.
//!
//! [`encode`] appends a message to the caller's buffer, which grows once, to the exact size;
//! nothing else is allocated. [`Message::decode`] borrows from the receive buffer. Every count and
//! length is checked against Core's limit, and against the bytes that are left, before it is used.
//! Bytes after the end of a payload are ignored, as in Core.

mod address;
mod command;
mod compact;
mod feature;
mod filters;
mod hints;
mod inventory;
mod payload;
mod spent_coins;
mod transaction;
mod version;

#[cfg(test)]
mod tests;

pub use address::{ADDRESSES_MAX, AddressList, Host, NetAddress};
pub use command::Command;
pub use compact::{GetBlockTxn, block_transactions, compact_block};
pub use feature::Feature;
pub use filters::FilterRequest;
pub use hints::{GetHints, HINTS_CHUNK_BYTES, HintsChunk, OfferedHints};
pub use inventory::{INVENTORY_MAX, Inventory, InventoryItem, InventoryKind, InventoryList};
pub use payload::{
    GetHeaders, HEADERS_MAX, Hashes, HeaderList, Headers, LOCATOR_MAX, Nonce, Payload, Raw,
    SendCmpct,
};
pub use spent_coins::{GetSpentCoins, SpentCoins};
pub use transaction::{Transaction, TxInput, TxOutput};
pub use version::{SUBVERSION_BYTES_MAX, Services, Version};

use self::payload::PayloadError;
use super::{Cursor, ParseError};
use apus_hash::sha256d;

/// The maximum length of a payload in bytes (Core's `MAX_PROTOCOL_MESSAGE_LENGTH`).
pub const PAYLOAD_BYTES_MAX: usize = 4_000_000;
/// Number of bytes before the payload of a message in the v1 transport.
pub const ENVELOPE_BYTES: usize = 24;

/// The header of a message in the v1 transport (Core's `CMessageHeader`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The name of the message; `None` if it is not printable ASCII, padded with zeros.
    pub command: Option<Command>,
    /// Length of the payload in bytes.
    pub len: usize,
    /// The first four bytes of the payload's double SHA-256.
    pub checksum: [u8; 4],
}

/// The reason why received bytes are not a valid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// The bytes belong to another network, or are not a message.
    #[error("a message with other magic bytes than those of this network")]
    Magic,
    /// The command is not printable ASCII, padded with zeros.
    #[error("a message whose name is not printable")]
    Name,
    /// The payload exceeds [`PAYLOAD_BYTES_MAX`].
    #[error("a message of {0} bytes, over the limit")]
    TooLong(u32),
    /// The payload does not match its checksum.
    #[error("a message with an invalid checksum")]
    Checksum,
    /// The payload cannot be parsed.
    #[error("an invalid `{0}` message: {1}")]
    Payload(Command, ParseError),
    /// The payload has more items than its message allows.
    #[error("a `{0}` message with {1} items, over the limit")]
    TooMany(Command, usize),
}

impl Envelope {
    /// Reads the header of a message.
    ///
    /// # Errors
    /// The bytes are not of this network, or the payload is too long. The bytes after it can then
    /// not be read as messages.
    pub fn parse(bytes: &[u8; ENVELOPE_BYTES], magic: [u8; 4]) -> Result<Self, MessageError> {
        let (start, rest) = bytes.split_at(4);
        if start != magic {
            return Err(MessageError::Magic);
        }
        let field = |at: usize| -> [u8; 4] { rest[at..at + 4].try_into().expect("4 bytes") };
        let name = rest[..12].try_into().expect("12 bytes");
        let command = Command::from_padded(name);
        let len = u32::from_le_bytes(field(12));
        if len as usize > PAYLOAD_BYTES_MAX {
            return Err(MessageError::TooLong(len));
        }
        Ok(Self { command, len: len as usize, checksum: field(16) })
    }

    /// Verifies the checksum of the payload, and returns the name of the message. The checksum of a
    /// block is not verified, to avoid hashing it twice: the block's merkle root and witness
    /// commitment are checked later, and these cover every byte.
    ///
    /// # Errors
    /// The checksum does not match, or the name is not printable. Core ignores such a message.
    pub fn check(&self, payload: &[u8]) -> Result<Command, MessageError> {
        if self.command != Some(Command::BLOCK) && sha256d(payload).0[..4] != self.checksum {
            return Err(MessageError::Checksum);
        }
        self.command.ok_or(MessageError::Name)
    }
}

/// Appends a message of the v1 transport to `out`.
pub fn encode(payload: &impl Payload, magic: [u8; 4], out: &mut Vec<u8>) {
    let size = payload.size();
    debug_assert!(size <= PAYLOAD_BYTES_MAX);
    out.reserve_exact(ENVELOPE_BYTES + size);
    out.extend_from_slice(&magic);
    out.extend_from_slice(&payload.command().padded());
    out.extend_from_slice(&(size as u32).to_le_bytes());
    let checksum = out.len();
    out.extend_from_slice(&[0; 4]);
    let start = out.len();
    payload.put(out);
    debug_assert_eq!(out.len() - start, size, "{}", payload.command());
    let hash = sha256d(&out[start..]);
    out[checksum..start].copy_from_slice(&hash.0[..4]);
}

/// Returns what precedes a payload that is sent with the v1 transport: magic, name, length and
/// checksum.
pub fn envelope(message: &Raw, magic: [u8; 4]) -> [u8; ENVELOPE_BYTES] {
    let Raw(command, payload) = message;
    let mut bytes = [0; ENVELOPE_BYTES];
    bytes[..4].copy_from_slice(&magic);
    bytes[4..16].copy_from_slice(&command.padded());
    bytes[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes[20..].copy_from_slice(&sha256d(payload).0[..4]);
    bytes
}

/// Appends the contents of a packet of the v2 transport to `out` (BIP324): one byte that names the
/// message, or a zero and twelve bytes, and the payload.
pub fn encode_contents(payload: &impl Payload, out: &mut Vec<u8>) {
    let size = payload.size();
    let command = payload.command();
    match command.short_id() {
        Some(id) => {
            out.reserve_exact(1 + size);
            out.push(id);
        }
        None => {
            out.reserve_exact(13 + size);
            out.push(0);
            out.extend_from_slice(&command.padded());
        }
    }
    let start = out.len();
    payload.put(out);
    debug_assert_eq!(out.len() - start, size, "{command}");
}

/// Splits the contents of a packet of the v2 transport into the name of the message and the offset
/// at which the payload starts.
///
/// # Errors
/// The name is not printable, its short form is unknown, or it is cut off.
pub fn split_contents(contents: &[u8]) -> Result<(Command, usize), MessageError> {
    match contents {
        [0, rest @ ..] => {
            let name = rest.first_chunk().ok_or(MessageError::Name)?;
            Ok((Command::from_padded(*name).ok_or(MessageError::Name)?, 13))
        }
        [id, ..] => Ok((Command::from_short_id(*id).ok_or(MessageError::Name)?, 1)),
        [] => Err(MessageError::Name),
    }
}

/// A received message, as far as Apus uses it.
#[derive(Debug)]
pub enum Message<'a> {
    /// The first message of each side of a connection.
    Version(Version<'a>),
    /// The answer to a version message.
    Verack,
    /// Asks for transactions to be announced by wtxid (BIP339).
    WtxidRelay,
    /// Asks for addresses to be sent as `addrv2` (BIP155).
    SendAddrV2,
    /// Asks for new blocks to be announced by their headers (BIP130).
    SendHeaders,
    /// Offers or asks for announcements of new blocks as compact blocks (BIP152).
    SendCmpct(SendCmpct),
    /// Asks for a `pong` with the same number; `None` if the peer is older than BIP31.
    Ping(Option<Nonce>),
    /// The answer to a `ping`; `None` if it is too short to have a number.
    Pong(Option<Nonce>),
    /// Asks for addresses of peers.
    GetAddr,
    /// Addresses of peers, from `addr` or `addrv2`.
    Addresses(AddressList),
    /// Asks for headers.
    GetHeaders(GetHeaders<'a>),
    /// Asks for the hashes of blocks; its payload is that of `getheaders`.
    GetBlocks(GetHeaders<'a>),
    /// Asks for transactions of a block (BIP152).
    GetBlockTxn(GetBlockTxn),
    /// Asks for the transactions of the mempool, or is about a bloom filter (BIP35, BIP37): for
    /// nodes that offer bloom filters.
    Bloom(Command),
    /// Asks for filters of blocks or their headers (BIP157): for nodes that offer these.
    GetFilters(FilterRequest),
    /// Asks for the coins that a block spends (draft BIP 455): for nodes that offer these.
    GetSpentCoins(GetSpentCoins),
    /// Coins that a block spends (draft BIP 455).
    SpentCoins(SpentCoins<'a>),
    /// Asks for a chunk of a hints file: for nodes that offer one.
    GetHints(GetHints),
    /// A chunk of a hints file.
    HintsChunk(HintsChunk<'a>),
    /// Headers.
    Headers(HeaderList<'a>),
    /// Blocks and transactions that the peer has.
    Inv(InventoryList<'a>),
    /// Blocks and transactions that the peer wants.
    GetData(InventoryList<'a>),
    /// Requested items that the peer does not have.
    NotFound(InventoryList<'a>),
    /// A block, not parsed yet.
    Block(&'a [u8]),
    /// A transaction, not parsed yet.
    Tx(&'a [u8]),
    /// The minimum fee rate of transactions that the peer wants (BIP133), which is not read here.
    FeeFilter,
    /// A feature that the sender supports, before `verack` alone (BIP434); `None` if it is invalid.
    Feature(Option<Feature<'a>>),
    /// Any other message.
    Other,
}

impl<'a> Message<'a> {
    /// Reads the message with this name and payload.
    ///
    /// # Errors
    /// The payload ends too early, has more items than allowed, or breaks its format otherwise.
    pub fn decode(command: Command, payload: &'a [u8]) -> Result<Self, MessageError> {
        let mut cursor = Cursor::new(payload);
        let cursor = &mut cursor;
        let message = match command {
            Command::VERSION => Version::parse(cursor).map(Self::Version),
            Command::VERACK => Ok(Self::Verack),
            Command::WTXIDRELAY => Ok(Self::WtxidRelay),
            Command::SENDADDRV2 => Ok(Self::SendAddrV2),
            Command::SENDHEADERS => Ok(Self::SendHeaders),
            Command::SENDCMPCT => SendCmpct::parse(cursor).map(Self::SendCmpct),
            Command::PING => Ok(Self::Ping(Nonce::parse(cursor).ok())),
            Command::PONG => Ok(Self::Pong(Nonce::parse(cursor).ok())),
            Command::GETADDR => Ok(Self::GetAddr),
            Command::ADDR => AddressList::parse_addr(cursor).map(Self::Addresses),
            Command::ADDRV2 => AddressList::parse_addrv2(cursor).map(Self::Addresses),
            Command::GETHEADERS => GetHeaders::parse(cursor).map(Self::GetHeaders),
            Command::GETBLOCKS => GetHeaders::parse(cursor).map(Self::GetBlocks),
            Command::GETBLOCKTXN => GetBlockTxn::parse(cursor).map(Self::GetBlockTxn),
            Command::MEMPOOL | Command::FILTERLOAD | Command::FILTERADD | Command::FILTERCLEAR => {
                Ok(Self::Bloom(command))
            }
            Command::GETCFILTERS | Command::GETCFHEADERS | Command::GETCFCHECKPT => {
                FilterRequest::parse(command, cursor).map(Self::GetFilters)
            }
            Command::GETBSPENT => GetSpentCoins::parse(cursor).map(Self::GetSpentCoins),
            Command::BSPENT => SpentCoins::parse(cursor).map(Self::SpentCoins),
            Command::GETHINTS => GetHints::parse(cursor).map(Self::GetHints),
            Command::HINTS => HintsChunk::parse(cursor).map(Self::HintsChunk),
            Command::HEADERS => HeaderList::parse(cursor).map(Self::Headers),
            Command::INV => InventoryList::parse(cursor, INVENTORY_MAX).map(Self::Inv),
            Command::GETDATA => InventoryList::parse(cursor, INVENTORY_MAX).map(Self::GetData),
            // Of any length, as in Core.
            Command::NOTFOUND => InventoryList::parse(cursor, usize::MAX).map(Self::NotFound),
            Command::BLOCK => Ok(Self::Block(payload)),
            Command::TX => Ok(Self::Tx(payload)),
            Command::FEATURE => Ok(Self::Feature(Feature::parse(cursor).ok())),
            Command::FEEFILTER => Ok(Self::FeeFilter),
            _ => Ok(Self::Other),
        };
        message.map_err(|error| match error {
            PayloadError::Parse(error) => MessageError::Payload(command, error),
            PayloadError::TooMany(count) => MessageError::TooMany(command, count),
        })
    }
}
