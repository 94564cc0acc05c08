use super::{Cursor, ParseError};
use crate::hash::{Hash, sha256d};

/// Bytes of a block header.
pub const HEADER_BYTES: usize = 80;

/// A block header (Core's `CBlockHeader`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// Version, with BIP9 bits.
    pub version: i32,
    /// Hash of the parent.
    pub prev: Hash,
    /// Merkle root of the txids.
    pub merkle_root: Hash,
    /// Seconds since 1970.
    pub time: u32,
    /// Target in compact form (`nBits`).
    pub bits: u32,
    /// What the miner turned.
    pub nonce: u32,
}

impl Header {
    /// Reads the 80 bytes that a block starts with.
    pub fn parse(cursor: &mut Cursor) -> Result<Self, ParseError> {
        Ok(Self {
            version: cursor.u32()? as i32,
            prev: Hash(cursor.array()?),
            merkle_root: Hash(cursor.array()?),
            time: cursor.u32()?,
            bits: cursor.u32()?,
            nonce: cursor.u32()?,
        })
    }

    /// The 80 bytes of the wire format.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.version.to_le_bytes());
        bytes[4..36].copy_from_slice(&self.prev.0);
        bytes[36..68].copy_from_slice(&self.merkle_root.0);
        bytes[68..72].copy_from_slice(&self.time.to_le_bytes());
        bytes[72..76].copy_from_slice(&self.bits.to_le_bytes());
        bytes[76..].copy_from_slice(&self.nonce.to_le_bytes());
        bytes
    }

    /// The block's hash.
    pub fn hash(&self) -> Hash {
        sha256d(&self.to_bytes())
    }
}
