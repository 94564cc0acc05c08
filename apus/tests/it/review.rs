//! What an adversarial reader of `chain` and `sync` tried: forks, ties, broken and mutated blocks
//! in every order, judged by Bitcoin Core's engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apus::chain::{BlockId, Tree};
use apus::disk::{Disk, PowerCut};
use apus::hash::Hash;
use apus::store::IndexDb;
use apus::sync::{self, Unobserved};
use apus::wire::{BlockView, Chain, Network, genesis_block};
use apus_testchain::block::{encode_block, subsidy};
use apus_testchain::{Builder, Parent, Rng};
use bitcoin::block::Block;
use bitcoin::hashes::Hash as _;

use crate::support::Place;
use crate::support::judge::Judge;

fn genesis_parent() -> Parent {
    let bytes = genesis_block(&Network::new(Chain::Regtest));
    let view = BlockView::parse(&bytes).unwrap();
    let hash = bitcoin::BlockHash::from_byte_array(view.hash().0);
    Parent::new(hash, 0, vec![view.header().time])
}

/// A valid block without transactions, told apart by `name`.
fn block(parent: &Parent, name: &str) -> Block {
    Builder::block_on(parent).extra(name.as_bytes()).finish()
}

/// A block that claims a satoshi too much: only connecting it shows that.
fn greedy(parent: &Parent, name: &str) -> Block {
    let value = subsidy(parent.height + 1) + 1;
    Builder::block_on(parent).extra(name.as_bytes()).coinbase_value(value).finish()
}

/// `block` with another witness: the same hash, and bytes that are not what it commits to.
fn mutated(block: &Block) -> Block {
    let mut mutated = block.clone();
    mutated.txdata[0].input[0].witness = bitcoin::Witness::from_slice(&[[1u8; 32]]);
    mutated
}

fn hash(block: &Block) -> Hash {
    Hash(block.block_hash().to_byte_array())
}

fn bytes<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Vec<Vec<u8>> {
    blocks.into_iter().map(encode_block).collect()
}

/// `count` valid blocks on `parent`, and the last one as a parent.
fn branch(parent: &Parent, name: &str, count: usize) -> (Vec<Block>, Parent) {
    let (mut blocks, mut tip) = (Vec::new(), parent.clone());
    for index in 0..count {
        blocks.push(block(&tip, &format!("{name}{index}")));
        tip = tip.child(&blocks[index]);
    }
    (blocks, tip)
}

fn sync_blocks(place: &Place, name: &str, blocks: &[Vec<u8>]) -> sync::Summary {
    place.sync(&[place.write(name, blocks)])
}

/// In a file, of two children of a parent that comes later the first one is first (Core's
/// reindex keeps their order).
#[test]
fn children_that_wait_for_a_parent_keep_their_order() {
    let root = block(&genesis_parent(), "root");
    let parent = genesis_parent().child(&root);
    let (first, second) = (block(&parent, "first"), block(&parent, "second"));
    for (a, b) in [(&first, &second), (&second, &first)] {
        let place = Place::new(Chain::Regtest);
        let summary = sync_blocks(&place, "blocks", &bytes([a, b, &root]));
        assert_eq!(summary.best_block, hash(a));
    }
}

/// A copy whose bytes are no good does not make its block come earlier.
#[test]
fn a_mutated_copy_does_not_win_a_tie() {
    let parent = genesis_parent();
    let (first, second) = (block(&parent, "first"), block(&parent, "second"));
    let blocks = bytes([&mutated(&first), &second, &first]);
    let judged = Place::new(Chain::Regtest);
    let judge = Judge::open(&judged).unwrap();
    judge.process(&blocks);
    assert_eq!(judge.tip().1, hash(&second));
    let place = Place::new(Chain::Regtest);
    assert_eq!(sync_blocks(&place, "blocks", &blocks).best_block, hash(&second));
}

/// Blocks that wait for another's bytes are linked one after the other, in the order in which
/// theirs came (Core's `ReceivedBlockTransactions`).
#[test]
fn blocks_linked_at_once_keep_their_order() {
    let root = block(&genesis_parent(), "root");
    let parent = genesis_parent().child(&root);
    let (first, second) = (block(&parent, "first"), block(&parent, "second"));
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

/// A header that the index calls invalid is never the best one, which scripts are skipped by.
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
    let network = Network::new(Chain::Regtest);
    let genesis = *BlockView::parse(&genesis_block(&network)).unwrap().header();
    Tree::new(network, genesis)
}

