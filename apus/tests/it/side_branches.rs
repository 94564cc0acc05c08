//! Blocks of sources that are not part of the best chain: they are stored, with progress, and a
//! request to stop is heeded.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use apus_node::{Options, Prune};
use apus_progress::Watch;
use apus_progress::{Observer, Phase, Progress};
use apus_sync as sync;
use apus_testchain::Parent;
use apus_wire::Chain;
use bitcoin::Block;

use crate::pruned::{SPARE, branch_of, options, sync_with, world};
use crate::support::Place;
use crate::support::blocks::{block, branch, bytes, genesis_parent, hash, mutated};
use crate::support::judge::Judge;
use crate::support::stop_when::StopWhen;

/// Three branches of one trunk: the best, one of 50 blocks, and one of 9 blocks of which the fifth
/// breaks a rule.
struct Branches {
    best: Vec<Block>,
    side: Vec<Block>,
    side_tip: Parent,
    bad: Vec<Block>,
}

impl Branches {
    fn new() -> Self {
        let (trunk, fork) = branch(&genesis_parent(), "trunk", 20);
        let (best, _) = branch(&fork, "best", 60);
        let (side, side_tip) = branch(&fork, "side", 50);
        let (mut bad, tip) = branch(&fork, "bad", 4);
        // The coinbase states another height.
        let mut wrong = tip.clone();
        wrong.height += 5;
        bad.push(block(&wrong, "wrong"));
        let (after, _) = branch(&tip.child(&bad[4]), "after", 4);
        bad.extend(after);
        Self { best: [trunk, best].concat(), side, side_tip, bad }
    }

    /// A file with all, and damaged copies of some blocks before the good ones.
    fn write(&self, place: &Place) -> PathBuf {
        let damaged = self.side.iter().step_by(7).map(mutated).collect::<Vec<_>>();
        let all = self.best.iter().chain(&damaged).chain(&self.side).chain(&self.bad);
        place.write("all", &bytes(all))
    }
}

/// How many of these blocks are stored; each must be readable.
fn stored(place: &Place, blocks: &[Block]) -> usize {
    let (index, files) = place.blocks();
    let is_stored = |block: &&Block| {
        let entry = index.entries.iter().find(|entry| entry.hash == hash(block));
        let Some(pos) = entry.and_then(|entry| entry.block_pos()) else { return false };
        files.read_block(pos).unwrap() == bytes([*block])[0]
    };
    blocks.iter().filter(is_stored).count()
}

/// Keeps the reports of one phase.
#[derive(Default)]
struct Seen(Mutex<Vec<Progress>>);

impl Observer for Seen {
    fn observe(&self, progress: &Progress) {
        if progress.phase == Phase::StoringBranches {
            self.0.lock().unwrap().push(progress.clone());
        }
    }
}

#[test]
fn side_branches_are_stored_as_far_as_they_keep_the_rules() {
    let branches = Branches::new();
    let place = Place::new(Chain::Regtest);
    let source = branches.write(&place);
    let seen = Seen::default();
    let stop = AtomicBool::new(false);
    let summary = sync::sync(&place.options(), &[source], Watch::new(&seen, &stop)).unwrap();
    assert_eq!((summary.height, summary.best_block), (80, hash(&branches.best[79])));
    assert_eq!(stored(&place, &branches.side), 50);
    assert_eq!(stored(&place, &branches.bad), 4, "those below the one that is refused");
    let refused = summary.refusals.iter().filter(|r| r.to_string().contains("bad-cb-height"));
    assert_eq!(refused.count(), 1, "{:?}", summary.refusals);
    assert_eq!(summary.refusals.len(), 1 + 8, "and the damaged copies: {:?}", summary.refusals);
    let seen = seen.0.into_inner().unwrap();
    let fractions: Vec<f64> = seen.iter().map(|progress| progress.fraction).collect();
    assert!(fractions.is_sorted() && fractions[0] == 0.0 && fractions.ends_with(&[1.0]));
    assert!(seen.len() > 3 && seen.iter().all(|progress| progress.blocks_all == 59), "{seen:?}");
    let judge = Judge::open(&place).expect("the engine opens it");
    assert_eq!(judge.tip(), (80, summary.best_block));
    judge.read_everything();
    // What is stored is not stored again, and serves once its branch is the best.
    let size = |place: &Place| place.blocks().1.infos()[0].size;
    let before = size(&place);
    place.sync(&[place.root().join("all")]);
    assert_eq!(size(&place), before);
    let (more, _) = branch(&branches.side_tip, "more", 12);
    let summary = place.sync_blocks("more", &bytes(&more));
    assert_eq!((summary.height, summary.best_block), (82, hash(&more[11])));
}

