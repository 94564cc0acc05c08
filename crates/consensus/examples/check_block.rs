//! Checks a block alone, and names the rule that a changed one breaks.
//!
//! `cargo run -p apus-consensus --example check_block`

use apus_consensus::{check_block, subsidy};
use apus_wire::{BlockView, Chain, Network, Prevout, ScriptFlags, genesis_block};

/// Only a signet needs scripts to check a block alone.
fn no_signet(_: &[u8], _: &Prevout, _: ScriptFlags) -> bool {
    false
}

fn main() {
    let network = Network::new(Chain::Main);
    let mut block = genesis_block(&network);
    let view = BlockView::parse(&block[..]).expect("a block");
    let checked = check_block(view, &network, no_signet).expect("the genesis block is valid");
    println!("{} txs, at most {} satoshi", checked.view().tx_count(), subsidy(0, &network));

    let last = block.len() - 1;
    block[last] ^= 1;
    let view = BlockView::parse(&block[..]).expect("still a block");
    let error = check_block(view, &network, no_signet).err().expect("its merkle root differs");
    assert_eq!(error.reason, "bad-txnmrklroot");
    println!("changed: {error}");
}

#[test]
fn it_runs() {
    main();
}
