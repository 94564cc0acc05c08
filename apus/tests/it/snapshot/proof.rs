//! Right snapshots: proved in every mode, by the blocks of a directory or of files in any order,
//! whatever their order and encoding; and synced from.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use apus_coins::compress_amount;
use apus_node::{AssumeValid, Options, RuleGroup};
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_swiftsync::{Format, Numbering};
use apus_sync as sync;
use apus_sync::Summary;
use apus_tools as tools;
use apus_wire::{put_compact_size, put_varint};

use super::{made, options_of};
use crate::support::chains::small;
use crate::support::model::encode;
use crate::support::outcome::Outcome;
use crate::support::program::{apus, assert_ends, stdout};
use crate::support::snapshot::{Snapshot, snapshot_info};
use crate::support::stop_when::StopWhen;
use crate::support::swift::{MODES, Mode, World, small_chain};

fn verified(options: &Options, path: &std::path::Path, from: &[PathBuf]) -> Summary {
    apus_claims::prove(options, path, from, Watch::default()).unwrap()
}

fn world() -> World {
    World::of(small(5))
}

#[test]
fn it_is_proved_at_any_height_by_a_directory_or_by_files() {
    let world = world();
    let place = world.in_order();
    let before = place.index();
    for height in [1, 130, world.height() - 1, world.height()] {
        let snapshot = made(&place, height);
        let path = place.write_bytes("utxo.dat", &snapshot.to_bytes());
        for mode in MODES {
            let sources = world.sources(&place, mode, &world.shuffled(height.into()));
            for (from, dbcache_bytes) in [(&[][..], 1000), (&sources[..], 450 << 20)] {
                let options = Options { dbcache_bytes, ..options_of(&place, mode) };
                let options = if from.is_empty() {
                    options
                } else {
                    Options { datadir: place.root().join("none"), ..options }
                };
                let summary = verified(&options, &path, from);
                assert_eq!(summary.coins, Some(snapshot.count), "{mode:?}");
                assert_eq!(summary.best_block, world.hash(height));
                let unchecked = summary.checked.not_checked().iter().flat_map(|all| all.rules);
                let scripts = unchecked.copied().any(|rule| rule == RuleGroup::Scripts);
                assert_eq!(scripts, mode == Mode::AssumeValid);
            }
        }
    }
    assert!(!place.root().join("none").exists());
    assert_eq!(place.index(), before);
}

#[test]
fn another_order_and_longer_scripts_are_the_same_snapshot() {
    let world = world();
    let place = world.in_order();
    let mut snapshot = made(&place, world.height());
    snapshot.coins.reverse();
    let options = options_of(&place, Mode::AssumeValid);
    verified(&options, &place.write_bytes("reversed", &snapshot.to_bytes()), &[]);
    // Core decompresses scripts as it reads them, and takes long forms of what has a short one.
    let path = place.write_bytes("long", &with_long_scripts(&snapshot));
    verified(&options, &path, &[]);
    let long = snapshot_info(&path).unwrap();
    let short = snapshot_info(&place.root().join("reversed")).unwrap();
    assert!(long.bytes > short.bytes);
    assert_eq!(long.stats, short.stats);
}

/// The bytes of a snapshot whose scripts all stand in full, a group for each coin, and a group
/// without coins.
fn with_long_scripts(snapshot: &Snapshot) -> Vec<u8> {
    let head = Snapshot { coins: Vec::new(), tail: Vec::new(), ..snapshot.clone() };
    let mut bytes = head.to_bytes();
    bytes.extend([9; 32]);
    bytes.push(0);
    for (outpoint, coin) in &snapshot.coins {
        bytes.extend(outpoint.txid.0);
        bytes.push(1);
        put_compact_size(&mut bytes, outpoint.vout.into());
        put_varint(&mut bytes, (u64::from(coin.height) << 1) | u64::from(coin.is_coinbase));
        put_varint(&mut bytes, compress_amount(coin.amount));
        let script = coin.script.to_script();
        put_varint(&mut bytes, script.len() as u64 + 6);
        bytes.extend(script);
    }
    bytes
}

fn synced(world: &World, mode: Mode, height: u32) -> Outcome {
    let place = world.place();
    let directory = world.in_order();
    let path = place.write_bytes("utxo.dat", &made(&directory, height).to_bytes());
    let sources = world.sources(&place, mode, &world.shuffled(3));
    let options = world.options_of_snapshot(&place, mode, &path);
    let summary = sync::sync(&options, &sources, Watch::default()).unwrap();
    assert_eq!((summary.height, summary.best_block), (world.height(), world.tip()));
    assert_eq!(summary.chosen.as_ref().unwrap().method, apus_progress::Method::SwiftSync);
    Outcome::of(&place, summary)
}

