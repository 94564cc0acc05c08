//! `apus sync --follow --listen`: what peers get while it follows the chain.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use apus_hash::Hash;
use apus_net::{Outgoing, Transport, Writer, respond};
use apus_testpeer::{Answers as _, Honest, ServedChain, Server};
use apus_wire::message::{Command, Inventory, InventoryItem, InventoryKind, Message, Raw};
use apus_wire::{Chain, Network, genesis_block};
use bitcoin::Block;
use rustix::process::Signal;

use super::WITNESS;
use super::client::{Client, hashes_in};
use crate::support::Place;
use crate::support::blocks::{branch, bytes, genesis_parent, hash};
use crate::support::ports::free_port;
use crate::support::program::{program_on, signal};
use crate::support::waiting::wait_until;

/// A peer that announces another chain once the test says so.
struct Source {
    server: Server,
    honest: Arc<Mutex<Honest>>,
    connections: Arc<Mutex<Vec<Connection>>>,
}

type Connection = Arc<Mutex<(TcpStream, Writer)>>;

fn send((stream, writer): &mut (TcpStream, Writer), message: &Outgoing) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut bytes = Vec::new();
    writer.encode(&Raw(message.command, &message.payload), &mut bytes);
    stream.write_all(&bytes)
}

impl Source {
    fn new(place: &Place, chain: ServedChain) -> Self {
        let honest = Arc::new(Mutex::new(Honest::new(chain)));
        let connections: Arc<Mutex<Vec<Connection>>> = Arc::default();
        let magic = place.network.magic;
        let served = Arc::clone(&honest);
        let all = Arc::clone(&connections);
        let server = Server::start_raw(move |stream| {
            let to = stream.try_clone().unwrap();
            let Ok((mut reader, writer)) = respond(magic, true, stream, &mut &to, &mut |_| Ok(()))
            else {
                return;
            };
            let connection = Arc::new(Mutex::new((to, writer)));
            all.lock().unwrap().push(Arc::clone(&connection));
            let mut buffer = Vec::new();
            while let Ok((command, payload)) = reader.read(&mut buffer) {
                let mut answers = Vec::new();
                let message = Message::decode(command, &buffer[payload]).unwrap();
                served.lock().unwrap().answer(&message, &mut answers).unwrap();
                let mut connection = connection.lock().unwrap();
                if !answers.iter().all(|answer| send(&mut connection, answer).is_ok()) {
                    return;
                }
            }
        });
        Self { server: server.unwrap(), honest, connections }
    }

    fn switch_to(&self, chain: ServedChain) {
        let hash = chain.header(chain.height()).hash();
        *self.honest.lock().unwrap() = Honest::new(chain);
        let item = InventoryItem { kind: InventoryKind::BLOCK, hash };
        let inv = Outgoing::new(&Inventory(Command::INV, &[item]));
        for connection in self.connections.lock().unwrap().iter() {
            let _ = send(&mut connection.lock().unwrap(), &inv);
        }
    }
}

fn chain_of<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> ServedChain {
    let mut all = vec![genesis_block(&Network::new(Chain::Regtest))];
    all.extend(bytes(blocks));
    ServedChain::of(all)
}

#[test]
fn a_sync_that_follows_serves_and_announces() {
    let (trunk, fork) = branch(&genesis_parent(), "trunk", 30);
    let (first, _) = branch(&fork, "first", 3);
    let (second, _) = branch(&fork, "second", 5);
    let place = Place::new(Chain::Regtest);
    let source = Source::new(&place, chain_of(trunk.iter().chain(&first)));
    let port = free_port();
    let connect = format!("--connect={}", source.server.address());
    let listen = format!("--port={port}");
    let args = ["sync", "--follow", "--listen", &listen, &connect, "--assumevalid=0"];
    let mut child =
        program_on(&place, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    wait_until("it listens", || TcpStream::connect(address).is_ok());
    let connect = |transport| Client::new(&place, address, transport);
    let genesis = chain_of([]).header(0).hash();
    wait_until("it serves the first chain", || {
        let mut client = connect(Transport::V1);
        client.height == 33 && client.headers_after(genesis).len() == 33
    });

    let mut with_headers = connect(Transport::V2);
    let mut without = connect(Transport::V1);
    with_headers.send(&Outgoing::empty(Command::SENDHEADERS));
    let all: Vec<Hash> = trunk.iter().chain(&first).map(hash).collect();
    for client in [&mut with_headers, &mut without] {
        assert_eq!(client.headers_after(genesis), all);
        for (hash, expected) in all.iter().zip(bytes(trunk.iter().chain(&first))) {
            assert_eq!(client.block(WITNESS, *hash), Some(expected));
        }
        assert!(client.is_ignored(WITNESS, hash(&second[4])));
    }

    source.switch_to(chain_of(trunk.iter().chain(&second)));
    // The sync may stop at a block of the branch that has more work than the first one.
    let mut expected: Vec<Hash> = second.iter().map(hash).collect();
    while !expected.is_empty() {
        let announced = with_headers.next(Command::HEADERS).unwrap();
        let hashes = hashes_in(Command::HEADERS, &announced);
        assert_eq!(hashes, expected[..hashes.len()]);
        expected.drain(..hashes.len());
    }
    let is_last = |announced: Vec<u8>| {
        let hashes = hashes_in(Command::INV, &announced);
        assert!(hashes.len() == 1 && second[3..].iter().any(|block| hash(block) == hashes[0]));
        hashes[0] == hash(&second[4])
    };
    while !is_last(without.next(Command::INV).unwrap()) {}
    for client in [&mut with_headers, &mut without] {
        for (block, expected) in second.iter().zip(bytes(&second)) {
            assert_eq!(client.block(WITNESS, hash(block)), Some(expected));
        }
        // The branch that it has left is still served.
        assert_eq!(client.block(WITNESS, hash(&first[2])).as_ref(), bytes([&first[2]]).first());
    }
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
