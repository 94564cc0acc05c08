mod cutting;
mod data_dir;
mod files;
mod index;
mod kernel;
mod lanes;
mod power;
mod scanning;
mod undo_files;

use std::path::Path;

use apus_disk::Result;
use apus_testdata::{Random, data, shared};
use apus_wire::{BlockView, Chain, Header, Network};

use super::*;

fn mainnet_blocks(count: usize) -> Vec<Vec<u8>> {
    let source = BlockSource::open(&data("mainnet-0-14131.dat"), &mainnet()).unwrap();
    let block = |item: Result<SourceItem>| match item.unwrap() {
        SourceItem::Block(block) => block.bytes,
        SourceItem::Warning(_, warning) => panic!("{warning:?}"),
    };
    source.scan().take(count).map(block).collect()
}

fn mainnet() -> Network {
    Network::new(Chain::Main)
}

/// Returns random bytes that start with a header whose parent is `prev`.
fn fake_block(seed: u64, prev: apus_hash::Hash, len: usize) -> Vec<u8> {
    let header = Header { prev, nonce: seed as u32, time: 1_000, ..Header::default() };
    let mut block = header.to_bytes().to_vec();
    block.extend(noise(seed, len.saturating_sub(block.len())));
    block
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    Random(seed).bytes(len)
}

/// Returns the index entry of a stored block, validated up to `level`.
fn entry_of(block: &[u8], height: u32, pos: FlatFilePos, level: u32) -> IndexEntry {
    let header = Header::parse(&mut apus_wire::Cursor::new(block)).unwrap();
    let tx_count = BlockView::parse(block).map_or(1, |view| view.tx_count() as u32);
    IndexEntry {
        hash: header.hash(),
        header,
        height,
        record: IndexRecord {
            status: BlockStatus(level | BlockStatus::BLOCK_HAVE_DATA),
            tx_count,
            file: pos.file,
            data_pos: pos.pos,
            undo_pos: 0,
        },
    }
}

/// Flips a bit of the byte at `offset` of a file.
fn flip(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Writes the undo data of the block of `entry`, and records its position there.
fn write_undo(files: &BlockFiles, entry: &mut IndexEntry, payload: &[u8]) -> Result<bool> {
    let IndexEntry { header, height, record, .. } = entry;
    files.write_undo(record, *height, &header.prev, payload)
}
