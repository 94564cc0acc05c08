//! Blocks of which only the headers are known, or that are stored and not connected: what the
//! commands say of them, and what to do next.

use apus_disk::Disk;
use apus_progress::Watch;
use apus_store::{BlockStatus, IndexRecord};
use apus_tools as tools;
use apus_wire::Chain;

use crate::pruned::{SPARE, options, sync_with, world as long_world};
use crate::support::program::{apus, assert_contains, assert_ends, stdout};
use crate::support::{Place, regtest_chain};

/// The height of the regtest chain.
const TOP: u32 = 206;

/// The regtest chain, connected up to height `tip`, and with blocks above it as far as height
/// `stored`; of all others there are the headers alone.
fn with_headers(tip: u32, stored: u32) -> Place {
    let place = Place::new(Chain::Regtest);
    place.sync(&[place.write("chain", &regtest_chain())]);
    tools::rewind(&place.options(), tip, Watch::default()).unwrap();
    place.change_index(|entry| {
        if entry.height > stored {
            let status = BlockStatus(BlockStatus::BLOCK_VALID_TREE);
            entry.record = IndexRecord { status, ..IndexRecord::default() };
        }
    });
    place
}

/// Panics unless the program ends well and says all this on standard output.
#[track_caller]
fn assert_says(place: &Place, args: &[&str], words: &[&str]) {
    let output = apus(place, args);
    assert_ends(&output, 0, &[]);
    let text = stdout(&output);
    assert_contains(&text, words);
}

