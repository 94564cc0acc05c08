use std::fs;
use std::path::PathBuf;

use apus_disk::Disk;
use apus_hash::Hash;
use apus_wire::put_compact_size;

use super::kernel::{made_by_core, open as open_dir};
use super::write_undo;
use super::*;

const MAGIC: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];

fn key() -> Obfuscation {
    Obfuscation::new([3, 1, 4, 1, 5, 9, 2, 6])
}

/// Returns random bytes that, like undo data, start with the number of transactions without the
/// coinbase.
fn payload(seed: u64, tx_count: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    put_compact_size(&mut payload, tx_count as u64 - 1);
    payload.extend(noise(seed, (seed * 331 % 9_000) as usize));
    payload
}

fn prev(seed: u64) -> Hash {
    Hash([seed as u8; 32])
}

fn tx_count(seed: u64) -> usize {
    1 + (seed as usize % 3) * 200
}

/// Creates a directory with a rev file of records in this order, followed by `unwritten` zero
/// bytes.
fn rev_file(seeds: &[u64], unwritten: usize) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let record =
        |seed: &u64| flat_file::undo_record(MAGIC, &payload(*seed, tx_count(*seed)), &prev(*seed));
    let mut bytes: Vec<u8> = seeds.iter().flat_map(record).collect();
    key().apply(&mut bytes, 0);
    let path = dir.path().join("rev00007.dat");
    fs::write(&path, [&bytes[..], &vec![0; unwritten]].concat()).unwrap();
    (dir, path, bytes)
}

fn beside(rev: &Path) -> UndoFile {
    let path = rev.with_file_name("blk00007.dat").into();
    let file = SourceFile { path, len: 0, obfuscation: key(), number: Some(7) };
    UndoFile::beside(&file, MAGIC).unwrap().unwrap()
}

#[test]
fn records_are_found_in_any_order_among_stale_ones() {
    let seeds = [3, 1, 2, 9, 8, 7, 6, 5, 4, 10, 12, 11];
    let (_dir, path, _) = rev_file(&seeds, 70_000);
    let rev = beside(&path);
    assert_eq!(rev.path(), path);
    assert_eq!(rev.records().len(), seeds.len());
    let mut found = Vec::new();
    for (index, seed) in seeds.iter().enumerate() {
        let expected = payload(*seed, tx_count(*seed));
        let place = rev.records()[index];
        assert_eq!(place.len as usize, expected.len());
        assert_eq!(place.spending_txs as usize + 1, tx_count(*seed));
        assert!(rev.read(place, &prev(*seed), &mut found).unwrap());
        assert_eq!(found, expected);
        assert!(!rev.read(place, &prev(77), &mut found).unwrap());
        assert!(found.is_empty());
        for guess in [0, 1, index, 11, 12, usize::MAX] {
            let at = rev.find(guess, &prev(*seed), tx_count(*seed), &mut found).unwrap();
            assert_eq!((at, &found), (Some(index), &expected));
        }
        // A block with another number of transactions, or one that was never connected.
        for (parent, txs) in [(*seed, tx_count(*seed) + 1), (*seed, 0), (77, tx_count(*seed))] {
            assert_eq!(rev.find(index, &prev(parent), txs, &mut found).unwrap(), None);
            assert!(found.is_empty());
        }
    }
}

#[test]
fn the_same_parent_may_have_two_children() {
    let dir = tempfile::tempdir().unwrap();
    let record = |seed| flat_file::undo_record(MAGIC, &payload(seed, 4), &prev(1));
    let mut bytes = [record(1), record(2)].concat();
    key().apply(&mut bytes, 0);
    let path = dir.path().join("rev00007.dat");
    fs::write(&path, bytes).unwrap();
    // The files do not say which record belongs to which block: both fit, and the guess decides.
    let rev = beside(&path);
    let mut found = Vec::new();
    for guess in [0, 1] {
        assert_eq!(rev.find(guess, &prev(1), 4, &mut found).unwrap(), Some(guess));
        for (wanted, seed) in [(0, 1), (1, 2)] {
            let fits = |found: &[u8]| found == payload(seed, 4);
            let at = rev.find_fitting(guess, &prev(1), 4, &mut found, fits).unwrap();
            assert_eq!(at, Some(wanted));
        }
        assert_eq!(rev.find_fitting(guess, &prev(1), 4, &mut found, |_| false).unwrap(), None);
        assert!(found.is_empty());
    }
}

