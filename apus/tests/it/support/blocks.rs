//! Small regtest blocks made by hand: valid, invalid, and mutated.

use apus_hash::Hash;
use apus_testchain::block::{encode_block, subsidy};
use apus_testchain::{Builder, Parent};
use apus_wire::{BlockView, Chain, Network, genesis_block};
use bitcoin::block::Block;
use bitcoin::hashes::Hash as _;

pub fn genesis_parent() -> Parent {
    let bytes = genesis_block(&Network::new(Chain::Regtest));
    let view = BlockView::parse(&bytes).unwrap();
    let hash = bitcoin::BlockHash::from_byte_array(view.hash().0);
    Parent::new(hash, 0, vec![view.header().time])
}

/// Returns a valid block with a coinbase alone. Another name gives another block.
pub fn block(parent: &Parent, name: &str) -> Block {
    Builder::block_on(parent).extra(name.as_bytes()).finish()
}

/// Returns a block whose coinbase claims one satoshi too many, which only connecting it shows.
pub fn greedy(parent: &Parent, name: &str) -> Block {
    let value = subsidy(parent.height + 1) + 1;
    Builder::block_on(parent).extra(name.as_bytes()).coinbase_value(value).finish()
}

/// Returns `block` with another witness: it has the same hash, but its header does not commit to
/// it.
pub fn mutated(block: &Block) -> Block {
    let mut mutated = block.clone();
    mutated.txdata[0].input[0].witness = bitcoin::Witness::from_slice(&[[1u8; 32]]);
    mutated
}

pub fn hash(block: &Block) -> Hash {
    Hash(block.block_hash().to_byte_array())
}

pub fn bytes<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Vec<Vec<u8>> {
    blocks.into_iter().map(encode_block).collect()
}

/// Returns a chain of `count` valid blocks on `parent`, and its last block as a parent.
pub fn branch(parent: &Parent, name: &str, count: usize) -> (Vec<Block>, Parent) {
    let mut blocks = Vec::new();
    let mut tip = parent.clone();
    for index in 0..count {
        blocks.push(block(&tip, &format!("{name}{index}")));
        tip = tip.child(&blocks[index]);
    }
    (blocks, tip)
}
