use apus_hash::Hash;
use apus_wire::{Cursor, Header, ParseError, put_varint};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::FlatFilePos;
use super::file_info::{varint_i32, varint_u32};

/// How far a block has been validated, and which of its data is stored (Core's `BlockStatus`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct BlockStatus(pub u32);

impl BlockStatus {
    /// Nothing has been validated.
    #[allow(dead_code, reason = "Core's list is complete here")]
    pub const BLOCK_VALID_UNKNOWN: u32 = 0;
    /// Used by old versions of Core for a valid header.
    #[allow(dead_code, reason = "Core's list is complete here")]
    pub const BLOCK_VALID_RESERVED: u32 = 1;
    /// The headers of all ancestors are known, and the header is valid.
    pub const BLOCK_VALID_TREE: u32 = 2;
    /// Every rule that needs no coins holds, and the number of transactions is known.
    pub const BLOCK_VALID_TRANSACTIONS: u32 = 3;
    /// Everything but scripts is valid, in the block and all its ancestors.
    pub const BLOCK_VALID_CHAIN: u32 = 4;
    /// Everything is valid, in the block and all its ancestors.
    pub const BLOCK_VALID_SCRIPTS: u32 = 5;
    /// The bits that hold one of the validity levels.
    pub const BLOCK_VALID_MASK: u32 = 7;
    /// The block is in a blk file.
    pub const BLOCK_HAVE_DATA: u32 = 8;
    /// The undo data of the block is in the rev file of the same number.
    pub const BLOCK_HAVE_UNDO: u32 = 16;
    /// The bits of `BLOCK_HAVE_DATA` and `BLOCK_HAVE_UNDO`.
    pub const BLOCK_HAVE_MASK: u32 = 24;
    /// The block is invalid, or has an invalid ancestor.
    pub const BLOCK_FAILED_VALID: u32 = 32;
    /// The block has an invalid ancestor, as recorded by older versions of Core.
    /// [`super::IndexDb::load`] turns it into `BLOCK_FAILED_VALID`, as Core does.
    pub const BLOCK_FAILED_CHILD: u32 = 64;
    /// The block was stored with its witnesses, by a program that enforces BIP141. Core requires
    /// this of every block of the active chain from the segwit height on.
    pub const BLOCK_OPT_WITNESS: u32 = 128;
    /// Used by old versions of Core for blocks below a snapshot that is not validated.
    #[allow(dead_code, reason = "Core's list is complete here")]
    pub const BLOCK_STATUS_RESERVED: u32 = 256;

    /// Returns whether all of `bits` are set.
    pub fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }

    /// Returns whether the block is known to be invalid.
    pub fn is_failed(self) -> bool {
        self.0 & (Self::BLOCK_FAILED_VALID | Self::BLOCK_FAILED_CHILD) != 0
    }

    /// Returns whether the block is known to be valid up to `level` (Core's `IsValid`).
    pub fn is_valid(self, level: u32) -> bool {
        !self.is_failed() && self.0 & Self::BLOCK_VALID_MASK >= level
    }

    /// Lowers the validity level to `level`, which must not be above the current one.
    pub fn lower_validity(&mut self, level: u32) {
        self.0 = self.0 & !Self::BLOCK_VALID_MASK | level;
    }

    /// Raises the validity level, unless the block failed, and returns whether it changed (Core's
    /// `RaiseValidity`).
    pub fn raise_validity(&mut self, level: u32) -> bool {
        if self.is_failed() || self.0 & Self::BLOCK_VALID_MASK >= level {
            return false;
        }
        self.0 = self.0 & !Self::BLOCK_VALID_MASK | level;
        true
    }
}

/// The entry of a block in the block index (Core's `CDiskBlockIndex`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IndexEntry {
    /// Hash of the header, and the key of the record.
    pub hash: Hash,
    /// The header of the block.
    pub header: Header,
    /// Height of the block; 0 for the genesis block.
    pub height: u32,
    /// The status and the position of the block.
    pub record: IndexRecord,
}

/// The index data of a block other than its header: how far it has been validated, and where it is
/// stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct IndexRecord {
    /// How far the block has been validated, and which of its data is stored.
    pub status: BlockStatus,
    /// Number of transactions; 0 while only the header is known.
    pub tx_count: u32,
    /// Number of the blk and rev file; valid only with `BLOCK_HAVE_DATA` or `BLOCK_HAVE_UNDO`.
    pub file: u32,
    /// Offset of the block in its blk file, after magic and length.
    pub data_pos: u32,
    /// Offset of the undo data in its rev file, after magic and length.
    pub undo_pos: u32,
}

/// The version at the start of a record, which no program reads; Core writes its newest one.
pub const DUMMY_VERSION: u64 = 259_900;

impl IndexRecord {
    /// Returns the position of the block, if it is stored.
    pub fn block_pos(&self) -> Option<FlatFilePos> {
        let stored = self.status.has(BlockStatus::BLOCK_HAVE_DATA);
        stored.then_some(FlatFilePos { file: self.file, pos: self.data_pos })
    }

    /// Returns the position of the undo data, if it is stored.
    pub fn undo_pos(&self) -> Option<FlatFilePos> {
        let stored = self.status.has(BlockStatus::BLOCK_HAVE_UNDO);
        stored.then_some(FlatFilePos { file: self.file, pos: self.undo_pos })
    }