#[test]
fn a_sync_with_a_snapshot_ends_as_one_with_hints() {
    let world = world();
    for mode in MODES {
        for height in [100, world.height()] {
            let place = world.place();
            let hints = world.write_hints(&place, height);
            let sources = world.sources(&place, mode, &world.shuffled(3));
            let summary = world.try_swift(&place, mode, &hints, &sources).unwrap();
            let by_hints = Outcome::of(&place, summary);
            synced(&world, mode, height).assert_same(&by_hints, &format!("{mode:?} {height}"));
        }
    }
}

#[test]
fn interrupted_it_carries_on_with_the_same_snapshot_alone() {
    let world = World::of(&small_chain(78, 600, 4_000));
    let directory = world.in_order();
    let right = made(&directory, world.height());
    let lower = made(&directory, world.height() - 1);
    let place = world.place();
    let path = place.root().join("utxo.dat");
    let sources = world.sources(&place, Mode::AssumeValid, &world.file_order());
    let options = Options {
        threads: 1,
        save_every: std::time::Duration::ZERO,
        ..world.options_of_snapshot(&place, Mode::AssumeValid, &path)
    };
    let mut saved = 0;
    // What another snapshot has begun does not count.
    for (snapshot, carries_on) in
        [(&right, false), (&right, true), (&lower, false), (&right, false)]
    {
        std::fs::write(&path, snapshot.to_bytes()).unwrap();
        let begun = if carries_on { saved } else { 0 };
        let stop = AtomicBool::new(false);
        let first = AtomicU64::new(u64::MAX);
        let watch = StopWhen(&stop, |progress: &Progress| {
            if progress.phase == Phase::SwiftSync {
                first.fetch_min(progress.blocks, Relaxed);
            }
            progress.phase == Phase::SwiftSync && progress.blocks >= begun + 3
        });
        let summary = sync::sync(&options, &sources, Watch::new(&watch, &stop)).unwrap();
        assert!(summary.interrupted);
        let first = first.into_inner();
        assert!((begun..=begun + 1).contains(&first), "{first}, where {begun} were done");
        saved = summary.saved.and_then(sync::SavedSync::swiftsync).unwrap().done.into();
    }
    let summary = sync::sync(&options, &sources, Watch::default()).unwrap();
    assert_eq!(summary.best_block, world.tip());
    assert_eq!(place.utxo_hash(), directory.utxo_hash());
}

#[test]
fn a_proof_that_is_interrupted_says_so() {
    let world = world();
    let place = world.in_order();
    let path = place.write_bytes("utxo.dat", &made(&place, world.height()).to_bytes());
    for phase in [Phase::ReadingSnapshot, Phase::SwiftSync] {
        let stop = AtomicBool::new(false);
        let watch = StopWhen(&stop, move |progress: &Progress| progress.phase == phase);
        let options = Options { threads: 1, ..options_of(&place, Mode::AssumeValid) };
        let summary = apus_claims::prove(&options, &path, &[], Watch::new(&watch, &stop)).unwrap();
        assert!(summary.interrupted && summary.coins.is_none(), "{phase:?}");
    }
}