#[test]
fn a_flipped_bit_hides_one_record_and_no_other() {
    let seeds = [1, 2, 3, 4];
    let (_dir, path, whole) = rev_file(&seeds, 0);
    let places = beside(&path).records().to_vec();
    let mut found = Vec::new();
    for offset in [0, 5, places[1].len as usize - 1, places[1].len as usize + 31] {
        flip(&path, places[1].offset as usize + offset);
        let rev = beside(&path);
        for (index, seed) in seeds.iter().enumerate() {
            let at = rev.find(index, &prev(*seed), tx_count(*seed), &mut found).unwrap();
            assert_eq!(at, (index != 1).then_some(index), "byte {offset}");
        }
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn what_lies_behind_a_damaged_frame_is_not_guessed() {
    let seeds = [1, 2, 3, 4];
    let (_dir, path, whole) = rev_file(&seeds, 0);
    let places = beside(&path).records().to_vec();
    let frame = places[2].offset as usize - 8;
    let mut absurd: Vec<(usize, Vec<u8>)> = (0..4).map(|i| (i, vec![0x55])).collect();
    absurd.extend([u32::MAX, u32::MAX - 39, 256 << 20, 300 << 20, 20_000].map(|len| {
        let mut hidden = len.to_le_bytes().to_vec();
        key().apply(&mut hidden, frame as u64 + 4);
        (4, hidden)
    }));
    for (at, bytes) in absurd {
        let mut damaged = whole.clone();
        damaged[frame + at..][..bytes.len()].copy_from_slice(&bytes);
        fs::write(&path, &damaged).unwrap();
        assert_eq!(beside(&path).records(), &places[..2]);
    }
    // A shorter length leads to bytes that are not a frame.
    let mut damaged = whole.clone();
    damaged[frame + 4] ^= 1;
    fs::write(&path, &damaged).unwrap();
    assert!((2..=3).contains(&beside(&path).records().len()));
    // In a file that is cut anywhere, only whole records count.
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        let ends = places.iter().map(|place| place.offset as usize + place.len as usize + 32);
        let expected = ends.filter(|end| *end <= len).count();
        assert_eq!(beside(&path).records(), &places[..expected], "cut at {len}");
    }
    // A file that is cut while it is read gives an error and no panic.
    let rev = beside(&path);
    fs::write(&path, &whole[..10]).unwrap();
    let error = rev.read(places[1], &prev(2), &mut Vec::new()).unwrap_err();
    assert_eq!((&error.path, error.offset), (&path, Some(places[1].offset)));
}

#[test]
fn noise_and_records_without_a_count() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rev00007.dat");
    for seed in 0..50 {
        let mut bytes = noise(seed, 200);
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[5..8].fill(0);
        key().apply(&mut bytes, 0);
        fs::write(&path, bytes).unwrap();
        assert!(beside(&path).records().len() <= 1);
    }
    let records = [
        flat_file::undo_record(MAGIC, &[], &prev(1)),
        flat_file::undo_record(MAGIC, &[0xff; 20], &prev(2)),
        flat_file::undo_record(MAGIC, &[0xfd, 1], &prev(2)),
        flat_file::undo_record(MAGIC, &[0], &prev(3)),
    ];
    let mut bytes = records.concat();
    key().apply(&mut bytes, 0);
    fs::write(&path, bytes).unwrap();
    let rev = beside(&path);
    let mut found = Vec::new();
    assert_eq!(rev.records().len(), 1);
    assert_eq!(rev.find(0, &prev(3), 1, &mut found).unwrap(), Some(0));
    assert_eq!(found, [0]);
}

