//! A transaction that repeats an earlier one where BIP34 makes that impossible. The block is
//! invalid for other reasons too, and is refused for the one that Core gives first.

use apus_testchain::{Break, Builder};
use apus_wire::Chain as Network;
use bitcoin::Transaction;

use crate::support::chains::small;
use crate::support::{Place, hash_of, with_genesis};

fn reasons(summary: &apus_sync::Summary) -> Vec<String> {
    summary.refusals.iter().map(|refusal| refusal.reason.clone()).collect()
}

fn decoded(block: &[u8]) -> bitcoin::Block {
    bitcoin::consensus::deserialize(block).unwrap()
}

/// The repeated transaction is in a block that is still in the pipeline, and in one whose coins are
/// in the tables.
#[test]
fn a_repeat_of_the_parent_block_is_refused_for_bip30() {
    let chain = small(3);
    let site = chain.broken(Break::RepeatsSpent);
    let parent = decoded(&site.sound);
    let repeated: Vec<Transaction> = parent.txdata[1..].to_vec();
    let child = Builder::block_on(&chain.parent(chain.height()).child(&parent)).txs(repeated);
    let child = apus_testchain::block::encode_block(&child.finish());
    let mut blocks = with_genesis(chain);
    blocks.push(site.sound.clone());

    let at_once = Place::new(Network::Regtest);
    let summary = at_once.sync(&[at_once.write("all", blocks.iter().chain([&child]))]);
    assert_eq!(summary.best_block, hash_of(&site.sound));
    assert_eq!(reasons(&summary), ["bad-txns-BIP30, tried to overwrite transaction"]);

    let in_turn = Place::new(Network::Regtest);
    in_turn.sync(&[in_turn.write("chain", &blocks)]);
    let summary = in_turn.sync(&[in_turn.write("child", [&child])]);
    assert_eq!(reasons(&summary), ["bad-txns-BIP30, tried to overwrite transaction"]);
    assert_eq!(in_turn.utxo_hash(), at_once.utxo_hash(), "every coin went back");
}
