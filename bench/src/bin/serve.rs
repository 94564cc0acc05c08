//! Serves a file of regtest blocks, lowest first, to any peer that connects: the other end of
//! `bench/peers.sh`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use apus_hash::Hash;
use apus_store::{BlockSource, SourceItem};
use apus_testpeer::{Honest, ServedChain, Server};
use apus_wire::{BlockView, Chain, Cursor, Header, Network, genesis_block};
use clap::Parser;

/// Serve a file of blocks to peers, each on a port of its own
#[derive(Parser)]
struct Options {
    /// The file of blocks
    file: PathBuf,
    /// Number of servers
    #[arg(long, default_value_t = 1)]
    servers: usize,
    /// Speak the encrypted transport too (BIP324)
    #[arg(long)]
    v2: bool,
}

fn main() -> ExitCode {
    match serve(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(options: &Options) -> Result<(), String> {
    let network = Network::new(Chain::Regtest);
    let chain = chain_in(&options.file, &network)?;
    let mut servers = Vec::new();
    for _ in 0..options.servers {
        let chain = chain.clone();
        let begin =
            move || -> Box<dyn apus_testpeer::Answers> { Box::new(Honest::new(chain.clone())) };
        let server = Server::start(network.magic, options.v2, begin);
        let server = server.map_err(|error| error.to_string())?;
        println!("{}", server.address());
        servers.push(server);
    }
    loop {
        std::thread::park();
    }
}

/// Returns the chain of the blocks in a file, in which each block follows its parent.
fn chain_in(file: &std::path::Path, network: &Network) -> Result<ServedChain, String> {
    let source = BlockSource::open(file, network).map_err(|error| error.to_string())?;
    let genesis = genesis_block(network);
    let mut headers = vec![*BlockView::parse(&genesis[..]).expect("it parses").header()];
    let mut places: HashMap<Hash, (u64, u32)> = HashMap::new();
    for item in source.scan_headers() {
        let SourceItem::Block(block) = item.map_err(|error| error.to_string())? else { continue };
        let header = Header::parse(&mut Cursor::new(&block.bytes));
        let header = header.map_err(|error| error.to_string())?;
        places.insert(header.hash(), (block.offset, block.len));
        if headers.last().is_some_and(|last| last.hash() == header.prev) {
            headers.push(header);
        }
    }
    let hashes: Vec<Hash> = headers.iter().map(Header::hash).collect();
    let source = Arc::new(source);
    Ok(ServedChain::new(headers, move |height| {
        if height == 0 {
            return genesis.clone();
        }
        let (offset, len) = places[&hashes[height]];
        source.files()[0].read(offset, len).expect("the file can be read")
    }))
}
