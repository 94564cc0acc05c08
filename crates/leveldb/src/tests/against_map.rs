use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use apus_disk::ShareWatch;
use rayon::prelude::*;

use super::*;

/// After random runs, merges, bulk loads and reopenings the content is that of a `BTreeMap`.
#[test]
fn the_database_is_a_map() {
    for seed in 0..apus_testchain::rounds(4) {
        let dir = tempfile::tempdir().unwrap();
        let mut random = Random(seed);
        let mut map = Map::new();
        let mut db = open(dir.path(), small_options());
        for _ in 0..60 {
            match random.below(12) {
                0..6 => {
                    let count = random.below(150) as usize;
                    let changes = changes(&mut random, count, 800);
                    apply_to(&mut map, &changes);
                    db.apply(changes.iter().map(|(k, v)| (k, v.as_ref()))).unwrap();
                }
                6..9 => {
                    db.merge().unwrap();
                }
                9 => {
                    db.merge_all().unwrap();
                    assert!(db.stats().runs <= 1);
                }
                10 => {
                    drop(db);
                    db = open(dir.path(), small_options());
                }
                _ => {
                    let changes = changes(&mut random, 300, 800);
                    map.clear();
                    apply_to(&mut map, &changes);
                    bulk(&db, &map);
                }
            }
            check(&db, &map, &mut random);
        }
        db.merge_all().unwrap();
        check(&db, &map, &mut random);
        assert_eq!(db.verify().unwrap(), map.len() as u64, "nothing outdated is left");
        let tables = db.stats().tables();
        drop(db);
        let files = std::fs::read_dir(dir.path()).unwrap();
        let ldb = |e: &std::fs::DirEntry| e.file_name().to_string_lossy().ends_with(".ldb");
        assert_eq!(files.map(Result::unwrap).filter(ldb).count(), tables);
        Db::destroy(&Disk::new(), dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

fn bulk(db: &Db, map: &Map) {
    let entries: Vec<_> = map.iter().collect();
    let run = db.bulk().unwrap();
    entries.par_chunks(70).for_each(|part| {
        let mut writer = run.writer();
        part.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
        writer.finish().unwrap();
    });
    run.commit().unwrap();
}

#[test]
fn many_runs_stay_few() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), small_options());
    let mut random = Random(5);
    let mut map = Map::new();
    let mut written = 0;
    for _ in 0..400 {
        let changes = changes(&mut random, 30, 1 << 40);
        apply_to(&mut map, &changes);
        db.apply(changes.iter().map(|(k, v)| (k, v.as_ref()))).unwrap();
        let before = db.stats();
        if db.merge().unwrap() {
            let levels = before.levels.iter().zip(db.stats().levels);
            written += levels.filter(|(a, b)| *a != b).map(|(_, after)| after.bytes).sum::<u64>();
        }
        assert!(db.stats().runs <= 10, "{:?}", db.stats());
    }
    check(&db, &map, &mut random);
    let size = db.stats().bytes();
    // 400 runs: log2(400 / 4) is 6.6.
    assert!(written < size * 8, "{written} bytes rewritten for {size}");
}

#[test]
fn a_snapshot_does_not_change_and_a_dropped_run_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), small_options());
    let entries = |n: u32| (0..n).map(move |i| (i.to_be_bytes(), Some(n.to_be_bytes())));
    db.apply(entries(500)).unwrap();
    let snapshot = db.snapshot();
    let mut cursor = db.scan(&[], None).unwrap();
    db.apply(entries(400)).unwrap();
    db.merge_all().unwrap();
    db.bulk().unwrap().commit().unwrap();
    assert_eq!(db.stats(), Default::default());
    for i in 0..500u32 {
        assert_eq!(snapshot.get(&i.to_be_bytes()).unwrap(), Some(&500u32.to_be_bytes()[..]));
        let entry = cursor.next_entry().unwrap().unwrap();
        assert_eq!(entry, (&i.to_be_bytes()[..], &500u32.to_be_bytes()[..]));
    }
    assert!(cursor.next_entry().unwrap().is_none());
    drop((snapshot, cursor));

    let run = db.new_run().unwrap();
    let mut writer = run.writer();
    for i in 0..1000u32 {
        writer.put(&i.to_be_bytes(), &[1; 20]).unwrap();
    }
    assert!(panics(|| writer.put(&[0, 0], &[])), "not ascending");
    drop(writer);
    assert!(panics(|| run.commit()), "a writer was not finished");
    let run = db.new_run().unwrap();
    for from in [0u8, 5] {
        let mut writer = run.writer();
        (from..from + 10).for_each(|i| writer.put(&[i], &[]).unwrap());
        writer.finish().unwrap();
    }
    assert!(panics(|| run.commit()), "parts overlap");
    assert_eq!(content(&db), Map::new());
    let files = std::fs::read_dir(dir.path()).unwrap();
    let names: Vec<_> = files.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.ends_with(".ldb")), "{names:?}");
}

#[test]
fn parts_make_up_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), small_options());
    assert!(db.snapshot().split(4).unwrap().is_empty());
    let mut random = Random(2);
    for _ in 0..3 {
        let changes = changes(&mut random, 2000, 1 << 40);
        db.apply(changes.iter().map(|(k, v)| (k, v.as_ref()))).unwrap();
    }
    let whole = content(&db);
    let snapshot = db.snapshot();
    for parts in [1, 2, 7, 100, 100_000] {
        let cuts = snapshot.split(parts).unwrap();
        assert!(cuts.len() < parts && cuts.is_sorted());
        let mut joined = Vec::new();
        for i in 0..=cuts.len() {
            let from = if i == 0 { &[][..] } else { &cuts[i - 1] };
            let part = snapshot.scan(from, cuts.get(i).map(Vec::as_slice)).unwrap();
            let before = joined.len();
            joined.extend(part.into_iter().map(Result::unwrap));
            let even = whole.len() / parts;
            assert!(parts > 10 || (joined.len() - before).abs_diff(even) < even / 5 + 20);
        }
        assert!(joined.into_iter().eq(whole.clone()));
    }
}

