//! Requests for filters of blocks (BIP157) are answered as by bitcoind.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;

use apus_hash::Hash;
use apus_net::Transport;
use apus_store::IndexKind;
use apus_wire::message::{Command, Raw, Services};
use rustix::process::Signal;

use super::daemon::{Daemon, program_in};
use super::messages::{Sent, answer, connected, sent};
use crate::peers::world::world;
use crate::serving::client::{Client, Serving};
use crate::support::Place;
use crate::support::indexes::try_index;
use crate::support::ports::free_port;
use crate::support::program::{apus, assert_ends, program_on, signal};
use crate::support::waiting::wait_until;

/// Blocks that bitcoind adds, so that there are more than one request may name.
const MINED: u32 = 2_050;
/// Blocks of a branch that bitcoind leaves.
const LEFT: u32 = 4;

/// A request, with `extra` bytes at its end or, if negative, that many fewer.
fn request(command: Command, kind: u8, start: u32, stop: Hash, extra: isize) -> Sent {
    let name = format!("of type {kind} from {start} to {stop}, {extra} bytes more");
    let mut payload = vec![kind];
    if command != Command::GETCFCHECKPT {
        payload.extend_from_slice(&start.to_le_bytes());
    }
    payload.extend_from_slice(&stop.0);
    payload.resize(payload.len().saturating_add_signed(extra), 7);
    sent(&name, &Raw(command, &payload))
}

/// Requests on a chain by height, and on the last block of a branch that was left.
fn requests(at: &[Hash], left: Hash) -> Vec<Sent> {
    let top = at.len() as u32 - 1;
    let tip = at[top as usize];
    let mut all = Vec::new();
    for command in [Command::GETCFILTERS, Command::GETCFHEADERS, Command::GETCFCHECKPT] {
        let mut add = |kind, start, stop| all.push(request(command, kind, start, stop, 0));
        for before in [0, 1, 5, 998, 999, 1000, 1001, 1998, 1999, 2000, 2001] {
            add(0, top - before, tip);
        }
        for (start, stop) in [(0, 0), (0, 1), (1, 1), (0, 999), (0, 1000), (1, 1000), (2, 1)] {
            add(0, start, at[stop]);
        }
        for stop in [999, 1000, 1001, 1999, 2000, 2001] {
            add(0, 700, at[stop]);
        }
        add(0, top + 1, tip);
        add(0, u32::MAX, tip);
        add(0, 0, tip);
        for kind in [1, 2, 255] {
            add(kind, top, tip);
        }
        for stop in [Hash::ZERO, Hash([7; 32]), left] {
            add(0, 0, stop);
            add(0, top - 20, stop);
            add(1, top - 20, stop);
        }
        for extra in [-33, -1, 1] {
            all.push(request(command, 0, top, tip, extra));
        }
    }
    all
}

/// Lets bitcoind make the chain with its filters. Returns its chain by height, and the last block
/// of a branch that it has left.
fn make_chain(daemon: &Daemon) -> (Vec<Hash>, Hash) {
    daemon.mine(MINED - 10, '1');
    daemon.mine(LEFT, '2');
    let left = daemon.ask(&["getbestblockhash"]);
    let first = world().height() + MINED - 10 + 1;
    let fork = daemon.ask(&["getblockhash", &first.to_string()]);
    daemon.ask(&["invalidateblock", &fork]);
    daemon.mine(10, '3');
    // It is a valid branch with less work.
    daemon.ask(&["reconsiderblock", &fork]);
    let height = world().height() + MINED;
    let hash = |height: u32| daemon.ask(&["getblockhash", &height.to_string()]).parse().unwrap();
    wait_until("bitcoind has indexed", || {
        let info = daemon.ask_json(&["getindexinfo"]);
        let of = &info["basic block filter index"];
        of["synced"] == true && of["best_block_height"] == height
    });
    ((0..=height).map(hash).collect(), left.parse().unwrap())
}

