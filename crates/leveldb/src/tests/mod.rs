mod against_map;
mod damage;
mod disorder;
mod faults;
mod foreign;
mod large;
mod pending;
mod power;

use std::collections::BTreeMap;
use std::path::Path;

use apus_disk::Disk;
use apus_testdata::Random;

use super::{Db, Options};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Change = (Vec<u8>, Option<Vec<u8>>);

/// Returns options with tables and blocks so small that a few entries fill them.
fn small_options() -> Options {
    Options {
        create_if_missing: true,
        table_bytes_max: 2000,
        block_bytes: 256,
        restart_interval: 4,
        ..Options::default()
    }
}

fn options() -> Options {
    Options { create_if_missing: true, ..Options::default() }
}

fn open(dir: &Path, options: Options) -> Db {
    Db::open(Disk::new(), dir, options).unwrap()
}

fn content(db: &Db) -> Map {
    db.scan(&[], None).unwrap().into_iter().map(Result::unwrap).collect()
}

/// Returns ascending changes to a map with about `keys` possible keys, of lengths 0 to 40.
fn changes(random: &mut Random, count: usize, keys: u64) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let mut changes = BTreeMap::new();
    for _ in 0..count {
        let number = random.below(keys);
        let mut key = Random(number).bytes(40);
        key.truncate((number % 41) as usize);
        let len = random.below(60) as usize;
        let value = (random.below(3) > 0).then(|| random.bytes(len));
        changes.insert(key, value);
    }
    changes
}

fn apply_to(map: &mut Map, changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) {
    for (key, value) in changes {
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}

/// Checks that every way of reading returns the content of the map.
fn check(db: &Db, map: &Map, random: &mut Random) {
    assert_eq!(content(db), *map);
    db.verify().unwrap();
    let keys: Vec<Vec<u8>> = (0..100)
        .map(|_| {
            let len = random.below(4) as usize;
            map.range(random.bytes(len)..).next().map_or(vec![7], |(key, _)| key.clone())
        })
        .chain((0..20).map(|i| Random(i).bytes(i as usize)))
        .collect();
    let mut keys = keys;
    keys.sort();
    let mut found = BTreeMap::new();
    db.get_many(&keys, |i, value| assert!(found.insert(i, value.to_vec()).is_none())).unwrap();
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(db.get(key).unwrap().as_ref(), map.get(key));
        assert_eq!(found.get(&i), map.get(key));
    }
    let from = &keys[10];
    let to = &keys[90];
    let part: Map = db.scan(from, Some(to)).unwrap().into_iter().map(Result::unwrap).collect();
    assert!(part.iter().eq(map.range(from.clone()..to.clone())));
}
