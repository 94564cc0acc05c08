//! Serves a file of regtest blocks, lowest first, to any peer that connects: the other end of
//! `bench/peers.sh`.

use std::path::PathBuf;
use std::process::ExitCode;

use apus_bench::block_file::chain_in;
use apus_net::Outgoing;
use apus_testpeer::{Answers, Hangup, Honest, Server};
use apus_wire::message::{Command, Message};
use apus_wire::{Chain, HEADER_BYTES, Network};
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
    /// Never send the block at this height, so that those after it arrive early
    #[arg(long, value_name = "HEIGHT")]
    hold: Option<usize>,
}

/// A peer that is honest, but never sends one block.
struct Holding {
    honest: Honest,
    held: Option<[u8; HEADER_BYTES]>,
}

impl Answers for Holding {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        self.honest.answer(message, out)?;
        if let Some(held) = &self.held {
            out.retain(|answer| {
                answer.command != Command::BLOCK || !answer.payload.starts_with(held)
            });
        }
        Ok(())
    }
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
        let held = options.hold.map(|height| chain.header(height).to_bytes());
        let begin = move || -> Box<dyn Answers> {
            Box::new(Holding { honest: Honest::new(chain.clone()), held })
        };
        let server = Server::start(network.magic, options.v2, begin)?;
        println!("{}", server.address());
        servers.push(server);
    }
    loop {
        std::thread::park();
    }
}
