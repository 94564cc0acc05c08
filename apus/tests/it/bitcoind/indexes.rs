//! The indexes that Apus builds are those that bitcoind builds, and bitcoind continues them.

use std::path::Path;
use std::process::Stdio;

use apus_store::IndexKind;
use apus_testchain::{Chain, Rng, Spec};
use apus_wire::{BlockView, Chain as Network};
use rustix::process::Signal;

use super::daemon::{Daemon, program_in};
use crate::support::chains::{FIRST_TIP, branches, small, small_fork};
use crate::support::indexes::{Indexes, indexed, indexed_in, of_active_chain, try_index};
use crate::support::program::{Lines, apus, assert_ends, program_on, signal};
use crate::support::waiting::wait_until;
use crate::support::{Place, blocks_of, data, regtest_chain, shared, with_genesis};

/// bitcoind's options for all its indexes.
pub const ALL: [&str; 4] = ["-txindex", "-txospenderindex", "-blockfilterindex", "-coinstatsindex"];

/// Whether bitcoind says that all its indexes are complete up to this height.
pub fn is_indexed(daemon: &Daemon, height: u64) -> bool {
    let info = daemon.ask_json(&["getindexinfo"]);
    let indexes = info.as_object().unwrap();
    indexes.len() == 4
        && indexes.values().all(|of| of["synced"] == true && of["best_block_height"] == height)
}

/// Lets bitcoind build or continue its indexes up to its tip.
fn index_by_bitcoind(bitcoind: &Path, place: &Place, height: u64) {
    let daemon = Daemon::start(bitcoind, place, &ALL);
    wait_until("bitcoind has indexed", || is_indexed(&daemon, height));
    daemon.stop();
}

/// Panics unless Apus answers from the index of statistics as bitcoind does.
fn assert_statistics(place: &Place, expected: &[serde_json::Value]) {
    for expected in expected {
        let height = expected["height"].to_string();
        let output = apus(place, &["txoutset", "info", "--height", &height]);
        assert_ends(&output, 0, &[]);
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(&found, expected);
    }
}

/// Panics unless bitcoind finds the indexes of a place complete, and answers from them.
pub fn assert_answers(bitcoind: &Path, place: &Place, blocks: &[Vec<u8>]) {
    let daemon = Daemon::start(bitcoind, place, &ALL);
    let height = blocks.len() - 1;
    assert!(is_indexed(&daemon, height as u64), "{}", daemon.ask(&["getindexinfo"]));
    let mut statistics = vec![daemon.ask_json(&["gettxoutsetinfo", "muhash", "0"])];
    for (height, block) in blocks.iter().enumerate().skip(1).step_by(blocks.len().div_ceil(15)) {
        let view = BlockView::parse(&block[..]).unwrap();
        let hash = view.hash().to_string();
        for tx in view.txs() {
            let txid = tx.txid().to_string();
            let answer = daemon.ask_json(&["getrawtransaction", &txid, "1"]);
            assert_eq!(answer["blockhash"], hash.as_str());
        }
        if view.tx_count() > 1 {
            let outpoint = view.tx(1).input(0).outpoint();
            let spent = format!("[{{\"txid\":\"{}\",\"vout\":{}}}]", outpoint.txid, outpoint.vout);
            let answer = daemon.ask_json(&["gettxspendingprevout", &spent]);
            let spender = view.tx(1).txid().to_string();
            assert_eq!(answer[0]["spendingtxid"], spender.as_str(), "{answer}");
        }
        let filter = daemon.ask_json(&["getblockfilter", &hash]);
        assert!(!filter["filter"].as_str().unwrap().is_empty());
        let of_index = daemon.ask_json(&["gettxoutsetinfo", "muhash", &height.to_string()]);
        assert_eq!(of_index["bestblock"], hash.as_str());
        statistics.push(of_index);
    }
    let tip = daemon.ask_json(&["gettxoutsetinfo", "muhash"]);
    let walked = daemon.ask_json(&["gettxoutsetinfo", "muhash", "null", "false"]);
    for name in ["muhash", "txouts", "bogosize", "total_amount"] {
        assert_eq!(tip[name], walked[name], "{name}");
    }
    daemon.stop();
    assert_statistics(place, &statistics);
}

/// Removes the indexes of a place.
fn without_indexes(place: &Place) {
    let dir = place.network_dir().join("indexes");
    if dir.exists() {
        std::fs::remove_dir_all(dir).unwrap();
    }
}

/// Panics unless Apus and bitcoind build the same indexes of `blocks`, and answer the same from
/// them.
fn assert_same_indexes(bitcoind: &Path, chain: Network, blocks: &[Vec<u8>]) {
    let place = Place::new(chain);
    place.sync_blocks("chain", blocks);
    index_by_bitcoind(bitcoind, &place, blocks.len() as u64 - 1);
    let theirs = Indexes::read(&place.network_dir()).without_hashes();
    let form = theirs.form();
    // What is complete is left alone.
    let nothing = try_index(&place, &IndexKind::ALL).unwrap();
    assert!(nothing.lacked.is_empty());
    without_indexes(&place);
    indexed_in(&place, Some(form)).without_hashes().assert_equal(&theirs);
    assert_answers(bitcoind, &place, blocks);
    Indexes::read(&place.network_dir()).without_hashes().assert_equal(&theirs);
}

