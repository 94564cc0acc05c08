//! A running `apus serve`, and a peer that talks to it by hand.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{self, Child, Output, Stdio};

use apus_hash::Hash;
use apus_net::{Outgoing, PROTOCOL_VERSION, Reader, Transport, Writer, initiate};
use apus_wire::message::{
    Command, GetHeaders, Hashes, Inventory, InventoryItem, InventoryKind, Message, Nonce, Raw,
    Services, Version,
};
use rustix::process::Signal;

use crate::support::Place;
use crate::support::program::{on_two_cores, program_on, signal};
use crate::support::waiting::LIMIT;

/// The number of a ping, unlike those of other programs.
const NONCE: u64 = 0x6170_7573_6170_7573;

/// `apus serve` on a directory; killed when it is dropped.
pub struct Serving {
    child: Option<Child>,
    pub address: SocketAddr,
}

impl Serving {
    /// Serves the directory of `place` on a port of this machine.
    pub fn start(place: &Place, args: &[&str]) -> Self {
        Self::run(Self::command(place, args))
    }

    /// The same as [`Serving::start`], on two cores.
    pub fn start_on_two_cores(place: &Place, args: &[&str]) -> Self {
        let command = Self::command(place, args);
        let mut limited = on_two_cores(command.get_program());
        limited.args(command.get_args());
        Self::run(limited)
    }

    fn command(place: &Place, args: &[&str]) -> process::Command {
        let serve =
            &["serve", "--bind=127.0.0.1", "--port=0", "--json", "--debug=net", "--server=0"];
        program_on(place, &[serve, args].concat())
    }

    fn run(mut command: process::Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.by_ref().find_map(|line| {
            let line = line.unwrap();
            line.split_once("serving blocks on ").map(|(_, address)| address.parse().unwrap())
        });
        // The rest is read, so that it need not wait.
        std::thread::spawn(move || lines.for_each(drop));
        Self { address: address.expect("it serves"), child: Some(child) }
    }

    /// Ends it by a signal, and returns its output.
    pub fn end(mut self, by: Signal) -> Output {
        let child = self.child.take().unwrap();
        signal(&child, by);
        child.wait_with_output().unwrap()
    }

    /// Its largest memory so far, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.as_ref().unwrap().id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The hashes of the blocks that a message is about.
pub fn hashes_in(command: Command, payload: &[u8]) -> Vec<Hash> {
    match Message::decode(command, payload).unwrap() {
        Message::Headers(list) => list.iter().map(|header| header.hash()).collect(),
        Message::Inv(list) => list.iter().map(|item| item.hash).collect(),
        other => panic!("{other:?}"),
    }
}

/// A connection to a server.
pub struct Client {
    pub stream: TcpStream,
    reader: Reader<TcpStream>,
    writer: Writer,
    buffer: Vec<u8>,
    /// What the server says about itself, once it has.
    pub services: Services,
    pub height: i32,
    /// The payloads of its `feature` messages.
    pub features: Vec<Vec<u8>>,
}

impl Client {
    /// Connects, with the handshake.
    pub fn new(place: &Place, address: SocketAddr, transport: Transport) -> Self {
        let mut client = Self::unknown(place, address, transport);
        let version = Version {
            version: PROTOCOL_VERSION,
            services: Services::default(),
            time: 0,
            receiver: [0; 26],
            nonce: 1,
            user_agent: b"/client/",
            start_height: 0,
            relay: true,
        };
        client.send(&Outgoing::new(&version));
        let payload = client.next(Command::VERSION).expect("it answers");
        let Ok(Message::Version(version)) = Message::decode(Command::VERSION, &payload) else {
            panic!("{payload:?}");
        };
        (client.services, client.height) = (version.services, version.start_height);
        while let (Command::FEATURE, payload) =
            client.next_of(&[Command::FEATURE, Command::VERACK]).unwrap()
        {
            client.features.push(payload);
        }
        client.send(&Outgoing::empty(Command::VERACK));
        client
    }

    /// Connects, without a word.
    pub fn unknown(place: &Place, address: SocketAddr, transport: Transport) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let from = stream.try_clone().unwrap();
        let magic = place.network.magic;
        let (reader, writer) = initiate(transport, magic, from, &mut &stream).unwrap();
        let services = Services::default();
        let buffer = Vec::new();
        let features = Vec::new();
        Self { stream, reader, writer, buffer, services, height: 0, features }
    }

    pub fn send(&mut self, message: &Outgoing) {
        use std::io::Write as _;
        let mut bytes = Vec::new();
        self.writer.encode(&Raw(message.command, &message.payload), &mut bytes);
        // It may have hung up.
        let _ = self.stream.write_all(&bytes);
    }

    /// The payload of the next message of this name; `None` if the server hangs up before.
    pub fn next(&mut self, wanted: Command) -> Option<Vec<u8>> {
        self.next_of(&[wanted]).map(|(_, payload)| payload)
    }

    /// The next message of one of these names; `None` if the server hangs up before.
    pub fn next_of(&mut self, wanted: &[Command]) -> Option<(Command, Vec<u8>)> {
        loop {
            let (command, payload) = self.reader.read(&mut self.buffer).ok()?;
            if wanted.contains(&command) {
                return Some((command, self.buffer[payload].to_vec()));
            }
        }
    }

    /// Whether the server hangs up, whatever it says before.
    pub fn is_hung_up_on(&mut self) -> bool {
        self.next(Command::TX).is_none()
    }

    /// Asks for blocks.
    pub fn ask(&mut self, kind: InventoryKind, hashes: impl IntoIterator<Item = Hash>) {
        let item = |hash| InventoryItem { kind, hash };
        let items: Vec<InventoryItem> = hashes.into_iter().map(item).collect();
        self.send(&Outgoing::new(&Inventory(Command::GETDATA, &items)));
    }

    /// A block; `None` if the server hangs up instead.
    pub fn block(&mut self, kind: InventoryKind, hash: Hash) -> Option<Vec<u8>> {
        self.ask(kind, [hash]);
        self.next(Command::BLOCK)
    }

    /// The messages with which the server answers one; `None` if it hangs up.
    pub fn answers(&mut self, message: &Outgoing) -> Option<Vec<(Command, Vec<u8>)>> {
        self.send(message);
        // It answers in order.
        self.send(&Outgoing::new(&Nonce(NONCE).ping()));
        let mut answers = Vec::new();
        loop {
            let (command, payload) = self.reader.read(&mut self.buffer).ok()?;
            let payload = self.buffer[payload].to_vec();
            match command {
                Command::PONG if payload == NONCE.to_le_bytes() => return Some(answers),
                _ => answers.push((command, payload)),
            }
        }
    }

    /// Whether the server says nothing to a request for a block.
    pub fn is_ignored(&mut self, kind: InventoryKind, hash: Hash) -> bool {
        let items = [InventoryItem { kind, hash }];
        let request = Outgoing::new(&Inventory(Command::GETDATA, &items));
        self.answers(&request).expect("a pong").is_empty()
    }

    /// The hashes of the headers after a block.
    pub fn headers_after(&mut self, hash: Hash) -> Vec<Hash> {
        let locator = [hash];
        let request = GetHeaders {
            version: PROTOCOL_VERSION as u32,
            locator: Hashes::List(&locator),
            stop: Hash::ZERO,
        };
        self.send(&Outgoing::new(&request));
        let payload = self.next(Command::HEADERS).expect("an answer");
        hashes_in(Command::HEADERS, &payload)
    }
}
