//! Random trees of small blocks, valid, invalid and mutated: the tip is the engine's.

use apus_testchain::block::encode_block;
use apus_testchain::{Rng, rounds};
use apus_wire::Chain;

use crate::support::Place;
use crate::support::blocks::{block, genesis_parent, greedy, mutated};
use crate::support::judge::Judge;

/// Some blocks are broken, and of some a mutated copy comes first. In one run and in two, the tip
/// is the one that Core's engine comes to, and the engine opens the directory.
#[test]
fn random_trees_end_where_the_engine_ends() {
    for seed in 0..rounds(15) {
        let blocks = random_tree(seed);
        let judged = Place::new(Chain::Regtest);
        let judge = Judge::open(&judged).unwrap();
        judge.process(&blocks);
        let place = Place::new(Chain::Regtest);
        let cut = 1 + (seed as usize * 7) % (blocks.len() - 1);
        place.sync_blocks("first", &blocks[..cut]);
        let summary = place.sync_blocks("all", &blocks);
        assert_eq!((summary.height, summary.best_block), judge.tip(), "seed {seed}, cut {cut}");
        let fresh = Place::new(Chain::Regtest);
        let summary = fresh.sync_blocks("all", &blocks);
        assert_eq!((summary.height, summary.best_block), judge.tip(), "seed {seed}");
        assert_eq!(place.utxo_hash(), fresh.utxo_hash(), "seed {seed}");
        assert_eq!(fresh.utxo_hash().1, u64::from(summary.height), "seed {seed}");
        for place in [place, fresh] {
            let opened = Judge::open(&place).expect("the engine opens the directory");
            assert_eq!(opened.tip(), judge.tip(), "seed {seed}");
            opened.read_everything();
        }
    }
}

fn random_tree(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(seed, 0);
    let mut parents = vec![genesis_parent()];
    let mut blocks = Vec::new();
    for index in 0..40 {
        let back = rng.below(4.min(parents.len() as u64)) as usize;
        let parent = parents[parents.len() - 1 - back].clone();
        let name = format!("{index}");
        let made = match rng.below(12) {
            0 => greedy(&parent, &name),
            _ => block(&parent, &name),
        };
        if rng.below(10) == 0 {
            blocks.push(encode_block(&mutated(&made)));
        }
        blocks.push(encode_block(&made));
        parents.push(parent.child(&made));
    }
    blocks
}