/// The blocks behind one that no source has are stored, and connected once it comes.
#[test]
fn blocks_behind_a_gap_are_stored() {
    let (chain, _) = branch(&genesis_parent(), "chain", 60);
    let place = Place::new(Chain::Regtest);
    // The 30th block is damaged, and its header good.
    let damaged = mutated(&chain[29]);
    let with_gap = chain[..29].iter().chain([&damaged]).chain(&chain[30..]);
    let summary = place.sync_blocks("gap", &bytes(with_gap));
    assert_eq!(summary.height, 29);
    assert_eq!(stored(&place, &chain), 59);
    let summary = place.sync_blocks("missing", &bytes([&chain[29]]));
    assert_eq!((summary.height, summary.best_block), (60, hash(&chain[59])));
}

#[test]
fn a_request_to_stop_is_heeded_between_blocks_of_side_branches() {
    let branches = Branches::new();
    let place = Place::new(Chain::Regtest);
    let source = branches.write(&place);
    let stop = AtomicBool::new(false);
    let is_time = |p: &Progress| p.phase == Phase::StoringBranches && p.blocks > 0;
    let observer = StopWhen(&stop, is_time);
    let options = place.options();
    let summary =
        sync::sync(&options, std::slice::from_ref(&source), Watch::new(&observer, &stop)).unwrap();
    assert!(summary.interrupted);
    assert_eq!(summary.height, 80);
    let first = stored(&place, &branches.side);
    assert!((1..50).contains(&first), "{first}");
    let rest = sync::sync(&options, &[source], Watch::default()).unwrap();
    assert!(!rest.interrupted);
    assert_eq!(stored(&place, &branches.side), 50);
}

#[test]
fn a_pruned_block_of_a_side_branch_is_not_stored_again() {
    let world = world();
    let place = world.place();
    let (side, _) = branch_of(&world, 250, 20);
    let target = options(&place, Some(Prune::Target(SPARE)));
    let low = Options { stop_at_height: Some(300), ..target.clone() };
    sync_with(&place, &low, &[&world.blocks[..], &side].concat());
    let entries = |place: &Place| {
        let options = apus_store::DataDirOptions { prune: true, ..Default::default() };
        let disk = apus_disk::Disk::new();
        let root = place.datadir();
        let dir = apus_store::DataDir::open(&disk, &root, &place.network, options).unwrap();
        let entries = dir.open_blocks().unwrap().1.entries;
        let hashes: Vec<_> = side.iter().map(|block| crate::support::hash_of(block)).collect();
        entries.into_iter().filter(|e| hashes.contains(&e.hash)).collect::<Vec<_>>()
    };
    assert!(entries(&place).iter().all(|e| e.block_pos().is_some()));
    sync_with(&place, &target, &world.blocks);
    for _ in 0..2 {
        let entries = entries(&place);
        assert_eq!(entries.len(), 20);
        assert!(entries.iter().all(|e| e.block_pos().is_none() && e.record.tx_count > 0));
        sync_with(&place, &target, &[&world.blocks[..], &side].concat());
    }
}
