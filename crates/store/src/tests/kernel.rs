use std::fs;

use apus_disk::Disk;
use bitcoinkernel::{Block, BlockHash, ChainType, ChainstateManager, Context};

use super::write_undo;
use super::*;

const BLOCKS: usize = 600;

fn manager(root: &Path) -> (Context, ChainstateManager) {
    let context = Context::builder().chain_type(ChainType::Mainnet).build().unwrap();
    let data = root.to_str().unwrap();
    let blocks = root.join("blocks");
    let manager = ChainstateManager::new(&context, data, blocks.to_str().unwrap()).unwrap();
    (context, manager)
}

/// Creates a data directory with Core, from the first blocks of mainnet.
pub(super) fn made_by_core(blocks: &[Vec<u8>]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (_context, manager) = manager(dir.path());
    for block in &blocks[1..] {
        manager.process_block(&Block::new(block).unwrap());
    }
    assert_eq!(manager.active_chain().height() as usize, blocks.len() - 1);
    dir
}

pub(super) fn open(root: &Path) -> (DataDir, IndexDb, Vec<IndexEntry>, BlockFiles) {
    open_with(root, DataDirOptions::default())
}

fn open_with(
    root: &Path,
    options: DataDirOptions,
) -> (DataDir, IndexDb, Vec<IndexEntry>, BlockFiles) {
    let data = DataDir::open(&Disk::new(), root, &mainnet(), options).unwrap();
    let (db, mut index, files) = data.open_blocks().unwrap();
    index.entries.sort_by_key(|entry| entry.height);
    (data, db, index.entries, files)
}

#[test]
fn we_read_what_core_wrote_and_write_the_same() {
    let blocks = mainnet_blocks(BLOCKS);
    let dir = made_by_core(&blocks);
    let (data, _db, entries, files) = open(dir.path());
    assert!(!data.obfuscation().is_none());
    assert_eq!(entries.len(), BLOCKS);

    let copy = tempfile::tempdir().unwrap();
    let magic = mainnet().magic;
    let options = BlockFilesOptions::default();
    let ours =
        BlockFiles::new(&Disk::new(), copy.path(), magic, data.obfuscation(), vec![], options);
    for (entry, block) in entries.iter().zip(&blocks) {
        let pos = entry.block_pos().unwrap();
        assert_eq!(&files.read_block(pos).unwrap(), block);
        assert_eq!(ours.append_block(block, entry.height, entry.header.time).unwrap(), pos);
        let mut again = entry_of(block, entry.height, pos, BlockStatus::BLOCK_VALID_SCRIPTS);
        if let Some(pos) = entry.undo_pos() {
            let undo = files.read_undo(pos, &entry.header.prev).unwrap();
            assert!(write_undo(&ours, &mut again, &undo).unwrap());
        }
        if entry.height > 0 {
            assert_eq!(&again, entry);
        }
    }
    assert_eq!(ours.infos(), files.infos());
    for name in ["blk00000.dat", "rev00000.dat"] {
        let same = fs::read(copy.path().join(name)).unwrap()
            == fs::read(dir.path().join("blocks").join(name)).unwrap();
        assert!(same, "{name} differs from Core's");
    }
    let source = BlockSource::open(dir.path(), &mainnet()).unwrap();
    assert_eq!(source.scan().count(), BLOCKS);
}

/// Creates a data directory of several files with our own code. It holds all blocks, and all undo
/// data or none.
fn made_by_us(
    blocks: &[Vec<u8>],
    entries: &[IndexEntry],
    theirs: &BlockFiles,
    with_undo: bool,
) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let layout = BlockFilesOptions { fast_prune: true, ..Default::default() };
    let options = DataDirOptions { files: layout, ..DataDirOptions::default() };
    let (data, db, none, files) = open_with(dir.path(), options);
    assert!(none.is_empty());
    let mut written = Vec::new();
    for (entry, block) in entries.iter().zip(blocks) {
        let pos = files.append_block(block, entry.height, entry.header.time).unwrap();
        let level = if with_undo && entry.height > 0 {
            BlockStatus::BLOCK_VALID_SCRIPTS
        } else {
            BlockStatus::BLOCK_VALID_TRANSACTIONS
        };
        let mut ours = entry_of(block, entry.height, pos, level);
        if let (true, Some(pos)) = (with_undo, entry.undo_pos()) {
            let undo = theirs.read_undo(pos, &entry.header.prev).unwrap();
            write_undo(&files, &mut ours, &undo).unwrap();
        }
        written.push(ours);
        if written.len() == 100 {
            db.write(&files.flush().unwrap(), &written).unwrap();
            written.clear();
        }
    }
    db.write(&files.flush().unwrap(), &written).unwrap();
    assert!(files.infos().len() > 2);
    drop(data);
    dir
}

#[test]
fn core_carries_on_with_what_we_wrote() {
    let blocks = mainnet_blocks(BLOCKS);
    let theirs = made_by_core(&blocks);
    let (_data, _db, entries, files) = open(theirs.path());
    for with_undo in [false, true] {
        let dir = made_by_us(&blocks[..BLOCKS - 1], &entries, &files, with_undo);
        {
            // Core connects all blocks from our files while it starts.
            let (_context, manager) = manager(dir.path());
            assert_eq!(manager.active_chain().height() as usize, BLOCKS - 2);
            for entry in &entries[1..BLOCKS - 1] {
                let hash = BlockHash::new(&entry.hash.0).unwrap();
                let theirs = manager.get_block_tree_entry(&hash).unwrap();
                let block = manager.read_block_data(&theirs).unwrap();
                assert_eq!(block.consensus_encode().unwrap(), blocks[entry.height as usize]);
                manager.read_spent_outputs(&theirs).unwrap();
            }
            manager.process_block(&Block::new(&blocks[BLOCKS - 1]).unwrap());
            assert_eq!(manager.active_chain().height() as usize, BLOCKS - 1);
        }
        // Apus reads what Core added.
        let (_data, _db, entries, files) = open(dir.path());
        assert_eq!(entries.len(), BLOCKS);
        for (entry, block) in entries.iter().zip(&blocks) {
            assert_eq!(&files.read_block(entry.block_pos().unwrap()).unwrap(), block);
            if let Some(pos) = entry.undo_pos() {
                files.read_undo(pos, &entry.header.prev).unwrap();
            }
        }
        assert!(entries[1..].iter().all(|entry| entry.undo_pos().is_some()));
    }
}
