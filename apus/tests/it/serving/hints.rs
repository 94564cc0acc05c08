//! Hints files that `apus serve` sends, and `apus sync --hints=peer` takes.

use apus_hash::{hex, sha256};
use apus_net::{HINTS_FILE, Transport};
use apus_wire::message::{Command, GetHints, HINTS_CHUNK_BYTES};

use super::*;

fn args<'a>(server: &'a Serving, more: &[&'a str]) -> Vec<String> {
    let connect = format!("--connect={}", server.address);
    let common = ["sync", "--minimumchainwork=0", "--v2transport=1", &connect];
    common.iter().chain(more).map(ToString::to_string).collect()
}

fn sync(place: &Place, server: &Serving, more: &[&str]) -> std::process::Output {
    let args = args(server, more);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    apus(place, &args)
}

#[test]
fn a_sync_takes_its_hints_from_the_server_that_has_its_blocks() {
    let served = world().in_order();
    let hints = world().write_hints(&served, world().height());
    let digest = hex(&sha256(&std::fs::read(&hints).unwrap()));
    let server = Serving::start(&served, &["--peerhints", hints.to_str().unwrap()]);
    let sha256 = format!("--hints-sha256={digest}");
    let assumevalid = format!("--assumevalid={}", tip());
    let place = world().place();
    let synced = sync(&place, &server, &["--hints=peer", &sha256, &assumevalid]);
    assert_ends(&synced, 0, &[]);
    assert_eq!(place.utxo_hash(), served.utxo_hash());
    let kept = place.network_dir().join("hints").join(format!("{digest}.hints"));
    assert_eq!(std::fs::read(kept).unwrap(), std::fs::read(&hints).unwrap());
    // Another file is not taken, and nothing else happens.
    let other = world().place();
    let sha256 = format!("--hints-sha256={}", "ab".repeat(32));
    let refused = sync(&other, &server, &["--hints=peer", &sha256, &assumevalid]);
    assert_ends(&refused, 1, &["abababab", "it does not offer this file"]);
    assert!(!other.network_dir().join("chainstate").exists());
}

#[test]
fn what_does_not_go_together_is_said() {
    let served = world().in_order();
    let hints = world().write_hints(&served, world().height());
    let hints = hints.to_str().unwrap();
    let place = world().place();
    let sha256 = format!("--hints-sha256={}", "0f".repeat(32));
    for (args, words) in [
        (&["sync", "--hints=peer"][..], "no hints file is built in for this chain"),
        (&["sync", "--hints=peer", "--hints-sha256=0f"], "64 hex digits"),
        (&["sync", "--hints", hints, &sha256], "--hints-sha256 is for --hints=peer"),
        (&["reindex", "--hints=peer", &sha256], "asks no peers"),
    ] {
        assert_ends(&apus(&place, args), 2, &[words]);
    }
    // The served chain must reach the height of the hints.
    let short = world().place();
    let lower = &world().blocks[..100];
    short.sync(&[short.write("lower", lower)]);
    let refused = apus(&short, &["serve", "--port=0", "--bind=127.0.0.1", "--peerhints", hints]);
    assert_ends(&refused, 1, &["--peerhints", "but the chain ends at 99"]);
}

#[test]
fn a_peer_is_told_of_the_file_and_gets_no_chunk_of_another() {
    let served = world().in_order();
    let hints = world().write_hints(&served, world().height());
    let file = std::fs::read(&hints).unwrap();
    assert!((file.len() as u64) < HINTS_CHUNK_BYTES);
    let sha256 = sha256(&file);
    let with = Serving::start(&served, &["--peerhints", hints.to_str().unwrap()]);
    for transport in TRANSPORTS {
        let ask = |sha256, chunk| Outgoing::new(&GetHints { sha256, chunk });
        let mut client = Client::new(&served, with.address, transport);
        let name = HINTS_FILE.as_bytes();
        let is_named = |feature: &Vec<u8>| feature[1..].starts_with(name);
        assert_eq!(client.features.iter().filter(|feature| is_named(feature)).count(), 1);
        client.send(&ask(sha256, 0));
        let payload = client.next(Command::HINTS).unwrap();
        assert!(payload[36..] == file, "another file");
        for wrong in [ask(sha256, 1), ask(sha256, u32::MAX), ask([7; 32], 0)] {
            let mut client = Client::new(&served, with.address, transport);
            client.send(&wrong);
            assert!(client.is_hung_up_on());
        }
    }
    let without = Serving::start(&served, &[]);
    let mut client = Client::new(&served, without.address, Transport::V1);
    client.send(&Outgoing::new(&GetHints { sha256, chunk: 0 }));
    assert!(client.is_hung_up_on());
}
