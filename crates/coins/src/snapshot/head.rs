use apus_hash::Hash;
use apus_wire::Cursor;

use super::error::SnapshotError;

/// The first bytes of a snapshot (Core's `SNAPSHOT_MAGIC_BYTES`).
pub const SNAPSHOT_MAGIC: [u8; 5] = *b"utxo\xff";
/// The version of the format (Core's `SnapshotMetadata::VERSION`).
pub const SNAPSHOT_VERSION: u16 = 2;

/// The head of a snapshot (Core's `SnapshotMetadata`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHead {
    /// The network's magic bytes.
    pub network: [u8; 4],
    /// Hash of the base block, up to which the snapshot holds the unspent coins.
    pub base: Hash,
    /// The number of coins.
    pub coins: u64,
}

impl SnapshotHead {
    /// The length of a head in bytes.
    pub const BYTES: usize = 5 + 2 + 4 + 32 + 8;

    /// Returns the head as it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let version = SNAPSHOT_VERSION.to_le_bytes();
        let coins = self.coins.to_le_bytes();
        [&SNAPSHOT_MAGIC[..], &version, &self.network, &self.base.0, &coins].concat()
    }

    /// Reads the head at the start of a file.
    ///
    /// # Errors
    /// The bytes are not the start of a snapshot, or the version is not supported.
    pub fn parse(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let mut cursor = Cursor::new(bytes);
        if cursor.array() != Ok(SNAPSHOT_MAGIC) {
            return Err(SnapshotError::new(
                "this is not a UTXO snapshot as written by `apus snapshot create` or bitcoin-cli \
                 dumptxoutset: its first bytes differ",
            ));
        }
        match cursor.u16() {
            Ok(SNAPSHOT_VERSION) => {}
            Ok(version) => {
                return Err(SnapshotError::new(format!(
                    "this UTXO snapshot has version {version}, but only version \
                     {SNAPSHOT_VERSION} can be read"
                )));
            }
            Err(error) => return Err(SnapshotError::parsing(0, &error)),
        }
        let mut rest = || {
            Ok(Self { network: cursor.array()?, base: Hash(cursor.array()?), coins: cursor.u64()? })
        };
        rest().map_err(|error| SnapshotError::parsing(0, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_is_written_and_others_are_refused() {
        let head = SnapshotHead { network: [1, 2, 3, 4], base: Hash([7; 32]), coins: 1 << 40 };
        let bytes = head.to_bytes();
        assert_eq!(bytes.len(), SnapshotHead::BYTES);
        assert_eq!(SnapshotHead::parse(&bytes), Ok(head));
        for len in 0..bytes.len() {
            assert!(SnapshotHead::parse(&bytes[..len]).is_err());
        }
        for (at, words) in
            [(0, "not a UTXO snapshot"), (4, "not a UTXO snapshot"), (5, "version 3")]
        {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            let error = SnapshotHead::parse(&wrong).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
