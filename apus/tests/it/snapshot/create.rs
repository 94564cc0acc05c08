//! Snapshots made from directories: at any height those of the coins that are unspent there, the
//! same as from a directory that stopped at that height, for any number of threads and any memory.
//! Byte for byte Core's: `bitcoind/snapshot.rs`.

use std::path::Path;
use std::process::Command;

use apus_claims::SnapshotSummary;
use apus_coins::put_coin_key;
use apus_disk::Disk;
use apus_node::SnapshotInfo;
use apus_node::{Options, SyncError};
use apus_progress::Watch;
use apus_testchain::seal;
use apus_tools::UtxoHash;
use apus_wire::{Chain as Network, OutPoint, genesis_block};

use crate::support::blocks::{block, bytes, genesis_parent};
use crate::support::chains::small;
use crate::support::listed::Listed;
use crate::support::program::{apus, assert_ends, program, stdout};
use crate::support::snapshot::{Snapshot, snapshot_info, unspent_at};
use crate::support::swift::{Mode, World};
use crate::support::{Place, regtest_chain};

fn try_create(
    options: &Options,
    height: Option<u32>,
    out: &Path,
) -> Result<SnapshotSummary, SyncError> {
    apus_claims::create_snapshot(options, height, out, Watch::default())
}

/// The bytes of a new snapshot.
fn created(options: &Options, height: Option<u32>, out: &Path) -> Vec<u8> {
    let summary = try_create(options, height, out).unwrap();
    let bytes = std::fs::read(out).unwrap();
    std::fs::remove_file(out).unwrap();
    assert_eq!((summary.bytes, summary.interrupted), (bytes.len() as u64, false));
    bytes
}

fn info(path: &Path) -> SnapshotInfo {
    snapshot_info(path).unwrap()
}

#[test]
fn at_every_height_the_coins_that_are_unspent_there() {
    let world = World::of(small(5));
    let place = world.in_order();
    let out = place.root().join("utxo.dat");
    let heights = [0, 1, 120, 151, 170, world.height() - 1, world.height()];
    for height in heights {
        let few = Options { threads: 1, dbcache_bytes: 10_000, ..place.options() };
        let many = Options { threads: 3, ..place.options() };
        let bytes = created(&few, Some(height), &out);
        assert_eq!(created(&many, Some(height), &out), bytes, "height {height}");
        let snapshot = Snapshot::parse(&bytes);
        let head = (snapshot.magic, snapshot.base);
        assert_eq!(head, (place.network.magic, world.hash(height)), "height {height}");
        assert_eq!(snapshot.by_outpoint(), unspent_at(&world.blocks, height), "height {height}");
        let keys: Vec<Vec<u8>> = snapshot.coins.iter().map(|(outpoint, _)| key(outpoint)).collect();
        assert!(keys.is_sorted(), "height {height}");
        assert_eq!(snapshot.to_bytes(), bytes);
        // A directory that stops at that height has no undo data above it.
        let lower = world.place();
        lower.sync_blocks("blocks", &world.blocks[..=height as usize]);
        assert_eq!(created(&lower.options(), None, &out), bytes, "height {height}");
    }
}

fn key(outpoint: &OutPoint) -> Vec<u8> {
    let mut key = Vec::new();
    put_coin_key(&mut key, outpoint);
    key
}

/// The hashes that Core's chain parameters list.
#[test]
fn the_listed_utxo_sets_have_their_hashes() {
    for listed in Listed::all() {
        let (_place, out) = listed.with_snapshot();
        let found = info(&out);
        assert_eq!(found.is_as_listed(), Some(true), "base {}", listed.height());
        assert_eq!(found.listed.unwrap().height, listed.height());
    }
}

#[test]
fn info_says_what_txoutset_info_says_whatever_the_order() {
    let world = World::of(small(5));
    let place = world.in_order();
    let out = place.root().join("utxo.dat");
    try_create(&place.options(), None, &out).unwrap();
    let expected = place.stats(UtxoHash::HashSerialized3);
    let found = info(&out);
    assert_eq!(found.stats.coins, expected.txouts);
    assert_eq!(found.stats.transactions, expected.transactions);
    assert_eq!(found.stats.total_amount, u128::from(expected.total_amount));
    assert_eq!(Some(found.stats.hash_serialized), expected.hash.map(|(_, hash)| hash));
    assert_eq!((found.is_sorted, found.listed), (true, None));
    // Coins in another order: transactions, and the outputs of one.
    let sorted = Snapshot::parse(&std::fs::read(&out).unwrap());
    let mut others = sorted.clone();
    others.coins.reverse();
    std::fs::write(&out, others.to_bytes()).unwrap();
    let unsorted = info(&out);
    assert!(!unsorted.is_sorted);
    assert_eq!(SnapshotInfo { is_sorted: true, ..unsorted }, found);
    // The same coin twice is no UTXO set.
    others.coins.push(sorted.coins[7].clone());
    others.count += 1;
    std::fs::write(&out, others.to_bytes()).unwrap();
    let error = snapshot_info(&out).unwrap_err().to_string();
    assert!(error.ends_with(&format!("the coin {} twice", sorted.coins[7].0)), "{error}");
}

