//! Measures the time from the announcement of a block by a peer on this machine until `apus sync
//! --follow --listen` announces it itself, which it does once the block is connected.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command as Process, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use apus_bench::Result;
use apus_bench::block_file::chain_in;
use apus_net::{Outgoing, Transport, Writer, initiate, respond};
use apus_testpeer::{Answers as _, Honest, Server, version};
use apus_wire::message::{Command, Headers, Message, Raw};
use apus_wire::{Chain, Network};
use clap::Parser;

/// Measure the time from the announcement of a block until it is connected
#[derive(Parser)]
struct Options {
    /// The file of regtest blocks, lowest first
    file: PathBuf,
    /// Number of blocks at the end of it that are announced
    #[arg(long, default_value_t = 100)]
    blocks: usize,
    /// The program
    #[arg(long, default_value = "target/release/apus")]
    apus: PathBuf,
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn send(mut to: &TcpStream, writer: &mut Writer, message: &Outgoing) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    writer.encode(&Raw(message.command, &message.payload), &mut bytes);
    to.write_all(&bytes)
}

fn main() -> Result<()> {
    let options = Options::parse();
    let network = Network::new(Chain::Regtest);
    let magic = network.magic;
    let chain = chain_in(&options.file, &network)?;
    let first = chain.height().saturating_sub(options.blocks);
    let honest = Arc::new(Mutex::new(Honest { top: first, chain: chain.clone() }));
    let peer: Arc<Mutex<Option<(TcpStream, Writer)>>> = Arc::default();
    let served = Arc::clone(&honest);
    let link = Arc::clone(&peer);
    let server = Server::start_raw(move |stream| {
        let Ok(to) = stream.try_clone() else { return };
        let opened = respond(magic, true, stream, &mut &to, &mut |_| Ok(()));
        let Ok((mut reader, writer)) = opened else { return };
        *link.lock().expect("no panic") = Some((to, writer));
        let mut buffer = Vec::new();
        while let Ok((command, payload)) = reader.read(&mut buffer) {
            let mut answers = Vec::new();
            let Ok(message) = Message::decode(command, &buffer[payload]) else { return };
            let _ = served.lock().expect("no panic").answer(&message, &mut answers);
            if let Some((to, writer)) = link.lock().expect("no panic").as_mut() {
                answers.iter().for_each(|answer| drop(send(to, writer, answer)));
            }
        }
    })?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let dir = tempfile::tempdir()?;
    let mut sync = Process::new(&options.apus);
    sync.args(["sync", "--regtest", "--follow", "--listen", "--assumevalid=0"]);
    sync.args(["--minimumchainwork=0", "--lan=0", &format!("--port={port}")]);
    sync.arg(format!("--connect={}", server.address())).arg("--datadir").arg(dir.path());
    let _child = Killed(sync.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);

    // A peer of it, which learns of new tips.
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let (stream, mut reader, mut writer) = loop {
        std::thread::sleep(Duration::from_millis(200));
        let Ok(stream) = TcpStream::connect(address) else { continue };
        let (mut reader, mut writer) =
            initiate(Transport::V1, magic, stream.try_clone()?, &mut &stream)?;
        send(&stream, &mut writer, &version(first, 7))?;
        let mut buffer = Vec::new();
        let (_, payload) = reader.read(&mut buffer)?;
        match Message::decode(Command::VERSION, &buffer[payload])? {
            Message::Version(theirs) if theirs.start_height == first as i32 => {
                break (stream, reader, writer);
            }
            _ => {}
        }
    };
    send(&stream, &mut writer, &Outgoing::empty(Command::VERACK))?;
    let mut times = Vec::new();
    for height in first + 1..=chain.height() {
        let header = *chain.header(height);
        honest.lock().expect("no panic").top = height;
        let begun = Instant::now();
        if let Some((to, writer)) = peer.lock().expect("no panic").as_mut() {
            send(to, writer, &Outgoing::new(&Headers(&[header])))?;
        }
        let mut buffer = Vec::new();
        loop {
            let (command, payload) = reader.read(&mut buffer)?;
            let message = Message::decode(command, &buffer[payload])?;
            let hash = header.hash();
            if matches!(message, Message::Inv(list) if list.iter().any(|item| item.hash == hash)) {
                break;
            }
        }
        times.push(begun.elapsed());
    }
    times.sort();
    let median = times[times.len() / 2];
    let longest = times[times.len() - 1];
    println!("{} blocks: median {median:.1?}, longest {longest:.1?}", times.len());
    Ok(())
}
