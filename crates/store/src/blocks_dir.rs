//! A directory of block files: its files and their obfuscation key.

use std::path::{Path, PathBuf};

use apus_disk::{Disk, Result, StoreError};

use super::Obfuscation;
use super::flat_file::{Kind, block_file_number};

/// Returns the key in the file `xor.dat` of a directory; `None` if there is no such file.
pub(super) fn read_xor_key(directory: &Path) -> Result<Option<Obfuscation>> {
    let path = directory.join("xor.dat");
    let Some(bytes) = Disk::new().read(&path)? else {
        return Ok(None);
    };
    let key = bytes.get(..Obfuscation::KEY_SIZE).and_then(|key| key.try_into().ok());
    let what = || format!("the file has {} bytes, but a key has 8", bytes.len());
    key.map(|key| Some(Obfuscation::new(key))).ok_or_else(|| StoreError::new(&path, what()))
}

/// Returns the files `blk*.dat` of a directory with their numbers, in ascending order.
pub(super) fn block_files(directory: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let names = Disk::new().list(directory)?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| block_file_number(name)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers.into_iter().map(|n| (n, Kind::Block.path(directory, n))).collect())
}
