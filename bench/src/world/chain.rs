use std::collections::HashMap;
use std::sync::OnceLock;

use apus_consensus::proof_of_work;
use apus_hash::Hash;
use apus_wire::{BlockView, Chain, Header, Network, genesis_block};

/// Blocks of the chain: more than any run downloads.
const BLOCKS: u32 = 12_000;
/// Seconds from one header to the next.
const SPACING: u32 = 600;

/// Returns regtest, and the header of its genesis block.
pub fn regtest() -> (Network, Header) {
    let network = Network::new(Chain::Regtest);
    let bytes = genesis_block(&network);
    let genesis = *BlockView::parse(&bytes).expect("the genesis block is well-formed").header();
    (network, genesis)
}

/// Returns the headers after the genesis block, each with its proof of work.
pub fn headers() -> &'static [Header] {
    static HEADERS: OnceLock<Vec<Header>> = OnceLock::new();
    HEADERS.get_or_init(|| {
        let (network, genesis) = regtest();
        let mut prev = genesis;
        let next = |_| {
            let time = prev.time + SPACING;
            let mut header = Header { prev: prev.hash(), time, nonce: 0, version: 4, ..prev };
            while !proof_of_work(&header.hash(), header.bits, &network) {
                header.nonce += 1;
            }
            prev = header;
            header
        };
        (0..BLOCKS).map(next).collect()
    })
}

/// Returns the height of a block; `None` if the chain does not have it.
pub fn height_of(hash: &Hash) -> Option<usize> {
    static HEIGHTS: OnceLock<HashMap<Hash, usize>> = OnceLock::new();
    let heights = HEIGHTS.get_or_init(|| {
        let genesis = (headers()[0].prev, 0);
        let others = headers().iter().enumerate().map(|(at, header)| (header.hash(), at + 1));
        std::iter::once(genesis).chain(others).collect()
    });
    heights.get(hash).copied()
}
