//! Writes a regtest chain of blocks a minute apart that contain only a coinbase, which pays
//! nothing: for `bench/peers.sh` and `bench/memory.py`, with as many headers as mainnet has.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use apus_bench::block_file::chain_in;
use apus_consensus::proof_of_work;
use apus_hash::sha256d;
use apus_wire::{BlockView, Chain, Header, Network, genesis_block};
use clap::Parser;

/// Write a regtest chain of blocks without transactions
#[derive(Parser)]
struct Options {
    /// Number of blocks above the genesis block, or above the last block of FILE
    blocks: u32,
    /// Write the blocks that follow the chain in this file
    #[arg(long, value_name = "FILE")]
    above: Option<PathBuf>,
    /// The file to write
    #[arg(short, long)]
    output: PathBuf,
}

fn main() -> apus_bench::Result<()> {
    let options = Options::parse();
    let network = Network::new(Chain::Regtest);
    let (mut prev, height) = match &options.above {
        None => {
            let genesis = genesis_block(&network);
            (*BlockView::parse(&genesis[..]).expect("the genesis block parses").header(), 0)
        }
        Some(file) => {
            let chain = chain_in(file, &network)?;
            (*chain.header(chain.height()), chain.height() as u32)
        }
    };
    let mut file = BufWriter::new(File::create(&options.output)?);
    for height in height + 1..=height + options.blocks {
        let coinbase = coinbase(height);
        let mut header = Header {
            version: 0x2000_0000,
            prev: prev.hash(),
            merkle_root: sha256d(&coinbase),
            time: prev.time + 60,
            nonce: 0,
            ..prev
        };
        while !proof_of_work(&header.hash(), header.bits, &network) {
            header.nonce += 1;
        }
        prev = header;
        let block = [&header.to_bytes()[..], &[1], &coinbase].concat();
        file.write_all(&network.magic)?;
        file.write_all(&(block.len() as u32).to_le_bytes())?;
        file.write_all(&block)?;
    }
    file.flush()?;
    println!("{}", prev.hash());
    Ok(())
}

/// Returns a coinbase with its height (BIP34), whose output nobody can spend.
fn coinbase(height: u32) -> Vec<u8> {
    let mut number = height.to_le_bytes().to_vec();
    while number.last() == Some(&0) {
        number.pop();
    }
    // The highest bit is the sign.
    if number.last().is_some_and(|last| last & 0x80 != 0) {
        number.push(0);
    }
    let script = match height {
        1..=16 => vec![0x50 + height as u8, 0],
        _ => [&[number.len() as u8][..], &number, &[0]].concat(),
    };
    let mut tx = 2u32.to_le_bytes().to_vec();
    tx.push(1);
    tx.extend_from_slice(&[0; 32]);
    tx.extend_from_slice(&[0xff; 4]);
    tx.push(script.len() as u8);
    tx.extend_from_slice(&script);
    tx.extend_from_slice(&[0xff; 4]);
    // One output of zero satoshi to OP_RETURN.
    tx.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x6a]);
    tx.extend_from_slice(&[0; 4]);
    tx
}
