use apus_disk::Disk;
use apus_leveldb::{Db, Options};
use apus_wire::genesis_block;

use super::*;

fn files(dir: &Path) -> BlockFiles {
    let key = Obfuscation::NONE;
    let options = BlockFilesOptions::default();
    BlockFiles::new(&Disk::new(), dir, mainnet().magic, key, vec![], options)
}

#[test]
fn everything_written_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let network = mainnet();
    let path = dir.path().join("index");
    let db = IndexDb::open(&Disk::new(), &path).unwrap();
    let empty = db.load(&network).unwrap();
    assert!(empty.entries.is_empty() && empty.files.is_empty());
    assert!(!empty.pruned && !empty.reindexing);

    let files = files(dir.path());
    let mut entries = Vec::new();
    for height in 0..200u32 {
        let prev = entries.last().map_or(apus_hash::Hash::ZERO, |e: &IndexEntry| e.hash);
        let genesis = || genesis_block(&network);
        let fake = || fake_block(u64::from(height), prev, 100);
        let block = if height == 0 { genesis() } else { fake() };
        let pos = files.append_block(&block, height, height).unwrap();
        entries.push(entry_of(&block, height, pos, BlockStatus::BLOCK_VALID_TRANSACTIONS));
    }
    entries[150].record.status.0 |= BlockStatus::BLOCK_FAILED_CHILD;
    db.write(&files.flush().unwrap(), &entries).unwrap();
    entries[150].record.status.0 ^=
        BlockStatus::BLOCK_FAILED_CHILD | BlockStatus::BLOCK_FAILED_VALID;
    db.write_pruned().unwrap();
    db.write_flag("other", false).unwrap();
    db.write_reindexing(true).unwrap();
    drop(db);

    let db = IndexDb::open(&Disk::new(), &path).unwrap();
    let mut index = db.load(&network).unwrap();
    index.entries.sort_by_key(|entry| entry.height);
    assert_eq!(index.entries, entries);
    assert_eq!(index.files, files.infos());
    assert!(index.pruned && index.reindexing);
    assert_eq!(db.read_flag("other").unwrap(), Some(false));
    assert_eq!(db.read_flag("none").unwrap(), None);
    db.write_reindexing(false).unwrap();
    db.merge_all().unwrap();
    assert!(!db.load(&network).unwrap().reindexing);

    let error = db.load(&Network::new(Chain::Test)).unwrap_err().to_string();
    assert!(error.contains("another network"), "{error}");
}

#[test]
fn keys_and_values_are_cores() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let files = files(dir.path());
    let block = genesis_block(&mainnet());
    let pos = files.append_block(&block, 0, 5).unwrap();
    let entry = entry_of(&block, 0, pos, BlockStatus::BLOCK_VALID_TRANSACTIONS);
    let db = IndexDb::open(&Disk::new(), &path).unwrap();
    db.write(&files.flush().unwrap(), &[entry]).unwrap();
    db.write_pruned().unwrap();
    db.write_reindexing(true).unwrap();
    drop(db);

    let db = Db::open(Disk::new(), &path, Options::default()).unwrap();
    let mut records = Vec::new();
    let mut cursor = db.scan(&[], None).unwrap();
    while let Some((key, value)) = cursor.next_entry().unwrap() {
        records.push((key.to_vec(), value.to_vec()));
    }
    let genesis = entry.hash.0;
    let value = [&[0x8e, 0xed, 0x3c, 0, 11, 1, 0, 8][..], &block[..80]].concat();
    let info = vec![1, 0x81, 0x25 /* 285 + 8 */, 0, 0, 0, 5, 5];
    let expected = [
        ([&b"F\x10"[..], b"prunedblockfiles"].concat(), b"1".to_vec()),
        (b"R".to_vec(), b"1".to_vec()),
        ([&b"b"[..], &genesis].concat(), value),
        (b"f\0\0\0\0".to_vec(), info),
        (b"l".to_vec(), vec![0, 0, 0, 0]),
    ];
    assert_eq!(records, expected);
}

#[test]
fn records_that_cannot_be_right_are_refused() {
    let genesis = genesis_block(&mainnet());
    let pos = FlatFilePos { file: 0, pos: 8 };
    let good = entry_of(&genesis, 0, pos, BlockStatus::BLOCK_VALID_TREE);
    let key = [&b"b"[..], &good.hash.0].concat();
    let mut flipped = good.to_bytes();
    *flipped.last_mut().unwrap() ^= 1;
    let cases = [
        (key.clone(), flipped, "holds the header of block"),
        (key.clone(), good.to_bytes()[..50].to_vec(), "is not a block entry"),
        (b"bshort".to_vec(), good.to_bytes(), "holds the header of block"),
        (b"f\0\0\0\0".to_vec(), vec![0xff; 3], "is not a file info"),
        (b"l".to_vec(), vec![0xff; 4], "is not a file number"),
        (b"l".to_vec(), vec![1], "is not a file number"),
    ];
    for (key, value, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { create_if_missing: true, ..Options::default() };
        let db = Db::open(Disk::new(), dir.path(), options).unwrap();
        db.apply([(key, Some(value))]).unwrap();
        drop(db);
        let db = IndexDb::open(&Disk::new(), dir.path()).unwrap();
        let error = db.load(&mainnet()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_obfuscated_index_is_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let options = Options { create_if_missing: true, ..Options::default() };
    let db = Db::open(Disk::new(), &path, options).unwrap();
    let key = (b"\x0e\0obfuscate_key".to_vec(), Some(vec![8, 1, 2, 3, 4, 5, 6, 7, 8]));
    db.apply([key]).unwrap();
    drop(db);
    let files = files(dir.path());
    let block = genesis_block(&mainnet());
    let pos = files.append_block(&block, 0, 5).unwrap();
    let entry = entry_of(&block, 0, pos, BlockStatus::BLOCK_VALID_TREE);
    let db = IndexDb::open(&Disk::new(), &path).unwrap();
    db.write(&files.flush().unwrap(), &[entry]).unwrap();
    assert_eq!(db.load(&mainnet()).unwrap().entries, [entry]);
    drop(db);
    let db = Db::open(Disk::new(), &path, Options::default()).unwrap();
    assert_eq!(db.get(b"l").unwrap(), Some(vec![1, 2, 3, 4]));
}
