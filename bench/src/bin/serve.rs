//! Serves a file of regtest blocks, lowest first, to any peer that connects: the other end of
//! `bench/peers.sh`.

use std::path::PathBuf;
use std::process::ExitCode;

use apus_bench::block_file::chain_in;
use apus_testpeer::{Honest, Server};
use apus_wire::{Chain, Network};
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

fn serve(options: &Options) -> apus_bench::Result<()> {
    let network = Network::new(Chain::Regtest);
    let chain = chain_in(&options.file, &network)?;
    let mut servers = Vec::new();
    for _ in 0..options.servers {
        let chain = chain.clone();
        let begin =
            move || -> Box<dyn apus_testpeer::Answers> { Box::new(Honest::new(chain.clone())) };
        let server = Server::start(network.magic, options.v2, begin)?;
        println!("{}", server.address());
        servers.push(server);
    }
    loop {
        std::thread::park();
    }
}
