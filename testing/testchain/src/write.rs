//! Writes chains into files, in the format of Core's block files: magic, length, block.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use bitcoin::Network;
use bitcoin::consensus::encode::serialize;

use crate::generator::MadeBlock;

/// The first four bytes of every regtest message and stored block.
pub const REGTEST_MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// Largest block file of Core (MAX_BLOCKFILE_SIZE).
pub const BLK_FILE_BYTES_MAX: u64 = 128 << 20;

/// Returns regtest's genesis block.
pub fn genesis() -> Vec<u8> {
    serialize(&bitcoin::constants::genesis_block(Network::Regtest))
}

/// Writes one block after its magic and length.
pub fn write_block(out: &mut impl Write, block: &[u8]) -> io::Result<()> {
    let len = u32::try_from(block.len()).map_err(io::Error::other)?;
    out.write_all(&REGTEST_MAGIC)?;
    out.write_all(&len.to_le_bytes())?;
    out.write_all(block)
}

/// Writes the genesis block and `blocks` into one file, which is replaced; `bitcoind -loadblock`
/// reads it. Returns the size of the file.
///
/// # Errors
/// The file cannot be written.
pub fn write_framed(path: &Path, blocks: impl Iterator<Item = MadeBlock>) -> io::Result<u64> {
    write_split(blocks, u64::MAX, |_| File::create(path))
}

/// Writes the genesis block and `blocks` into `blk00000.dat`, `blk00001.dat`, ... of `directory`,
/// none above `file_bytes_max`, without obfuscation: a `blocks` directory that Core can reindex.
/// Returns the size of all files.
///
/// # Errors
/// A file cannot be written.
pub fn write_blk_files(
    directory: &Path,
    blocks: impl Iterator<Item = MadeBlock>,
    file_bytes_max: u64,
) -> io::Result<u64> {
    std::fs::create_dir_all(directory)?;
    write_split(blocks, file_bytes_max, |n| File::create(directory.join(format!("blk{n:05}.dat"))))
}

fn write_split(
    blocks: impl Iterator<Item = MadeBlock>,
    file_bytes_max: u64,
    mut open: impl FnMut(u32) -> io::Result<File>,
) -> io::Result<u64> {
    let mut file_number = 0;
    let mut file_bytes = 0u64;
    let mut all_bytes = 0;
    let mut out = BufWriter::with_capacity(1 << 20, open(0)?);
    for block in std::iter::once(genesis()).chain(blocks.map(|block| block.bytes)) {
        let len = block.len() as u64 + 8;
        if file_bytes > 0 && file_bytes.saturating_add(len) > file_bytes_max {
            out.flush()?;
            file_number += 1;
            file_bytes = 0;
            out = BufWriter::with_capacity(1 << 20, open(file_number)?);
        }
        write_block(&mut out, &block)?;
        file_bytes += len;
        all_bytes += len;
    }
    out.flush()?;
    Ok(all_bytes)
}
