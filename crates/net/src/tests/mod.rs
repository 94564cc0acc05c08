mod addresses;
mod candidates;
mod coin_schedule;
mod coin_worlds;
mod connections;
mod feelers;
mod hostile_worlds;
mod limits;
mod line;
mod manager;
mod presync;
mod schedule;
mod serving;
mod socks5;
mod time_offsets;
mod tip_watch;
mod transport;
mod v2_judged;

use apus_chain::Tree;
use apus_wire::{BlockView, Chain, Header, Network, genesis_block};

/// Returns regtest, and the header of its genesis block.
fn regtest() -> (Network, Header) {
    let network = Network::new(Chain::Regtest);
    let bytes = genesis_block(&network);
    let genesis = *BlockView::parse(&bytes).unwrap().header();
    (network, genesis)
}

/// Returns `count` headers that build on `first`, different ones for each `seed`. None has proof of
/// work.
fn headers_on(first: &Header, count: u32, seed: u32) -> Vec<Header> {
    let mut prev = first.hash();
    let next = |number| {
        let header = Header { prev, time: first.time + 1 + number, nonce: seed, ..*first };
        prev = header.hash();
        header
    };
    (0..count).map(next).collect()
}

fn tree_of(branches: &[Vec<Header>]) -> Tree {
    let (network, genesis) = regtest();
    let mut tree = Tree::new(network, genesis);
    for header in branches.iter().flatten() {
        tree.restore(header.hash(), header, false).unwrap();
    }
    tree
}
