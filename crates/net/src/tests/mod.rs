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

use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_wire::{BlockView, Chain, Header, Network, genesis_block};

use crate::{Has, Limits, Schedule};

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
    let mut tree = Tree::new(regtest().0);
    for header in branches.iter().flatten() {
        tree.restore(header.hash(), header, false).unwrap();
    }
    tree
}

/// Returns a chain of `count` blocks, and a schedule with room for `bytes_max` bytes.
fn scheduled(count: u32, bytes_max: u64) -> (Tree, Arc<[BlockId]>, Schedule) {
    let (_, genesis) = regtest();
    let chain = headers_on(&genesis, count, 1);
    let tree = tree_of(std::slice::from_ref(&chain));
    let plan = chain.iter().map(|header| tree.find(&header.hash()).unwrap()).collect();
    let block_interval = Duration::from_secs(600);
    (tree, plan, Schedule::new(Limits { bytes_max, block_interval }))
}

/// Returns what a peer has that has the whole plan.
fn has(plan: &[BlockId]) -> Has {
    Has { best: plan[plan.len() - 1], is_limited: false, is_inbound: false }
}
