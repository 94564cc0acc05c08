//! Hostile peers: each is dropped, for its own reason, and the sync ends as it should.

use apus_progress::Watch;
use std::io::{BufReader, Read as _, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use apus_net::{Outgoing, Target, respond};
use apus_progress::Method;
use apus_sync as sync;
use apus_testpeer::{Answers, Hangup, Honest, Server};
use apus_wire::Network;
use apus_wire::message::{Command, Message, Raw, Services, Version, encode};

use super::held::{Held, late};
use super::world::{
    Told, assert_as_from_files, assert_as_from_files_telling, chain, with_peers, world,
};
use crate::support::blocks;
use crate::support::ports::free_port;
use crate::support::waiting::Gate;

/// What a peer sends that it should not.
enum Deed {
    /// These bytes, instead of its `version`.
    Greets(Vec<u8>),
    /// These bytes, after the handshake.
    Sends(Vec<u8>),
    /// This `version`.
    Version(Outgoing),
    /// This instead of each block.
    Blocks(fn(Vec<u8>) -> Vec<u8>),
}

struct Kind {
    name: &'static str,
    /// Words of the reason for which it is dropped.
    reason: &'static str,
    deed: Deed,
}

/// A message with any name and payload.
fn message(name: &'static str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&Raw(Command::new(name), payload), network().magic, &mut bytes);
    bytes
}

/// The 24 bytes before a payload.
fn envelope(magic: [u8; 4], name: &[u8; 12], len: u32, checksum: [u8; 4]) -> Vec<u8> {
    [&magic[..], name, &len.to_le_bytes(), &checksum].concat()
}

fn network() -> Network {
    world().place().network
}

/// The version of a peer with these services and this number of the protocol.
pub fn odd_version(services: Services, number: i32) -> Outgoing {
    Outgoing::new(&Version {
        version: number,
        services,
        time: 0,
        receiver: [0; 26],
        nonce: 5,
        user_agent: b"/odd/",
        start_height: 0,
        relay: true,
    })
}

/// What costs a peer the connection. Two of these are messages in the right form; the others are
/// in `each_fault_costs_the_connection` of `apus-net`, without sockets.
fn kinds() -> Vec<Kind> {
    let magic = network().magic;
    let none = [0; 4];
    let unknown = blocks::bytes(&blocks::branch(&blocks::genesis_parent(), "unknown", 1).0);
    let kind = |name, reason, deed| Kind { name, reason, deed };
    let sends = |name, reason, bytes| kind(name, reason, Deed::Sends(bytes));
    let greets = |name, reason, bytes| kind(name, reason, Deed::Greets(bytes));
    let all = Services::NETWORK.with(Services::WITNESS);
    let name = |text: &str| -> [u8; 12] {
        let mut name = [0; 12];
        name[..text.len()].copy_from_slice(text.as_bytes());
        name
    };
    vec![
        greets("noise", "other magic bytes", vec![0x5a; 400]),
        greets("http", "other magic bytes", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        greets("another network", "other magic bytes", envelope([1; 4], &name("version"), 0, none)),
        greets("endless message", "over the limit", {
            envelope(magic, &name("version"), u32::MAX, none)
        }),
        sends("oversized", "over the limit", envelope(magic, &name("block"), 4_000_001, none)),
        kind("too old", "too old", Deed::Version(odd_version(all, 31_799))),
        sends("a transaction", "a transaction", message("tx", &chain().block(0)[81..])),
        sends("a block not asked for", "not asked for", message("block", &unknown[0])),
    ]
}

/// What peers send instead of blocks.
fn of_blocks() -> Vec<Kind> {
    let kind = |name, reason, deed| Kind { name, reason, deed };
    vec![
        kind("blocks with a changed transaction", "changed on its way", {
            Deed::Blocks(|mut block| {
                *block.last_mut().unwrap() ^= 1;
                block
            })
        }),
        kind("blocks without an end", "changed on its way", {
            Deed::Blocks(|block| block[..block.len() - 1].to_vec())
        }),
        kind("headers instead of blocks", "changed on its way", {
            Deed::Blocks(|block| block[..80].to_vec())
        }),
    ]
}

struct Hostile {
    honest: Honest,
    deed: Deed,
}

impl Answers for Hostile {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        match (&self.deed, message) {
            (Deed::Version(version), Message::Version(_)) => out.push(version.clone()),
            (Deed::Blocks(change), Message::GetData(list)) => {
                for item in list.iter() {
                    let Some(height) = self.honest.chain.height_of(&item.hash) else { continue };
                    let payload = change(self.honest.chain.block(height));
                    out.push(Outgoing { command: Command::BLOCK, payload });
                }
            }
            _ => return self.honest.answer(message, out),
        }
        Ok(())
    }
}

/// Talks by the v1 transport until the other side hangs up. The bytes in `first` were read before.
fn talk(first: &[u8], stream: &TcpStream, deed: Deed) -> Option<()> {
    let from = BufReader::new(first.chain(stream));
    let (mut reader, mut writer) =
        respond(network().magic, false, from, &mut &*stream, &mut |_| Ok(())).ok()?;
    let mut hostile = Hostile { honest: Honest::new(chain()), deed };
    let mut buffer = Vec::new();
    let mut out = Vec::new();
    loop {
        let (command, payload) = reader.read(&mut buffer).ok()?;
        if let Deed::Greets(bytes) = &hostile.deed {
            (&mut &*stream).write_all(bytes).ok()?;
            hostile.deed = Deed::Sends(Vec::new());
            continue;
        }
        let message = Message::decode(command, &buffer[payload]).ok()?;
        hostile.answer(&message, &mut out).ok()?;
        let mut bytes = Vec::new();
        for Outgoing { command, payload } in out.drain(..) {
            writer.encode(&Raw(command, &payload), &mut bytes);
        }
        (&mut &*stream).write_all(&bytes).ok()?;
        if let (Message::Verack, Deed::Sends(bytes)) = (&message, &hostile.deed) {
            (&mut &*stream).write_all(bytes).ok()?;
        }
    }
}

/// A server that does this to the first connection of the v1 transport, and a gate that opens once
/// it has, or was hung up on.
fn hostile(deed: Deed) -> (Server, Gate) {
    let deed = Mutex::new(Some(deed));
    let done = Gate::default();
    let magic = network().magic;
    let is_done = done.clone();
    let talk = move |stream: TcpStream| {
        // Whoever tries v2 first is hung up on. One byte would not tell: the key with which v2
        // begins is random.
        let mut first = [0; 4];
        let is_v1 = (&stream).read_exact(&mut first).is_ok() && first == magic;
        if let Some(deed) = is_v1.then(|| deed.lock().unwrap().take()).flatten() {
            let _ = talk(&first, &stream, deed);
            done.open();
        }
        // What the other side has sent is read: a connection that is closed with unread bytes is
        // reset, and what we said last is lost with it.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let _ = std::io::copy(&mut &stream, &mut std::io::sink());
        let _ = stream.shutdown(Shutdown::Both);
    };
    (Server::start_raw(talk).unwrap(), is_done)
}

#[test]
fn each_kind_is_dropped_for_its_own_reason() {
    let mut servers = Vec::new();
    let mut done = Vec::new();
    let mut expected = Vec::new();
    for Kind { name, reason, deed } in kinds() {
        let (server, is_done) = hostile(deed);
        expected.push((name, server.address().to_string(), reason));
        servers.push(server);
        done.push(is_done);
    }
    // The others have their say before this one sends a block.
    servers.insert(0, late(chain(), Held::Blocks, done));
    let told = assert_as_from_files(Method::InOrder, &servers.iter().collect::<Vec<_>>());
    for (name, address, reason) in expected {
        println!("{name}");
        told.assert_has(&[&format!("Dropped peer {address}:"), reason]);
    }
}

#[test]
fn bytes_that_are_not_the_blocks_cost_the_peer() {
    for Kind { name, reason, deed } in of_blocks() {
        println!("{name}");
        let (hostile, _) = hostile(deed);
        let told = Told::default();
        let dropped = format!("Dropped peer {}:", hostile.address());
        let late = late(chain(), Held::All, vec![told.when_told(&dropped)]);
        assert_as_from_files_telling(&told, Method::Join, &[&hostile, &late]);
        told.assert_has(&[&dropped, reason]);
    }
}

#[test]
fn bytes_after_a_block_are_ignored_as_core_does() {
    let (server, _) = hostile(Deed::Blocks(|block| [&block[..], &[0]].concat()));
    let told = assert_as_from_files(Method::InOrder, &[&server]);
    assert_eq!(told.count("Dropped"), 0);
}

#[test]
fn a_connection_to_our_own_port_is_noticed() {
    let told = Told::default();
    let port = free_port();
    let honest = late(chain(), Held::All, vec![told.when_told("it is ourselves")]);
    let place = world().place();
    let stop = AtomicBool::new(false);
    let mut options = with_peers(&place, Method::InOrder, &[&honest]);
    let peers = options.peers.as_mut().unwrap();
    peers.connect.insert(0, Target::parse("127.0.0.1", port).unwrap());
    (peers.listen, peers.port) = (true, port);
    let summary = sync::sync(&options, &[], Watch::new(&told, &stop));
    assert_eq!(summary.unwrap().best_block, world().tip());
    told.assert_has(&["Dropped peer 127.0.0.1:", "it is ourselves"]);
}
