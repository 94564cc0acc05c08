//! Databases of many tables, written and merged in each way, compared with the input and with
//! `rusty-leveldb`. `apus-bench kernels` measures their speed.

use apus_testdata::memory_of;
use rayon::prelude::*;
use rusty_leveldb::LdbIterator;

use super::*;

/// Returns options with tables a hundredth of the usual size, so that there are many.
fn options_of_many_tables() -> Options {
    Options { table_bytes_max: 320 << 10, ..options() }
}

fn size() -> u64 {
    apus_testchain::rounds(60_000)
}

/// Returns the `i`-th key in order and its value: 37 and 30 bytes, like a coin.
fn entry(i: u64) -> ([u8; 37], [u8; 30]) {
    let mut random = Random(i);
    let mut key = [0; 37];
    let mut value = [0; 30];
    key[0] = b'C';
    key[1..9].copy_from_slice(&(i << 20).to_be_bytes());
    key[9..].chunks_mut(8).for_each(|c| c.copy_from_slice(&random.next().to_le_bytes()[..c.len()]));
    value.chunks_mut(8).for_each(|c| c.copy_from_slice(&random.next().to_le_bytes()[..c.len()]));
    (key, value)
}

#[test]
fn many_tables_hold_what_was_put_in_before_and_after_merges() {
    let dir = tempfile::tempdir().unwrap();
    let made: Vec<_> = (0..size()).into_par_iter().map(entry).collect();
    let db = open(dir.path(), options_of_many_tables());
    db.apply(made.iter().map(|(k, v)| (k, Some(v)))).unwrap();
    assert_holds(&db, &made);

    let run = db.bulk().unwrap();
    made.par_chunks(made.len() / 16 + 1).for_each(|part| {
        let mut writer = run.writer();
        part.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
        writer.finish().unwrap();
    });
    run.commit().unwrap();
    assert_holds(&db, &made);

    db.bulk().unwrap().commit().unwrap();
    for i in 0..4 {
        let part = made.iter().skip(i).step_by(4);
        db.apply(part.map(|(k, v)| (k, Some(v)))).unwrap();
    }
    assert_holds(&db, &made);
    assert!(db.merge().unwrap());
    db.merge_all().unwrap();
    assert!(db.stats().tables() > 10);
    assert_holds(&db, &made);
    drop(db);

    let theirs_options = rusty_leveldb::Options { compressor: 0, ..Default::default() };
    let mut theirs = rusty_leveldb::DB::open(dir.path(), theirs_options).unwrap();
    let mut iterator = theirs.new_iter().unwrap();
    for (key, value) in &made {
        let (their_key, their_value) = iterator.next().unwrap();
        assert_eq!((&their_key[..], &their_value[..]), (&key[..], &value[..]));
    }
    assert!(iterator.next().is_none());
}

/// A scan maps the tables, and reads each of their pages once.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /proc/self/status")]
fn a_scan_keeps_little_of_the_tables_in_memory() {
    const ENTRIES: u32 = 16_000;
    let prepare = || {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), options());
        let run = db.bulk().unwrap();
        let mut writer = run.writer();
        (0..ENTRIES)
            .for_each(|i| writer.put(&i.to_be_bytes(), &Random(i.into()).bytes(4000)).unwrap());
        writer.finish().unwrap();
        run.commit().unwrap();
        assert!(db.stats().tables() >= 2);
        (dir, db)
    };
    let bytes = memory_of(a_scan_keeps_little_of_the_tables_in_memory, prepare, |(_dir, db)| {
        let mut cursor = db.scan(&[], None).unwrap();
        let mut entries = 0;
        while let Some((_, value)) = cursor.next_entry().unwrap() {
            assert_eq!(value.len(), 4000);
            entries += 1;
        }
        assert_eq!(entries, ENTRIES);
    });
    // The tables have 64 MB, of which 4 MiB are read ahead.
    assert!(bytes.is_none_or(|bytes| bytes < 12 << 20), "{bytes:?}");
}

/// Checks a scan, the checksums, and lookups of present and absent keys against the input.
fn assert_holds(db: &Db, made: &[([u8; 37], [u8; 30])]) {
    let mut cursor = db.scan(&[], None).unwrap();
    for (key, value) in made {
        assert_eq!(cursor.next_entry().unwrap(), Some((&key[..], &value[..])));
    }
    assert_eq!(cursor.next_entry().unwrap(), None);
    assert_eq!(db.verify().unwrap(), made.len() as u64);

    let mut random = Random(6);
    let mut asked: Vec<_> =
        (0..made.len() / 4).map(|_| made[random.below(made.len() as u64) as usize]).collect();
    asked.sort_unstable();
    asked.par_iter().for_each(|(key, value)| {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
        let mut missing = *key;
        missing[20] ^= 1;
        assert_eq!(db.get(&missing).unwrap(), None);
    });
    for part in asked.chunks(5000) {
        let keys: Vec<_> = part.iter().map(|(key, _)| key).collect();
        let mut found = 0;
        db.get_many(&keys, |i, value| {
            assert_eq!(value, part[i].1);
            found += 1;
        })
        .unwrap();
        assert_eq!(found, part.len());
    }
}

/// A database written by `rusty-leveldb`, tables and log, is read in full.
#[test]
fn what_rusty_leveldb_wrote_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let n = size() / 2;
    // The last content of its memtable is in its log.
    let theirs_options = rusty_leveldb::Options {
        compressor: 0,
        write_buffer_size: 1 << 20,
        max_file_size: 512 << 10,
        ..Default::default()
    };
    let mut theirs = rusty_leveldb::DB::open(dir.path(), theirs_options).unwrap();
    let mut random = Random(3);
    let mut expected: Map = Map::new();
    for i in (0..n).map(|i| i * 7919 % n) {
        let (key, value) = entry(i);
        theirs.put(&key, &value).unwrap();
        expected.insert(key.to_vec(), value.to_vec());
        if random.below(10) == 0 {
            let (key, _) = entry(random.below(n));
            theirs.delete(&key).unwrap();
            expected.remove(&key[..]);
        }
    }
    drop(theirs);
    for read_only in [true, false] {
        let db = open(dir.path(), Options { read_only, ..options() });
        let mut cursor = db.scan(&[], None).unwrap();
        for (key, value) in &expected {
            assert_eq!(cursor.next_entry().unwrap(), Some((&key[..], &value[..])));
        }
        assert!(cursor.next_entry().unwrap().is_none());
        let keys: Vec<_> = expected.keys().collect();
        let mut found = 0;
        db.get_many(&keys, |i, value| {
            assert_eq!(value, expected[keys[i]]);
            found += 1;
        })
        .unwrap();
        assert_eq!(found, keys.len());
        for (key, value) in expected.iter().step_by(11) {
            assert_eq!(db.get(key).unwrap().as_ref(), Some(value));
        }
        db.verify().unwrap();
    }
}
