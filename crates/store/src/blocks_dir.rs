//! A directory of block files: its files and their obfuscation key.

use std::path::{Path, PathBuf};

use apus_disk::{Disk, Result, StoreError};
use apus_wire::{BlockView, Network, genesis_block};

use super::Obfuscation;
use super::flat_file::{Kind, STORAGE_HEADER_BYTES, block_file_number};
use super::magic::{MAX_BLOCK_BYTES, MIN_BLOCK_BYTES};

/// Offset in a block file at which the last 8 bytes of the first block's `prev` begin: after magic,
/// length, version, and 24 bytes.
const END_OF_PREV: usize = 8 + 4 + 24;

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

/// Returns the key with which block files were obfuscated, if it follows from the first block in
/// one of them. It tells the key of a directory whose `xor.dat` is lost or wrong.
///
/// A file starts with the network's magic, the length of a block, and the block. The first file of
/// a directory starts with the genesis block, which is known. In every other block of a network
/// with a real proof of work, the hash of the parent ends in 8 zero bytes. A key counts only if it
/// reveals the genesis block, or a block of exactly the length before it.
pub(super) fn recover_key(
    files: &[(u32, PathBuf)],
    network: &Network,
) -> Result<Option<Obfuscation>> {
    for (_, path) in files {
        let file = Disk::new().open_read(path)?;
        let len = file.len()?.min(u64::from(STORAGE_HEADER_BYTES + MAX_BLOCK_BYTES));
        let mut head = Vec::new();
        file.append_to(&mut head, len as usize, 0)?;
        let candidates = [key_by_genesis(&head, network), key_by_parent(&head)];
        if let Some(key) =
            candidates.into_iter().flatten().find(|key| reveals(*key, &head, network))
        {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Returns the error for block files without `xor.dat` of which `file` does not tell the key.
pub(super) fn lost_key(directory: &Path, file: &Path) -> StoreError {
    let what = format!(
        "this file is missing, and {} holds no block that can be read without it: it holds the key \
         with which the block files are obfuscated. Put it back from a copy of this directory, or \
         sync into a new one (`apus sync --from` a node with all blocks `--datadir` new)",
        file.display()
    );
    StoreError::new(directory.join("xor.dat"), what)
}

/// Returns the key of a file that starts with the genesis block.
fn key_by_genesis(head: &[u8], network: &Network) -> Option<Obfuscation> {
    let length = (genesis_block(network).len() as u32).to_le_bytes();
    let plain = [network.magic, length].concat();
    let hidden = head.get(..Obfuscation::KEY_SIZE)?;
    let key: Vec<u8> = hidden.iter().zip(plain).map(|(hidden, plain)| hidden ^ plain).collect();
    key.try_into().ok().map(Obfuscation::new)
}

/// Returns the key of a file whose first block has a parent whose hash ends in zeros.
fn key_by_parent(head: &[u8]) -> Option<Obfuscation> {
    let hidden = head.get(END_OF_PREV..END_OF_PREV + Obfuscation::KEY_SIZE)?;
    let mut key: [u8; Obfuscation::KEY_SIZE] = hidden.try_into().ok()?;
    key.rotate_right(END_OF_PREV % Obfuscation::KEY_SIZE);
    Some(Obfuscation::new(key))
}

/// Returns whether `key` reveals a block at the start of a file.
fn reveals(key: Obfuscation, head: &[u8], network: &Network) -> bool {
    let mut head = head.to_vec();
    key.apply(&mut head, 0);
    let Some((frame, rest)) = head.split_first_chunk::<8>() else { return false };
    let length = u32::from_le_bytes([frame[4], frame[5], frame[6], frame[7]]);
    let is_length = (MIN_BLOCK_BYTES..=MAX_BLOCK_BYTES).contains(&length);
    let Some(block) = rest.get(..length as usize) else { return false };
    frame[..4] == network.magic
        && is_length
        && (block == genesis_block(network)
            || BlockView::parse(block).is_ok_and(|view| view.len() == block.len()))
}

/// Returns the files `blk*.dat` of a directory with their numbers, in ascending order.
pub fn list_block_files(directory: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let names = Disk::new().list(directory)?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| block_file_number(name)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers.into_iter().map(|n| (n, Kind::Block.path(directory, n))).collect())
}
