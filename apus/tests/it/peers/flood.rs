//! Peers that flood us with messages or connections, and one that sends a byte at a time: memory
//! stays bounded, and the sync ends.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apus_hash::sha256d;
use apus_net::Outgoing;
use apus_peers::serve::{Answers, Hangup, Honest, Server};
use apus_wire::message::{
    Command, Inventory, InventoryItem, InventoryKind, Message, Nonce, Raw, encode,
};

use super::world::{chain, tip, world};
use crate::support::ports::free_port;
use crate::support::program::program_on;

/// The most connections that are open to us at a time. By default 125 are let in.
const CONNECTIONS: usize = 400;
/// Memory that all floods together may take beyond a sync without them.
const MEMORY_MAX: u64 = 96 << 20;

/// A peer that sends these messages again and again, so many for each message of ours.
struct Flooding {
    honest: Honest,
    messages: Vec<Outgoing>,
    times: usize,
}

impl Answers for Flooding {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        self.honest.answer(message, out)?;
        if !matches!(message, Message::Version(_)) {
            (0..self.times).for_each(|_| out.extend_from_slice(&self.messages));
        }
        Ok(())
    }
}

fn flooding(messages: Vec<Outgoing>, times: usize) -> Server {
    let begin = move || -> Box<dyn Answers> {
        let (honest, messages) = (Honest::new(chain()), messages.clone());
        Box::new(Flooding { honest, messages, times })
    };
    Server::start(world().place().network.magic, false, begin).unwrap()
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

/// An honest peer that takes its time for blocks, so that the floods have theirs.
fn patient() -> Server {
    struct Patient(Honest);
    impl Answers for Patient {
        fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
            if let Message::GetData(list) = message {
                std::thread::sleep(Duration::from_millis(20) * list.len() as u32);
            }
            self.0.answer(message, out)
        }
    }
    let begin = || -> Box<dyn Answers> { Box::new(Patient(Honest::new(chain()))) };
    Server::start(world().place().network.magic, true, begin).unwrap()
}

/// A peer that sends a byte of its key now and then.
fn dripping() -> Server {
    let talk = |mut stream: TcpStream| {
        while stream.write_all(&[7]).is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    Server::start_raw(talk).unwrap()
}

/// Connects to this port again and again, and sends noise, or a part of a block, or nothing.
fn connect_often(port: u16, is_over: &AtomicBool) -> usize {
    let mut half = Vec::new();
    encode(&Raw(Command::BLOCK, &[0; 500_000]), world().place().network.magic, &mut half);
    half.truncate(100_000);
    let mut open: Vec<TcpStream> = Vec::new();
    let mut count = 0;
    while !is_over.load(Relaxed) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
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
        std::thread::sleep(Duration::from_millis(1));
    }
    count
}

/// Peak memory of a sync from an honest peer and these.
fn peak_memory(others: &[Server], args: &[String]) -> u64 {
    let place = world().place();
    let honest = patient();
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
    let alone = peak_memory(&[], &[]);
    let pings: Vec<Outgoing> = (0..1000).map(|n| Outgoing::new(&Nonce(n).ping())).collect();
    let floods = [
        flooding((0..100).map(addresses).collect(), 10),
        flooding(pings, 100),
        flooding(vec![unknown_blocks()], 20),
        dripping(),
    ];
    let port = free_port();
    let is_over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&is_over);
    let connecting = std::thread::spawn(move || connect_often(port, &ended));
    let flooded = peak_memory(&floods, &["--listen=1".to_string(), format!("--port={port}")]);
    is_over.store(true, Relaxed);
    let connections = connecting.join().unwrap();
    let (alone, flooded) = (alone >> 10, flooded >> 10);
    println!("peak memory alone {alone} KiB, with floods {flooded} KiB; {connections} connections");
    // How many the system lets through depends on what else the machine does.
    assert!(connections > 200, "{connections}");
    assert!(flooded < alone + (MEMORY_MAX >> 10), "{flooded} KiB, and {alone} KiB without floods");
}
