use std::fs;

use apus_disk::{Call, Disk};
use apus_hash::Hash;

use super::write_undo;
use super::*;

const MAGIC: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];

fn open(dir: &Path, key: Obfuscation, infos: Vec<FileInfo>, fast_prune: bool) -> BlockFiles {
    let options = BlockFilesOptions { fast_prune, ..Default::default() };
    BlockFiles::new(&Disk::new(), dir, MAGIC, key, infos, options)
}

fn key() -> Obfuscation {
    Obfuscation::new([0xa0, 1, 2, 3, 4, 5, 6, 7])
}

#[test]
fn room_that_is_to_stay_free_is_not_reserved() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), Obfuscation::NONE, vec![], false);
    files.keep_free(u64::MAX);
    let before = files.infos();
    let error = files.append_block(&fake_block(1, Hash::ZERO, 85), 7, 1_000).unwrap_err();
    assert!(error.is_full(), "{error}");
    assert!(error.to_string().contains("disk space is too low"), "{error}");
    assert_eq!(files.infos(), before);
    // Data appended before can still be made durable.
    files.flush().unwrap();
}

#[test]
fn a_block_and_its_undo_byte_by_byte() {
    for key in [Obfuscation::NONE, key()] {
        let dir = tempfile::tempdir().unwrap();
        let files = open(dir.path(), key, vec![], false);
        let prev = Hash([9; 32]);
        let block = fake_block(1, prev, 85);
        let pos = files.append_block(&block, 7, 1_000).unwrap();
        assert_eq!(pos, FlatFilePos { file: 0, pos: 8 });
        let mut entry = entry_of(&block, 7, pos, BlockStatus::BLOCK_VALID_TRANSACTIONS);
        assert!(write_undo(&files, &mut entry, &[1, 2, 3]).unwrap());
        assert_eq!(entry.undo_pos(), Some(FlatFilePos { file: 0, pos: 8 }));
        assert!(!write_undo(&files, &mut entry, &[1, 2, 3]).unwrap(), "it is already stored");
        let second = files.append_block(&block, 8, 999).unwrap();
        assert_eq!(second, FlatFilePos { file: 0, pos: 8 + 85 + 8 });

        let mut expected = [&MAGIC[..], &[85, 0, 0, 0], &block].concat();
        expected.extend_from_within(..);
        let mut stored = fs::read(dir.path().join("blk00000.dat")).unwrap();
        assert_eq!(stored.len(), 16 << 20, "reserved");
        stored.truncate(expected.len());
        key.apply(&mut stored, 0);
        assert_eq!(stored, expected);

        let checksum = apus_hash::sha256d(&[&prev.0[..], &[1, 2, 3]].concat());
        let expected = [&MAGIC[..], &[3, 0, 0, 0, 1, 2, 3], &checksum.0].concat();
        let mut stored = fs::read(dir.path().join("rev00000.dat")).unwrap();
        assert_eq!(stored.len(), 1 << 20, "reserved");
        stored.truncate(expected.len());
        key.apply(&mut stored, 0);
        assert_eq!(stored, expected);

        assert_eq!(files.read_block(pos).unwrap(), block);
        assert_eq!(files.read_block(second).unwrap(), block);
        let undo = entry.undo_pos().unwrap();
        assert_eq!(files.read_undo(undo, &prev).unwrap(), [1, 2, 3]);
        assert!(files.read_undo(undo, &Hash::ZERO).is_err(), "another parent");
        let info = FileInfo {
            blocks: 2,
            size: 186,
            undo_size: 43,
            height_first: 7,
            height_last: 8,
            time_first: 999,
            time_last: 1_000,
        };
        assert_eq!(files.infos(), [info]);
    }
}

#[test]
fn undo_data_may_be_encoded_in_any_order() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [one, two] = dirs.each_ref().map(|dir| open(dir.path(), key(), vec![], false));
    let prev = |height: u32| Hash([height as u8; 32]);
    for files in [&one, &two] {
        (0..5).for_each(|height| {
            files.append_block(&fake_block(1, Hash::ZERO, 80), height, 1).unwrap();
        });
    }
    let encode = |height: u32| one.encode_undo(&noise(1, 100 * height as usize), &prev(height));
    let mut encoded: Vec<_> = (0..5).rev().map(encode).collect();
    for height in 0..5 {
        let payload = &noise(1, 100 * height as usize);
        let at = one.append_encoded_undo(0, height, encoded.pop().unwrap()).unwrap();
        let undo = UndoRecord { file: 0, height, prev: &prev(height), payload };
        assert_eq!(two.append_undo(undo).unwrap(), at);
        let read = one.read_undo(FlatFilePos { file: 0, pos: at }, &prev(height)).unwrap();
        assert_eq!(read, *payload);
    }
    assert_eq!(one.infos(), two.infos());
    let rev = |files: &BlockFiles| fs::read(files.undo_path(0)).unwrap();
    assert!(rev(&one) == rev(&two));
}