fn add(tree: &mut Tree, block: &Block) -> BlockId {
    let header = *BlockView::parse(&encode_block(block)).unwrap().header();
    tree.accept_header(&header, i64::from(u32::MAX)).unwrap()
}

/// Random trees of blocks, some broken, some in mutated copies first, in one run or several: the
/// tip is the one that Core's engine comes to, and the engine opens the directory.
#[test]
fn random_trees_end_where_the_engine_ends() {
    for seed in 0..40 {
        let blocks = random_tree(seed);
        let judged = Place::new(Chain::Regtest);
        let judge = Judge::open(&judged).unwrap();
        judge.process(&blocks);
        let place = Place::new(Chain::Regtest);
        let cut = 1 + (seed as usize * 7) % (blocks.len() - 1);
        sync_blocks(&place, "first", &blocks[..cut]);
        let summary = sync_blocks(&place, "all", &blocks);
        assert_eq!((summary.height, summary.best_block), judge.tip(), "seed {seed}, cut {cut}");
        let fresh = Place::new(Chain::Regtest);
        let summary = sync_blocks(&fresh, "all", &blocks);
        assert_eq!((summary.height, summary.best_block), judge.tip(), "seed {seed}");
        assert_eq!(place.muhash(), fresh.muhash(), "seed {seed}");
        assert_eq!(fresh.muhash().1, u64::from(summary.height), "seed {seed}");
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

/// Memory for coins below what an empty cache takes: slow, but it ends.
#[test]
fn the_smallest_cache_makes_progress() {
    let (blocks, _) = branch(&genesis_parent(), "a", 30);
    for bytes_max in [0, 1 << 20, 4 << 20] {
        let place = Place::new(Chain::Regtest);
        let sources = vec![place.write("blocks", &bytes(&blocks))];
        let summary = ends(&place, sources, move |options| options.dbcache_bytes = bytes_max);
        assert_eq!(summary.height, 30);
    }
}

/// Syncs in a thread of its own, and panics if that takes over a minute.
fn ends(
    place: &Place,
    sources: Vec<PathBuf>,
    change: impl FnOnce(&mut sync::Options),
) -> sync::Summary {
    let mut options = place.options();
    change(&mut options);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let result = sync::sync(&options, &sources, &Unobserved, &AtomicBool::new(false));
        let _ = sender.send(result);
    });
    receiver.recv_timeout(std::time::Duration::from_secs(60)).expect("it ends").unwrap()
}

/// Block files without an index are somebody's chain: nothing may be written over them.
#[test]
fn block_files_without_an_index_are_not_written_over() {
    let (blocks, _) = branch(&genesis_parent(), "a", 20);
    let place = Place::new(Chain::Regtest);
    sync_blocks(&place, "blocks", &bytes(&blocks));
    let directory = place.network_dir();
    std::fs::remove_dir_all(directory.join("blocks/index")).unwrap();
    std::fs::remove_dir_all(directory.join("chainstate")).unwrap();
    let file = directory.join("blocks/blk00000.dat");
    let before = std::fs::read(&file).unwrap();
    let (other, _) = branch(&genesis_parent(), "b", 20);
    let result = place.try_sync(&[place.write("other", &bytes(&other))]);
    let after = std::fs::read(&file).unwrap();
    assert!(before == after, "blocks were overwritten");
    let error = result.expect_err("it is refused").to_string();
    assert!(error.contains("--from"), "{error}");
    // It can be read, though, into another directory.
    let fresh = Place::new(Chain::Regtest);
    assert_eq!(fresh.sync(&[place.datadir()]).height, 20);
}

/// The index of a directory whose rebuilding Core has not finished lacks blocks that are there.
#[test]
fn an_index_that_is_being_rebuilt_is_left_to_core() {
    let (blocks, _) = branch(&genesis_parent(), "a", 20);
    let place = Place::new(Chain::Regtest);
    sync_blocks(&place, "blocks", &bytes(&blocks));
    let disk = Disk::new();
    let index = place.network_dir().join("blocks/index");
    IndexDb::open(&disk, &index).unwrap().write_reindexing(true).unwrap();
    let error = place.try_sync(&[]).expect_err("it is refused").to_string();
    assert!(error.contains("rebuilding"), "{error}");
}

