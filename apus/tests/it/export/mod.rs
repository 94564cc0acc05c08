//! `apus export`: each table against a count by hand, each format read back by others' code, and
//! what cannot be exported.

mod by_hand;
mod formats;
pub mod history;
mod ranges;
mod readers;
mod refused;
mod tables;

use std::path::PathBuf;
use std::process::Output;

use apus_wire::Chain;

use crate::support::chains::small;
use crate::support::program::{apus, assert_ends};
use crate::support::{Place, with_genesis};

/// The names of all tables.
pub const TABLES: [&str; 5] = ["coins", "blocks", "transactions", "inputs", "outputs"];

/// The blocks of the generated chain that most tests export, genesis first.
pub fn blocks() -> Vec<Vec<u8>> {
    with_genesis(small(5))
}

/// A directory with these blocks, synced in order, so that it has all undo data.
pub fn synced(blocks: &[Vec<u8>]) -> Place {
    let place = Place::new(Chain::Regtest);
    place.sync(&[place.write("chain", blocks)]);
    place
}

/// Runs `apus export TABLE -o FILE` with more options; returns the path of the file too.
pub fn try_export(place: &Place, table: &str, file: &str, more: &[&str]) -> (PathBuf, Output) {
    let path = place.root().join(file);
    let args = ["export", table, "-o", path.to_str().unwrap()];
    let output = apus(place, &[&args, more].concat());
    (path, output)
}

/// The path of an exported file.
#[track_caller]
pub fn exported(place: &Place, table: &str, file: &str, more: &[&str]) -> PathBuf {
    let (path, output) = try_export(place, table, file, more);
    assert_ends(&output, 0, &[]);
    path
}

/// The rows of an exported CSV file, that of the names first.
#[track_caller]
pub fn csv(place: &Place, table: &str, more: &[&str]) -> Vec<Vec<String>> {
    let path = exported(place, table, "table.csv", more);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    assert!(text.ends_with('\n') && !text.contains('"'));
    text.lines().map(|line| line.split(',').map(str::to_string).collect()).collect()
}
