//! A directory whose block files were pruned: commands that need all blocks are refused with what
//! works instead, and commands that need only the UTXO set work.

use std::process::Output;

use apus::disk::Disk;
use apus::store::{DataDir, DataDirOptions};
use apus::wire::Chain;

use crate::support::program::{assert_ends, program, stdout};
use crate::support::{Place, regtest_chain};

/// The regtest chain, with the blocks below height 100 pruned.
fn pruned() -> Place {
    let place = Place::new(Chain::Regtest);
    place.sync(&[place.write("chain", &regtest_chain())]);
    let options = DataDirOptions::default();
    let dir = DataDir::open(&Disk::new(), &place.datadir(), &place.network, options).unwrap();
    let (db, mut index, files) = dir.open_blocks().unwrap();
    db.write_pruned().unwrap();
    let old = index.entries.iter_mut().filter(|entry| (1..100).contains(&entry.height));
    old.for_each(|entry| entry.record.forget_data());
    db.write(&files.flush().unwrap(), &index.entries).unwrap();
    place
}

fn apus(place: &Place, args: &[&str]) -> Output {
    let datadir = format!("-datadir={}", place.datadir().display());
    let mut command = program();
    command.current_dir(place.root()).args(args).args(["-regtest", &datadir]).output().unwrap()
}

#[test]
fn what_needs_all_blocks_says_what_works_instead() {
    let place = pruned();
    for args in [&["sync", "--from", "chain"][..], &["reindex"]] {
        let refused = apus(&place, args);
        let words = ["blocks: block files", "were pruned", "--datadir", "`apus txoutset info`"];
        assert_ends(&refused, 1, &words);
    }
    let hints = apus(&place, &["hints", "create", "-o", "x"]);
    assert_ends(&hints, 1, &["was pruned", "directory that holds them"]);
}

#[test]
fn the_utxo_set_of_a_pruned_directory_is_read() {
    let place = pruned();
    let info = apus(&place, &["txoutset", "info", "--hash=none"]);
    assert_ends(&info, 0, &[]);
    assert!(stdout(&info).contains("\"height\": 206"));
}