/// Of every kind of script, and with a block of 4 MB among empty ones.
#[test]
fn indexes_are_those_of_bitcoind() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let spec = Spec { busy_bytes: 900_000, ..Spec::small(8) };
    for blocks in [regtest_chain(), with_genesis(small(5)), with_genesis(&Chain::new(spec))] {
        assert_same_indexes(&bitcoind, Network::Regtest, &blocks);
    }
}

#[test]
fn indexes_of_mainnet_are_those_of_bitcoind() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    assert_same_indexes(&bitcoind, Network::Main, &blocks_of(&data("mainnet-0-14131.dat")));
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs testnet3 blocks that may not be copied")]
fn indexes_of_testnet3_are_those_of_bitcoind() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    assert_same_indexes(&bitcoind, Network::Test, &blocks_of(&shared("testnet3-0-4000.dat")));
}

#[test]
fn one_begins_indexes_and_the_other_continues_them() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let main = with_genesis(small(5));
    let fork = with_genesis(small_fork(5, 150, 60, 3));
    let place = Place::new(Network::Regtest);
    place.sync_blocks("begin", &main[..121]);
    index_by_bitcoind(&bitcoind, &place, 120);
    let begun = place.copy();
    // bitcoind does all of it.
    place.sync_blocks("main", &main);
    index_by_bitcoind(&bitcoind, &place, 200);
    let of_main = Indexes::read(&place.network_dir());
    place.sync_blocks("fork", &fork[151..]);
    index_by_bitcoind(&bitcoind, &place, 210);
    let of_fork = Indexes::read(&place.network_dir());
    // Apus continues what bitcoind has begun, through the same reorganisation.
    begun.sync_blocks("main", &main);
    indexed(&begun).assert_equal(&of_main);
    let by_apus = begun.copy();
    begun.sync_blocks("fork", &fork[151..]);
    indexed(&begun).assert_equal(&of_fork);
    assert_answers(&bitcoind, &begun, &fork);
    // bitcoind continues what Apus has left.
    by_apus.sync_blocks("fork", &fork[151..]);
    index_by_bitcoind(&bitcoind, &by_apus, 210);
    Indexes::read(&by_apus.network_dir()).assert_equal(&of_fork);
}

/// After each of twenty reorganisations, both continue the indexes that they built before it.
#[test]
fn both_follow_twenty_reorganisations() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let place = Place::new(Network::Regtest);
    place.sync_blocks("main", &with_genesis(small(5))[..=FIRST_TIP as usize]);
    index_by_bitcoind(&bitcoind, &place, FIRST_TIP.into());
    let by_apus = place.copy();
    for (height, branch) in (FIRST_TIP + 1..).zip(branches()) {
        for place in [&place, &by_apus] {
            assert!(place.sync_blocks("branch", &branch).disconnected > 0);
        }
        index_by_bitcoind(&bitcoind, &place, height.into());
        indexed(&by_apus).assert_equal(&Indexes::read(&place.network_dir()));
    }
}

#[test]
fn a_sync_that_follows_keeps_the_indexes_at_the_tip() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let server_place = Place::new(Network::Regtest);
    server_place.sync_blocks("main", &with_genesis(small(5)));
    let server = Daemon::start(&bitcoind, &server_place, &[]);
    let place = Place::new(Network::Regtest);
    let connect = format!("--connect={}", server.address());
    let args = [&["sync", "--follow", "--assumevalid=0", &connect][..], &ALL].concat();
    let mut child =
        program_on(&place, &args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = Lines::of(child.stderr.take().unwrap());
    assert!(lines.wait_for(&["Waiting for new blocks"]));
    let mut rng = Rng::new(34, 20);
    for turn in 0..20 {
        let height: u32 = server.ask(&["getblockcount"]).parse().unwrap();
        let undone = rng.between(1, 12) as u32;
        let fork = server.ask(&["getblockhash", &(height + 1 - undone).to_string()]);
        server.ask(&["invalidateblock", &fork]);
        let blocks = undone + rng.between(1, 4) as u32;
        // Blocks like those that were invalidated would be refused.
        server.mine(blocks, char::from_digit(turn % 16, 16).unwrap());
        assert!(lines.wait_for(&["New tip", &server.ask(&["getbestblockhash"])]));
    }
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let height = server.ask(&["getblockcount"]).parse().unwrap();
    server.stop();
    let daemon = Daemon::start(&bitcoind, &place, &ALL);
    assert!(is_indexed(&daemon, height), "{}", daemon.ask(&["getindexinfo"]));
    let tip = daemon.ask_json(&["gettxoutsetinfo", "muhash"]);
    let walked = daemon.ask_json(&["gettxoutsetinfo", "muhash", "null", "false"]);
    assert_eq!(tip["muhash"], walked["muhash"]);
    daemon.stop();
    let followed = of_active_chain(Indexes::read(&place.network_dir()));
    without_indexes(&place);
    index_by_bitcoind(&bitcoind, &place, height);
    followed.assert_equal(&of_active_chain(Indexes::read(&place.network_dir())));
}
