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
use apus_wire::message::{Command, Message, Raw};

use super::held::{Held, late};
use super::world::{
    Told, assert_as_from_files, assert_as_from_files_telling, chain, with_peers, world,
};
use crate::support::ports::free_port;
use crate::support::waiting::Gate;

/// What a peer sends that it should not.
enum Deed {
    /// These bytes, instead of its `version`.
    Greets(Vec<u8>),
    /// This instead of each block.
    Blocks(fn(Vec<u8>) -> Vec<u8>),
}

struct Kind {
    name: &'static str,
    /// Words of the reason for which it is dropped.
    reason: &'static str,
    deed: Deed,
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
        let (Deed::Blocks(change), Message::GetData(list)) = (&self.deed, message) else {
            return self.honest.answer(message, out);
        };
        for item in list.iter() {
            let Some(height) = self.honest.chain.height_of(&item.hash) else { continue };
            let payload = change(self.honest.chain.block(height));
            out.push(Outgoing { command: Command::BLOCK, payload });
        }
        Ok(())
    }
}

/// Talks by the v1 transport until the other side hangs up. The bytes in `first` were read before.
fn talk(first: &[u8], stream: &TcpStream, deed: Deed) -> Option<()> {
    let from = BufReader::new(first.chain(stream));
    let (mut reader, mut writer) =
        respond(world().place().network.magic, false, from, &mut &*stream, &mut |_| Ok(())).ok()?;
    let mut hostile = Hostile { honest: Honest::new(chain()), deed };
    let mut buffer = Vec::new();
    let mut out = Vec::new();
    loop {
        let (command, payload) = reader.read(&mut buffer).ok()?;
        if let Deed::Greets(bytes) = &hostile.deed {
            (&mut &*stream).write_all(bytes).ok()?;
            continue;
        }
        let message = Message::decode(command, &buffer[payload]).ok()?;
        hostile.answer(&message, &mut out).ok()?;
        let mut bytes = Vec::new();
        for Outgoing { command, payload } in out.drain(..) {
            writer.encode(&Raw(command, &payload), &mut bytes);
        }
        (&mut &*stream).write_all(&bytes).ok()?;
    }
}

/// A server that does this to the first connection of the v1 transport, and a gate that opens once
/// it has, or was hung up on.
fn hostile(deed: Deed) -> (Server, Gate) {
    let deed = Mutex::new(Some(deed));
    let done = Gate::default();
    let magic = world().place().network.magic;
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

/// What else costs a peer the connection is in `each_fault_costs_the_connection` of `apus-net`,
/// without sockets.
#[test]
fn who_greets_with_noise_is_dropped() {
    let (server, is_done) = hostile(Deed::Greets(vec![0x5a; 400]));
    // The other has its say before this one sends a block.
    let late = late(chain(), Held::Blocks, vec![is_done]);
    let told = assert_as_from_files(Method::InOrder, &[&late, &server]);
    told.assert_has(&[&format!("Dropped peer {}:", server.address()), "other magic bytes"]);
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