/// Outputs from index 16,512 on are in another order in the tables, and in a snapshot, than by
/// number; the hash is by number.
#[test]
fn the_order_of_many_outputs_is_that_of_the_keys() {
    let world = World::new(Network::Regtest, with_many_outputs(17_000));
    let place = world.in_order();
    let out = place.root().join("utxo.dat");
    let bytes = created(&place.options(), None, &out);
    let snapshot = Snapshot::parse(&bytes);
    let numbers: Vec<u32> = snapshot.coins.iter().map(|(outpoint, _)| outpoint.vout).collect();
    assert!(
        numbers.contains(&16_999)
            && !numbers.windows(2).all(|pair| pair[0] <= pair[1] || pair[1] == 0)
    );
    assert_eq!(snapshot.by_outpoint(), unspent_at(&world.blocks, world.height()));
    std::fs::write(&out, &bytes).unwrap();
    let hash = place.stats(UtxoHash::HashSerialized3).hash.map(|(_, hash)| hash);
    assert_eq!(Some(info(&out).stats.hash_serialized), hash);
}

/// Genesis and a block whose coinbase has `n` outputs.
fn with_many_outputs(count: u64) -> Vec<Vec<u8>> {
    let mut block = block(&genesis_parent(), "many");
    let of_value = |value| bitcoin::TxOut {
        value: bitcoin::Amount::from_sat(value),
        script_pubkey: bitcoin::ScriptBuf::from_bytes(vec![0x51]),
    };
    block.txdata[0].output.splice(0..1, (1..=count).map(of_value));
    seal(&mut block);
    [vec![genesis_block(&Place::new(Network::Regtest).network)], bytes([&block])].concat()
}

#[test]
fn what_cannot_be_made_is_refused_and_leaves_nothing() {
    let world = World::of(small(5));
    let place = world.swift(Mode::AssumeValid, world.height());
    let out = place.root().join("utxo.dat");
    let refused = |height, words: &[&str]| {
        let error = try_create(&place.options(), height, &out).unwrap_err().to_string();
        words.iter().for_each(|word| assert!(error.contains(word), "{error}"));
        let names = Disk::new().list(place.root()).unwrap();
        assert!(!names.iter().any(|name| name.starts_with("utxo.dat")), "{names:?}");
    };
    let tip = world.height();
    refused(Some(tip + 1), &[&format!("is at height {tip}"), "which is below --height"]);
    // Blocks before their last 288 may have no undo data: here all have.
    try_create(&place.options(), Some(tip - 1), &out).unwrap();
    let error = try_create(&place.options(), Some(tip - 1), &out).unwrap_err().to_string();
    assert!(error.contains("exists already"), "{error}");
    std::fs::remove_file(&out).unwrap();
    std::fs::remove_file(place.network_dir().join("blocks/rev00000.dat")).unwrap();
    refused(Some(tip - 1), &["rev00000.dat"]);
    try_create(&place.options(), None, &out).unwrap();
}

#[test]
fn the_program_makes_and_describes_one() {
    let place = Place::new(Network::Regtest);
    place.sync_blocks("blocks", &regtest_chain());
    let out = place.root().join("utxo.dat");
    let path = out.display().to_string();
    let output = apus(&place, &["snapshot", "create", "--height", "205", "-o", &path, "--json"]);
    assert_ends(&output, 0, &[]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&json["base_height"], &json["interrupted"]), (&205.into(), &false.into()));
    assert_eq!(json["coins_written"], info(&out).stats.coins);
    assert_ends(&apus(&place, &["snapshot", "create", "-o", &path]), 1, &["exists already"]);
    assert_ends(&apus(&place, &["snapshot", "create", "-o", "-"]), 2, &["name a file"]);
    assert_ends(&apus(&place, &["snapshot", "create"]), 2, &["--output"]);
    let run = |args: &[&str]| program().args(args).output().unwrap();
    let output = run(&["snapshot", "info", &path]);
    assert_ends(&output, 0, &[]);
    assert!(stdout(&output).contains("network            regtest"), "{}", stdout(&output));
    let output = run(&["snapshot", "info", "--json", &path]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["hash_serialized_3"], info(&out).stats.hash_serialized.to_string());
    std::fs::write(&out, "something else").unwrap();
    assert_ends(&run(&["snapshot", "info", &path]), 1, &["this is not a UTXO snapshot"]);
    std::fs::write(&out, "").unwrap();
    assert_ends(&run(&["snapshot", "info", &path]), 1, &["the file is empty"]);
    let directory = place.root().display().to_string();
    // Opening the pipe would block, since no program writes to it.
    let pipe = place.root().join("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [directory, pipe] {
        for file in ["snapshot", "hints"] {
            assert_ends(&run(&[file, "info", &path]), 1, &["not a regular file"]);
        }
        for command in [&["prove"][..], &["reindex", "--hints"], &["sync", "--snapshot"]] {
            let args = [command, &[&path]].concat();
            assert_ends(&apus(&place, &args), 1, &["not a regular file"]);
        }
    }
    assert_ends(&run(&["snapshot", "info", "/nowhere/utxo.dat"]), 1, &["/nowhere/utxo.dat"]);
}
