use std::path::Path;

use apus_disk::{Disk, PowerCut, StoreError};
use apus_hash::{Hash, MuHash, sha256};
use apus_leveldb::{Db, Options, PendingTable, RunKind};
use apus_testchain::rounds;
use apus_wire::OutPoint;

use super::{coin, outpoint};
use crate::*;

fn options() -> Options {
    Options { create_if_missing: true, ..Options::default() }
}

fn open(dir: &Path) -> Chainstate {
    Chainstate::open(Disk::new(), dir, options()).expect("it opens")
}

fn hash(n: u8) -> Hash {
    Hash([n; 32])
}

fn cache_of(numbers: impl IntoIterator<Item = u64>) -> CoinsCache {
    let cache = CoinsCache::new();
    for n in numbers {
        cache.add(&outpoint(n), &coin(n), Overwrite::Never).expect("free");
    }
    cache
}

fn all(chainstate: &Chainstate, parts: usize) -> Vec<(OutPoint, Coin)> {
    let mut coins = Vec::new();
    for mut scan in chainstate.scans(parts).expect("scans") {
        while let Some(found) = scan.next_coin().expect("a coin") {
            coins.push(found);
        }
    }
    coins
}

fn sorted(numbers: impl Iterator<Item = u64>) -> Vec<(OutPoint, Coin)> {
    let mut coins: Vec<_> = numbers.map(|n| (outpoint(n), coin(n))).collect();
    coins.sort_by(|a, b| key_order(&a.0, &b.0));
    coins
}

#[test]
fn what_was_synced_is_read_after_opening_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let chainstate = open(dir.path());
    assert_eq!(chainstate.best_block().expect("read"), None);
    let cache = cache_of(0..120_000);
    cache.sync(|changes| chainstate.write(changes, &hash(1))).expect("written");
    assert_eq!(cache.sizes().entries, 120_000);
    (0..120_000).step_by(2).for_each(|n| cache.remove(&outpoint(n)));
    cache.flush(|changes| chainstate.write(changes, &hash(2))).expect("written");
    // There are blocks that change no coins.
    cache.flush(|changes| chainstate.write(changes, &hash(3))).expect("written");
    drop(chainstate);

    let chainstate = open(dir.path());
    assert_eq!(chainstate.best_block().expect("read"), Some(hash(3)));
    let odd = sorted((0..120_000).filter(|n| n % 2 == 1));
    for parts in [1, 7] {
        assert_eq!(all(&chainstate, parts), odd);
    }
    let asked: Vec<_> = (0..4000).rev().chain([5, 5]).map(outpoint).collect();
    let found = chainstate.get_many(&asked).expect("read");
    for (at, found) in asked.iter().zip(found) {
        assert_eq!(found, chainstate.get(at).expect("read"));
    }
    assert_eq!(chainstate.get(&outpoint(4)).expect("read"), None);
    assert_eq!(chainstate.get(&outpoint(5)).expect("read"), Some(coin(5)));
    chainstate.merge_all().expect("merged");
    assert_eq!(all(&chainstate, 3), odd);
    assert!(chainstate.disk_bytes() > 60_000 * 40);
}

#[test]
fn records_are_those_of_core() {
    let dir = tempfile::tempdir().expect("a directory");
    let chainstate = open(dir.path());
    let at = OutPoint { txid: hash(0x11), vout: 128 };
    let coin = Coin::new(100_000_000, &[0x51], 1, true);
    let cache = CoinsCache::new();
    cache.add(&at, &coin, Overwrite::Never).expect("free");
    cache.sync(|changes| chainstate.write(changes, &hash(0xbb))).expect("written");
    drop(chainstate);

    let db = Db::open(Disk::new(), dir.path(), Options::default()).expect("it opens");
    let mut cursor = db.scan(b"", None).expect("scan").into_iter();
    let mut next = || cursor.next().map(|entry| entry.expect("an entry"));
    let (name, record) = next().expect("the obfuscation key comes first");
    assert_eq!(name, b"\x0e\0obfuscate_key");
    assert_eq!((record.len(), record[0]), (9, 8));
    let plain = |value: Vec<u8>| -> Vec<u8> {
        value.iter().zip(record[1..].iter().cycle()).map(|(byte, key)| byte ^ key).collect()
    };
    let (name, value) = next().expect("the best block");
    assert_eq!((&name[..], plain(value)), (&b"B"[..], vec![0xbb; 32]));
    let (name, value) = next().expect("the coin");
    assert_eq!(name, [&b"C"[..], &[0x11; 32], &[0x80, 0x00]].concat());
    assert_eq!(plain(value), [3, 9, 7, 0x51]);
    assert_eq!(next(), None);
}

