//! `apus sync --reconsider`: blocks that another program called invalid are checked again, and
//! entries of other chains leave the block index.

use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use apus_disk::Disk;
use apus_leveldb::{Db, Options as Tables};
use apus_node::{Options, Run, SyncError};
use apus_progress::Watch;
use apus_store::{
    BlockStatus, DataDir, DataDirOptions, IndexDb, IndexEntry, IndexRecord, block_key,
};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testchain::Break;
use apus_tools as tools;
use apus_wire::{Chain as Network, Header};

use crate::support::block_index::check_block_index;
use crate::support::chains::{small, small_fork};
use crate::support::judge::Judge;
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::{apus, assert_ends, stderr, stdout};
use crate::support::{Place, hash_of, with_genesis};
use crate::unchanged::tree;

/// A directory at the tip of a chain of 200 blocks.
fn synced() -> Place {
    let place = Place::new(Network::Regtest);
    place.sync_blocks("main", &with_genesis(small(5)));
    place
}

fn index_path(place: &Place) -> PathBuf {
    place.network_dir().join("blocks/index")
}

/// Takes the chain back to the block below `height`, and marks the blocks above as bitcoind does.
fn invalidate(place: &Place, height: u32) {
    tools::rewind(&place.options(), height - 1, Watch::default()).unwrap();
    mark(place, |entry| entry.height >= height);
}

/// Marks blocks as invalid.
fn mark(place: &Place, is_marked: impl Fn(&IndexEntry) -> bool) {
    let mut entries = place.blocks().0.entries;
    entries.retain(is_marked);
    for entry in &mut entries {
        entry.record.status.0 |= BlockStatus::BLOCK_FAILED_VALID;
    }
    IndexDb::open(&Disk::new(), &index_path(place)).unwrap().correct(&entries, &[]).unwrap();
}

/// Writes a record into the block index.
fn put(place: &Place, key: &[u8], value: Option<&[u8]>) {
    let db = Db::open(Disk::new(), &index_path(place), Tables::default()).unwrap();
    db.apply([(key.to_vec(), value.map(<[u8]>::to_vec))]).unwrap();
}

/// The record of a block whose header has 164 bytes.
fn of_hard_fork(entry: &IndexEntry) -> Vec<u8> {
    [entry.to_bytes(), vec![7; 84]].concat()
}

fn reconsidering(place: &Place) -> Options {
    Options { reconsider: true, ..place.options() }
}

fn reconsider_on(disk: &Disk, place: &Place) -> Result<Summary, SyncError> {
    sync::sync_on(&Run::on(disk, &reconsidering(place)), &[], Watch::default())
}

fn has_marks(place: &Place) -> bool {
    place.blocks().0.entries.iter().any(|entry| entry.record.status.is_failed())
}

/// Panics unless Core's engine continues from the directory, and reads all of it.
#[track_caller]
fn assert_judged(place: &Place, height: u32) {
    check_block_index(place);
    let judge = Judge::open(place).expect("the engine opens the result");
    assert_eq!(judge.tip().0, height);
    judge.read_everything();
}

#[test]
fn marks_of_any_depth_are_checked_again() {
    let whole = synced();
    let coins = whole.utxo_hash();
    for height in [200, 191, 57, 1] {
        let place = whole.copy();
        invalidate(&place, height);
        let told = apus(&place, &["sync", "--connect=0"]);
        let words = format!("marks blocks {height} to 200 as invalid");
        assert_ends(&told, 0, &[&words, "`apus sync --reconsider`"]);
        assert_eq!(tools::status(&place.options()).unwrap().height, height - 1);
        let status = stdout(&apus(&place, &["status"]));
        assert!(status.contains(&words), "{status}");
        let again = apus(&place, &["sync", "--connect=0", "--assumevalid=0", "--reconsider"]);
        let blocks = if height == 200 { "1 block" } else { "blocks" };
        assert_ends(&again, 0, &["Reconsidered", blocks, &format!("from height {height} on")]);
        assert_eq!(place.utxo_hash(), coins, "{height}");
        assert!(!has_marks(&place));
        assert_judged(&place, 200);
        // Nothing is left to be said.
        let quiet = apus(&place, &["sync", "--connect=0", "--reconsider"]);
        assert!(!stderr(&quiet).contains("onsider"), "{}", stderr(&quiet));
    }
}

