//! `apus serve`: what peers get, and what they cannot do to it.

pub mod client;
mod following;
mod hints;
pub mod spent_coins;

use std::io::Write as _;
use std::net::TcpStream;

use apus_disk::Disk;
use apus_hash::Hash;
use apus_net::{Outgoing, PeerOptions, Target, Transport};
use apus_node::Options;
use apus_progress::Method;
use apus_store::{DataDir, DataDirOptions};
use apus_testchain::{Parent, remerkle};
use apus_testpeer::without_witnesses;
use apus_wire::Chain;
use apus_wire::message::{Command, InventoryKind, Nonce, Services};
use bitcoin::{Amount, ScriptBuf, TxOut};
use rustix::process::Signal;

use self::client::{Client, Serving};
use self::spent_coins::request;
use crate::peers::world::{WAYS, options, tip, try_sync, world};
use crate::support::blocks::{block, branch, bytes, genesis_parent};
use crate::support::program::{apus, assert_ends};
use crate::support::{Place, blocks_of, data, hash_of};

const WITNESS: InventoryKind = InventoryKind::WITNESS_BLOCK;
const TRANSPORTS: [Transport; 2] = [Transport::V1, Transport::V2];
/// Megabytes, in bytes.
const MB: u64 = 1_000_000;

/// The options of a sync of [`world`] from this server alone.
fn from(place: &Place, way: Method, server: &Serving) -> Options {
    let connect = vec![Target::parse(&server.address.to_string(), 0).unwrap()];
    let peers = PeerOptions { connect, ..PeerOptions::new(0) };
    Options { peers: Some(peers), ..options(place, way) }
}

#[test]
fn each_way_syncs_from_a_served_directory() {
    let served = world().in_order();
    for (v2, transport) in [("--v2transport=0", "v1"), ("--v2transport=1", "v2")] {
        let server = Serving::start(&served, &[v2]);
        for way in WAYS {
            let place = world().place();
            let (summary, _) = try_sync(&from(&place, way, &server));
            let summary = summary.unwrap();
            assert_eq!(summary.best_block, tip(), "{way:?}");
            let [peer] = &summary.peers[..] else { panic!("{:?}", summary.peers) };
            assert_eq!((peer.transport, peer.ended.as_ref()), (transport, None));
            assert_eq!(peer.blocks, u64::from(world().height()));
        }
    }
}

#[test]
fn blocks_come_as_they_are_stored_or_without_witnesses() {
    let served = world().in_order();
    let server = Serving::start(&served, &[]);
    for transport in TRANSPORTS {
        let mut client = Client::new(&served, server.address, transport);
        assert_eq!(client.height, world().height() as i32);
        let all = Services::NETWORK.with(Services::NETWORK_LIMITED).with(Services::WITNESS);
        assert_eq!(client.services, all.with(Services::P2P_V2));
        let genesis = world().hash(0);
        let expected: Vec<Hash> = (1..=world().height()).map(|at| world().hash(at)).collect();
        assert_eq!(client.headers_after(genesis), expected);
        for (height, expected) in world().blocks.iter().enumerate() {
            let hash = world().hash(height as u32);
            assert_eq!(client.block(WITNESS, hash).as_ref(), Some(expected), "{height}");
            let stripped = client.block(InventoryKind::BLOCK, hash).unwrap();
            assert_eq!(stripped, without_witnesses(expected), "{height}");
        }
        assert!(client.is_ignored(WITNESS, Hash([7; 32])));
        client.ask(InventoryKind::TX, [tip()]);
        assert!(client.next(Command::NOTFOUND).is_some());
    }
}

/// 400 blocks, of which those below height 50 are pruned.
fn pruned() -> (Place, Vec<Vec<u8>>) {
    let place = Place::new(Chain::Regtest);
    let blocks = bytes(&branch(&genesis_parent(), "pruned", 400).0);
    place.sync_blocks("blocks", &blocks);
    place.forget_blocks(1..50);
    (place, blocks)
}

