//! Hints files from peers. The messages are Apus's own: no BIP describes them.

use super::payload::PayloadError;
use super::{Command, Payload};
use crate::Cursor;
use apus_hash::Hash;

/// The bytes of each chunk of a hints file but the last.
pub const HINTS_CHUNK_BYTES: u64 = 1_000_000;

/// A hints file that a node offers: the data of its feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfferedHints {
    /// The height up to which the hints go.
    pub height: u32,
    /// The hash of the block at this height.
    pub block: Hash,
    /// The SHA-256 of the file.
    pub sha256: [u8; 32],
    /// The number of bytes of the file.
    pub size: u64,
}

impl OfferedHints {
    /// Reads the data of the feature; returns `None` if it has another length.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(data);
        let mut read = || -> Result<Self, PayloadError> {
            Ok(Self {
                height: cursor.u32()?,
                block: Hash(cursor.array()?),
                sha256: cursor.array()?,
                size: cursor.u64()?,
            })
        };
        let offered = read().ok()?;
        (cursor.remaining() == 0).then_some(offered)
    }

    /// Returns the data of the feature.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { height, block, sha256, size } = self;
        [&height.to_le_bytes()[..], &block.0, sha256, &size.to_le_bytes()].concat()
    }

    /// Returns the number of chunks of the file.
    pub fn chunks(&self) -> u64 {
        self.size.div_ceil(HINTS_CHUNK_BYTES)
    }

    /// Returns the number of bytes of a chunk; 0 beyond the end.
    pub fn chunk_bytes(&self, chunk: u64) -> u64 {
        self.size.saturating_sub(chunk.saturating_mul(HINTS_CHUNK_BYTES)).min(HINTS_CHUNK_BYTES)
    }
}

/// A request for a chunk of a hints file (`gethints`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetHints {
    /// The SHA-256 of the file.
    pub sha256: [u8; 32],
    /// The index of the chunk.
    pub chunk: u32,
}

impl GetHints {
    pub(super) fn parse(cursor: &mut Cursor) -> Result<Self, PayloadError> {
        Ok(Self { sha256: cursor.array()?, chunk: cursor.u32()? })
    }
}

impl Payload for GetHints {
    fn command(&self) -> Command {
        Command::GETHINTS
    }

    fn size(&self) -> usize {
        36
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sha256);
        out.extend_from_slice(&self.chunk.to_le_bytes());
    }
}

/// A chunk of a hints file (`hints`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HintsChunk<'a> {
    /// The SHA-256 of the file and the index of the chunk.
    pub of: GetHints,
    /// The bytes of the chunk.
    pub bytes: &'a [u8],
}

impl<'a> HintsChunk<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, PayloadError> {
        Ok(Self { of: GetHints::parse(cursor)?, bytes: cursor.take(cursor.remaining())? })
    }
}
