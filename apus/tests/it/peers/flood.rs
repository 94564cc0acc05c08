//! Peers that flood us with messages or connections, and one that sends a byte at a time: memory
//! stays bounded, and the sync ends.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use apus_hash::sha256d;
use apus_net::Outgoing;
use apus_testpeer::{Answers, Hangup, Honest, ServedChain, Server};
use apus_wire::message::{
    Command, Inventory, InventoryItem, InventoryKind, Message, Nonce, Raw, encode,
};

use super::held::{Held, late};
use super::world::{chain, tip, world};
use crate::support::ports::free_port;
use crate::support::program::program_on;
use crate::support::waiting::{Gate, LIMIT, wait_until};

/// The most connections that are open to us at a time. By default 125 are let in.
const CONNECTIONS: usize = 400;
/// Connections that are opened to us in all.
const CONNECTIONS_ALL: usize = 600;
/// The floods of a peer that are waited for.
const FLOODS: usize = 4;
/// The floods of a connection. Without a limit, a slow machine would get more of them.
const FLOODS_MAX: usize = 8;
/// Time from one byte of a peer that sends them one by one to the next.
const DRIP_EVERY: Duration = Duration::from_millis(100);
/// Memory that all floods together may take beyond a sync without them.
const MEMORY_MAX: u64 = 96 << 20;

/// A peer without blocks that sends these messages again and again, `times` for each message of
/// ours.
struct Flooding {
    honest: Honest,
    messages: Vec<Outgoing>,
    times: usize,
    floods: usize,
    /// Opens after [`FLOODS`], or at the end of the connection.
    done: Gate,
}

impl Answers for Flooding {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        // Those before are sent.
        if self.floods >= FLOODS {
            self.done.open();
        }
        self.honest.answer(message, out)?;
        if !matches!(message, Message::Version(_)) && self.floods < FLOODS_MAX {
            self.floods += 1;
            (0..self.times).for_each(|_| out.extend_from_slice(&self.messages));
        }
        Ok(())
    }
}

impl Drop for Flooding {
    fn drop(&mut self) {
        // One that is tried with the other transport is dropped without any.
        if self.floods > 0 {
            self.done.open();
        }
    }
}

fn flooding(messages: Vec<Outgoing>, times: usize) -> (Server, Gate) {
    let done = Gate::default();
    let gate = done.clone();
    let begin = move || -> Box<dyn Answers> {
        let genesis = ServedChain::of(world().blocks[..1].to_vec());
        let honest = Honest::new(genesis);
        let messages = messages.clone();
        let done = gate.clone();
        Box::new(Flooding { honest, messages, times, floods: 0, done })
    };
    (Server::start(world().place().network.magic, false, begin).unwrap(), done)
}

/// A message of a thousand addresses, different ones for each `number`.
fn addresses(number: u8) -> Outgoing {
    let mut payload = vec![0xfd, 0xe8, 0x03];
    for host in 0..1000u32 {
        let ip = Ipv4Addr::from(0x0100_0000 * u32::from(number + 1) + (host << 12));
        payload.extend(0x6000_0000u32.to_le_bytes());
        payload.extend(9u64.to_le_bytes());
        payload.extend(ip.to_ipv6_mapped().octets());
        payload.extend(8333u16.to_be_bytes());
    }
    Outgoing { command: Command::ADDR, payload }
}

/// Blocks that nobody has.
fn unknown_blocks() -> Outgoing {
    let item =
        |n: u32| InventoryItem { kind: InventoryKind::BLOCK, hash: sha256d(&n.to_le_bytes()) };
    let items: Vec<InventoryItem> = (0..50_000).map(item).collect();
    Outgoing::new(&Inventory(Command::INV, &items))
}

/// A peer that sends a byte of its key now and then.
fn dripping() -> Server {
    let talk = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(DRIP_EVERY)).unwrap();
        // It hangs up when the other side does.
        while stream.write_all(&[7]).is_ok() && !matches!(stream.read(&mut [0; 4096]), Ok(0)) {}
    };
    Server::start_raw(talk).unwrap()
}

/// Connects to this port again and again, and sends noise, or a part of a block, or nothing.
/// Returns how often it was let through.
fn connect_often(port: u16) -> usize {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    wait_until("somebody listens", || TcpStream::connect(address).is_ok());
    let mut half = Vec::new();
    encode(&Raw(Command::BLOCK, &[0; 500_000]), world().place().network.magic, &mut half);
    half.truncate(100_000);
    let mut open: Vec<TcpStream> = Vec::new();
    let mut count = 0;
    for _ in 0..CONNECTIONS_ALL {
        if let Ok(mut stream) = TcpStream::connect_timeout(&address, LIMIT) {
            let _ = stream.set_nonblocking(true);
            let _ = match count % 3 {
                0 => stream.write(&[0x55; 1000]),
                1 => stream.write(&half),
                _ => Ok(0),
            };
            count += 1;
            open.push(stream);
        }
        if open.len() >= CONNECTIONS {
            open.drain(..CONNECTIONS / 2);
        }
    }
    count
}

/// Peak memory of a sync from these, and an honest peer that sends blocks once the gates are open.
fn peak_memory(others: &[Server], done: Vec<Gate>, args: &[String]) -> u64 {
    let place = world().place();
    let honest = late(chain(), Held::Blocks, done);
    let mut all = vec!["sync".to_string(), "--json".to_string(), "--assumevalid=0".to_string()];
    let servers = others.iter().chain([&honest]);
    all.extend(servers.map(|server| format!("--connect={}", server.address())));
    all.extend_from_slice(args);
    let output =
        program_on(&place, &all.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["bestblock"], tip().to_string(), "{json}");
    json["peak_memory"].as_u64().unwrap()
}

#[test]
fn floods_take_little_memory() {
    let alone = peak_memory(&[], Vec::new(), &[]);
    let pings: Vec<Outgoing> = (0..1000).map(|n| Outgoing::new(&Nonce(n).ping())).collect();
    let floods = [
        flooding((0..100).map(addresses).collect(), 10),
        flooding(pings, 100),
        flooding(vec![unknown_blocks()], 20),
    ];
    let (mut servers, mut done): (Vec<Server>, Vec<Gate>) = floods.into_iter().unzip();
    servers.push(dripping());
    let port = free_port();
    let connected = Gate::default();
    done.push(connected.clone());
    let connecting = std::thread::spawn(move || {
        let connections = connect_often(port);
        connected.open();
        connections
    });
    let listen = ["--listen=1".to_string(), format!("--port={port}")];
    let flooded = peak_memory(&servers, done, &listen);
    let connections = connecting.join().unwrap();
    let alone = alone >> 10;
    let flooded = flooded >> 10;
    println!("peak memory alone {alone} KiB, with floods {flooded} KiB; {connections} connections");
    // How many the system lets through depends on what else the machine does.
    assert!(connections > 200, "{connections}");
    assert!(flooded < alone + (MEMORY_MAX >> 10), "{flooded} KiB, and {alone} KiB without floods");
}
