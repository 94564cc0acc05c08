use apus_hash::{Hash, sha256d};

use super::{Cursor, ParseError};

/// Length of a block header in bytes.
pub const HEADER_BYTES: usize = 80;

/// A block header (Core's `CBlockHeader`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// The version, which holds the bits of BIP9.
    pub version: i32,
    /// Hash of the parent block.
    pub prev: Hash,
    /// Merkle root of the txids of the block.
    pub merkle_root: Hash,
    /// Time of the block in seconds since 1970.
    pub time: u32,
    /// Target in compact form (`nBits`).
    pub bits: u32,
    /// The number that the miner varied to find the proof of work.
    pub nonce: u32,
}

impl Header {
    /// Reads a header, the first 80 bytes of a block.
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

    /// Returns the header in the wire format.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.version.to_le_bytes());
        bytes[4..36].copy_from_slice(&self.prev.0);
        bytes[36..68].copy_from_slice(&self.merkle_root.0);
        bytes[68..72].copy_from_slice(&self.time.to_le_bytes());
        bytes[72..76].copy_from_slice(&self.bits.to_le_bytes());
        bytes[76..].copy_from_slice(&self.nonce.to_le_bytes());
        bytes
    }

    /// Returns the hash of the block.
    pub fn hash(&self) -> Hash {
        sha256d(&self.to_bytes())
    }
}