#[test]
fn full_files_are_cut_to_their_size() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), key(), vec![], true);
    let len = |name: &str| fs::metadata(dir.path().join(name)).unwrap().len();
    let mut entries = Vec::new();
    let block_of = |height: u32| fake_block(u64::from(height), Hash([height as u8; 32]), 20_000);
    for height in 0..7 {
        let pos = files.append_block(&block_of(height), height, 1).unwrap();
        assert_eq!(pos.file, height / 3, "three records of 20,008 bytes fit into 65,536");
        entries.push(entry_of(&block_of(height), height, pos, BlockStatus::BLOCK_VALID_CHAIN));
        // Undo data is written along with the blocks in the first file, and later in the second.
        if height < 3 {
            write_undo(&files, &mut entries[height as usize], &noise(1, 500)).unwrap();
        }
    }
    assert_eq!((len("blk00000.dat"), len("blk00001.dat")), (60_024, 60_024));
    assert_eq!((len("rev00000.dat"), len("blk00002.dat")), (3 * 540, 2 * 16_384));
    for height in 3..6 {
        write_undo(&files, &mut entries[height as usize], &noise(1, 500)).unwrap();
        assert_eq!(len("rev00001.dat"), if height < 5 { 1 << 20 } else { 3 * 540 });
    }
    let infos = files.infos();
    assert_eq!((infos.len(), infos[1].height_first, infos[1].height_last), (3, 3, 5));
    let changes = files.flush().unwrap();
    assert_eq!((changes.infos.len(), changes.last_file), (3, 2));
    assert!(files.flush().unwrap().infos.is_empty(), "nothing was written since");

    // Once the files are opened again, the next block is written after the last.
    drop(files);
    let files = open(dir.path(), key(), infos, true);
    let pos = files.append_block(&block_of(7), 7, 1).unwrap();
    assert_eq!(pos, FlatFilePos { file: 2, pos: 20_008 + 8 });
    let large = files.append_block(&fake_block(8, Hash::ZERO, 100_000), 8, 1).unwrap();
    assert_eq!(large, FlatFilePos { file: 3, pos: 8 });
    for (entry, height) in entries.iter().zip(0..) {
        assert_eq!(files.read_block(entry.block_pos().unwrap()).unwrap(), block_of(height));
    }
    files.check_present(&entries, false).unwrap();
    fs::remove_file(dir.path().join("blk00001.dat")).unwrap();
    let error = files.check_present(&entries, false).unwrap_err().to_string();
    assert!(error.contains("blk00001.dat"), "{error}");
}

#[test]
fn many_read_while_one_writes() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), key(), vec![], true);
    let (sender, receiver) = crossbeam_channel::unbounded::<(FlatFilePos, Vec<u8>)>();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (pos, block) in &receiver {
                    assert_eq!(files.read_block(pos).unwrap(), block);
                }
            });
        }
        for height in 0..300 {
            let block = fake_block(height, Hash::ZERO, 80 + (height as usize * 997) % 30_000);
            let pos = files.append_block(&block, height as u32, 1).unwrap();
            sender.send((pos, block)).unwrap();
            if height % 50 == 0 {
                files.flush().unwrap();
            }
        }
        drop(sender);
    });
    assert!(files.infos().len() > 64, "more files than are kept open");
}

