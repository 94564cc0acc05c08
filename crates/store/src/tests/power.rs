use std::sync::Arc;

use apus_disk::{Disk, PowerCut};
use apus_hash::Hash;
use apus_testchain::rounds;
use apus_wire::genesis_block;

use super::write_undo;
use super::*;

/// The blocks that the last finished commit made durable, and those of an unfinished one.
#[derive(Default)]
pub(super) struct Promises {
    pub committed: usize,
    pub begun: usize,
}

/// Returns the blocks of the scenario, each the parent of the next.
pub(super) fn blocks() -> Vec<Vec<u8>> {
    let mut blocks = vec![genesis_block(&mainnet())];
    for seed in 1..9 {
        let parent = &blocks[blocks.len() - 1];
        let prev = apus_hash::sha256d(&parent[..80]);
        blocks.push(fake_block(seed, prev, 20_000));
    }
    blocks
}

pub(super) fn undo_of(height: usize) -> Vec<u8> {
    noise(height as u64, 100 * height)
}

pub(super) fn options() -> DataDirOptions {
    let files = BlockFilesOptions { fast_prune: true, ..Default::default() };
    DataDirOptions { files, ..DataDirOptions::default() }
}

/// Appends blocks with undo data, and commits after every third.
fn scenario(disk: &Disk, root: &Path, promises: &mut Promises) -> Result<()> {
    let data = DataDir::open(disk, root, &mainnet(), options())?;
    let (db, index, files) = data.open_blocks()?;
    let mut entries = Vec::new();
    for (height, block) in blocks().iter().enumerate().skip(index.entries.len()) {
        let pos = files.append_block(block, height as u32, 1)?;
        entries.push(entry_of(block, height as u32, pos, BlockStatus::BLOCK_VALID_SCRIPTS));
        if height > 0 {
            write_undo(&files, entries.last_mut().expect("pushed"), &undo_of(height))?;
        }
        if height % 3 == 2 {
            promises.begun = height + 1;
            db.write(&files.flush()?, &entries)?;
            promises.committed = height + 1;
            entries.clear();
        }
    }
    Ok(())
}

/// Checks that everything that the index names can be read and is right.
fn check(root: &Path, promises: &Promises) {
    let data = DataDir::open(&Disk::new(), root, &mainnet(), options()).unwrap();
    let (_db, mut index, files) = data.open_blocks().unwrap();
    let count = index.entries.len();
    assert!(
        count == promises.committed || count == promises.begun,
        "{count} blocks, not {} or {}",
        promises.committed,
        promises.begun
    );
    index.entries.sort_by_key(|entry| entry.height);
    check_undo_sizes(&index.entries, &files);
    for (entry, (height, block)) in index.entries.iter().zip(blocks().iter().enumerate()) {
        assert_eq!(&files.read_block(entry.block_pos().unwrap()).unwrap(), block);
        if let Some(pos) = entry.undo_pos() {
            let prev: &Hash = &entry.header.prev;
            assert_eq!(files.read_undo(pos, prev).unwrap(), undo_of(height));
        }
    }
}

/// Checks that no entry names undo data after the end of the rev file in the index.
fn check_undo_sizes(entries: &[IndexEntry], files: &BlockFiles) {
    let infos = files.infos();
    for pos in entries.iter().filter_map(IndexEntry::undo_pos) {
        assert!(pos.pos < infos[pos.file as usize].undo_size);
    }
}

#[test]
fn power_may_fail_at_every_step() {
    cut_at_every_step(scenario);
}

/// Cuts the power at each change to the disk during `scenario`, which commits nine blocks: each
/// time the index must name only data that can be read, and the scenario must be able to continue.
pub(super) fn cut_at_every_step(scenario: fn(&Disk, &Path, &mut Promises) -> Result<()>) {
    let dir = tempfile::tempdir().unwrap();
    let counter = Arc::new(PowerCut::at(u64::MAX));
    let mut promises = Promises::default();
    scenario(&Disk::with_power_cut(counter.clone()), dir.path(), &mut promises).unwrap();
    assert_eq!(promises.committed, 9);
    check(dir.path(), &promises);
    let steps = counter.steps();
    eprintln!("{steps} steps");
    assert!(steps > 50, "{steps}");

    for power in (1..=steps).flat_map(|cut_at| PowerCut::kinds(cut_at, rounds(2))) {
        let dir = tempfile::tempdir().unwrap();
        let what = format!("{power:?}");
        let mut promises = Promises::default();
        let disk = Disk::with_power_cut(power.clone());
        assert!(scenario(&disk, dir.path(), &mut promises).is_err(), "{what}");
        power.lose_unsynced().unwrap();
        eprintln!("{what}");
        check(dir.path(), &promises);
        // More blocks can be written after the failure.
        scenario(&Disk::new(), dir.path(), &mut promises).unwrap();
        assert_eq!(promises.begun, 9);
        check(dir.path(), &promises);
    }
}