#[test]
fn the_program_proves_syncs_and_names() {
    let world = world();
    let place = world.in_order();
    let mut snapshot = made(&place, world.height());
    let path = place.write_bytes("utxo.dat", &snapshot.to_bytes());
    let file = path.display().to_string();
    let output = apus(&place, &["snapshot", "verify", &file]);
    assert_ends(&output, 0, &[]);
    assert!(stdout(&output).contains("none more and none less"), "{}", stdout(&output));
    assert!(stdout(&output).contains("taken as valid"), "{}", stdout(&output));
    let output = apus(&place, &["snapshot", "verify", &file, "--full", "--json"]);
    assert_ends(&output, 0, &[]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&json["coins"], &json["height"]), (&snapshot.count.into(), &world.height().into()));
    // With files alone, in an empty place.
    let source = world.write_source(&place, "files", &world.shuffled(9)).display().to_string();
    let nowhere = world.place();
    let args = ["snapshot", "verify", &file, "--assumevalid=0", "--from", &source];
    let output = apus(&nowhere, &args);
    assert_ends(&output, 0, &[]);
    assert!(stdout(&output).contains("every script"), "{}", stdout(&output));
    assert!(!nowhere.datadir().exists());
    // Hints, too, by files alone.
    let hints = world.write_hints(&place, world.height()).display().to_string();
    let output = apus(&nowhere, &["prove", &hints, "--full", "--from", &source]);
    assert_ends(&output, 0, &[]);
    assert!(stdout(&output).contains("every script"), "{}", stdout(&output));
    let above = world.write_source(&place, "lower", &world.shuffled(9)[..100]);
    let above = above.display().to_string();
    let output = apus(&nowhere, &["prove", &hints, "--from", &above]);
    assert_ends(&output, 1, &["but the tip is at height"]);
    assert!(!nowhere.datadir().exists());
    // And a sync, in which a wrong one is refused.
    let sync = ["sync", "--snapshot", &file, "--from", &source, "--assumevalid=0"];
    assert_ends(&apus(&nowhere, &sync), 0, &[]);
    assert_eq!(nowhere.utxo_hash(), place.utxo_hash());
    snapshot.coins[7].1.amount += 1;
    std::fs::write(&path, snapshot.to_bytes()).unwrap();
    let outpoint = snapshot.coins[7].0.to_string();
    let output = apus(&place, &["snapshot", "verify", &file]);
    assert_ends(&output, 1, &["Error:", &outpoint, "value"]);
    let output = apus(&place, &["snapshot", "verify", &file, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["kind"], "snapshot");
    assert_eq!(json["differences"]["coins"][0]["kind"], "changed");
    assert_eq!(json["differences"]["coins"][0]["vout"], snapshot.coins[7].0.vout);
    let empty = world.place();
    let sync = ["sync", "--snapshot", &file, "--from", &source, "--assumevalid=0"];
    assert_ends(&apus(&empty, &sync), 1, &["apus prove", "Nothing was committed"]);
    let both = ["sync", "--snapshot", &file, "--hints", &file, "--from", &source];
    assert_ends(&apus(&empty, &both), 2, &["--hints"]);
    let order = ["sync", "--snapshot", &file, "--method=order", "--from", &source];
    assert_ends(&apus(&empty, &order), 2, &["--snapshot is for SwiftSync"]);
    let missing = ["sync", "--snapshot", "/nowhere.dat", "--from", &source];
    assert_ends(&apus(&empty, &missing), 1, &["/nowhere.dat"]);
    let options = Options { assumevalid: AssumeValid::BuiltIn, ..place.options() };
    assert_eq!(tools::status(&options).unwrap().height, world.height());
}

#[test]
fn hints_and_snapshots_become_each_other() {
    let world = world();
    let full = world.in_order();
    // Blocks, and undo data of the last ones alone.
    let place = world.swift(Mode::AssumeValid, world.height());
    for height in [1, 150, world.height()] {
        let snapshot = made(&full, height).to_bytes();
        let path = place.write_bytes("utxo.dat", &snapshot);
        for format in Format::WRITTEN {
            let hints = place.root().join("made.hints");
            let options = Options { dbcache_bytes: 5000, ..place.options() };
            let summary = apus_claims::create_hints_of_snapshot(
                &options,
                &path,
                format,
                &hints,
                Watch::default(),
            );
            assert_eq!(summary.unwrap().height, height);
            let expected = world.model.hints_file(height, format);
            assert!(std::fs::read(&hints).unwrap() == expected, "{format:?} {height}");
            let back = place.root().join("back.dat");
            let options = place.options();
            let made =
                apus_claims::create_snapshot_of_hints(&options, &hints, &back, Watch::default());
            assert_eq!(made.unwrap().base, world.hash(height));
            assert!(std::fs::read(&back).unwrap() == snapshot, "{format:?} {height}");
            std::fs::remove_file(&back).unwrap();
        }
    }
    // A coin that no block creates, and hints that do not fit.
    let mut wrong = made(&full, world.height());
    wrong.coins[9].0.vout += 5;
    let path = place.write_bytes("wrong.dat", &wrong.to_bytes());
    let hints = place.root().join("none.hints");
    let refused = apus_claims::create_hints_of_snapshot(
        &place.options(),
        &path,
        Format::Bip456,
        &hints,
        Watch::default(),
    );
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("wrong.dat") && error.contains("has no output"), "{error}");
    let mut hints = world.model.hints(world.height(), Numbering::Spendable);
    hints[9].0.push(1000);
    hints[9].1 = 2000;
    let path = place.write_bytes("wrong.hints", &encode(&hints, Format::Bip456));
    let out = place.root().join("none.dat");
    let refused =
        apus_claims::create_snapshot_of_hints(&place.options(), &path, &out, Watch::default());
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("wrong.hints") && error.contains("block 10"), "{error}");
    assert!(!out.exists() && !place.root().join("none.hints").exists());
}