#[test]
fn missing_blocks_are_named_with_what_fetches_them() {
    let place = with_headers(50, 50);
    let missing = "156 blocks up to height 206 are missing, the first at height 51";
    let next = "`apus sync` fetches them from peers, or from files with --from";
    let up_to = "blocks      stored up to height 50";
    assert_says(&place, &["status"], &[up_to, missing, next, "for every connected block"]);
    assert_says(&place, &["sync", "--connect=0"], &["Done: height 50, best", missing, next]);
    let output = apus(&place, &["sync", "--connect=0", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["why"], "the next blocks are missing");
    let above = serde_json::json!({
        "headers": TOP, "blocks_waiting": 0, "blocks_missing": 156, "first_missing": 51,
    });
    assert_eq!(json["above_tip"], above);
    let output = apus(&place, &["status", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["above_tip"], above);
    // No more were asked for.
    let stopped = apus(&place, &["sync", "--connect=0", "--stopatheight=50"]);
    assert!(!stdout(&stopped).contains("missing"), "{}", stdout(&stopped));
    let summary = place.sync(&[place.write("chain", &regtest_chain())]);
    assert_eq!((summary.height, summary.above_tip.unwrap().missing), (TOP, 0));
    assert_says(&place, &["status"], &["blocks      all stored", "for every connected block"]);
}

#[test]
fn stored_blocks_that_wait_are_named_with_what_connects_them() {
    let place = with_headers(0, 120);
    assert_says(
        &place,
        &["status"],
        &[
            "none is connected; 120 blocks above the tip are stored and not yet connected: run",
            "86 blocks up to height 206 are missing, the first at height 121",
            "undo data   none: no block is connected",
        ],
    );
    assert_says(&place, &["sync", "--connect=0"], &["Done: height 120,", "86 blocks up to"]);
    let nothing = Place::new(Chain::Regtest);
    drop(nothing.blocks());
    nothing.sync_blocks("genesis", &regtest_chain()[..1]);
    assert_says(
        &nothing,
        &["status"],
        &["only the genesis block: run `apus sync` to get the others"],
    );
}

#[test]
fn a_rewind_says_what_it_has_disconnected() {
    let place = with_headers(TOP, TOP);
    let words = [
        "Done: height 100, best",
        "disconnected   106 blocks\n",
        "106 blocks above the tip are stored and not yet connected: run",
    ];
    let output = apus(&place, &["rewind", "--height=100"]);
    assert_ends(&output, 0, &[]);
    let text = stdout(&output);
    assert_contains(&text, &words);
    assert!(!text.contains("pruned") && !text.contains("0, 0 transactions"), "{text}");
    assert_says(
        &place,
        &["status"],
        &["stored up to height 100; 106 blocks", "run `apus sync` to connect them"],
    );
    let output = apus(&place, &["rewind", "--height=90", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["blocks_disconnected"], &json["pruned"]), (&10.into(), &().into()));
    assert_says(
        &place,
        &["rewind", "--height=90"],
        &["no block connected or disc", "116 blocks above"],
    );
    assert_says(&place, &["sync", "--connect=0"], &["Done: height 206,", "116, "]);
}

#[test]
fn undo_data_of_pruned_blocks_is_not_claimed() {
    let world = long_world();
    let place = world.place();
    sync_with(&place, &options(&place, Some(apus_node::Prune::Target(SPARE))), &world.blocks);
    let status = tools::status(&place.options()).unwrap();
    let from = format!("from height {} on", status.blocks_from);
    assert!(status.pruned && status.blocks_from > 1, "{status:?}");
    assert_says(
        &place,
        &["status"],
        &[&format!("blocks      pruned, stored {from}"), &format!("undo data   {from}")],
    );
    let rewind = format!("--height={}", status.height - 1);
    assert_says(&place, &["rewind", &rewind], &["Next: apus sync", " -prune=1"]);
    // What needs all blocks is no remedy.
    std::fs::remove_file(place.network_dir().join("chainstate/CURRENT")).unwrap();
    for args in [&["status"][..], &["verify"], &["sync", "--connect=0", "--prune=550"]] {
        let output = apus(&place, args);
        assert_ends(&output, 1, &["are pruned: `apus sync` into an empty directory"]);
        assert!(!crate::support::program::stderr(&output).contains("reindex"), "{args:?}");
    }
}

#[test]
fn an_empty_utxo_set_names_the_command_that_fills_it() {
    let place = with_headers(0, 0);
    // As after a sync that was refused before it committed.
    std::fs::remove_dir_all(place.network_dir().join("chainstate")).unwrap();
    let wrong = place.write_bytes("wrong.hints", b"no hints");
    let hints = format!("--hints={}", wrong.display());
    assert_ends(&apus(&place, &["sync", "--connect=0", &hints]), 1, &["wrong.hints"]);
    let empty = place.copy();
    let chainstate = empty.network_dir().join("chainstate");
    let options = apus_leveldb::Options { create_if_missing: true, ..Default::default() };
    drop(apus_coins::Chainstate::open(Disk::new(), &chainstate, options).unwrap());
    for args in [&["txoutset", "info"][..], &["hints", "create", "-o", "x"]] {
        let output = apus(&empty, args);
        assert_ends(
            &output,
            1,
            &["the UTXO set is empty", "run `apus sync` to connect stored blocks"],
        );
        assert!(!crate::support::program::stderr(&output).contains("reindex"));
    }
}

/// A join leaves the genesis block in a file of its own.
#[test]
fn genesis_is_no_block_to_prune() {
    let world = long_world();
    let place = world.place();
    let join = apus_node::Options { fast_prune: true, ..place.join() };
    sync_with(&place, &join, &world.blocks);
    let path = place.network_dir().join("blocks/blk00000.dat");
    let before = std::fs::read(&path).unwrap();
    assert_says(&place, &["prune", "--height=1", "-fastprune"], &["no block is pruned"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let status = tools::status(&place.options()).unwrap();
    assert!(!status.pruned && status.blocks_from == 1, "{status:?}");
    assert_ends(&apus(&place, &["sync", "--connect=0"]), 0, &[]);
    // It stays where other files go.
    assert_says(&place, &["prune", "--height=400", "-fastprune"], &["are pruned"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(tools::status(&place.options()).unwrap().pruned);
}
