//! The number of coins, kept in a file next to the tables that hold them, so that no run has to
//! read the whole UTXO set to say how many there are.
//!
//! The count is a function of the best block, whose hash stands with it: whoever moves the
//! chainstate to another block (bitcoind does not know this file) leaves a count that no longer
//! applies.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, StoreError};
use crate::hash::Hash;

/// The file's name in the directory of the tables.
pub const FILE: &str = "apus-coins";

/// The file with the counts of one chainstate.
pub(super) struct CoinCount {
    disk: Disk,
    path: PathBuf,
}

impl CoinCount {
    /// The file of the chainstate in the directory `chainstate`.
    pub fn new(disk: &Disk, chainstate: &Path) -> Self {
        Self { disk: disk.clone(), path: chainstate.join(FILE) }
    }

    /// The number of coins at `best`, if the file tells.
    pub fn read(&self, best: &Hash) -> Result<Option<u64>, StoreError> {
        let bytes = self.disk.read(&self.path)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.lines().filter_map(parse).find(|(block, _)| block == best).map(|(_, coins)| coins))
    }

    /// Notes the number of coins at two blocks: the best one, and the next, which becomes the best
    /// right after. Whichever a crash leaves, its count is there.
    pub fn write(&self, counts: [Option<(Hash, u64)>; 2]) -> Result<(), StoreError> {
        let lines = counts.iter().flatten().map(|(block, coins)| line(block, *coins));
        self.disk.write_atomically(&self.path, lines.collect::<String>().as_bytes())
    }
}

/// The block, the count, and a CRC-32C of both in hexadecimal.
fn line(block: &Hash, coins: u64) -> String {
    let content = format!("{block} {coins}");
    format!("{content} {:08x}\n", crc32c::crc32c(content.as_bytes()))
}

fn parse(text: &str) -> Option<(Hash, u64)> {
    let (content, _) = text.rsplit_once(' ')?;
    let (block, coins) = content.split_once(' ')?;
    let (block, coins) = (block.parse().ok()?, coins.parse().ok()?);
    (line(&block, coins).trim_end() == text).then_some((block, coins))
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
        file.write([Some((blocks[0], 7)), Some((blocks[1], 1 << 40))]).unwrap();
        assert_eq!(file.read(&blocks[0]).unwrap(), Some(7));
        assert_eq!(file.read(&blocks[1]).unwrap(), Some(1 << 40));
        assert_eq!(file.read(&blocks[2]).unwrap(), None);
        // No flipped bit makes it say another number.
        let path = dir.path().join(FILE);
        let good = std::fs::read(&path).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, bytes).unwrap();
            for (block, coins) in [(blocks[0], 7), (blocks[1], 1 << 40)] {
                assert!([None, Some(coins)].contains(&file.read(&block).unwrap()), "bit {bit}");
            }
        }
    }
}
