//! Sync from bitcoind in every way, and bitcoind on what came of it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{ChildStderr, Stdio};

use apus_net::{PeerOptions, Target};
use apus_node::{AssumeValid, Options, SwiftSyncOptions};
use apus_progress::Method;
use rustix::process::Signal;

use super::daemon::{Daemon, program_in};
use crate::peers::world::{WAYS, options, world};
use crate::support::Place;
use crate::support::ports::free_port;
use crate::support::program::{program_on, signal};
use crate::support::swift::{try_reindex_with, try_sync_with};
use crate::support::waiting::wait_until;

/// bitcoind on what files have of the chain.
fn serving(bitcoind: &Path, transport: &str) -> (Place, Daemon) {
    let place = world().in_order();
    let daemon = Daemon::start(bitcoind, &place, &[transport]);
    assert_eq!(daemon.ask(&["getbestblockhash"]), world().tip().to_string());
    (place, daemon)
}

/// Options for a sync from `address` alone.
fn from_peer(place: &Place, way: Method, address: &str, v2transport: bool) -> Options {
    let connect = vec![Target::parse(address, 0).unwrap()];
    let peers = PeerOptions { connect, v2transport, ..PeerOptions::new(0) };
    Options { peers: Some(peers), ..options(place, way) }
}

/// Panics unless bitcoind finds every block and the UTXO set in order.
fn assert_core_agrees(bitcoind: &Path, place: &Place, way: Method) {
    if way == Method::SwiftSync {
        // It leaves undo data of the last blocks alone.
        let all = Options {
            assumevalid: AssumeValid::Nothing,
            swiftsync: SwiftSyncOptions { hints: None, ..Default::default() },
            ..place.options()
        };
        try_reindex_with(&all).unwrap();
    }
    let muhash = place.muhash().0;
    let daemon = Daemon::start(bitcoind, place, &[]);
    assert_eq!(daemon.ask(&["getbestblockhash"]), world().tip().to_string());
    assert_eq!(daemon.ask(&["verifychain", "4", "0"]), "true", "{way:?}");
    let info: serde_json::Value =
        serde_json::from_str(&daemon.ask(&["gettxoutsetinfo", "muhash"])).unwrap();
    assert_eq!(info["muhash"], muhash.as_str(), "{way:?}");
    daemon.stop();
}

#[test]
fn each_way_from_bitcoind_by_both_transports_and_back() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    for (transport, v2) in [("-v2transport=1", true), ("-v2transport=0", true)] {
        let (_place, server) = serving(&bitcoind, transport);
        for way in WAYS {
            let place = world().place();
            let summary =
                try_sync_with(&from_peer(&place, way, &server.address(), v2), &[]).unwrap();
            assert_eq!(summary.best_block, world().tip());
            let [peer] = &summary.peers[..] else { panic!("{:?}", summary.peers) };
            // One that does not know v2 is asked again by v1.
            let expected = if transport == "-v2transport=1" { "v2" } else { "v1" };
            assert_eq!((peer.transport, peer.ended.as_ref()), (expected, None));
            assert!(peer.user_agent.starts_with("/Satoshi:"), "{}", peer.user_agent);
            assert_core_agrees(&bitcoind, &place, way);
        }
        server.stop();
    }
}

/// Waits for a line with all of these words.
#[track_caller]
fn wait_for(lines: &mut impl Iterator<Item = String>, words: &[&str]) {
    let mut seen = Vec::new();
    for line in lines {
        let is_it = words.iter().all(|word| line.contains(word));
        seen.push(line);
        if is_it {
            return;
        }
    }
    panic!("{words:?} is not in {seen:#?}");
}

fn lines_of(stderr: ChildStderr) -> impl Iterator<Item = String> {
    BufReader::new(stderr).lines().map_while(Result::ok)
}

#[test]
fn a_reorganisation_is_followed() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let (_server_place, server) = serving(&bitcoind, "-v2transport=1");
    let place = world().place();
    let connect = format!("--connect={}", server.address());
    let args = ["sync", "--follow", "--assumevalid=0", &connect];
    let mut child =
        program_on(&place, &args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = lines_of(child.stderr.take().unwrap());
    wait_for(&mut lines, &["Waiting for new blocks"]);
    server.mine(3, '1');
    let first = server.ask(&["getbestblockhash"]);
    wait_for(&mut lines, &["New tip", &first]);
    // Blocks of the old branch are undone: 50 of the chain, and the three.
    let fork = server.ask(&["getblockhash", &(world().height() - 49).to_string()]);
    server.ask(&["invalidateblock", &fork]);
    server.mine(60, '2');
    let second = server.ask(&["getbestblockhash"]);
    wait_for(&mut lines, &["New tip", &second]);
    signal(&child, Signal::INT);
    // A sync that follows ends well when it is asked to end.
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let info: serde_json::Value =
        serde_json::from_str(&server.ask(&["gettxoutsetinfo", "muhash"])).unwrap();
    assert_eq!(info["muhash"], place.muhash().0.as_str());
    server.stop();
    let daemon = Daemon::start(&bitcoind, &place, &[]);
    assert_eq!(daemon.ask(&["verifychain", "4", "0"]), "true");
    daemon.stop();
}

/// btcd, which syncs from bitcoind, as the peer: another implementation of the protocol.
#[test]
fn each_way_from_btcd() {
    let (Some(bitcoind), Some(btcd)) = (program_in("BITCOIND"), program_in("BTCD")) else { return };
    let (_place, server) = serving(&bitcoind, "-v2transport=0");
    // btcd answers nobody as long as its last block is more than a day old.
    server.mine(1, '3');
    let tip = server.ask(&["getbestblockhash"]);
    let root = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let dir = root.path().display().to_string();
    std::fs::write(root.path().join("btcd.conf"), "").unwrap();
    let mut child = std::process::Command::new(btcd)
        .args(["--regtest", "--norpc", "--nodnsseed", "--notls"])
        .arg(format!("--listen={address}"))
        .arg(format!("--datadir={dir}/data"))
        .arg(format!("--logdir={dir}/logs"))
        .arg(format!("--configfile={dir}/btcd.conf"))
        .arg(format!("--connect={}", server.address()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for way in WAYS {
        let place = world().place();
        // It has the chain only once it has synced.
        let options = from_peer(&place, way, &address, true);
        wait_until("btcd has synced", || {
            let summary = try_sync_with(&options, &[]);
            summary.is_ok_and(|summary| summary.best_block.to_string() == tip)
        });
    }
    child.kill().unwrap();
    child.wait().unwrap();
    server.stop();
}
