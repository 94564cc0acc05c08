use std::time::Instant;

use rayon::prelude::*;
use rusty_leveldb::LdbIterator;

use super::*;

/// Entries in the tests below; with `APUS_LEVELDB_ENTRIES=200000` they are quick.
fn size() -> u64 {
    std::env::var("APUS_LEVELDB_ENTRIES").ok().and_then(|n| n.parse().ok()).unwrap_or(5_000_000)
}

/// The `i`-th key in order and its value: 37 and 30 bytes, like a coin.
fn entry(i: u64) -> ([u8; 37], [u8; 30]) {
    let mut random = Random(i);
    let (mut key, mut value) = ([0; 37], [0; 30]);
    key[0] = b'C';
    key[1..9].copy_from_slice(&(i << 20).to_be_bytes());
    key[9..].chunks_mut(8).for_each(|c| c.copy_from_slice(&random.next().to_le_bytes()[..c.len()]));
    value.chunks_mut(8).for_each(|c| c.copy_from_slice(&random.next().to_le_bytes()[..c.len()]));
    (key, value)
}

/// Prints what was done, how fast, and a digest of the result.
fn say(what: &str, start: Instant, entries: u64, bytes: u64, digest: u64) {
    let s = start.elapsed().as_secs_f64();
    let (rate, mb) = (entries as f64 / s / 1e6, bytes as f64 / s / 1e6);
    println!("{what:34} {s:7.3} s  {rate:7.3} M/s  {mb:7.1} MB/s  digest {digest:016x}");
}

fn digest(sum: u64, bytes: &[u8]) -> u64 {
    sum.wrapping_add(u64::from(crc32c::crc32c(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Writes, merges, looks up and scans; with the output shown it is the benchmark.
#[test]
fn figures_of_a_large_database() {
    let dir = tempfile::tempdir().unwrap();
    let n = size();
    let made: Vec<_> = (0..n).into_par_iter().map(entry).collect();
    let bytes = 67 * n;
    let db = open(dir.path(), options());

    let start = Instant::now();
    db.apply(made.iter().map(|(k, v)| (k, Some(v)))).unwrap();
    say("apply, one thread", start, n, bytes, db.stats().bytes());

    let start = Instant::now();
    let run = db.bulk().unwrap();
    made.par_chunks(made.len() / 16 + 1).for_each(|part| {
        let mut writer = run.writer();
        part.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
        writer.finish().unwrap();
    });
    run.commit().unwrap();
    say("bulk, rayon", start, n, bytes, db.stats().bytes());

    db.bulk().unwrap().commit().unwrap();
    for i in 0..4 {
        let part = made.iter().skip(i).step_by(4);
        db.apply(part.map(|(k, v)| (k, Some(v)))).unwrap();
    }
    let before = lookups(&db, &made, "4 runs");
    let start = Instant::now();
    assert!(db.merge().unwrap());
    db.merge_all().unwrap();
    say("merge of 4 runs, rayon", start, n, db.stats().bytes(), db.stats().tables() as u64);
    assert_eq!(lookups(&db, &made, "1 run"), before);

    let start = Instant::now();
    let mut cursor = db.scan(&[], None).unwrap();
    let (mut count, mut sum) = (0, 0);
    while let Some((key, value)) = cursor.next_entry().unwrap() {
        sum = digest(digest(sum, key), value);
        count += 1;
    }
    assert_eq!(count, n);
    say("scan, one thread", start, n, bytes, sum);
    let start = Instant::now();
    assert_eq!(db.verify().unwrap(), n);
    say("verify, rayon", start, n, bytes, 0);
    drop((cursor, db));

    let start = Instant::now();
    let theirs_options = rusty_leveldb::Options { compressor: 0, ..Default::default() };
    let mut theirs = rusty_leveldb::DB::open(dir.path(), theirs_options).unwrap();
    let mut iterator = theirs.new_iter().unwrap();
    for (key, value) in &made {
        let (their_key, their_value) = iterator.next().unwrap();
        assert_eq!((&their_key[..], &their_value[..]), (&key[..], &value[..]));
    }
    assert!(iterator.next().is_none());
    say("rusty-leveldb reads it all", start, n, bytes, sum);
}

fn lookups(db: &Db, made: &[([u8; 37], [u8; 30])], what: &str) -> u64 {
    let mut random = Random(6);
    let n = made.len() as u64;
    let count = (n / 4).max(10_000) as usize;
    let keys: Vec<[u8; 37]> = (0..count).map(|_| made[random.below(n) as usize].0).collect();
    let get = |key: &[u8; 37]| db.get_with(key, |value| digest(0, value)).unwrap().unwrap();
    assert_ne!(keys.iter().map(get).max(), None);
    let start = Instant::now();
    let sum = keys.iter().map(get).fold(0, u64::wrapping_add);
    say(&format!("get, {what}, one thread"), start, count as u64, 0, sum);
    let start = Instant::now();
    let rayon = keys.par_iter().map(get).reduce(|| 0, u64::wrapping_add);
    say(&format!("get, {what}, rayon"), start, count as u64, 0, rayon);
    let start = Instant::now();
    let mut many = 0;
    let mut sorted = Vec::new();
    for part in keys.chunks(5000) {
        sorted.clear();
        sorted.extend_from_slice(part);
        sorted.sort_unstable();
        db.get_many(&sorted, |_, value| many = digest(many, value)).unwrap();
    }
    say(&format!("get_many of 5000, {what}, one thread"), start, count as u64, 0, many);
    let start = Instant::now();
    let missing = keys.iter().map(|key| {
        let mut key = *key;
        key[20] ^= 1;
        db.get_with(&key, |_| ()).unwrap()
    });
    assert_eq!(missing.flatten().count(), 0);
    say(&format!("get of missing, {what}, one thread"), start, count as u64, 0, 0);
    assert_eq!((sum, sum), (rayon, many));
    sum
}

/// What `rusty-leveldb` wrote, tables and log, is read in full.
#[test]
fn what_rusty_leveldb_wrote_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let n = size() / 4; // it takes its time
    // A large memtable, for it compacts on one thread; what it holds at the end is in its log.
    let theirs_options = rusty_leveldb::Options {
        compressor: 0,
        write_buffer_size: 64 << 20,
        max_file_size: 32 << 20,
        ..Default::default()
    };
    let mut theirs = rusty_leveldb::DB::open(dir.path(), theirs_options).unwrap();
    let mut random = Random(3);
    let start = Instant::now();
    let order: Vec<u64> = (0..n).map(|i| i * 7919 % n).collect();
    let mut expected: Map = Map::new();
    for i in order {
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
    say("rusty-leveldb writes", start, n, n * 67, 0);
    for read_only in [true, false] {
        let start = Instant::now();
        let db = open(dir.path(), Options { read_only, ..options() });
        say("open", start, 0, 0, db.stats().tables() as u64);
        let start = Instant::now();
        let mut cursor = db.scan(&[], None).unwrap();
        for (key, value) in &expected {
            assert_eq!(cursor.next_entry().unwrap(), Some((&key[..], &value[..])));
        }
        assert!(cursor.next_entry().unwrap().is_none());
        say("we read it all", start, n, n * 67, 0);
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
