//! One run that syncs, prunes, reorganises, rewinds and merges tables, with a power cut at every
//! change to the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use apus_disk::{Call, Disk};
use apus_hash::Hash;
use apus_node::Run;
use apus_node::{Options, Prune, SyncError};
use apus_progress::Watch;
use apus_sync as sync;
use apus_testchain::{Chain, Mix, Spec};
use apus_tools as tools;
use apus_tools::UtxoHash;

use crate::pruned::{SPARE, branch_of, files, options};
use crate::support::Place;
use crate::support::block_index::{CheckedIndex, check_block_index};
use crate::support::power::{counted, failing, power_cuts};
use crate::support::swift::World;

/// The height at which the run begins.
const BEGIN: usize = 130;
/// The height of the first tip, with 300 blocks more.
const FIRST: usize = 430;
/// The depth of the reorganisation, and how far the UTXO set is taken back after it.
const DEPTH: usize = 5;
const REWOUND: usize = 3;

/// The run, and what it begins with.
pub struct Endurance {
    world: World,
    /// Blocks after those [`DEPTH`] below the first tip, one more than there were.
    branch: Vec<Vec<u8>>,
    pub base: Place,
    /// The blocks up to the first tip, the branch, and the others.
    sources: [PathBuf; 3],
    /// The hash of the UTXO set after some blocks.
    sets: Mutex<BTreeMap<Hash, String>>,
}

/// Of a run, the blocks that the UTXO set may be at after a power cut now.
#[derive(Default)]
pub struct Commits(Arc<Mutex<Blocks>>);

#[derive(Default, Clone, Copy, Debug)]
struct Blocks {
    /// That of the last commit that has ended.
    committed: Option<Hash>,
    /// That of one after it, which may have ended.
    begun: Option<Hash>,
}

impl Commits {
    /// The same disk, watched: before each commit, the number of coins is written down with the
    /// block that it is for, and by then the commit before has ended.
    fn watch(&self, disk: &Disk) -> Disk {
        let blocks = Arc::clone(&self.0);
        let hook = move |call, path: &Path| {
            if call == Call::Rename && path.ends_with("chainstate/apus-coins") {
                let written = std::fs::read_to_string(path.with_extension("dbtmp"))?;
                let block = written.lines().last().and_then(|line| line.split(' ').next());
                let mut blocks = blocks.lock().unwrap();
                blocks.committed = blocks.begun.or(blocks.committed);
                blocks.begun = block.map(|block| block.parse().unwrap());
            }
            Ok(())
        };
        disk.clone().with_hook(Arc::new(hook))
    }

    /// A part of the run has ended well, and everything is committed.
    fn end(&self) {
        let mut blocks = self.0.lock().unwrap();
        blocks.committed = blocks.begun.take().or(blocks.committed);
    }
}

/// What a run comes to.
#[derive(PartialEq, Eq, Debug)]
pub struct End {
    set: (String, u64),
    index: CheckedIndex,
    files: BTreeSet<u32>,
}

impl Endurance {
    pub fn new() -> Self {
        // Files of ten blocks, then one of many, so that some are old enough to be pruned.
        let world = World::of(&Chain::new(Spec {
            seed: 47,
            quiet_blocks: 110,
            busy_blocks: 40,
            busy_bytes: 6_000,
            busy_txs_max: u32::MAX,
            empty_blocks_after: 250,
            top_blocks: 40,
            keys: 16,
            in_block_percent: 15,
            never_spent_percent: 20,
            mix: Mix::varied(),
        }));
        let base = world.place();
        base.sync_blocks("base", &world.blocks[..=BEGIN]);
        base.shrink();
        let (branch, _) = branch_of(&world, FIRST - DEPTH, DEPTH + 1);
        let sources = [
            base.write("first", &world.blocks[..=FIRST]),
            base.write("branch", &branch),
            base.write("rest", &world.blocks[FIRST + 1..]),
        ];
        Self { world, branch, base, sources, sets: Mutex::default() }
    }

    fn options(&self, place: &Place) -> Options {
        let target = options(place, Some(Prune::Target(SPARE)));
        Options { dbcache_bytes: 64 << 10, ..target }
    }