/// What a server answers to each request, on one connection until it hangs up.
fn answers(place: &Place, address: SocketAddr, all: &[Sent]) -> Vec<String> {
    let mut client = None;
    let answer = |Sent(name, message): &Sent| {
        let connection = client.get_or_insert_with(|| connected(place, address));
        let answer = answer(connection, message);
        if answer.is_none() {
            client = None;
        }
        format!("{name}: {}", answer.as_deref().unwrap_or("closed"))
    };
    all.iter().map(answer).collect()
}

fn assert_same(place: &Place, address: SocketAddr, all: &[Sent], expected: &[String]) {
    let found = answers(place, address, all);
    let differences: Vec<_> = expected.iter().zip(&found).filter(|(a, b)| a != b).collect();
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn filters_are_served_as_by_bitcoind() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let place = world().in_order();
    let refused = apus(&place, &["serve", "--peerblockfilters"]);
    assert_ends(&refused, 2, &["--peerblockfilters", "`apus index blockfilterindex`"]);
    let daemon = Daemon::start(&bitcoind, &place, &["-blockfilterindex=1", "-peerblockfilters=1"]);
    let (at, left) = make_chain(&daemon);
    let all = requests(&at, left);
    let address = daemon.address().parse().unwrap();
    let expected = answers(&place, address, &all);
    let services = Client::new(&place, address, Transport::V1).services;
    assert!(services.has(Services::COMPACT_FILTERS));
    let names = daemon.ask_json(&["getnetworkinfo"])["localservicesnames"].clone();
    assert!(names.as_array().unwrap().contains(&"COMPACT_FILTERS".into()));
    daemon.stop();
    let closed = expected.iter().filter(|answer| answer.ends_with("closed")).count();
    let silent = expected.iter().filter(|answer| answer.ends_with(": ")).count();
    assert!(closed > 20 && expected.len() - closed - silent > 40, "{closed} {silent}");

    let server = Serving::start(&place, &["--peerblockfilters"]);
    assert_eq!(Client::new(&place, server.address, Transport::V1).services, services);
    assert_same(&place, server.address, &all, &expected);
    drop(server);
    follows(&place, &all, &expected);
    // Apus builds the same filters, but for the branch that was left before.
    std::fs::remove_dir_all(place.network_dir().join("indexes")).unwrap();
    try_index(&place, &[IndexKind::BlockFilterIndex]).unwrap();
    let is_of_chain = |answer: &&String| !answer.contains(&left.to_string());
    let all: Vec<Sent> =
        all.into_iter().filter(|Sent(name, _)| !name.contains(&left.to_string())).collect();
    let expected: Vec<String> = expected.iter().filter(is_of_chain).cloned().collect();
    let server = Serving::start(&place, &["--peerblockfilters"]);
    assert_same(&place, server.address, &all, &expected);
    drop(server);
    // Without the option they are not offered.
    let server = Serving::start(&place, &[]);
    let mut client = Client::new(&place, server.address, Transport::V1);
    assert!(!client.services.has(Services::COMPACT_FILTERS));
    assert!(client.answers(&all[0].1).is_none());
}

/// A sync that listens gives the same answers.
fn follows(place: &Place, all: &[Sent], expected: &[String]) {
    let port = free_port();
    let listen = format!("--port={port}");
    let nobody = format!("--connect=127.0.0.1:{}", free_port());
    let args = ["sync", "--follow", "--listen", "--blockfilterindex", "--peerblockfilters"];
    let args = [&args[..], &[&listen, &nobody, "--assumevalid=0"]].concat();
    let mut child =
        program_on(place, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    wait_until("it listens", || TcpStream::connect(address).is_ok());
    wait_until("it serves", || {
        let client = Client::new(place, address, Transport::V2);
        client.services.has(Services::COMPACT_FILTERS)
    });
    assert_same(place, address, all, expected);
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