#[test]
fn there_may_be_no_rev_file() {
    let dir = tempfile::tempdir().unwrap();
    let path: std::sync::Arc<Path> = dir.path().join("blk00007.dat").into();
    let obfuscation = Obfuscation::NONE;
    let file = |number| SourceFile { path: path.clone(), len: 0, obfuscation, number };
    assert!(UndoFile::beside(&file(Some(7)), MAGIC).unwrap().is_none());
    fs::write(dir.path().join("rev00007.dat"), []).unwrap();
    assert!(UndoFile::beside(&file(None), MAGIC).unwrap().is_none());
    let empty = UndoFile::beside(&file(Some(7)), MAGIC).unwrap().unwrap();
    assert!(empty.records().is_empty());
    assert_eq!(empty.find(5, &prev(1), 1, &mut Vec::new()).unwrap(), None);
}

#[test]
fn undo_data_of_a_directory_that_core_made() {
    let blocks = mainnet_blocks(600);
    let dir = made_by_core(&blocks);
    let source = BlockSource::open(dir.path(), &mainnet()).unwrap();
    let rev = UndoFile::beside(&source.files()[0], MAGIC).unwrap().unwrap();
    let (_data, _db, entries, files) = open_dir(dir.path());
    assert_eq!(rev.records().len(), 599, "the genesis block has no undo data");
    let mut found = Vec::new();
    let mut guess = 0;
    for (entry, block) in entries[1..].iter().zip(&blocks[1..]) {
        let txs = BlockView::parse(block).unwrap().tx_count();
        let at = rev.find(guess, &entry.header.prev, txs, &mut found).unwrap().unwrap();
        assert_eq!(at, guess, "in the order of their connection");
        let pos = entry.undo_pos().unwrap();
        assert_eq!(rev.records()[at].offset, u64::from(pos.pos));
        assert_eq!(found, files.read_undo(pos, &entry.header.prev).unwrap());
        guess = at + 1;
    }
}

#[test]
fn undo_data_of_files_that_we_wrote() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("xor.dat"), key().key()).unwrap();
    let options = BlockFilesOptions { fast_prune: true, ..Default::default() };
    let files = BlockFiles::new(&Disk::new(), dir.path(), MAGIC, key(), vec![], options);
    let blocks: Vec<Vec<u8>> = (0..40).map(|i| fake_block(i, prev(i), 9_000)).collect();
    let mut entries = Vec::new();
    for (height, block) in (0..).zip(&blocks) {
        let pos = files.append_block(block, height, 1).unwrap();
        entries.push(entry_of(block, height, pos, BlockStatus::BLOCK_VALID_TRANSACTIONS));
    }
    // Blocks are connected long after they are stored, every other pair in reverse order.
    for index in (0..40usize).map(|i| if i % 4 < 2 { i ^ 1 } else { i }) {
        let undo = payload(index as u64, tx_count(index as u64));
        write_undo(&files, &mut entries[index], &undo).unwrap();
    }
    files.flush().unwrap();
    let source = BlockSource::open(dir.path(), &mainnet()).unwrap();
    assert!(source.files().len() > 4);
    let mut found = Vec::new();
    for file in source.files() {
        let rev = UndoFile::beside(file, MAGIC).unwrap().unwrap();
        let of_file = entries.iter().filter(|entry| Some(entry.record.file) == file.number);
        let mut count = 0;
        for (guess, entry) in of_file.enumerate() {
            let seed = u64::from(entry.height);
            let at = rev.find(guess, &prev(seed), tx_count(seed), &mut found).unwrap().unwrap();
            assert_eq!(rev.records()[at].offset, u64::from(entry.record.undo_pos));
            assert_eq!(found, payload(seed, tx_count(seed)));
            count += 1;
        }
        assert_eq!(rev.records().len(), count);
    }
}
