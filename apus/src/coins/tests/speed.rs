//! Small sizes of what is worth measuring; run with `--nocapture` and, for the large ones,
//! `APUS_BENCH=1`.

use crate::hash::MuHash;
use std::hint::black_box;
use std::time::Instant;

use super::outpoint;
use crate::coins::*;
use crate::disk::Disk;
use crate::hash::Hash;
use crate::leveldb::Options;
use crate::wire::{Cursor, OutPoint};

fn scale(small: usize, large: usize) -> usize {
    if std::env::var_os("APUS_BENCH").is_some() { large } else { small }
}

fn report(what: &str, count: usize, start: Instant) {
    println!("{what}: {:.0} ns each", start.elapsed().as_nanos() as f64 / count as f64);
}

/// Coins paying to witness key hashes, three a transaction.
fn coins(count: usize) -> Vec<(OutPoint, Coin)> {
    let script = [&[0, 20][..], &[5; 20]].concat();
    let coin = |n| Coin::new(1000 + n as u64 * 37, &script, 800_000, false);
    (0..count).map(|n| (outpoint(n as u64), coin(n))).collect()
}

#[test]
fn cache_speed() {
    let count = scale(10_000, 3_000_000);
    let coins = coins(count);
    let outpoints: Vec<_> = coins.iter().map(|c| c.0).collect();
    let cache = CoinsCache::new();
    let start = Instant::now();
    coins.iter().for_each(|(at, coin)| cache.add(at, coin, Overwrite::Never).expect("free"));
    report("add", count, start);
    let start = Instant::now();
    let hits = outpoints.iter().filter(|at| matches!(cache.spend(at), Lookup::Hit(_))).count();
    report("spend while fresh", count, start);
    assert_eq!((hits, cache.len()), (count, 0));
    drop(cache);

    let cache = CoinsCache::new();
    let start = Instant::now();
    coins.chunks(3000).for_each(|batch| cache.add_batch(batch, Overwrite::Never).expect("free"));
    report("add in batches of 3000", count, start);
    println!("{:.1} bytes a coin", cache.bytes() as f64 / count as f64);
    let start = Instant::now();
    let unknown: usize = outpoints.chunks(3000).map(|batch| cache.unknown(batch).len()).sum();
    report("unknown in batches of 3000", count, start);
    assert_eq!(unknown, 0);
    let start = Instant::now();
    outpoints.chunks(3000).for_each(|batch| drop(black_box(cache.spend_batch(batch))));
    report("spend while fresh in batches of 3000", count, start);
    cache.fill_batch(cache.generation(), &coins[..count / 2]);
    let start = Instant::now();
    cache.shrink_to(cache.bytes() * 3 / 4);
    report("shrink", count / 2 - cache.len(), start);
}

#[test]
fn sync_speed() {
    let count = scale(10_000, 3_000_000);
    let coins = coins(count);
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { create_if_missing: true, ..Options::default() };
    let chainstate = Chainstate::open(Disk::new(), dir.path(), options).expect("it opens");
    let cache = CoinsCache::new();
    cache.add_batch(&coins, Overwrite::Never).expect("free");
    let start = Instant::now();
    cache.sync(|_| Ok::<_, ()>(())).expect("written");
    report("sync without writing, all changed", count, start);
    for (share, what) in [(100, "1 % changed"), (1, "all changed")] {
        let changed = count / share;
        for (at, coin) in &coins[..changed] {
            cache.add(at, coin, Overwrite::Possible).expect("overwritten");
        }
        let start = Instant::now();
        cache.sync(|changes| chainstate.write(changes, &Hash([1; 32]))).expect("written");
        report(&format!("sync and write, {what}"), changed, start);
    }
    println!("{:.1} bytes a coin on disk", chainstate.disk_bytes() as f64 / count as f64);
    chainstate.merge_all().expect("merged");

    let mut asked: Vec<_> = coins.iter().map(|c| c.0).step_by(count / 6000 + 1).collect();
    let start = Instant::now();
    let found = chainstate.get_many(&asked).expect("read");
    report("get_many of 6000", asked.len(), start);
    assert!(found.iter().all(Option::is_some));
    asked.truncate(1000);
    let start = Instant::now();
    asked.iter().for_each(|at| drop(black_box(chainstate.get(at))));
    report("get", asked.len(), start);
    for hash_type in [HashType::None, HashType::HashSerialized3, HashType::MuHash] {
        let start = Instant::now();
        let stats = UtxoStats::compute(&chainstate, 1, hash_type).expect("computed");
        report(&format!("statistics, {:?}", stats.hash), count, start);
    }
}

#[test]
fn codec_speed() {
    let count = scale(1000, 100_000);
    let key = bitcoin::secp256k1::SecretKey::from_slice(&[1; 32]).expect("a key");
    let key = key.public_key(&bitcoin::secp256k1::Secp256k1::new()).serialize_uncompressed();
    let scripts = [
        ("P2WPKH", [&[0, 20][..], &[5; 20]].concat()),
        ("P2PKH", [&[0x76, 0xa9, 20][..], &[5; 20], &[0x88, 0xac]].concat()),
        ("uncompressed P2PK", [&[65][..], &key, &[0xac]].concat()),
    ];
    let mut out = Vec::new();
    for (name, script) in scripts {
        let start = Instant::now();
        (0..count).for_each(|_| drop(black_box(CompactScript::new(black_box(&script)))));
        report(&format!("compress {name}"), count, start);
        let compact = CompactScript::new(&script);
        let start = Instant::now();
        for _ in 0..count {
            out.clear();
            black_box(&compact).decompress_into(&mut out);
        }
        report(&format!("decompress {name}"), count, start);
        assert_eq!(out, script);
        let coin = Coin { amount: 1234567, height: 800_000, is_coinbase: false, script: compact };
        let start = Instant::now();
        for _ in 0..count {
            out.clear();
            black_box(&coin).encode(&mut out);
            black_box(Coin::decode(&mut Cursor::new(&out)).is_ok());
        }
        report(&format!("encode and decode {name}"), count, start);
    }
}

#[test]
fn muhash_speed() {
    let count = scale(1000, 300_000);
    let mut hash = MuHash::new();
    let start = Instant::now();
    (0..count).for_each(|i| hash.insert(&[i as u8; 80]));
    report("muhash insert", count, start);
    let start = Instant::now();
    println!("{}", black_box(hash.finalize()));
    report("muhash finalize", 1, start);
}
