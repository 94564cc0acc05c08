//! The trait of messages to send, and the small payloads: headers, requests for them, pings.

use apus_hash::Hash;

use super::Command;
use crate::{Cursor, HEADER_BYTES, Header, ParseError, compact_size_len, put_compact_size};

/// The maximum number of headers in a message (Core's `MAX_HEADERS_RESULTS`). A peer that sends
/// that many has more.
pub const HEADERS_MAX: usize = 2000;
/// The maximum number of hashes in a locator (Core's `MAX_LOCATOR_SZ`).
pub const LOCATOR_MAX: usize = 101;

/// The payload of a message to send.
pub trait Payload {
    /// Returns the name of the message.
    fn command(&self) -> Command;

    /// Returns the exact number of bytes.
    fn size(&self) -> usize;

    /// Appends the bytes to `out`.
    fn put(&self, out: &mut Vec<u8>);
}

/// A payload that is already serialised, such as a block; empty for messages without a payload.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a>(pub Command, pub &'a [u8]);

impl Payload for Raw<'_> {
    fn command(&self) -> Command {
        self.0
    }

    fn size(&self) -> usize {
        self.1.len()
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.1);
    }
}

/// The number of a ping and its pong (BIP31).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonce(pub u64);

impl Nonce {
    pub(super) fn parse(cursor: &mut Cursor) -> Result<Self, ParseError> {
        cursor.u64().map(Self)
    }

    /// Returns a `ping` with this number.
    pub fn ping(&self) -> impl Payload + use<> {
        Numbered(Command::PING, self.0)
    }

    /// Returns a `pong` with this number.
    pub fn pong(&self) -> impl Payload + use<> {
        Numbered(Command::PONG, self.0)
    }
}

struct Numbered(Command, u64);

impl Payload for Numbered {
    fn command(&self) -> Command {
        self.0
    }

    fn size(&self) -> usize {
        8
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.1.to_le_bytes());
    }
}

/// A peer's preference for compact blocks (BIP152).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendCmpct {
    /// Whether new blocks are to be announced as compact blocks: 1 or 0; other values are invalid.
    pub announce: u8,
    /// The version of compact blocks; Core supports only 2.
    pub version: u64,
}

impl SendCmpct {
    pub(super) fn parse(cursor: &mut Cursor) -> Result<Self, PayloadError> {
        Ok(Self { announce: cursor.u8()?, version: cursor.u64()? })
    }
}

/// A request for headers: those after the first block of the locator that is on the peer's best
/// chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetHeaders<'a> {
    /// The sender's protocol version, which receivers ignore.
    pub version: u32,
    /// Hashes of blocks, the highest first.
    pub locator: Hashes<'a>,
    /// Hash of the last block requested; zero for as many headers as possible.
    pub stop: Hash,
}

/// A list of hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hashes<'a> {
    /// A list owned by the caller.
    List(&'a [Hash]),
    /// The hashes in a message, 32 bytes each.
    Bytes(&'a [u8]),
}

impl Hashes<'_> {
    /// Returns the number of hashes.
    pub fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Bytes(bytes) => bytes.len() / 32,
        }
    }

    /// Returns whether there are no hashes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an iterator over all hashes, in order.
    pub fn iter(&self) -> impl Iterator<Item = Hash> + '_ {
        (0..self.len()).map(move |i| match self {
            Self::List(list) => list[i],
            Self::Bytes(bytes) => {
                Hash(bytes[32 * i..32 * i + 32].try_into().expect("a hash has 32 bytes"))
            }
        })
    }
}

impl<'a> GetHeaders<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, PayloadError> {
        let version = cursor.u32()?;
        let count = cursor.compact_size()?;
        let locator = Hashes::Bytes(cursor.take(32 * count)?);
        let stop = Hash(cursor.array()?);
        PayloadError::if_above(LOCATOR_MAX, count)?;
        Ok(Self { version, locator, stop })
    }
}

impl Payload for GetHeaders<'_> {
    fn command(&self) -> Command {
        Command::GETHEADERS
    }

    fn size(&self) -> usize {
        let count = self.locator.len();
        4 + compact_size_len(count as u64) + 32 * count + 32
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.version.to_le_bytes());
        put_compact_size(out, self.locator.len() as u64);
        for hash in self.locator.iter() {
            out.extend_from_slice(&hash.0);
        }
        out.extend_from_slice(&self.stop.0);
    }
}

/// Headers to send.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a>(pub &'a [Header]);

impl Payload for Headers<'_> {
    fn command(&self) -> Command {
        Command::HEADERS
    }

    fn size(&self) -> usize {
        compact_size_len(self.0.len() as u64) + (HEADER_BYTES + 1) * self.0.len()
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_compact_size(out, self.0.len() as u64);
        for header in self.0 {
            out.extend_from_slice(&header.to_bytes());
            // The number of transactions, which is always 0 here.
            out.push(0);
        }
    }
}

/// Received headers.
#[derive(Clone, Debug)]
pub struct HeaderList<'a> {
    count: usize,
    rest: Cursor<'a>,
}

impl<'a> HeaderList<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, PayloadError> {
        let count = cursor.compact_size()?;
        // Checked before the headers are read, as in Core.
        PayloadError::if_above(HEADERS_MAX, count)?;
        let list = Self { count, rest: cursor.clone() };
        for _ in 0..count {
            cursor.take(HEADER_BYTES)?;
            // The number of transactions, which Core ignores.
            cursor.compact_size()?;
        }
        Ok(list)
    }

    /// Returns the number of headers.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no headers.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns an iterator over all headers, in order.
    pub fn iter(&self) -> impl Iterator<Item = Header> + use<'a> {
        let mut rest = self.rest.clone();
        (0..self.count).map_while(move |_| {
            let header = Header::parse(&mut rest).ok()?;
            rest.compact_size().ok()?;
            Some(header)
        })
    }
}

/// The reason why a received payload is refused.
pub(super) enum PayloadError {
    /// The payload cannot be parsed. Core ignores it.
    Parse(ParseError),
    /// The payload has this number of items, which is over the limit. Core drops the peer.
    TooMany(usize),
}

impl From<ParseError> for PayloadError {
    fn from(error: ParseError) -> Self {
        Self::Parse(error)
    }
}

impl PayloadError {
    /// Returns an error if `count` exceeds `max`.
    pub(super) fn if_above(max: usize, count: usize) -> Result<(), Self> {
        if count > max { Err(Self::TooMany(count)) } else { Ok(()) }
    }
}

/// Reads a count of at most `max`.
pub(super) fn bounded(
    cursor: &mut Cursor,
    max: usize,
    what: &'static str,
) -> Result<usize, ParseError> {
    let error = cursor.error(what);
    let count = cursor.compact_size()?;
    if count > max { Err(error) } else { Ok(count) }
}