#[test]
fn a_pruned_directory_serves_its_last_288_blocks() {
    let (served, blocks) = pruned();
    let server = Serving::start(&served, &["--v2transport=0"]);
    let connect = || Client::new(&served, server.address, Transport::V1);
    let mut client = connect();
    assert_eq!(client.services, Services::NETWORK_LIMITED.with(Services::WITNESS));
    let at = |height: usize| &blocks[height - 1];
    assert_eq!(client.block(WITNESS, hash_of(at(110))).as_ref(), Some(at(110)));
    assert_eq!(client.block(WITNESS, hash_of(at(109))), None, "290 below the tip, and no more");
    // A directory that has the others gets the rest.
    let other = Place::new(Chain::Regtest);
    other.sync_blocks("blocks", &blocks[..200]);
    let connect = vec![Target::parse(&server.address.to_string(), 0).unwrap()];
    let peers = PeerOptions { connect, ..PeerOptions::new(0) };
    let summary = try_sync(&Options { peers: Some(peers), ..other.options() }).0.unwrap();
    assert_eq!(summary.best_block, hash_of(at(400)));
}

/// 14,131 blocks of mainnet, whose last is of May 2009.
#[test]
fn above_the_upload_target_old_blocks_are_refused() {
    let served = Place::new(Chain::Main);
    let blocks = blocks_of(&data("mainnet-0-14131.dat"));
    served.sync_blocks("blocks", &blocks);
    let args = ["--minimumchainwork=0", "--maxuploadtarget=500m"];
    let server = Serving::start(&served, &args);
    let last = blocks.last().unwrap();
    let mut client = Client::new(&served, server.address, Transport::V1);
    assert_eq!(client.block(WITNESS, hash_of(last)).as_ref(), Some(last));
    assert_eq!(client.block(WITNESS, hash_of(&blocks[100])), None);
    // Coins of old blocks count, and are refused like the blocks.
    let mut client = Client::new(&served, server.address, Transport::V1);
    client.send(&request(hash_of(last), 0));
    assert!(client.next(Command::BSPENT).is_some());
    client.send(&request(hash_of(&blocks[170]), 0));
    assert!(client.is_hung_up_on());
    // With the minimum work of mainnet there are no headers.
    let server = Serving::start(&served, &[]);
    let mut client = Client::new(&served, server.address, Transport::V1);
    assert_eq!(client.headers_after(Hash::ZERO), []);
    assert_eq!(client.block(WITNESS, hash_of(&blocks[100])).as_ref(), Some(&blocks[100]));
}

#[test]
fn wrong_bytes_end_a_connection() {
    let served = world().in_order();
    let server = Serving::start(&served, &[]);
    let item = [[2, 0, 0, 0].as_slice(), &[0; 32]].concat();
    let many = |count: u16, item: &[u8]| {
        [[0xfd].as_slice(), &count.to_le_bytes(), &item.repeat(usize::from(count))].concat()
    };
    let locator = [[0; 4].as_slice(), &[102], &[0; 32 * 103]].concat();
    for (what, command, payload) in [
        ("getdata of 50,001", Command::GETDATA, many(50_001, &item)),
        ("inv of 50,001", Command::INV, many(50_001, &item)),
        ("a locator of 102", Command::GETHEADERS, locator),
        ("a long message", Command::TX, vec![0; 2_000_000]),
        ("wtxidrelay", Command::WTXIDRELAY, Vec::new()),
    ] {
        for transport in TRANSPORTS {
            let mut client = Client::new(&served, server.address, transport);
            client.send(&Outgoing { command, payload: payload.clone() });
            assert!(client.is_hung_up_on(), "{what}");
        }
    }
    let mut noise = TcpStream::connect(server.address).unwrap();
    noise.write_all(&[0x55; 5_000]).unwrap();
    // These are no reason, and are ignored.
    for transport in TRANSPORTS {
        let mut client = Client::new(&served, server.address, transport);
        for (command, payload) in [
            (Command::TX, vec![0; 100]),
            (Command::INV, [&[1], &item[..]].concat()),
            (Command::GETADDR, Vec::new()),
            (Command::SENDHEADERS, Vec::new()),
            (Command::GETDATA, vec![9; 3]),
            (Command::new("unknown"), vec![1; 1_000]),
            (Command::BLOCK, world().blocks[1].clone()),
        ] {
            client.send(&Outgoing { command, payload });
        }
        client.send(&Outgoing::new(&Nonce(5).ping()));
        assert_eq!(client.next(Command::PONG).unwrap(), 5u64.to_le_bytes());
    }
    // Before the handshake nothing is served.
    let mut client = Client::unknown(&served, server.address, Transport::V1);
    client.ask(WITNESS, [tip()]);
    drop(client);
    let mut client = Client::new(&served, server.address, Transport::V1);
    assert_eq!(client.block(WITNESS, tip()).as_ref(), world().blocks.last());
}

