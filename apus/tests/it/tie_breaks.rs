//! Which of several blocks of equal work becomes the tip, as Bitcoin Core decides it.

use apus_chain::{BlockId, Tree};
use apus_testchain::block::encode_block;
use apus_wire::{BlockView, Chain, Network};
use bitcoin::block::Block;

use crate::support::Place;
use crate::support::blocks::{block, bytes, genesis_parent, hash, mutated};
use crate::support::judge::Judge;

/// Of two children that come before their parent in a file, the first one becomes the tip: Core's
/// reindex keeps their order.
#[test]
fn children_that_wait_for_a_parent_keep_their_order() {
    let root = block(&genesis_parent(), "root");
    let parent = genesis_parent().child(&root);
    let first = block(&parent, "first");
    let second = block(&parent, "second");
    for (a, b) in [(&first, &second), (&second, &first)] {
        let place = Place::new(Chain::Regtest);
        let summary = place.sync_blocks("blocks", &bytes([a, b, &root]));
        assert_eq!(summary.best_block, hash(a));
    }
}

/// A block counts from when its own bytes come, not from when a mutated copy of it came.
#[test]
fn a_mutated_copy_does_not_win_a_tie() {
    let parent = genesis_parent();
    let first = block(&parent, "first");
    let second = block(&parent, "second");
    let blocks = bytes([&mutated(&first), &second, &first]);
    let judged = Place::new(Chain::Regtest);
    let judge = Judge::open(&judged).unwrap();
    judge.process(&blocks);
    assert_eq!(judge.tip().1, hash(&second));
    let place = Place::new(Chain::Regtest);
    assert_eq!(place.sync_blocks("blocks", &blocks).best_block, hash(&second));
}

/// Blocks that wait for their parent's bytes are linked, once those come, in the order in which
/// their own bytes came (Core's `ReceivedBlockTransactions`).
#[test]
fn blocks_linked_at_once_keep_their_order() {
    let root = block(&genesis_parent(), "root");
    let parent = genesis_parent().child(&root);
    let first = block(&parent, "first");
    let second = block(&parent, "second");
    for (a, b) in [(&first, &second), (&second, &first)] {
        let mut tree = regtest_tree();
        let [root, first, second] = [&root, &first, &second].map(|block| add(&mut tree, block));
        for id in [tree.genesis(), tree.find(&hash(a)).unwrap(), tree.find(&hash(b)).unwrap()] {
            tree.mark_available(id);
        }
        tree.mark_available(root);
        assert!(tree.is_better(first, root) && tree.is_better(second, root));
        assert_eq!(tree.best_candidate(), tree.find(&hash(a)));
    }
}

/// The best header decides below which block scripts may be skipped, so a block that the index
/// calls invalid is never that, nor any after it.
#[test]
fn a_failed_header_is_not_the_best_after_a_restart() {
    let mut tree = regtest_tree();
    let failed = block(&genesis_parent(), "failed");
    let child = block(&genesis_parent().child(&failed), "child");
    let header = |block: &Block| *BlockView::parse(&encode_block(block)).unwrap().header();
    tree.restore(hash(&failed), &header(&failed), true).unwrap();
    tree.restore(hash(&child), &header(&child), false).unwrap();
    assert_eq!(tree.best_header(), tree.genesis());
}

fn regtest_tree() -> Tree {
    Tree::new(Network::new(Chain::Regtest))
}

fn add(tree: &mut Tree, block: &Block) -> BlockId {
    let header = *BlockView::parse(&encode_block(block)).unwrap().header();
    tree.accept_header(&header, i64::from(u32::MAX)).unwrap()
}
