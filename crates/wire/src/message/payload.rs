//! What can be sent, and the small payloads: headers, requests for them, pings.

use apus_hash::Hash;

use super::Command;
use crate::{Cursor, HEADER_BYTES, Header, ParseError, compact_size_len, put_compact_size};

/// Core's `MAX_HEADERS_RESULTS`: the most headers of a message. A peer that sends as many has more.
pub const HEADERS_MAX: usize = 2000;
/// Core's `MAX_LOCATOR_SZ`: the most hashes of a locator.
pub const LOCATOR_MAX: usize = 101;

/// The payload of a message to be sent.
pub trait Payload {
    /// The name of the message.
    fn command(&self) -> Command;

    /// The exact number of bytes.
    fn size(&self) -> usize;

    /// Appends the bytes.
    fn put(&self, out: &mut Vec<u8>);
}

/// A payload that is there already, such as a block; empty for messages without one.
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

    /// A `ping` with this number.
    pub fn ping(&self) -> impl Payload + use<> {
        Numbered(Command::PING, self.0)
    }

    /// A `pong` with this number.
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

/// How a peer wants compact blocks (BIP152).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendCmpct {
    /// Whether new blocks are to be announced by them: 1 or 0; another number is a fault.
    pub announce: u8,
    /// Their version; Core knows 2 alone.
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
    /// The sender's protocol version, which nobody reads.
    pub version: u32,
    /// Hashes of blocks, the highest first.
    pub locator: Hashes<'a>,
    /// The last block asked for; zeros for as many as there are.
    pub stop: Hash,
}

/// Hashes, one after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hashes<'a> {
    /// Of the caller.
    List(&'a [Hash]),
    /// In a message: 32 bytes for each.
    Bytes(&'a [u8]),
}

impl Hashes<'_> {
    /// Their number.
    pub fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Bytes(bytes) => bytes.len() / 32,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All hashes in order.
    pub fn iter(&self) -> impl Iterator<Item = Hash> + '_ {
        (0..self.len()).map(|i| match self {
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

/// Headers to be sent.
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

/// Headers that were received.
#[derive(Clone, Debug)]
pub struct HeaderList<'a> {
    count: usize,
    rest: Cursor<'a>,
}

impl<'a> HeaderList<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, PayloadError> {
        let count = cursor.compact_size()?;
        // Before the rest, as with Core.
        PayloadError::if_above(HEADERS_MAX, count)?;
        let list = Self { count, rest: cursor.clone() };
        for _ in 0..count {
            cursor.take(HEADER_BYTES)?;
            // The number of transactions, which Core ignores.
            cursor.compact_size()?;
        }
        Ok(list)
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All headers in order.
    pub fn iter(&self) -> impl Iterator<Item = Header> + use<'a> {
        let mut rest = self.rest.clone();
        (0..self.count).map_while(move |_| {
            let header = Header::parse(&mut rest).ok()?;
            rest.compact_size().ok()?;
            Some(header)
        })
    }
}

/// Why a payload that was received is not taken.
pub(super) enum PayloadError {
    /// It cannot be parsed. Core ignores it.
    Parse(ParseError),
    /// It has so many items, more than it may. Core drops the peer.
    TooMany(usize),
}

impl From<ParseError> for PayloadError {
    fn from(error: ParseError) -> Self {
        Self::Parse(error)
    }
}

impl PayloadError {
    /// An error if `count` items are more than `max`.
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