#[test]
fn peers_that_do_not_read_take_little_memory() {
    let served = world().in_order();
    let server = Serving::start(&served, &["--maxconnections=300"]);
    let largest = world().blocks.iter().max_by_key(|block| block.len()).unwrap();
    // Each request takes 1.8 MB of the 32 MiB for all of them, and is for more than a gigabyte.
    let slow = |number: usize| {
        let mut client = Client::new(&served, server.address, TRANSPORTS[number % 2]);
        client.ask(WITNESS, std::iter::repeat_n(hash_of(largest), 50_000));
        assert!(client.next(Command::BLOCK).is_some(), "{number}");
        client
    };
    let slow: Vec<_> = std::thread::scope(|scope| {
        let of = |number| scope.spawn(move || slow(number));
        let threads: Vec<_> = (0..18).map(of).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // Messages as large that must wait for them.
    let magic = served.network.magic.as_slice();
    let length = 1_800_000u32.to_le_bytes();
    let head = [magic, &Command::VERSION.padded(), &length, &[0; 4]].concat();
    let waiting = |_| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(&head).unwrap();
        stream
    };
    let waiting: Vec<TcpStream> = (0..20).map(waiting).collect();
    let mut client = Client::new(&served, server.address, Transport::V1);
    for height in 0..world().height() {
        let expected = &world().blocks[height as usize];
        assert_eq!(client.block(WITNESS, world().hash(height)).as_ref(), Some(expected));
    }
    let peak = server.peak_memory();
    assert!(peak < 150 * MB, "{} MB", peak / MB);
    assert_ends(&server.end(Signal::TERM), 0, &[]);
    drop((slow, waiting));
}

/// A block of almost a megabyte.
fn large_block(parent: &Parent) -> Vec<u8> {
    let mut large = block(parent, "large");
    let script = ScriptBuf::from([vec![0x6a], vec![0; 990_000]].concat());
    large.txdata[0].output.insert(0, TxOut { value: Amount::ZERO, script_pubkey: script });
    remerkle(&mut large);
    bytes([&large]).remove(0)
}

/// Beyond the memory for blocks, they are sent in pieces.
#[test]
fn blocks_for_many_connections_take_little_memory() {
    const CONNECTIONS: usize = 250;
    let served = Place::new(Chain::Regtest);
    let large = large_block(&genesis_parent());
    served.sync_blocks("blocks", std::slice::from_ref(&large));
    let server = Serving::start_on_two_cores(&served, &["--maxconnections=300"]);
    let connect = |number: usize| Client::new(&served, server.address, TRANSPORTS[number % 2]);
    let slow = &|number: usize| {
        let mut client = connect(number);
        client.ask(WITNESS, std::iter::repeat_n(hash_of(&large), 400));
        assert!(client.next(Command::BLOCK).is_some(), "{number}");
        client
    };
    let slow: Vec<Client> = std::thread::scope(|scope| {
        let of = |number| scope.spawn(move || slow(number));
        let threads: Vec<_> = (0..CONNECTIONS).map(of).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for number in 0..2 {
        let mut client = connect(number);
        assert!(client.block(WITNESS, hash_of(&large)).as_ref() == Some(&large));
        let stripped = client.block(InventoryKind::BLOCK, hash_of(&large));
        assert!(stripped == Some(without_witnesses(&large)));
    }
    let peak = server.peak_memory();
    assert!(peak < 200 * MB, "{} MB", peak / MB);
    drop(slow);
}

#[test]
fn a_new_peer_takes_the_place_of_another() {
    let served = world().in_order();
    let server = Serving::start(&served, &["--maxconnections=20"]);
    let connect = |_| Client::new(&served, server.address, Transport::V1);
    let mut clients: Vec<Client> = (0..30).map(connect).collect();
    // All are of one part of the network: of those that are not kept, the youngest goes.
    let mut first = clients.remove(0);
    assert!(first.block(WITNESS, tip()).is_some());
    let mut last = clients.pop().unwrap();
    assert!(last.block(WITNESS, tip()).is_some());
    let mut gone = 0;
    for client in &mut clients {
        client.ask(WITNESS, [tip()]);
        gone += usize::from(client.next(Command::BLOCK).is_none());
    }
    assert_eq!(gone, 10);
}

#[test]
fn a_signal_ends_it_with_a_report() {
    let served = world().in_order();
    for by in [Signal::INT, Signal::TERM] {
        let server = Serving::start(&served, &[]);
        let mut client = Client::new(&served, server.address, Transport::V2);
        let sent = client.block(WITNESS, tip()).unwrap().len() as u64;
        // One that does not read, one without a handshake, and one whose message is not complete.
        client.ask(WITNESS, std::iter::repeat_n(tip(), 50_000));
        let _silent = Client::unknown(&served, server.address, Transport::V1);
        let mut cut = TcpStream::connect(server.address).unwrap();
        cut.write_all(&served.network.magic).unwrap();
        let output = server.end(by);
        assert_ends(&output, 0, &[]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(json["bytes"].as_u64().unwrap() > sent, "{json}");
        assert!(json["blocks"].as_u64().unwrap() >= 1, "{json}");
    }
}

#[test]
fn what_cannot_be_served_is_said() {
    let served = world().in_order();
    let port = {
        // Programs that read may share the directory.
        let server = Serving::start(&served, &[]);
        assert_ends(&apus(&served, &["status"]), 0, &[]);
        let bind = format!("--bind={}", server.address);
        assert_ends(
            &apus(&served, &["serve", &bind]),
            1,
            &["cannot listen on 127.0.0.1", "--port"],
        );
        let sync = apus(&served, &["sync", "--connect=0"]);
        assert_ends(&sync, 1, &["cannot obtain a lock"]);
        server.address.port()
    };
    let disk = Disk::new();
    let options = DataDirOptions::default();
    let held = DataDir::open(&disk, &served.datadir(), &served.network, options).unwrap();
    let refused = apus(&served, &["serve", &format!("--port={port}")]);
    assert_ends(&refused, 1, &["cannot obtain a lock", "--follow --listen"]);
    drop(held);
    let empty = Place::new(Chain::Regtest);
    assert_ends(&apus(&empty, &["serve"]), 1, &["there is no such directory"]);
    for (wrong, words) in [
        ("--bind=host", "'host' is not an address"),
        ("--maxuploadtarget=1.5G", "'1.5G' is not a size"),
        ("--minimumchainwork=x", "'x' is not a number"),
    ] {
        assert_ends(&apus(&served, &["serve", wrong]), 2, &[words]);
    }
}
