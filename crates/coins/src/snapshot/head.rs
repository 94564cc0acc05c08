use apus_hash::Hash;
use apus_wire::{Cursor, packed};

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
            return Err(SnapshotError::new(match packed(bytes) {
                Some(packed) => packed.advice(),
                None if is_old(bytes) => "this looks like a UTXO snapshot of Bitcoin Core 27 or \
                                          older, which cannot be read: write it again with \
                                          `apus snapshot create` or a newer bitcoind, from a \
                                          directory that has the blocks"
                    .to_string(),
                None => "this is not a UTXO snapshot as written by `apus snapshot create` or \
                         bitcoin-cli dumptxoutset: its first bytes differ"
                    .to_string(),
            }));
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

/// Returns whether a file may begin as a snapshot of Bitcoin Core 27 or older does: with the hash
/// of the base block, which ends in zeros unless it is one of regtest, and the number of coins.
fn is_old(bytes: &[u8]) -> bool {
    const COUNT_MAX: u64 = 1 << 40;
    let mut cursor = Cursor::new(bytes);
    let hash = cursor.array::<32>();
    let count = cursor.u64();
    hash.is_ok_and(|hash| hash.ends_with(&[0; 4]))
        && count.is_ok_and(|count| (1..COUNT_MAX).contains(&count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_packed_snapshots_are_named() {
        let refused = |bytes: &[u8]| SnapshotHead::parse(bytes).unwrap_err().to_string();
        let mut old = [7; 60];
        old[28..32].fill(0);
        old[32..40].copy_from_slice(&176_948_713u64.to_le_bytes());
        assert!(refused(&old).contains("Bitcoin Core 27 or older"));
        assert!(refused(&[7; 60]).contains("its first bytes differ"));
        assert!(refused(&[0; 60]).contains("its first bytes differ"));
        assert!(refused(&[0x1f, 0x8b, 8, 0]).contains("gzip"));
        assert!(refused(&[0x28, 0xb5, 0x2f, 0xfd, 4]).contains("unzstd"));
    }

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
