//! `apus shard export`: one file for each range of heights, each of which is proved by itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader as _, SerializedFileReader};

use super::{blocks, synced};
use crate::support::Place;
use crate::support::chains::small;
use crate::support::program::{apus, assert_ends};
use crate::support::with_genesis;

/// Runs `apus shard COMMAND TABLE` with ranges of 50 blocks. Returns whether it succeeded, standard
/// output and error.
fn ranges(place: &Place, command: &str, table: &str, more: &[&str]) -> (bool, String, String) {
    let out = out(place);
    let args = ["shard", command, table, "-o", out.to_str().unwrap(), "--blocks", "50"];
    let output = apus(place, &[&args, more].concat());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn out(place: &Place) -> PathBuf {
    place.root().join("out")
}

/// All files of a table, by their paths.
fn files(place: &Place, table: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for directory in std::fs::read_dir(out(place).join(table)).unwrap() {
        for file in std::fs::read_dir(directory.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            files.insert(path.clone(), std::fs::read(path).unwrap());
        }
    }
    files
}

fn rows(path: &Path) -> i64 {
    let file = std::fs::File::open(path).unwrap();
    SerializedFileReader::new(file).unwrap().metadata().file_metadata().num_rows()
}

#[test]
fn ranges_hold_the_whole_table_and_are_proved() {
    let blocks = blocks();
    let place = synced(&blocks);
    for table in ["blocks", "transactions", "inputs", "outputs"] {
        let (_, todo, _) = ranges(&place, "export", table, &["--todo"]);
        let numbers: Vec<&str> = todo.split_whitespace().collect();
        assert_eq!(numbers.len(), blocks.len().div_ceil(50), "{todo}");
        // Another machine writes one range.
        assert!(ranges(&place, "export", table, &["--range", "1", "--par", "1"]).0);
        let (_, said, _) = ranges(&place, "export", table, &["--par", "3"]);
        assert!(
            said.starts_with(&format!("{} files written, 1 kept", numbers.len() - 1)),
            "{said}"
        );
        let written = files(&place, table);
        let parquet =
            written.keys().filter(|path| path.extension().is_some_and(|e| e == "parquet"));
        let sum: i64 = parquet.map(|path| rows(path)).sum();
        let whole = place.root().join(format!("{table}.parquet"));
        assert!(apus(&place, &["export", table, "-o", whole.to_str().unwrap()]).status.success());
        assert_eq!(sum, rows(&whole), "{table}");
        let (proved, said, err) = ranges(&place, "verify-export", table, &[]);
        assert!(
            proved && said.starts_with(&format!("{} files proved", numbers.len())),
            "{said}{err}"
        );
        // Written by other threads, the same bytes.
        std::fs::remove_dir_all(out(&place).join(table)).unwrap();
        assert!(ranges(&place, "export", table, &["--par", "1"]).0);
        assert!(files(&place, table) == written, "{table}");
    }
    assert!(ranges(&place, "export", "coins", &[]).2.contains("apus export coins"));
    assert!(ranges(&place, "export", "blocks", &["--range", "99"]).2.contains("numbered from 0"));
}

#[test]
fn a_file_that_was_changed_or_lost_is_named_and_written_again() {
    let place = synced(&blocks());
    ranges(&place, "export", "outputs", &[]);
    let path = out(&place).join("outputs/start_height=100/outputs.parquet");
    let kept = std::fs::read(&path).unwrap();
    let mut bytes = kept.clone();
    bytes[kept.len() / 2] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (proved, _, err) = ranges(&place, "verify-export", "outputs", &[]);
    assert!(!proved && err.contains(path.to_str().unwrap()), "{err}");
    for is_cut in [false, true] {
        if is_cut {
            std::fs::write(&path, &kept[..kept.len() / 2]).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        let (proved, _, err) = ranges(&place, "verify-export", "outputs", &[]);
        assert!(!proved && err.contains(path.to_str().unwrap()), "{err}");
        assert_eq!(ranges(&place, "export", "outputs", &["--todo"]).1, "2\n");
        ranges(&place, "export", "outputs", &[]);
        assert!(std::fs::read(&path).unwrap() == kept);
    }
}

#[test]
fn tables_of_another_chain_are_left_alone() {
    let place = synced(&blocks());
    ranges(&place, "export", "blocks", &[]);
    let note = out(&place).join("blocks/start_height=50/_range.json");
    let text = std::fs::read_to_string(&note).unwrap();
    std::fs::write(&note, text.replace("regtest", "signet")).unwrap();
    let before = files(&place, "blocks");
    assert_ends(&apus(&place, &["rewind", "--height=120"]), 0, &[]);
    for more in [&[][..], &["--range=0"], &["--todo"]] {
        let (done, _, err) = ranges(&place, "export", "blocks", more);
        assert!(!done && err.contains("start_height=50: this is a table of signet"), "{err}");
    }
    assert!(files(&place, "blocks") == before);
}

#[test]
fn files_that_are_no_range_are_refused() {
    let place = synced(&blocks());
    assert!(ranges(&place, "export", "blocks", &["--txid", "raw"]).0);
    let (proved, _, err) = ranges(&place, "verify-export", "blocks", &[]);
    assert!(!proved && err.contains("other options for its columns"), "{err}");
    assert!(ranges(&place, "export", "blocks", &[]).0);
    // Rows would count twice.
    let before = files(&place, "blocks");
    let out = out(&place);
    for command in ["export", "verify-export"] {
        let args = ["shard", command, "blocks", "-o", out.to_str().unwrap(), "--blocks", "60"];
        let words = ["start_height=", "no range of 60 blocks", "give the --blocks"];
        assert_ends(&apus(&place, &args), 1, &words);
    }
    assert!(files(&place, "blocks") == before);
    // Rows of blocks that are no longer in the chain.
    assert_ends(&apus(&place, &["rewind", "--height=99"]), 0, &[]);
    let (proved, _, err) = ranges(&place, "verify-export", "blocks", &[]);
    assert!(!proved && err.contains("start_height=1"), "{err}");
    assert!(ranges(&place, "export", "blocks", &[]).0);
    assert!(ranges(&place, "verify-export", "blocks", &[]).0);
}

#[test]
fn new_blocks_and_reorganisations_replace_the_files_they_touch() {
    let chain = small(5);
    let blocks = with_genesis(chain);
    let place = synced(&blocks[..blocks.len() - 20]);
    ranges(&place, "export", "transactions", &[]);
    let before = files(&place, "transactions");
    place.sync(&[place.write("rest", &blocks)]);
    let (proved, _, err) = ranges(&place, "verify-export", "transactions", &[]);
    assert!(!proved && err.contains("writes this file again"), "{err}");
    ranges(&place, "export", "transactions", &[]);
    let grown = files(&place, "transactions");
    let start = |path: &Path| -> usize {
        let directory = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
        directory.strip_prefix("start_height=").unwrap().parse().unwrap()
    };
    let first_changed = (blocks.len() - 20) / 50 * 50;
    for (path, bytes) in &before {
        assert_eq!(grown[path] == *bytes, start(path) < first_changed, "{}", path.display());
    }
    // A branch that forks off below the last range, and is longer.
    let fork = (blocks.len() - 1) / 50 * 50 - 3;
    let branch = with_genesis(&chain.fork(fork as u32, (blocks.len() - fork) as u32 + 2, 9));
    place.sync(&[place.write("branch", &branch)]);
    ranges(&place, "export", "transactions", &[]);
    for (path, bytes) in &grown {
        let is_kept = files(&place, "transactions")[path] == *bytes;
        assert_eq!(is_kept, start(path) + 50 <= fork + 1, "{}", path.display());
    }
    assert!(ranges(&place, "verify-export", "transactions", &[]).0);
}
