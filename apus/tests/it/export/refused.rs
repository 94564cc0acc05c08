//! What cannot be exported, and what is left where an export ends early.

use std::path::Path;
use std::process::Stdio;

use apus_store::BlockStatus;
use apus_testchain::used_len;
use apus_tools::UtxoHash;
use apus_wire::Chain;

use super::{TABLES, blocks, csv, exported, synced, try_export};
use crate::pruned::pruned;
use crate::support::mounts::run_with_mounts;
use crate::support::program::{apus, assert_ends, program_on, stderr, stdout};
use crate::support::{Place, change_file, data};

const FILES: [&str; 3] = ["t.parquet", "t.sqlite", "t.csv"];

/// Panics if a directory has a file that begins with `t.`.
#[track_caller]
fn assert_nothing_left(directory: &Path) {
    let names = std::fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.starts_with("t.")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_file_that_exists_is_kept() {
    let place = synced(&blocks());
    for file in FILES {
        std::fs::write(place.root().join(file), "mine").unwrap();
        let (path, output) = try_export(&place, "coins", file, &[]);
        assert_ends(&output, 1, &[file, "exists already", "name another file"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        std::fs::remove_file(path).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", place.root().join("t.csv")).unwrap();
    let (path, output) = try_export(&place, "coins", "t.csv", &[]);
    assert_ends(&output, 1, &["exists already"]);
    std::fs::remove_file(path).unwrap();
    std::fs::create_dir(place.root().join("t.db")).unwrap();
    let (_, output) = try_export(&place, "coins", "t.db", &[]);
    assert_ends(&output, 1, &["is a directory", "name a file in it"]);
    let (_, output) = try_export(&place, "coins", "no/such/t.csv", &[]);
    assert_ends(&output, 1, &["no/such: there is no such directory: make it"]);
    // What a killed export has left is written over.
    std::fs::write(place.root().join("u.csv.incomplete"), vec![b'x'; 10_000_000]).unwrap();
    let text = std::fs::read_to_string(exported(&place, "blocks", "u.csv", &[])).unwrap();
    assert!(!text.contains('x') && text.lines().count() == 202);
    assert!(!place.root().join("u.csv.incomplete").exists());
}

#[test]
fn wrong_options_exit_with_2_and_say_what_to_do() {
    let place = synced(&blocks());
    let file = place.root().join("t.txt");
    let file = file.to_str().unwrap();
    for (args, words) in [
        (&["coins", "-o", file][..], &["t.txt", "--format parquet, sqlite or csv"][..]),
        (&["coins", "-o", file, "--format", "xlsx"], &["'xlsx'", "parquet, sqlite, csv"]),
        (&["utxos", "-o", file], &["'utxos'", "coins, blocks"]),
        (&["coins", "-o", file, "--format", "csv", "--txid=raw"], &["CSV is text"]),
        (&["coins", "-o", file, "--format", "csv", "--spk=raw"], &["CSV is text"]),
        (&["coins", "-o", file, "--format", "csv", "--txid=rawbe"], &["'rawbe'", "hex, raw"]),
        (&["coins", "-o", "-"], &["--format parquet, sqlite or csv"]),
        (&["coins", "-o", "-", "--format", "parquet"], &["only CSV", "name a file"]),
        (&["coins", "-o", "-", "--format", "sqlite"], &["only CSV", "name a file"]),
        (&["coins", "-o", "-", "--format", "csv", "--json"], &["--json", "leave one out"]),
        (
            &["blocks", "-o", file, "--format=csv", "--start-height=9", "--stop-height=8"],
            &["the first height, 9, is above the last height, 8"],
        ),
    ] {
        assert_ends(&apus(&place, &[&["export"], args].concat()), 2, words);
    }
    for option in ["--start-height=201", "--stop-height=201"] {
        let (_, output) = try_export(&place, "coins", "t.csv", &[option]);
        assert_ends(&output, 1, &["at height 200", "which is below height 201"]);
    }
    assert_nothing_left(place.root());
}

#[test]
fn pruned_blocks_are_named_before_the_work_begins() {
    let place = pruned();
    let coins = place.stats(UtxoHash::None).txouts;
    assert_eq!(csv(&place, "coins", &[]).len() as u64, coins + 1);
    for table in &TABLES[1..] {
        let (_, output) = try_export(&place, table, "t.csv", &[]);
        assert_ends(&output, 1, &["block 99 is not stored here", "--start-height 100"]);
        assert_nothing_left(place.root());
        assert!(csv(&place, table, &["--start-height=100"]).len() > 100);
    }
}

#[test]
fn missing_undo_data_is_named_or_leaves_fees_empty() {
    let made = synced(&blocks());
    let tip = csv(&made, "blocks", &["--start-height=200"])[1][1].clone();
    let place = made.copy();
    place.change_index(|entry| {
        if entry.height < 180 {
            entry.record.status.0 &= !BlockStatus::BLOCK_HAVE_UNDO;
        }
    });
    let (_, output) = try_export(&place, "inputs", "t.csv", &[]);
    assert_ends(&output, 1, &["has no undo data here", "--start-height", "`apus reindex`"]);
    assert_nothing_left(place.root());
    let inputs = csv(&place, "inputs", &["--start-height=180"]);
    assert_eq!(inputs, csv(&made, "inputs", &["--start-height=180"]));
    assert_eq!(csv(&place, "outputs", &[]), csv(&made, "outputs", &[]));
    for (table, column) in [("blocks", 17), ("transactions", 13)] {
        let full = csv(&made, table, &[]);
        let bare = csv(&place, table, &[]);
        assert_eq!(full.len(), bare.len());
        let mut missing = 0;
        for (full, bare) in full.iter().zip(&bare) {
            assert_eq!(full[..column], bare[..column]);
            missing += usize::from(full[column] != bare[column]);
            assert!(full[column] == bare[column] || bare[column].is_empty());
        }
        assert!(missing > 20, "{table}: {missing}");
        let (path, output) = try_export(&place, table, "t.csv", &["--json"]);
        assert_ends(&output, 0, &[]);
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert!(json["blocks_without_fees"].as_u64() > Some(20), "{json}");
        assert_eq!(json["bestblock"], *tip);
        std::fs::remove_file(path).unwrap();
        // All machines write the same ranges.
        let tables = place.root().join("tables");
        let output = apus(&place, &["shard", "export", table, "-o", tables.to_str().unwrap()]);
        assert_ends(&output, 1, &["have no undo data here", "`apus reindex`"]);
        assert!(
            tables
                .join(table)
                .read_dir()
                .unwrap()
                .all(|range| { range.unwrap().path().read_dir().unwrap().next().is_none() })
        );
    }
}

#[test]
fn damaged_blocks_and_undo_data_are_named_with_their_place() {
    let place = synced(&blocks());
    for (name, words) in [
        ("rev00000.dat", ["undo", "apus reindex"]),
        ("blk00000.dat", ["not block 0", "apus sync --from"]),
    ] {
        let path = place.network_dir().join("blocks").join(name);
        let used = used_len(&path).unwrap() as usize;
        // In the last undo data, and in the only transaction of genesis.
        let at = if name.starts_with("rev") { used - 101 } else { 150 };
        change_file(&path, |bytes| bytes[at] ^= 1);
        let (_, output) = try_export(&place, "inputs", "t.parquet", &[]);
        assert_ends(&output, 1, &[&[name, "at byte"][..], &words].concat());
        assert_nothing_left(place.root());
    }
}

#[test]
fn a_full_disk_is_an_error_and_nothing_is_left() {
    let place = Place::new(Chain::Main);
    place.sync(&[data("mainnet-0-14131.dat")]);
    for file in FILES {
        let script = format!(
            "mkdir -p disk; mount -t tmpfs -o size=1m none disk
             \"$apus\" export outputs --datadir datadir -o disk/{file} && exit 99
             code=$?; ls disk; exit $code"
        );
        let Some(output) = run_with_mounts(place.root(), &[], &script) else { return };
        let text = stderr(&output).to_lowercase();
        assert_ends(&output, 1, &[file]);
        assert!(text.contains("no space left") || text.contains("no storage space"), "{text}");
        let remedy = "(the disk is full: free some space, or name a file on another disk";
        assert!(text.contains(remedy), "{text}");
        assert_eq!(stdout(&output), "", "left on the disk");
    }
}

#[test]
fn a_read_only_directory_is_read_and_not_written_to() {
    let place = synced(&blocks());
    let script = "mount --bind datadir datadir; mount -o remount,ro,bind datadir
        \"$apus\" export inputs --datadir datadir --regtest -o t.parquet
        \"$apus\" export coins --datadir datadir --regtest -o datadir/t.csv";
    let Some(output) = run_with_mounts(place.root(), &[], script) else { return };
    assert_ends(&output, 1, &["datadir/t.csv.incomplete", "Read-only file system"]);
    assert!(place.root().join("t.parquet").exists());
}

#[test]
fn standard_output_takes_csv_and_may_end_early() {
    let place = synced(&blocks());
    let args = ["export", "outputs", "--format=csv", "-o", "-"];
    let output = apus(&place, &args);
    assert_ends(&output, 0, &["rows written"]);
    let path = exported(&place, "outputs", "u.csv", &[]);
    assert_eq!(stdout(&output), std::fs::read_to_string(path).unwrap());

    let mut command = program_on(&place, &args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    // The program is as quiet as one that SIGPIPE ends.
    assert_ends(&output, 1, &[]);
    assert!(!stderr(&output).contains("Error"), "{}", stderr(&output));

    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = program_on(&place, &args).stdout(full).output().unwrap();
    assert_ends(&output, 1, &["standard output", "No space left"]);
}

#[test]
fn two_exports_read_the_same_directory_at_once() {
    let place = synced(&blocks());
    let start = |file: &str| {
        let path = place.root().join(file);
        let args = ["export", "inputs", "-o", path.to_str().unwrap(), "--quiet"];
        program_on(&place, &args).spawn().unwrap()
    };
    let mut both = [start("a.csv"), start("b.csv")];
    assert!(both.iter_mut().all(|child| child.wait().unwrap().success()));
    let read = |file: &str| std::fs::read(place.root().join(file)).unwrap();
    assert!(read("a.csv") == read("b.csv"));
}