/// Wherever the power fails, Core's engine opens what is left, and the same command ends as if
/// nothing had happened: for a first sync, a reorganisation, and a rebuild of the coins.
#[test]
fn power_may_fail_at_every_step_of_a_sync() {
    let (trunk, fork) = branch(&genesis_parent(), "trunk", 12);
    let (short, _) = branch(&fork, "short", 3);
    let (long, _) = branch(&fork, "long", 5);
    let old = bytes(trunk.iter().chain(&short));
    let new = bytes(&long);
    let run = |place: &Place, disk: &Disk, sources: &[PathBuf]| {
        let (options, stop) = (place.options(), AtomicBool::new(false));
        sync::sync_on(disk, &options, sources, &Unobserved, &stop)
    };
    let reindex = |place: &Place, disk: &Disk| {
        let (options, stop) = (place.options(), AtomicBool::new(false));
        sync::reindex_on(disk, &options, &Unobserved, &stop)
    };
    cut_everywhere(|_| {}, |place, disk| run(place, disk, &[place.write("old", &old)]), 15);
    let first = |place: &Place| drop(sync_blocks(place, "old", &old));
    cut_everywhere(first, |place, disk| run(place, disk, &[place.write("new", &new)]), 17);
    cut_everywhere(first, |place, disk| reindex(place, disk), 15);
}

fn cut_everywhere(
    before: impl Fn(&Place),
    work: impl Fn(&Place, &Disk) -> Result<sync::Summary, sync::SyncError>,
    height: u32,
) {
    let whole = Place::new(Chain::Regtest);
    before(&whole);
    let counter = Arc::new(PowerCut::at(u64::MAX));
    let summary = work(&whole, &Disk::with_power_cut(counter.clone())).unwrap();
    assert_eq!(summary.height, height);
    for cut_at in 1..=counter.steps() {
        let place = Place::new(Chain::Regtest);
        before(&place);
        let power = Arc::new(PowerCut::at(cut_at));
        let result = work(&place, &Disk::with_power_cut(power.clone()));
        if result.is_ok() {
            continue;
        }
        power.lose_unsynced().unwrap();
        if cut_at % 3 == 0 {
            let judge = Judge::open(&place);
            judge.unwrap_or_else(|| panic!("the engine refuses after {cut_at}")).read_everything();
        }
        let again = work(&place, &Disk::new());
        let again = again.unwrap_or_else(|error| panic!("cut at {cut_at}: {error}"));
        assert_eq!(again.best_block, summary.best_block, "cut at {cut_at}");
        assert_eq!(place.muhash(), whole.muhash(), "cut at {cut_at}");
        Judge::open(&place).expect("the engine opens it").read_everything();
    }
}

/// Raises a flag as soon as a block is connected.
struct StopsEarly<'a>(&'a AtomicBool);

impl sync::Observer for StopsEarly<'_> {
    fn observe(&self, progress: &sync::Progress) {
        let begun = progress.phase == sync::Phase::Connecting && progress.blocks > 0;
        self.0.fetch_or(begun, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A rebuild that is to check every script does not carry on from one that took some as valid.
#[test]
fn an_interrupted_rebuild_is_carried_on_if_it_checked_as_much() {
    use sync::AssumeValid::{Block, Nothing};
    let (blocks, _) = branch(&genesis_parent(), "a", 400);
    let place = Place::new(Chain::Regtest);
    let tip = sync_blocks(&place, "blocks", &bytes(&blocks)).best_block;
    let mut options = place.options();
    for (first, second, carried_on) in
        [(Block(tip), Nothing, false), (Nothing, Block(tip), true), (Nothing, Nothing, true)]
    {
        let stop = AtomicBool::new(false);
        options.assumevalid = first;
        let begun = sync::reindex(&options, &StopsEarly(&stop), &stop).unwrap();
        assert!(begun.interrupted && begun.height > 0 && begun.height < 400);
        options.assumevalid = second;
        let rest = sync::reindex(&options, &Unobserved, &AtomicBool::new(false)).unwrap();
        let skipped = if carried_on { u64::from(begun.height) } else { 0 };
        assert_eq!((rest.height, rest.counts.blocks), (400, 400 - skipped));
    }
}
