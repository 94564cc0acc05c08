//! A small, honest server for tests and benchmarks: it answers, as Core would, the messages of a
//! client that downloads blocks. Tests change its answers ([`Answers`]).

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use apus_hash::Hash;
use apus_host::threads;
use apus_net::{Outgoing, PROTOCOL_VERSION, respond};
use apus_wire::message::{
    Command, GetHeaders, HEADERS_MAX, Headers, Inventory, InventoryItem, InventoryKind, Message,
    Raw, Services, Version,
};
use apus_wire::{BlockView, HEADER_BYTES, Header};

/// A function that returns the bytes of the block at a height.
type ReadBlock = dyn Fn(usize) -> Vec<u8> + Send + Sync;

/// A chain to be served.
#[derive(Clone)]
pub struct ServedChain {
    headers: Arc<[Header]>,
    heights: Arc<HashMap<Hash, usize>>,
    read: Arc<ReadBlock>,
}

impl ServedChain {
    /// Creates a chain of these headers, genesis first, whose blocks `read` reads by height.
    pub fn new(
        headers: Vec<Header>,
        read: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let heights = headers.iter().enumerate().map(|(height, header)| (header.hash(), height));
        Self { heights: Arc::new(heights.collect()), headers: headers.into(), read: Arc::new(read) }
    }

    /// Creates a chain of these blocks, genesis first.
    ///
    /// # Panics
    /// A block is shorter than a header.
    pub fn of(blocks: Vec<Vec<u8>>) -> Self {
        let header = |block: &Vec<u8>| {
            let bytes: &[u8; HEADER_BYTES] = block.first_chunk().expect("a block has a header");
            Header::parse(&mut apus_wire::Cursor::new(bytes)).expect("any 80 bytes are a header")
        };
        let headers = blocks.iter().map(header).collect();
        Self::new(headers, move |height| blocks[height].clone())
    }

    /// Returns the height of the last block.
    pub fn height(&self) -> usize {
        self.headers.len() - 1
    }

    pub fn header(&self, height: usize) -> &Header {
        &self.headers[height]
    }

    /// Returns the height of a block; `None` if the block is not on this chain.
    pub fn height_of(&self, hash: &Hash) -> Option<usize> {
        self.heights.get(hash).copied()
    }

    pub fn block(&self, height: usize) -> Vec<u8> {
        (self.read)(height)
    }

    /// Returns the answer to `getheaders`, up to the block at height `top`.
    pub fn headers_after(&self, request: &GetHeaders, top: usize) -> Outgoing {
        let known = request.locator.iter().find_map(|hash| self.height_of(&hash));
        let first = known.map_or(0, |height| height.min(top)) + 1;
        let end = (top + 1).min(first + HEADERS_MAX);
        Outgoing::new(&Headers(self.headers.get(first..end).unwrap_or_default()))
    }
}

/// The answers of the peer at one end of a connection.
pub trait Answers: Send {
    /// Answers a message.
    ///
    /// # Errors
    /// The connection must be closed.
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup>;
}

/// A request to close the connection.
#[derive(Clone, Copy, Debug)]
pub struct Hangup;

/// A peer that has a chain up to some height and serves it.
pub struct Honest {
    /// The chain that the peer serves.
    pub chain: ServedChain,
    /// Height of the last block that the peer has.
    pub top: usize,
}

impl Honest {
    /// Creates a peer that has all of `chain`.
    pub fn new(chain: ServedChain) -> Self {
        Self { top: chain.height(), chain }
    }
}

/// Returns the `version` message of a peer with all blocks.
pub fn version(start_height: usize, nonce: u64) -> Outgoing {
    Outgoing::new(&Version {
        version: PROTOCOL_VERSION,
        services: Services::NETWORK.with(Services::WITNESS),
        time: apus_progress::clock::unix_time(),
        receiver: [0; 26],
        nonce,
        user_agent: b"/served:1/",
        start_height: start_height as i32,
        relay: false,
    })
}

impl Answers for Honest {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        match message {
            Message::Version(theirs) => {
                out.push(version(self.top, theirs.nonce ^ 1));
                out.push(Outgoing::empty(Command::VERACK));
            }
            Message::Ping(nonce) => {
                out.extend(nonce.map(|nonce| Outgoing::new(&nonce.pong())));
            }
            Message::GetHeaders(request) => {
                out.push(self.chain.headers_after(request, self.top));
            }
            Message::GetData(list) => {
                for item in list.iter() {
                    out.push(match self.chain.height_of(&item.hash) {
                        Some(height) if height <= self.top => {
                            let block = self.chain.block(height);
                            let payload = if item.kind == InventoryKind::BLOCK {
                                without_witnesses(&block)
                            } else {
                                block
                            };
                            Outgoing { command: Command::BLOCK, payload }
                        }
                        _ => not_found(item),
                    });
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns a block without its witnesses, as peers get it that request it so (BIP144).
///
/// # Panics
/// The bytes are not a block.
pub fn without_witnesses(block: &[u8]) -> Vec<u8> {
    BlockView::parse(block).expect("what is served is a block").without_witnesses()
}

/// Returns the answer of a peer that does not have what was requested.
pub fn not_found(item: InventoryItem) -> Outgoing {
    Outgoing::new(&Inventory(Command::NOTFOUND, &[item]))
}

/// A server that listens on a local port until it is dropped.
pub struct Server {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Server {
    /// Starts a server whose connections answer as the value that `begin` returns for each.
    ///
    /// # Errors
    /// There is no free port.
    pub fn start(
        magic: [u8; 4],
        accept_v2: bool,
        begin: impl Fn() -> Box<dyn Answers> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::start_raw(move |stream| {
            let _ = talk(&stream, magic, accept_v2, &mut *begin());
            let _ = stream.shutdown(Shutdown::Both);
        })
    }

    /// Starts a server that leaves each connection to `talk`, in a thread of its own.
    ///
    /// # Errors
    /// There is no free port.
    pub fn start_raw(talk: impl Fn(TcpStream) + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let server = Self { address, is_over: Arc::clone(&is_over), streams: Arc::clone(&streams) };
        let talk = Arc::new(talk);
        threads::spawn_free("served".to_string(), move || {
            while let Ok((stream, _)) = listener.accept() {
                if is_over.load(Relaxed) {
                    return;
                }
                if let Ok(copy) = stream.try_clone() {
                    streams.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
                }
                let talk = Arc::clone(&talk);
                threads::spawn_free("served-peer".to_string(), move || talk(stream));
            }
        });
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // This connection wakes the listener.
        let _ = TcpStream::connect(self.address);
        for stream in self.streams.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Talks to a peer that has connected.
fn talk(
    stream: &TcpStream,
    magic: [u8; 4],
    accept_v2: bool,
    answers: &mut dyn Answers,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let error = |error: apus_net::TransportError| io::Error::other(error.to_string());
    let from = io::BufReader::new(stream);
    let (mut reader, mut writer) =
        respond(magic, accept_v2, from, &mut &*stream, &mut |_| Ok(())).map_err(error)?;
    let mut buffer = Vec::new();
    let mut out = Vec::new();
    let mut bytes = Vec::new();
    loop {
        let (command, payload) = reader.read(&mut buffer).map_err(error)?;
        let Ok(message) = Message::decode(command, &buffer[payload]) else { return Ok(()) };
        let result = answers.answer(&message, &mut out);
        for Outgoing { command, payload } in out.drain(..) {
            bytes.clear();
            writer.encode(&Raw(command, &payload), &mut bytes);
            (&mut &*stream).write_all(&bytes)?;
        }
        if result.is_err() {
            return Ok(());
        }
    }
}