/// A mark of an old version of Core is on one block, and counts for those that build on it.
#[test]
fn a_mark_counts_for_what_builds_on_the_block() {
    let place = synced();
    let coins = place.utxo_hash();
    tools::rewind(&place.options(), 119, Watch::default()).unwrap();
    mark(&place, |entry| entry.height == 120);
    let summary = place.sync(&[]);
    assert_eq!(summary.height, 119);
    let summary = reconsider_on(&Disk::new(), &place).unwrap();
    assert_eq!((summary.height, place.utxo_hash()), (200, coins));
    assert_judged(&place, 200);
}

/// A crash of bitcoind's invalidateblock leaves marks below the best block of the UTXO set.
#[test]
fn a_marked_tip_is_believed_to_be_connected() {
    let place = synced();
    let coins = place.utxo_hash();
    mark(&place, |entry| entry.height >= 190);
    let refused = place.try_sync(&[]).unwrap_err().to_string();
    assert!(refused.contains("is marked invalid"), "{refused}");
    let summary = reconsider_on(&Disk::new(), &place).unwrap();
    assert_eq!((summary.height, place.utxo_hash()), (200, coins));
    assert_judged(&place, 200);
}

#[test]
fn a_longer_branch_that_was_marked_wins() {
    let fork = small_fork(5, 190, 15, 9);
    let place = synced();
    place.sync(&[place.write("fork", &with_genesis(fork)[191..])]);
    let coins = place.utxo_hash();
    tools::rewind(&place.options(), 190, Watch::default()).unwrap();
    let on_fork: Vec<_> = with_genesis(fork)[191..].iter().map(|block| hash_of(block)).collect();
    mark(&place, |entry| on_fork.contains(&entry.hash));
    assert_eq!(place.sync(&[]).height, 200);
    let doubted = place.copy();
    let summary = reconsider_on(&Disk::new(), &place).unwrap();
    assert_eq!((summary.height, summary.best_block), (205, on_fork[14]));
    assert_eq!(place.utxo_hash(), coins);
    assert_judged(&place, 205);
    // Core's engine stays on the shorter chain as long as the marks are there.
    assert_eq!(Judge::open(&doubted).unwrap().tip().0, 200);
}

#[test]
fn what_is_invalid_is_refused_again() {
    let main = small(5);
    let mut blocks = with_genesis(main);
    let bad = small_fork(5, 180, 20, 6);
    blocks.extend_from_slice(&with_genesis(bad)[181..]);
    // The better branch ends with a block that claims too much.
    blocks.push(bad.broken(Break::BadCbAmount).block);
    let shorter = small_fork(5, 180, 22, 6);
    assert_eq!(hash_of(&with_genesis(shorter)[199]), hash_of(&with_genesis(bad)[199]));
    let place = Place::new(Network::Regtest);
    place.sync_blocks("both", &blocks);
    let coins = place.utxo_hash();
    invalidate(&place, 200);
    let output = apus(&place, &["sync", "--connect=0", "--assumevalid=0", "--reconsider"]);
    let told = stderr(&output);
    assert_eq!((place.utxo_hash(), output.status.code()), (coins, Some(3)), "{told}");
    assert!(told.contains("bad-cb-amount"), "{told}");
    let (index, _) = place.blocks();
    let marked = index.entries.iter().filter(|entry| entry.record.status.is_failed()).count();
    assert_eq!(marked, 1);
    assert_judged(&place, 200);
}

/// A node that refuses a block before it stores it marks the header alone.
#[test]
fn marked_headers_without_blocks_are_fetched() {
    let place = synced();
    let coins = place.utxo_hash();
    let entries = place.blocks().0.entries;
    let some = Place::new(Network::Regtest);
    let blocks = with_genesis(small(5));
    let all = some.write("all", &blocks);
    some.sync_blocks("some", &blocks[..=190]);
    let mut headers: Vec<_> = entries.into_iter().filter(|entry| entry.height > 190).collect();
    for entry in &mut headers {
        let status = BlockStatus::BLOCK_VALID_TREE | BlockStatus::BLOCK_FAILED_VALID;
        entry.record = IndexRecord { status: BlockStatus(status), ..IndexRecord::default() };
    }
    IndexDb::open(&Disk::new(), &index_path(&some)).unwrap().correct(&headers, &[]).unwrap();
    assert_eq!(some.sync(std::slice::from_ref(&all)).height, 190);
    let summary = sync::sync(&reconsidering(&some), &[all], Watch::default()).unwrap();
    assert_eq!((summary.height, some.utxo_hash()), (200, coins));
    assert!(!has_marks(&some));
    assert_judged(&some, 200);
}