#[test]
fn a_database_without_obfuscation_is_read_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(Disk::new(), dir.path(), options()).expect("it opens");
    db.apply([(b"B", Some([7; 32]))]).expect("written");
    drop(db);
    let chainstate = open(dir.path());
    assert_eq!(chainstate.best_block().expect("read"), Some(hash(7)));
    let cache = cache_of(0..10);
    cache.sync(|changes| chainstate.write(changes, &hash(8))).expect("written");
    assert_eq!(all(&chainstate, 1), sorted(0..10));
}

#[test]
fn a_chainstate_of_another_format_or_with_damage_is_refused() {
    for (key, value, expected) in [
        (&b"H"[..], vec![2; 65], "in the middle of a flush"),
        (b"cabc", vec![1], "older than Bitcoin Core 0.15"),
        (b"\x0e\0obfuscate_key", vec![7; 8], "obfuscation key"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let db = Db::open(Disk::new(), dir.path(), options()).expect("it opens");
        db.apply([(key, Some(value))]).expect("written");
        drop(db);
        let error = Chainstate::open(Disk::new(), dir.path(), options()).err().expect("refused");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(Disk::new(), dir.path(), options()).expect("it opens");
    let mut key = Vec::new();
    put_coin_key(&mut key, &outpoint(1));
    db.apply([(&key[..], Some(vec![0xff; 3]))]).expect("written");
    drop(db);
    let chainstate = open(dir.path());
    assert!(chainstate.get(&outpoint(1)).is_err());
    assert!(chainstate.get_many(&[outpoint(1)]).is_err());
    assert!(chainstate.scans(1).expect("scans")[0].next_coin().is_err());
}

#[test]
fn a_bulk_replaces_everything_at_once_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let chainstate = open(dir.path());
    let cache = cache_of(0..1000);
    cache.sync(|changes| chainstate.write(changes, &hash(1))).expect("written");

    let coins = sorted(500..3000);
    for commit in [false, true] {
        let bulk = chainstate.bulk().expect("a run");
        let mut key = Vec::new();
        let mut value = Vec::new();
        for (i, part) in coins.chunks(700).enumerate() {
            let mut writer = bulk.writer();
            for (at, coin) in part {
                value.clear();
                coin.encode(&mut value);
                match i % 2 {
                    0 => writer.put(at, &coin.parts()).expect("written"),
                    _ => {
                        key.clear();
                        put_coin_key(&mut key, at);
                        writer.put_raw(&key, &mut value).expect("written");
                    }
                }
            }
            writer.finish().expect("written");
        }
        if commit {
            bulk.commit(&hash(9)).expect("committed");
        }
    }
    assert_eq!(all(&chainstate, 4), coins);
    drop(chainstate);
    let chainstate = open(dir.path());
    assert_eq!(chainstate.best_block().expect("read"), Some(hash(9)));
    assert_eq!(all(&chainstate, 1), coins);
    drop(chainstate);
    Chainstate::destroy(&Disk::new(), dir.path()).expect("destroyed");
    assert_eq!(open(dir.path()).best_block().expect("read"), None);
}

#[test]
fn what_was_begun_in_another_process_is_carried_on() {
    for adds in [true, false] {
        let dir = tempfile::tempdir().expect("a directory");
        let chainstate = open(dir.path());
        let cache = cache_of(0..1000);
        cache.sync(|changes| chainstate.write(changes, &hash(1))).expect("written");
        drop(chainstate);

        let added = sorted(1000..2000).into_iter().map(|(at, coin)| (at, Some(coin)));
        let mut changes: Vec<_> = added.chain((0..500).map(|n| (outpoint(n), None))).collect();
        changes.sort_by(|a, b| key_order(&a.0, &b.0));
        let mut tables = Vec::new();
        for (index, part) in changes.chunks(500).enumerate() {
            let keep = tables.iter().map(|table: &PendingTable| table.number).collect();
            let options = Options { keep, ..options() };
            let chainstate = Chainstate::open(Disk::new(), dir.path(), options).expect("it opens");
            assert_eq!(chainstate.best_block().expect("read"), Some(hash(1)));
            assert_eq!(all(&chainstate, 1), sorted(0..1000));
            let bulk = match (index, adds) {
                (0, false) => chainstate.bulk(),
                (_, true) => chainstate.resume(RunKind::Adds, &tables),
                (_, false) => chainstate.resume(RunKind::Replaces, &tables),
            };
            let bulk = bulk.expect("a run");
            let mut writer = bulk.writer();
            for (at, coin) in part {
                match coin {
                    Some(coin) => writer.put(at, &coin.parts()).expect("written"),
                    None => writer.delete(at).expect("written"),
                }
            }
            writer.finish().expect("written");
            assert_eq!(bulk.finished().expect("synced").len(), index + 1);
            match index {
                2 => bulk.commit(&hash(9)).expect("committed"),
                _ => tables = bulk.suspend().expect("kept"),
            }
        }
        let chainstate = open(dir.path());
        assert_eq!(chainstate.best_block().expect("read"), Some(hash(9)));
        assert_eq!(all(&chainstate, 3), sorted(if adds { 500..2000 } else { 1000..2000 }));
    }
}

#[test]
fn statistics_equal_those_counted_plainly() {
    let dir = tempfile::tempdir().expect("a directory");
    let chainstate = open(dir.path());
    assert!(UtxoStats::compute(&chainstate.view(), 0, HashType::None).is_err(), "nothing to count");
    let cache = cache_of(0..20_000);
    // Indices whose keys sort differently, in a transaction in the middle and in the very last one.
    for txid in [hash(0x80), hash(0xff)] {
        for vout in [0, 127, 128, 255, 256, 16_511, 16_512, 40_000, 2_113_664] {
            let coin = coin(vout.into());
            cache.add(&OutPoint { txid, vout }, &coin, Overwrite::Never).expect("free");
        }
    }
    cache.flush(|changes| chainstate.write(changes, &hash(5))).expect("written");
    let mut coins = all(&chainstate, 1);
    coins.sort_by_key(|(at, _)| *at);

    let mut bytes = Vec::new();
    let mut muhash = MuHash::new();
    let mut bogosize = 0;
    let mut total = 0;
    for (at, coin) in &coins {
        let script = coin.script.to_script();
        let start = bytes.len();
        bytes.extend_from_slice(&at.to_bytes());
        bytes.extend_from_slice(&(coin.height * 2 + u32::from(coin.is_coinbase)).to_le_bytes());
        bytes.extend_from_slice(&coin.amount.to_le_bytes());
        bytes.push(script.len() as u8);
        bytes.extend_from_slice(&script);
        muhash.insert(&bytes[start..]);
        bogosize += 50 + script.len() as u64;
        total += coin.amount;
    }
    let expected = [
        None,
        Some((HashType::MuHash, muhash.finalize())),
        Some((HashType::HashSerialized3, Hash(sha256(&sha256(&bytes))))),
    ];
    for hash in expected {
        let hash_type = hash.map_or(HashType::None, |h| h.0);
        let stats = UtxoStats::compute(&chainstate.view(), 77, hash_type).expect("computed");
        assert_eq!(stats.hash, hash);
        assert_eq!((stats.txouts, stats.transactions), (coins.len() as u64, 6667 + 2));
        assert_eq!((stats.bogosize, stats.total_amount), (bogosize, total));
        assert_eq!((stats.height, stats.best_block), (77, Hash([5; 32])));
        assert_eq!(stats.disk_size, chainstate.disk_bytes());
    }
}

/// After any power failure, the chainstate has one of the states that were written, best block and
/// coins together.
#[test]
fn a_power_cut_leaves_the_state_before_or_after() {
    let states = [sorted(0..0), sorted(0..40), sorted(20..60), sorted(30..90)];
    let mut seen = [0; 4];
    for power in (1..).flat_map(|step| PowerCut::kinds(step, rounds(4))) {
        let dir = tempfile::tempdir().expect("a directory");
        let _ = write_states(Disk::with_power_cut(power.clone()), dir.path(), &states);
        power.lose_unsynced().expect("the power is gone");
        let chainstate = open(dir.path());
        let best = chainstate.best_block().expect("read").map_or(0, |best| best.0[0].into());
        assert_eq!(all(&chainstate, 1), states[best], "{power:?}, best block {best}");
        seen[best] += 1;
        if !power.is_off() {
            break;
        }
    }
    assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
}

/// Creates a chainstate with the second state by a sync, the third by a flush and the fourth by a
/// bulk.
fn write_states(
    disk: Disk,
    dir: &Path,
    states: &[Vec<(OutPoint, Coin)>; 4],
) -> Result<(), StoreError> {
    let chainstate = Chainstate::open(disk, dir, options())?;
    let cache = CoinsCache::new();
    cache.add_batch(&states[1], Overwrite::Never).expect("free");
    cache.sync(|changes| chainstate.write(changes, &hash(1)))?;
    states[1].iter().for_each(|(at, _)| cache.remove(at));
    cache.add_batch(&states[2], Overwrite::Possible).expect("overwritten");
    cache.flush(|changes| chainstate.write(changes, &hash(2)))?;
    let bulk = chainstate.bulk()?;
    let mut writer = bulk.writer();
    for (at, coin) in &states[3] {
        writer.put(at, &coin.parts())?;
    }
    writer.finish()?;
    bulk.commit(&hash(3))
}
