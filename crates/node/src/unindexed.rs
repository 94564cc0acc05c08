//! Block files that the block index does not name. A new index would hide them, and new blocks
//! would overwrite them.

use std::path::Path;

use apus_disk::StoreError;
use apus_progress::words::shell_word;
use apus_store::{BlockIndex, BlockSource, DataDir, SourceItem, list_block_files};
use apus_wire::{Cursor, Header};

use super::options::Options;

/// Returns an error if the data directory that `options` name has block files, but no index of
/// them. Nothing is created.
pub fn refuse_unindexed(options: &Options) -> Result<(), StoreError> {
    if options.network_dir().join("blocks/index/CURRENT").is_file() {
        return Ok(());
    }
    refuse_block_files(&options.blocks_path(), options)
}

/// Returns an error if the index of an opened directory is not complete.
pub fn refuse_half_an_index(
    dir: &DataDir,
    index: &BlockIndex,
    options: &Options,
) -> Result<(), StoreError> {
    if index.reindexing {
        let what = "Bitcoin Core was rebuilding this block index and has not finished: let it \
                    finish, or rebuild the index with `apus reindex --index`";
        return Err(StoreError::new(dir.index_path(), what));
    }
    if index.entries.is_empty() { refuse_block_files(dir.blocks_path(), options) } else { Ok(()) }
}

/// Returns an error if there are block files in `blocks`, for a data directory whose index is
/// missing or empty. Nothing is created.
fn refuse_block_files(blocks: &Path, options: &Options) -> Result<(), StoreError> {
    let network = &options.network;
    if list_block_files(blocks)?.is_empty() {
        return Ok(());
    }
    let source = BlockSource::open(blocks, network)?;
    for item in source.scan_headers() {
        let SourceItem::Block(block) = item? else { continue };
        let header = Header::parse(&mut Cursor::new(&block.bytes));
        // A crash may have left only the genesis block.
        if !header.is_ok_and(|header| header.hash() == network.genesis_hash) {
            return Err(StoreError::new(blocks, without_index(blocks, options)));
        }
    }
    Ok(())
}

/// Returns what is wrong with blocks that have no index, and what to do.
fn without_index(blocks: &Path, options: &Options) -> String {
    let place = options.network_dir().join("blocks/index");
    let moved = blocks.join("index");
    if moved != place && moved.join("CURRENT").is_file() {
        let word = |path: &Path| shell_word(&path.display().to_string());
        let above = place.parent().unwrap_or(&place);
        return format!(
            "there are block files here, and their index is in {}, but it belongs to the data \
             directory; to move it there: `mkdir -p {} && mv -T {} {}`",
            moved.display(),
            word(above),
            word(&moved),
            word(&place)
        );
    }
    "there are block files here, but no index of them: build one with `apus reindex --index`, or \
     read the blocks into another directory (`apus sync --from` this one `--datadir` another)"
        .to_string()
}