/// What is refused for its options changes nothing: blocks are deleted in a run of its own.
#[test]
fn pruning_does_not_begin_with_it() {
    let place = synced();
    invalidate(&place, 150);
    let before = tree(place.root());
    let output = apus(&place, &["sync", "--connect=0", "--reconsider", "--prune=550"]);
    assert_ends(&output, 2, &["run `apus sync --reconsider` first"]);
    assert_eq!(tree(place.root()), before);
    assert_ends(&apus(&place, &["sync", "--connect=0", "--reconsider"]), 0, &["51 blocks"]);
    let output = apus(&place, &["sync", "--connect=0", "--prune=550"]);
    assert_ends(&output, 0, &[]);
}

/// Entries that are no headers of Bitcoin, each by itself: the key and the value of the record,
/// and words of the warning.
fn strangers(parent: &IndexEntry) -> Vec<(Vec<u8>, Vec<u8>, &'static str)> {
    let child = |nonce| {
        let header = Header { prev: parent.hash, nonce, ..parent.header };
        IndexEntry { hash: header.hash(), header, height: parent.height + 1, ..*parent }
    };
    let is_worked = |entry: &IndexEntry| entry.hash.0[31] < 0x80;
    let without_work = (0..).map(child).find(|entry| !is_worked(entry)).unwrap();
    let worked = (0..).map(child).find(is_worked).unwrap();
    let too_high = IndexEntry { height: parent.height + 2, ..worked };
    let of_stranger = Header { prev: without_work.hash, ..worked.header };
    let orphan = (0..)
        .map(|nonce| {
            let header = Header { nonce, ..of_stranger };
            IndexEntry { hash: header.hash(), header, ..too_high }
        })
        .find(is_worked)
        .unwrap();
    let key = block_key(&worked.hash);
    vec![
        (key.clone(), of_hard_fork(&without_work), "84 bytes longer than Bitcoin's"),
        (key.clone(), parent.to_bytes(), "holds the header of block"),
        (key.clone(), vec![1, 2, 3], "is not a block entry"),
        (b"b".to_vec(), worked.to_bytes(), "holds the header of block"),
        (block_key(&without_work.hash), without_work.to_bytes(), "no valid proof of work"),
        (key, too_high.to_bytes(), "a height that does not follow"),
        (block_key(&orphan.hash), orphan.to_bytes(), "has no parent"),
    ]
}

#[test]
fn entries_of_other_chains_are_left_out_by_name() {
    let whole = synced();
    let coins = whole.utxo_hash();
    let tip = *whole.blocks().0.entries.iter().find(|entry| entry.height == 200).unwrap();
    let all = strangers(&tip);
    for (key, value, words) in &all {
        let place = whole.copy();
        put(&place, key, Some(value));
        let output = apus(&place, &["sync", "--connect=0"]);
        assert_eq!(output.status.code(), Some(1), "{words}");
        if words.contains("84 bytes") {
            assert_ends(&output, 1, &["`apus sync --reconsider` leaves such entries out"]);
        }
        let output = apus(&place, &["sync", "--connect=0", "--reconsider"]);
        assert_ends(&output, 0, &["Warning: removed 1 entry of the block index", words]);
        assert_ends(&apus(&place, &["sync", "--connect=0"]), 0, &[]);
        assert_eq!(place.utxo_hash(), coins);
        assert_judged(&place, 200);
    }
    // All at once, with marks, and with records that Core does not read.
    let place = whole.copy();
    invalidate(&place, 150);
    let [first, .., last] = &all[..] else { panic!() };
    put(&place, &first.0, Some(&first.1));
    put(&place, &last.0, Some(&last.1));
    put(&place, b"X", Some(b"some"));
    put(&place, b"\x01", Some(b"some"));
    let output = apus(&place, &["sync", "--connect=0", "--reconsider"]);
    let words = ["51 blocks from height 150", "removed 2 entries", "2 records", "the first: 01"];
    assert_ends(&output, 0, &words);
    assert_eq!(place.utxo_hash(), coins);
    assert_judged(&place, 200);
}

/// The UTXO set may be that of the other chain: then nothing changes, and the command that the
/// message names builds Bitcoin's from the block files.
#[test]
fn a_set_of_another_chain_is_refused_and_built_again() {
    let place = synced();
    let coins = place.utxo_hash();
    let tip = *place.blocks().0.entries.iter().find(|entry| entry.height == 200).unwrap();
    let before = *place.blocks().0.entries.iter().find(|entry| entry.height == 199).unwrap();
    // The set is at a block that Bitcoin does not have.
    put(&place, &block_key(&tip.hash), Some(&of_hard_fork(&before)));
    append_foreign_block(&place);
    let files = tree(&place.datadir());
    let output = apus(&place, &["sync", "--connect=0", "--reconsider"]);
    assert_ends(&output, 1, &["nothing was changed", "`apus reindex --index --allow-shrink`"]);
    assert_eq!(tree(&place.datadir()), files);
    let output = apus(&place, &["reindex", "--index", "--allow-shrink"]);
    assert_ends(&output, 3, &[]);
    assert_eq!(place.utxo_hash(), coins);
    assert_judged(&place, 200);
}

