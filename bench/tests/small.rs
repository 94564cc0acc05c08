//! Runs each benchmark in a small size: all ways to do the same must have the same result. No time
//! is asserted.

use std::path::Path;

use apus_bench::kernels::{self, Sample};
use apus_bench::process::Programs;
use apus_bench::report::Report;
use apus_bench::trials::{self, Kind, World};
use apus_bench::{inputs, join};

fn programs() -> Programs {
    Programs::of(Path::new(env!("CARGO_BIN_EXE_apus-bench")))
}

fn rows(report: &Report, table: &str) -> Vec<serde_json::Value> {
    let json = report.json();
    json["tables"][table].as_array().unwrap_or_else(|| panic!("no table {table}: {json}")).clone()
}

fn check_files(report: &Report) {
    let dir = tempfile::tempdir().unwrap();
    report.write(dir.path()).unwrap();
    let json = std::fs::read_to_string(dir.path().join(format!("{}.json", report.name))).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for fact in ["cpu", "cores", "ram_bytes", "date", "commit"] {
        assert!(!json["machine"][fact].is_null(), "{fact}: {json}");
    }
    assert!(!report.text().is_empty());
}

#[test]
fn every_way_to_read_write_and_hash_comes_to_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let sample = Sample::small().unwrap();
    let report = kernels::run(kernels::Size::SMALL, &sample, dir.path()).unwrap();
    let mut found = rows(&report, "blocks and hashes");
    found.extend(rows(&report, "tables"));
    found.extend(rows(&report, "hints"));
    for what in [
        "read block",
        "write block",
        "get",
        "get_many of 5000",
        "scan",
        "write sorted records",
        "write 4 runs and merge them",
        "parse block, add up amounts",
        "txids",
        "merkle root of txids",
        "SHA-256 of 1 MiB",
        "MuHash element",
        "encode hints, one index",
        "decode hints, one index",
        "open a hints file",
    ] {
        let same: Vec<_> =
            found.iter().filter(|row| row["what"] == what && row["digest"].is_string()).collect();
        assert!(same.len() >= 2, "{what} is measured one way only");
        assert!(same.iter().all(|row| row["digest"] == same[0]["digest"]), "{what}");
    }
    check_files(&report);
}

#[test]
fn the_large_sample_is_what_it_says() {
    let sample = Sample::large().unwrap();
    assert!(sample.block.len() > 900_000, "{}", sample.name);
    assert!(!sample.encode_undo().is_empty());
}

#[test]
fn every_way_comes_to_the_same_utxo_set() {
    let dir = tempfile::tempdir().unwrap();
    let report = join::run(&join::Size::small(), &programs(), dir.path()).unwrap();
    assert!(report.notes.iter().any(|note| note.starts_with("Bitcoin Core left out")));
    let found = rows(&report, "runs");
    let of = |run: &str| found.iter().filter(|row| row["run"] == run).collect::<Vec<_>>();
    for row in of("apus, in order") {
        assert!(row["scripts_checked"].as_u64().unwrap() > 100, "blocks on top: {row}");
        assert!(row["peak_anonymous_bytes"].as_u64() > Some(0), "{row}");
    }
    assert_eq!(of("apus, in order").len(), 2);
    assert_eq!(of("apus, SwiftSync").len(), 2);
    assert_eq!(of("apus, SwiftSync, every script").len(), 1);
    check_files(&report);
}

#[test]
fn whatever_blocks_spend_a_small_cache_reads_no_coin_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut size = join::Size { runs: 1, ..join::Size::curve(3_000_000) };
    size.chains.iter_mut().for_each(|chain| chain.dbcaches = vec![4, 100]);
    let report = join::run(&size, &programs(), dir.path()).unwrap();
    let found = rows(&report, "runs");
    assert_eq!(found.len(), 8, "four chains, and two caches");
    for row in &found {
        assert!(row["coins_looked_up"].as_u64().unwrap() <= row["inputs"].as_u64().unwrap());
    }
    check_files(&report);
}

#[test]
fn each_engine_checks_every_script_in_each_way() {
    let dir = tempfile::tempdir().unwrap();
    let size = join::Size::scripts_small();
    let report = inputs::run(&size, &programs(), dir.path()).unwrap();
    let found = rows(&report, "runs");
    assert_eq!(found.len(), 12, "three ways, and four who check scripts");
    for row in &found {
        let all = row["scripts_checked"].as_u64();
        let core = row["scripts_core"].as_u64();
        let by_core = row["run"].as_str().unwrap().ends_with("in Core's engine");
        assert!(all > Some(1_000), "{row}");
        assert!(if by_core { core == all } else { core < all.map(|all| all / 10) }, "{row}");
    }
    let kinds = rows(&report, "inputs");
    for kind in ["P2WPKH", "P2TR key", "P2PKH", "P2WSH multisig"] {
        let row = kinds.iter().find(|row| row["kind"] == kind).unwrap();
        assert!(row["inputs"].as_u64() > row["left"].as_u64(), "{row}");
    }
    check_files(&report);
}

#[test]
fn trials_run_and_find_nothing_lost_nor_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(programs(), dir.path(), 1).unwrap();
    for kind in [Kind::Kill, Kind::Flip] {
        let time = std::time::Duration::from_secs(600);
        let size = trials::Size { time, tries: 3, seed: 1 };
        let tally = trials::run(kind, &size, &world).unwrap();
        assert_eq!(tally.tries(), 3);
        assert!(!tally.failed(), "{}", tally.text());
    }
}
