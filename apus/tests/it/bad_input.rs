//! Wrong input: an error that names the file and the place, an exit status that is not 0, and no
//! loss of what was committed.

use std::path::{Path, PathBuf};
use std::process::Output;

use apus_wire::Chain;

use crate::support::clock::with_clock;
use crate::support::program::{apus, assert_ends, program, program_on, stdout};
use crate::support::{Place, blocks_of, change_file, data, first_table, regtest_chain};

fn sync(place: &Place, from: &Path) -> Output {
    apus(place, &["sync", "--assumevalid=0", "--from", from.to_str().unwrap()])
}

fn flip(path: &Path, at: usize) {
    change_file(path, |bytes| bytes[at] ^= 0x10);
}

/// A directory with the regtest chain up to `height`, and the file with all of it.
fn half_synced(height: usize) -> (Place, PathBuf) {
    let place = Place::new(Chain::Regtest);
    let chain = regtest_chain();
    place.sync(&[place.write("half", &chain[..=height])]);
    let all = place.write("all", &chain);
    (place, all)
}

#[test]
fn a_truncated_file_is_reported_and_blocks_before_are_taken() {
    let (place, all) = half_synced(50);
    change_file(&all, |bytes| bytes.truncate(bytes.len() - 100));
    let output = sync(&place, &all);
    assert_ends(&output, 3, &["all", "at byte", "the file ends inside a block", "missing"]);
    assert_eq!(place.stats(apus_tools::UtxoHash::None).height, 205);
}

#[test]
fn a_file_of_another_network_is_refused_by_name() {
    let (place, _) = half_synced(50);
    let before = place.utxo_hash();
    let output = sync(&place, &data("mainnet-0-14131.dat"));
    assert_ends(&output, 1, &["mainnet-0-14131.dat", "main"]);
    assert_eq!(place.utxo_hash(), before);
}

#[test]
fn a_file_that_is_none_and_a_file_without_blocks_are_refused() {
    let (place, _) = half_synced(50);
    let output = sync(&place, &place.root().join("nowhere"));
    assert_ends(&output, 1, &["nowhere", "No such file"]);
    let junk = place.root().join("junk");
    std::fs::write(&junk, vec![7u8; 10_000]).unwrap();
    let output = sync(&place, &junk);
    assert_ends(&output, 1, &["junk"]);
}

#[test]
fn a_flipped_byte_in_a_source_refuses_that_block_alone() {
    let (place, all) = half_synced(50);
    let chain = regtest_chain();
    let before: usize = chain[..150].iter().map(|block| block.len() + 8).sum();
    flip(&all, before + 8 + 100);
    let output = sync(&place, &all);
    assert_ends(&output, 3, &["Refused: block", "in ", "all", "at byte"]);
    assert_eq!(place.stats(apus_tools::UtxoHash::None).height, 149);
    // With a good copy of the block, the chain is complete.
    let good = place.write("good", &chain);
    assert_ends(&sync(&place, &good), 0, &[]);
    assert_eq!(place.stats(apus_tools::UtxoHash::None).height, 206);
}

#[test]
fn a_flipped_byte_in_a_table_is_found_by_its_checksum() {
    let place = Place::new(Chain::Main);
    place.sync(&[data("mainnet-0-14131.dat")]);
    let table = first_table(&place.network_dir().join("chainstate"));
    flip(&table, 50_000);
    let output = apus(&place, &["txoutset", "info"]);
    let name = table.file_name().unwrap().to_str().unwrap();
    assert_ends(&output, 1, &[name, "at byte", "checksum"]);
    // The blocks are undamaged, so a reindex rebuilds the coins.
    assert_ends(&apus(&place, &["reindex"]), 0, &[]);
    assert_eq!(place.stats(apus_tools::UtxoHash::None).txouts, 13_416);
}

#[test]
fn wrong_options_are_refused_before_anything_is_touched() {
    let place = Place::new(Chain::Regtest);
    for (args, word) in [
        (&["sync", "--frmo", "x"][..], "--frmo"),
        (&["sync", "-datadri=x"], "datadri"),
        (&["sync", "--dbcache", "much"], "much"),
        (&["sink"], "sink"),
    ] {
        let output = program().args(args).output().unwrap();
        assert_ends(&output, 2, &[word]);
    }
    let output = apus(&place, &["sync", "--assumevalid=xyz"]);
    assert_ends(&output, 2, &["--assumevalid", "64 hex digits"]);
    let output = apus(&place, &["reindex"]);
    assert_ends(&output, 1, &["there is no such directory"]);
    assert!(!place.datadir().exists());
}

#[test]
fn blocks_without_their_parents_are_reported() {
    let place = Place::new(Chain::Regtest);
    let chain = regtest_chain();
    let output = sync(&place, &place.write("rest", &chain[100..]));
    assert_ends(&output, 3, &["parent", "is neither in the block index nor", "106 more blocks"]);
}

#[test]
fn a_block_that_breaks_a_rule_is_refused_and_remembered() {
    let mainnet = blocks_of(&data("mainnet-0-14131.dat"));
    let place = Place::new(Chain::Main);
    // The header of block 170 with the transactions of another block.
    let mut wrong = mainnet[170][..80].to_vec();
    wrong.extend_from_slice(&mainnet[171][80..]);
    let mut blocks = mainnet[..300].to_vec();
    blocks[170] = wrong;
    let output = sync(&place, &place.write("blocks", &blocks));
    assert_ends(&output, 3, &["bad-txnmrklroot"]);
    assert_eq!(place.stats(apus_tools::UtxoHash::None).height, 169);
}

/// A machine without a battery for its clock: no block is taken, and the clock is named at once.
#[test]
fn a_first_sync_with_a_clock_of_1970_names_the_clock() {
    let main = data("mainnet-0-14131.dat");
    let sync = |place: &Place, now: i64| {
        let args = ["sync", "--connect=0", "--from", main.to_str().unwrap()];
        let mut command = program_on(place, &args);
        with_clock(&mut command, now);
        command.output().unwrap()
    };
    let place = Place::new(Chain::Main);
    let refused = sync(&place, 10);
    assert_ends(
        &refused,
        1,
        &["clock says 1970-01-01 00:00 UTC", "set the clock, and run the same"],
    );
    assert!(stdout(&refused).is_empty(), "{}", stdout(&refused));
    // Of 2009-02-01: some are taken.
    let some = sync(&place, 1_233_446_400);
    assert_ends(
        &some,
        3,
        &["Warning: a block in the files is of 2009-02-01 02:04", "set the clock"],
    );
    assert!(stdout(&some).contains("Done: height "), "{}", stdout(&some));
}

/// The directory of a network is given in the place of the data directory: nothing is made in it.
#[test]
fn the_directory_of_a_network_is_named_each_time() {
    let (place, all) = half_synced(50);
    let before = std::fs::read_dir(place.network_dir()).unwrap().count();
    let datadir = place.datadir().display().to_string();
    for _ in 0..2 {
        for args in
            [&["status"][..], &["sync", "--connect=0"], &["reindex"], &["serve", "--port=0"]]
        {
            for chain in ["--chain=regtest", "--chain=main"] {
                let mut command = program();
                command.args(args).arg(chain).arg("--datadir").arg(place.network_dir());
                let output = command.env("HOME", place.root()).output().unwrap();
                let said = format!("use --datadir={datadir} --chain=regtest");
                assert_ends(&output, 1, &["this is the regtest directory of", &said]);
            }
        }
    }
    assert_eq!(std::fs::read_dir(place.network_dir()).unwrap().count(), before);
    assert_ends(&sync(&place, &all), 0, &[]);
}