/// Appends a block with a header of 164 bytes to the first block file.
fn append_foreign_block(place: &Place) {
    let options = DataDirOptions { read_only: true, ..DataDirOptions::default() };
    let dir = DataDir::open(&Disk::new(), &place.datadir(), &place.network, options).unwrap();
    let path = dir.blocks_path().join("blk00000.dat");
    let length = std::fs::metadata(&path).unwrap().len();
    let mut bytes = place.network.magic.to_vec();
    bytes.extend_from_slice(&400_u32.to_le_bytes());
    bytes.extend_from_slice(&[7; 400]);
    dir.obfuscation().apply(&mut bytes, length);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&bytes, length).unwrap();
}

#[test]
fn a_power_failure_leaves_the_marks_or_none() {
    let place = synced();
    let coins = place.utxo_hash();
    invalidate(&place, 190);
    let tip = *place.blocks().0.entries.iter().find(|entry| entry.height == 200).unwrap();
    for (key, value, _) in [&strangers(&tip)[0], &strangers(&tip)[6]] {
        put(&place, key, Some(value));
    }
    let (disk, counter) = counted();
    reconsider_on(&disk, &place.copy()).unwrap();
    for power in power_cuts(1..=counter.steps(), 5) {
        let cut = place.copy();
        let failed = reconsider_on(&failing(&power), &cut);
        assert!(failed.is_err() || power.cut_at() >= counter.steps(), "{power:?}");
        power.lose_unsynced().unwrap();
        // Once the marks are gone, no option is needed to go on.
        let survey = IndexDb::open_read_only(&Disk::new(), &index_path(&cut)).unwrap().survey();
        let survey = survey.unwrap();
        let marked = survey.entries.iter().filter(|entry| entry.record.status.is_failed()).count();
        // The orphan, a copy of the marked tip, is no stranger to the survey.
        let left = (survey.strangers.len(), survey.entries.len(), marked);
        assert!([(1, 202, 12), (0, 201, 0)].contains(&left), "{left:?}");
        let summary =
            if marked > 0 { reconsider_on(&Disk::new(), &cut).unwrap() } else { cut.sync(&[]) };
        assert_eq!((summary.height, cut.utxo_hash()), (200, coins.clone()));
    }
}

/// `apus init` and `apus doctor` recognise such directories, and what they propose works.
#[test]
fn init_and_doctor_propose_it() {
    let whole = synced();
    let tip = *whole.blocks().0.entries.iter().find(|entry| entry.height == 200).unwrap();
    let forked = whole.copy();
    put(&forked, &strangers(&tip)[0].0, Some(&strangers(&tip)[0].1));
    let marked = whole.copy();
    invalidate(&marked, 190);
    for (place, words, level) in [
        (&marked, "11 blocks from height 190 on marked invalid", "unsure"),
        (&forked, "1 entry of the block index", "unsafe"),
    ] {
        let init = stdout(&apus(place, &["init", "--lan=0"]));
        for part in [words, "check blocks in", "apus sync --reconsider"] {
            assert!(init.replace("\n", " ").contains(part), "{part}: {init}");
        }
        let json = stdout(&apus(place, &["doctor", "--read-only", "--json"]));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let findings = json["findings"].as_array().unwrap();
        let directory = findings.iter().find(|finding| finding["about"] == "directory").unwrap();
        assert_eq!(directory["level"], level);
        assert!(directory["found"].as_str().unwrap().contains(words), "{directory}");
        assert!(directory["remedy"].as_str().unwrap().contains("`apus sync --reconsider`"));
        let run = stdout(&apus(place, &["init", "--lan=0", "--quiet"]));
        let words: Vec<&str> = run.trim().split(' ').collect();
        assert_eq!(words[..3], ["apus", "sync", "--reconsider"], "{run}");
        assert_ends(&apus(place, &["sync", "--reconsider", "--connect=0"]), 0, &[]);
        let init = stdout(&apus(place, &["init", "--lan=0"]));
        assert!(!init.contains("reconsider"), "{init}");
    }
}