#[test]
fn damage_is_named_with_file_and_offset() {
    let dir = tempfile::tempdir().unwrap();
    let blk = dir.path().join("blk00000.dat");
    let rev = dir.path().join("rev00000.dat");
    let block = fake_block(1, Hash::ZERO, 1_000);
    let write = || {
        let files = open(dir.path(), key(), vec![], false);
        let pos = files.append_block(&block, 0, 1).unwrap();
        let mut entry = entry_of(&block, 0, pos, BlockStatus::BLOCK_VALID_CHAIN);
        write_undo(&files, &mut entry, &noise(2, 300)).unwrap();
        entry
    };
    let entry = write();
    let blocks = |pos| open(dir.path(), key(), vec![], false).read_block(pos).unwrap_err();
    let undo = |pos| open(dir.path(), key(), vec![], false).read_undo(pos, &Hash::ZERO);
    let pos = entry.block_pos().unwrap();

    flip(&blk, 2);
    let error = blocks(pos);
    assert_eq!((&error.path, error.offset), (&blk, Some(0)), "{error}");
    flip(&blk, 2);
    flip(&blk, 7);
    let error = blocks(pos);
    assert_eq!((&error.path, error.offset), (&blk, Some(8)), "{error}");
    flip(&blk, 7);
    for (wrong, offset) in [(0, 0), (7, 7), (9, 1), (2_000, 1_992), (u32::MAX, u32::MAX - 8)] {
        let error = blocks(FlatFilePos { file: 0, pos: wrong });
        assert_eq!(error.offset, Some(u64::from(offset)), "{error}");
    }
    let error = blocks(FlatFilePos { file: 1, pos: 8 });
    assert!(error.to_string().contains("blk00001.dat"), "{error}");

    for offset in [8, 150, 307, 308, 339] {
        write();
        flip(&rev, offset);
        let error = undo(entry.undo_pos().unwrap()).unwrap_err();
        assert_eq!((&error.path, error.offset), (&rev, Some(8)), "{error}");
        flip(&rev, offset);
        assert!(undo(entry.undo_pos().unwrap()).is_ok());
    }

    // Torn files: every length but the full one gives an error, and no panic.
    let whole = fs::read(&blk).unwrap()[..1_008].to_vec();
    for len in (0..whole.len()).step_by(7) {
        fs::write(&blk, &whole[..len]).unwrap();
        assert_eq!(blocks(pos).path, blk);
    }
    let whole = fs::read(&rev).unwrap()[..340].to_vec();
    for len in 0..whole.len() {
        fs::write(&rev, &whole[..len]).unwrap();
        assert!(undo(entry.undo_pos().unwrap()).is_err());
    }
}

#[test]
fn files_are_pruned_in_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), key(), vec![], true);
    let mut entries = Vec::new();
    for height in 0..9 {
        let block = fake_block(u64::from(height), Hash::ZERO, 20_000);
        let pos = files.append_block(&block, height, 1).unwrap();
        entries.push(entry_of(&block, height, pos, BlockStatus::BLOCK_VALID_SCRIPTS));
        write_undo(&files, &mut entries[height as usize], &[1]).unwrap();
    }
    files.read_block(entries[0].block_pos().unwrap()).unwrap();
    files.prune(&[0]).unwrap();
    entries[..3].iter_mut().for_each(|entry| entry.record.forget_data());
    assert_eq!(files.flush().unwrap().infos[&0], FileInfo::default());
    files.remove_pruned().unwrap();
    files.remove_pruned().unwrap();
    assert!(!dir.path().join("blk00000.dat").exists());
    assert!(!dir.path().join("rev00000.dat").exists());
    assert!(files.read_block(FlatFilePos { file: 0, pos: 8 }).is_err());
    assert!(files.read_block(entries[3].block_pos().unwrap()).is_ok());
    files.check_present(&entries, false).unwrap();
}

#[test]
#[should_panic(expected = "still written to")]
fn the_last_file_is_not_pruned() {
    let dir = tempfile::tempdir().unwrap();
    let _ = open(dir.path(), key(), vec![], true).prune(&[0]);
}

#[test]
fn blocks_on_disk_are_counted_like_cores() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), key(), vec![], false);
    files.note_block(FlatFilePos { file: 1, pos: 500 }, 100, 4, 7).unwrap();
    files.note_block(FlatFilePos { file: 1, pos: 8 }, 100, 3, 8).unwrap();
    assert!(files.note_block(FlatFilePos { file: u32::MAX, pos: 8 }, 1, 1, 1).is_err());
    let infos = files.infos();
    assert_eq!((infos.len(), infos[0]), (2, FileInfo::default()));
    assert_eq!((infos[1].blocks, infos[1].size, infos[1].height_first), (2, 600, 3));
    let pos = files.append_block(&fake_block(1, Hash::ZERO, 80), 5, 1).unwrap();
    assert_eq!(pos, FlatFilePos { file: 1, pos: 608 });
}

#[test]
fn what_cannot_fit_is_refused_and_ends_all_writing() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), key(), vec![], false);
    assert!(files.append_block(&vec![0; 128 << 20], 0, 1).is_err());
    let error = files.append_block(&[0; 80], 0, 1).unwrap_err().to_string();
    assert!(error.contains("an earlier write to the block files failed"), "{error}");
}

/// A flush after a failed one is refused, so that the index never names data that may be lost.
#[test]
fn a_flush_that_failed_is_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::failing(Call::Sync, 0..1);
    let options = BlockFilesOptions::default();
    let files = BlockFiles::new(&disk, dir.path(), mainnet().magic, key(), vec![], options);
    files.append_block(&[0; 80], 0, 0).unwrap();
    let error = files.flush().unwrap_err();
    assert!(error.to_string().contains("blk00000.dat: cannot sync"), "{error}");
    let error = files.flush().unwrap_err().to_string();
    assert!(error.contains("an earlier write to the block files failed"), "{error}");
    assert!(files.append_block(&[0; 80], 1, 0).is_err());
}