    /// All of it, or what is left to be done.
    pub fn run(&self, place: &Place, disk: &Disk, seen: &Commits) -> Result<(), SyncError> {
        let options = self.options(place);
        let disk = &seen.watch(disk);
        let [first, branch, rest] = self.sources.each_ref().map(std::slice::from_ref);
        sync::sync_on(&Run::on(disk, &options), first, Watch::default())?;
        seen.end();
        sync::sync_on(&Run::on(disk, &options), branch, Watch::default())?;
        seen.end();
        let height = (FIRST + 1 - REWOUND) as u32;
        tools::rewind_on(disk, &options, height, Watch::default())?;
        seen.end();
        sync::sync_on(&Run::on(disk, &options), rest, Watch::default())?;
        seen.end();
        Ok(())
    }

    /// The hash of the UTXO set after a block of the best chain or the branch.
    fn set_after(&self, block: Hash, height: u32) -> String {
        let mut sets = self.sets.lock().unwrap();
        let set = sets.entry(block).or_insert_with(|| {
            let place = self.base.copy();
            let is_main = self.world.hash(height) == block;
            let fork = if is_main { height as usize } else { FIRST - DEPTH };
            let others = if is_main { &[] } else { &self.branch[..height as usize - fork] };
            place.sync_blocks("chain", &[&self.world.blocks[..=fork], others].concat());
            let stats = place.stats(UtxoHash::HashSerialized3);
            assert_eq!(stats.best_block, block);
            stats.hash.unwrap().1.to_string()
        });
        set.clone()
    }

    /// Panics unless the directory is whole: the index holds together, what it names can be read,
    /// and the UTXO set is that after its best block, which is the last that was committed or one
    /// that was being committed when the run `seen` ended.
    pub fn check(&self, place: &Place, seen: &Commits, what: &str) {
        check_block_index(place);
        let stats = place.stats(UtxoHash::HashSerialized3);
        let set = stats.hash.unwrap().1.to_string();
        let blocks = *seen.0.lock().unwrap();
        let committed = blocks.committed.unwrap_or(self.world.hash(BEGIN as u32));
        let is_right = stats.best_block == committed || Some(stats.best_block) == blocks.begun;
        assert!(is_right, "{what}: {} at {}, not of {blocks:?}", stats.best_block, stats.height);
        assert_eq!(set, self.set_after(stats.best_block, stats.height), "{what}");
    }

    pub fn end(&self, place: &Place) -> End {
        let index = check_block_index(place);
        End { set: place.utxo_hash(), index, files: files(place) }
    }
}

#[test]
fn the_power_may_fail_at_every_change_of_a_run_with_everything() {
    let test = Endurance::new();
    let whole = test.base.copy();
    let (disk, counter) = counted();
    let removed: Arc<[AtomicUsize; 2]> = Default::default();
    let count = Arc::clone(&removed);
    let hook = move |call, path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if call == Call::Remove {
            count[0].fetch_add(usize::from(name.ends_with(".ldb")), Relaxed);
            count[1].fetch_add(usize::from(name.starts_with("blk")), Relaxed);
        }
        Ok(())
    };
    let disk = disk.with_hook(Arc::new(hook));
    test.run(&whole, &disk, &Commits::default()).unwrap();
    assert!(removed.iter().all(|times| times.load(Relaxed) > 1), "merged and pruned: {removed:?}");
    let expected = test.end(&whole);
    assert_eq!(expected.index.files, expected.files);
    assert_eq!(expected.set.0, test.set_after(test.world.tip(), test.world.height()));

    let steps = counter.steps();
    let cuts = Mutex::new(power_cuts(1..=steps, 397));
    let tried = AtomicUsize::new(0);
    let next = || cuts.lock().unwrap().next();
    let work = || {
        while let Some(power) = next() {
            let place = test.base.copy();
            let seen = Commits::default();
            let result = test.run(&place, &failing(&power), &seen);
            // Merges, which go on beside the rest, make some changes more or fewer.
            assert_eq!(result.is_err(), power.is_off(), "{power:?}");
            let what = format!("{power:?}");
            power.lose_unsynced().unwrap();
            test.check(&place, &seen, &what);
            let rest = test.run(&place, &Disk::new(), &Commits::default());
            rest.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(test.end(&place), expected, "{what}");
            tried.fetch_add(1, Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    println!("{} power cuts tried, {steps} changes to the disk", tried.into_inner());
}