#[test]
fn only_one_opens_it() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Db::open(Disk::new(), dir.path(), Options::default()).err().unwrap();
    assert!(missing.to_string().contains("no database"), "{missing}");
    let db = open(dir.path(), options());
    let error = Db::open(Disk::new(), dir.path(), options()).err().unwrap().to_string();
    assert!(error.contains("in use") && error.contains("LOCK"), "{error}");
    db.apply([(b"key", Some(b"value"))]).unwrap();
    drop(db);
    let db = open(dir.path(), Options { read_only: true, ..Options::default() });
    assert_eq!(db.get(b"key").unwrap().unwrap(), b"value");
    assert!(panics(|| db.apply([(b"key", None::<&[u8]>)])));
    assert!(panics(|| db.merge_all()));
}

/// Returns whether `work` panics, as it does if only our own code can be wrong.
fn panics<T>(work: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

/// Readers see each run as a whole while others write and merge.
#[test]
fn readers_see_whole_runs_during_merges() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), small_options());
    let keys: Vec<[u8; 4]> = (0..300u32).map(u32::to_be_bytes).collect();
    let generation = |n: u32| keys.iter().map(move |key| (key, Some(n.to_be_bytes())));
    db.apply(generation(0)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let db = &db;
            let keys = &keys;
            let done = &done;
            scope.spawn(move || {
                let mut newest = 0;
                while !done.load(Ordering::Relaxed) {
                    let mut seen = vec![0; keys.len()];
                    if reader == 0 {
                        let mut cursor = db.scan(&[], None).unwrap();
                        for seen in &mut seen {
                            let (_, value) = cursor.next_entry().unwrap().unwrap();
                            *seen = u32::from_be_bytes(value.try_into().unwrap());
                        }
                    } else {
                        let number = |value: &[u8]| u32::from_be_bytes(value.try_into().unwrap());
                        db.get_many(keys, |i, value| seen[i] = number(value)).unwrap();
                    }
                    assert!(seen.iter().all(|n| *n == seen[0] && *n >= newest));
                    newest = seen[0];
                }
            });
        }
        let merging = &db;
        let merged = &done;
        scope.spawn(move || {
            while !merged.load(Ordering::Relaxed) {
                merging.merge().unwrap();
                merging.merge_all().unwrap();
            }
        });
        for n in 1..300 {
            db.apply(generation(n)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(content(&db).values().all(|value| *value == 299u32.to_be_bytes()));
}

/// A writer waits for the merge that is under way only if there are as many runs as it says.
#[test]
fn with_many_runs_a_writer_waits_for_the_merge() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), small_options());
    let write = |n: u32| db.apply([(b"key", Some(n.to_be_bytes()))]).unwrap();
    (0..4).for_each(write);
    let is_under_way = AtomicBool::new(false);
    let report = |_| {
        if is_under_way.load(Ordering::Relaxed) {
            return;
        }
        db.wait_for_merge(5);
        write(4);
        assert_eq!(db.stats().runs, 5);
        is_under_way.store(true, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_under_way.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            db.wait_for_merge(5);
            assert_eq!(db.stats().runs, 2, "the merged run, and the one written meanwhile");
        });
        let watch = ShareWatch { report: &report, ..ShareWatch::default() };
        assert!(db.merge_watched(watch).unwrap());
    });
    assert_eq!(db.get(b"key").unwrap().unwrap(), 4u32.to_be_bytes());
}

/// Keys and values of all lengths that are copied or encoded in different ways, in tables written
/// through the page cache and past it, give the same bytes as a simple writer.
#[test]
fn tables_are_the_same_bytes_however_they_are_written() {
    let mut random = Random(77);
    let mut map = Map::new();
    for i in 0..60_000u64 {
        let mut key = random.below(3000_u64).to_be_bytes()[5..].to_vec();
        let (key_len, value_len) = match i % 100 {
            0 => (random.below(400), random.below(9000)),
            1..10 => (random.below(4), random.below(140)),
            _ => (26 + random.below(8), 20 + random.below(30)),
        };
        key.extend(random.bytes(key_len as usize));
        map.insert(key, random.bytes(value_len as usize));
    }
    let mut sums = Vec::new();
    for options in [options(), Options { table_bytes_max: 300_000, ..small_options() }] {
        for bulk in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let db = open(dir.path(), options.clone());
            if bulk {
                let run = db.bulk().unwrap();
                let mut writer = run.writer();
                map.iter().try_for_each(|(key, value)| writer.put(key, value)).unwrap();
                writer.finish().unwrap();
                run.commit().unwrap();
            } else {
                db.apply(map.iter().map(|(key, value)| (key, Some(value)))).unwrap()
            }
            assert!(content(&db) == map);
            let names = Disk::new().list(dir.path()).unwrap();
            let tables = names.iter().filter(|name| name.ends_with(".ldb"));
            sums.push(tables.fold(0, |sum, name| {
                crc32c::crc32c_append(sum, &std::fs::read(dir.path().join(name)).unwrap())
            }));
        }
    }
    assert_eq!(sums, [411_040_600, 411_040_600, 908_150_752, 908_150_752]);
}