    /// Clears the positions of the block and its undo data after their files were pruned.
    pub fn forget_data(&mut self) {
        self.status.0 &= !BlockStatus::BLOCK_HAVE_MASK;
        (self.file, self.data_pos, self.undo_pos) = (0, 0, 0);
    }
}

impl IndexEntry {
    /// Returns the position of the block, if it is stored.
    pub fn block_pos(&self) -> Option<FlatFilePos> {
        self.record.block_pos()
    }

    /// Returns the position of the undo data, if it is stored.
    pub fn undo_pos(&self) -> Option<FlatFilePos> {
        self.record.undo_pos()
    }

    /// Returns the record in the block index.
    pub fn to_bytes(self) -> Vec<u8> {
        let IndexRecord { status, tx_count, file, data_pos, undo_pos } = self.record;
        let mut out = Vec::with_capacity(120);
        put_varint(&mut out, DUMMY_VERSION);
        put_varint(&mut out, u64::from(self.height));
        put_varint(&mut out, u64::from(status.0));
        put_varint(&mut out, u64::from(tx_count));
        if status.0 & BlockStatus::BLOCK_HAVE_MASK != 0 {
            put_varint(&mut out, u64::from(file));
        }
        if status.has(BlockStatus::BLOCK_HAVE_DATA) {
            put_varint(&mut out, u64::from(data_pos));
        }
        if status.has(BlockStatus::BLOCK_HAVE_UNDO) {
            put_varint(&mut out, u64::from(undo_pos));
        }
        out.extend_from_slice(&self.header.to_bytes());
        out
    }

    /// Parses the record in the block index; the hash is computed from the header.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(bytes);
        varint_i32(&mut cursor)?;
        let height = varint_i32(&mut cursor)?;
        let status = BlockStatus(varint_u32(&mut cursor)?);
        let tx_count = varint_u32(&mut cursor)?;
        let mut record = IndexRecord { status, tx_count, ..IndexRecord::default() };
        if status.0 & BlockStatus::BLOCK_HAVE_MASK != 0 {
            record.file = varint_i32(&mut cursor)?;
        }
        if status.has(BlockStatus::BLOCK_HAVE_DATA) {
            record.data_pos = varint_u32(&mut cursor)?;
        }
        if status.has(BlockStatus::BLOCK_HAVE_UNDO) {
            record.undo_pos = varint_u32(&mut cursor)?;
        }
        let header = Header::parse(&mut cursor)?;
        Ok(Self { hash: header.hash(), header, height, record })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(status: u32) -> IndexEntry {
        let header = Header { version: 1, time: 2, bits: 3, nonce: 4, ..Header::default() };
        IndexEntry {
            hash: header.hash(),
            header,
            height: 0x1234,
            record: IndexRecord {
                status: BlockStatus(status),
                tx_count: 2,
                file: 1,
                data_pos: 8,
                undo_pos: 0x80,
            },
        }
    }

    #[test]
    fn fields_depend_on_the_status() {
        let version = [0x8e, 0xed, 0x3c];
        let cases: [(u32, &[u8]); 4] = [
            (0x02, &[0xa3, 0x34, 0x02, 0x02]),
            (0x0b, &[0xa3, 0x34, 0x0b, 0x02, 0x01, 0x08]),
            (0x12, &[0xa3, 0x34, 0x12, 0x02, 0x01, 0x80, 0x00]),
            (0x9d, &[0xa3, 0x34, 0x80, 0x1d, 0x02, 0x01, 0x08, 0x80, 0x00]),
        ];
        for (status, middle) in cases {
            let entry = entry(status);
            let bytes = entry.to_bytes();
            let expected = [&version[..], middle, &entry.header.to_bytes()].concat();
            assert_eq!(bytes, expected);
            let read = IndexEntry::parse(&bytes).unwrap();
            assert_eq!(read.to_bytes(), bytes);
            assert_eq!(
                (read.hash, read.height, read.record.status),
                (entry.hash, 0x1234, entry.record.status)
            );
            assert_eq!(read.block_pos(), entry.block_pos());
            assert_eq!(read.undo_pos(), entry.undo_pos());
            for len in 0..bytes.len() {
                assert!(IndexEntry::parse(&bytes[..len]).is_err());
            }
        }
        let mut pruned = entry(0x9d);
        pruned.record.forget_data();
        assert_eq!(pruned.record.status, BlockStatus(0x85));
        assert_eq!(pruned.block_pos(), None);
    }

    #[test]
    fn validity_only_rises_and_never_of_a_failed_block() {
        let mut status = BlockStatus(BlockStatus::BLOCK_HAVE_DATA);
        assert!(status.raise_validity(BlockStatus::BLOCK_VALID_SCRIPTS));
        assert!(!status.raise_validity(BlockStatus::BLOCK_VALID_TREE));
        assert_eq!(status, BlockStatus(13));
        assert!(status.is_valid(BlockStatus::BLOCK_VALID_CHAIN));
        status.0 |= BlockStatus::BLOCK_FAILED_CHILD;
        assert!(status.is_failed() && !status.is_valid(BlockStatus::BLOCK_VALID_TREE));
        assert!(!status.raise_validity(BlockStatus::BLOCK_VALID_SCRIPTS));
    }
}
