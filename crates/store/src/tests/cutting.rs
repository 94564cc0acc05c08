use std::fs;

use apus_disk::Disk;
use apus_hash::Hash;

use super::power::{Promises, blocks, cut_at_every_step, options, undo_of};
use super::write_undo;
use super::*;

/// Length in bytes of the undo data of each block, and of its record.
const UNDO_BYTES: usize = 460;
const RECORD_BYTES: u32 = 500;

/// Creates files of three blocks each, eleven in total; those below the height `with_undo` have
/// undo data.
fn files_of(dir: &Path, with_undo: u32) -> (BlockFiles, Vec<IndexEntry>) {
    let options = BlockFilesOptions { fast_prune: true, ..Default::default() };
    let key = Obfuscation::new([0xa0, 1, 2, 3, 4, 5, 6, 7]);
    let files = BlockFiles::new(&Disk::new(), dir, mainnet().magic, key, vec![], options);
    let mut entries = Vec::new();
    for height in 0..11 {
        let block = fake_block(u64::from(height), Hash([height as u8; 32]), 20_000);
        let pos = files.append_block(&block, height, 1).unwrap();
        entries.push(entry_of(&block, height, pos, BlockStatus::BLOCK_VALID_SCRIPTS));
    }
    for entry in &mut entries[..with_undo as usize] {
        write_undo(&files, entry, &noise(u64::from(entry.height), UNDO_BYTES)).unwrap();
    }
    (files, entries)
}

fn undo_sizes(files: &BlockFiles) -> Vec<u32> {
    files.infos().iter().map(|info| info.undo_size).collect()
}

#[test]
fn rev_files_are_cut_to_what_entries_name() {
    let dir = tempfile::tempdir().unwrap();
    let (files, entries) = files_of(dir.path(), 11);
    files.flush().unwrap();
    let named = |count: usize| entries[..count].iter().rev().filter_map(IndexEntry::undo_pos);
    let len = |number| fs::metadata(files.undo_path(number)).unwrap().len();
    let whole = [3, 3, 3, 2].map(|count| count * RECORD_BYTES);
    files.cut_undo(named(11)).unwrap();
    assert_eq!(undo_sizes(&files), whole);
    assert!(files.flush().unwrap().infos.is_empty(), "nothing had to be cut");

    // The third file loses one record of three, and the last one loses all.
    files.cut_undo(named(8)).unwrap();
    let cut = [3, 3, 2, 0].map(|count| count * RECORD_BYTES);
    assert_eq!(undo_sizes(&files), cut);
    assert_eq!([0, 1, 2, 3].map(len), cut.map(u64::from));
    let changes = files.flush().unwrap();
    assert_eq!(changes.infos.into_keys().collect::<Vec<_>>(), [2, 3]);
    for entry in &entries[..8] {
        let undo = files.read_undo(entry.undo_pos().unwrap(), &entry.header.prev).unwrap();
        assert_eq!(undo, noise(u64::from(entry.height), UNDO_BYTES));
    }
    // New records are appended at the cut.
    let mut again = entries.clone();
    for entry in &mut again[8..] {
        (entry.record.undo_pos, entry.record.status.0) =
            (0, entry.record.status.0 & !BlockStatus::BLOCK_HAVE_UNDO);
        write_undo(&files, entry, &noise(u64::from(entry.height), UNDO_BYTES)).unwrap();
    }
    assert!(
        again
            .iter()
            .map(|entry| entry.record.undo_pos)
            .eq(entries.iter().map(|e| e.record.undo_pos))
    );
    assert_eq!(undo_sizes(&files), whole);
    files.cut_undo([]).unwrap();
    assert_eq!(undo_sizes(&files), [0; 4]);
    assert_eq!([0, 1, 2, 3].map(len), [0; 4]);
}

#[test]
fn a_rev_file_may_be_gone_and_must_not_be_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (files, entries) = files_of(dir.path(), 11);
    let named = |count: usize| entries[..count].iter().filter_map(IndexEntry::undo_pos);
    fs::remove_file(files.undo_path(0)).unwrap();
    files.cut_undo(named(5)).unwrap();
    assert!(!files.undo_path(0).exists());
    assert_eq!(undo_sizes(&files), [3, 2, 0, 0].map(|count| count * RECORD_BYTES));
    flip(&files.undo_path(1), RECORD_BYTES as usize);
    let error = files.cut_undo(named(5)).unwrap_err();
    assert_eq!((error.path, error.offset), (files.undo_path(1), Some(500)));
}

/// Commits blocks with undo data in groups of three; before each commit, it appends undo data of
/// later blocks that is then abandoned.
fn scenario(disk: &Disk, root: &Path, promises: &mut Promises) -> Result<()> {
    let data = DataDir::open(disk, root, &mainnet(), options())?;
    let (db, index, files) = data.open_blocks()?;
    let done = index.entries.len();
    let mut entries = index.entries;
    entries.sort_by_key(|entry| entry.height);
    files.cut_undo(entries.iter().filter_map(IndexEntry::undo_pos))?;
    for (height, block) in blocks().iter().enumerate().skip(done) {
        let pos = files.append_block(block, height as u32, 1)?;
        entries.push(entry_of(block, height as u32, pos, BlockStatus::BLOCK_VALID_SCRIPTS));
        if height % 3 < 2 {
            continue;
        }
        for entry in &mut entries[height - 2..] {
            write_undo(&files, entry, &undo_of(entry.height as usize))?;
        }
        for mut entry in entries.iter().copied() {
            entry.record.status.0 &= !BlockStatus::BLOCK_HAVE_UNDO;
            write_undo(&files, &mut entry, &noise(7, 200))?;
        }
        promises.begun = height + 1;
        db.write(&files.flush()?, &entries[height - 2..])?;
        promises.committed = height + 1;
        files.cut_undo(entries.iter().filter_map(IndexEntry::undo_pos))?;
        db.write(&files.flush()?, &[])?;
    }
    Ok(())
}

#[test]
fn power_may_fail_at_every_step_of_a_cut() {
    cut_at_every_step(scenario);
}
