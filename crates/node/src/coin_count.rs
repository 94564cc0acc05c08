//! The number of coins in the UTXO set, kept in a file next to the tables that hold them, so that
//! it is known without reading the whole set.
//!
//! Each count is stored with the hash of the best block that it belongs to. bitcoind does not know
//! this file: once bitcoind has moved the chainstate to another block, the counts no longer apply,
//! and the hashes show it.

use std::path::{Path, PathBuf};

use apus_disk::{Disk, StoreError};
use apus_hash::Hash;

/// The file's name in the directory of the tables.
pub const FILE: &str = "apus-coins";

/// A UTXO set's best block and its number of coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoinsAt {
    /// The best block.
    pub block: Hash,
    /// The number of coins.
    pub coins: u64,
}

/// The file with the coin counts of one chainstate.
pub struct CoinCount {
    disk: Disk,
    path: PathBuf,
}

impl CoinCount {
    /// Returns the file of the chainstate in the directory `chainstate`.
    pub fn new(disk: &Disk, chainstate: &Path) -> Self {
        Self { disk: disk.clone(), path: chainstate.join(FILE) }
    }

    /// Reads the count for the best block `best`, if the file has it.
    pub fn read(&self, best: &Hash) -> Result<Option<CoinsAt>, StoreError> {
        let bytes = self.disk.read(&self.path)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.lines().filter_map(parse).find(|count| count.block == *best))
    }

    /// Writes the counts for two blocks: the best block, and the one that is about to replace it.
    /// Whichever of them is the best block after a crash, its count is in the file.
    pub fn write(&self, counts: [Option<CoinsAt>; 2]) -> Result<(), StoreError> {
        let lines = counts.iter().flatten().map(line);
        self.disk.write_atomically(&self.path, lines.collect::<String>().as_bytes())
    }
}

/// Returns a line of the file: the block, the count, and a CRC-32C of both in hexadecimal.
fn line(count: &CoinsAt) -> String {
    let content = format!("{} {}", count.block, count.coins);
    format!("{content} {:08x}\n", crc32c::crc32c(content.as_bytes()))
}

/// Parses a line of the file; `None` if it is damaged.
fn parse(text: &str) -> Option<CoinsAt> {
    let (content, _) = text.rsplit_once(' ')?;
    let (block, coins) = content.split_once(' ')?;
    let count = CoinsAt { block: block.parse().ok()?, coins: coins.parse().ok()? };
    (line(&count).trim_end() == text).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_that_of_its_block_or_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let file = CoinCount::new(&Disk::new(), dir.path());
        let blocks = [Hash([1; 32]), Hash([2; 32]), Hash([3; 32])];
        assert_eq!(file.read(&blocks[0]).unwrap(), None);
        let counts = [(blocks[0], 7), (blocks[1], 1 << 40)]
            .map(|(block, coins)| Some(CoinsAt { block, coins }));
        file.write(counts).unwrap();
        assert_eq!(file.read(&blocks[0]).unwrap(), counts[0]);
        assert_eq!(file.read(&blocks[1]).unwrap(), counts[1]);
        assert_eq!(file.read(&blocks[2]).unwrap(), None);
        // No flipped bit yields another number.
        let path = dir.path().join(FILE);
        let good = std::fs::read(&path).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, bytes).unwrap();
            for (block, count) in blocks.iter().zip(counts) {
                assert!([None, count].contains(&file.read(block).unwrap()), "bit {bit}");
            }
        }
    }
}
