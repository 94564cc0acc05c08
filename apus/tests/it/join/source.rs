//! The chains of the joins, the files that they are in, and the runs that they are joined in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use apus_hash::Hash;
use apus_node::{AssumeValid, Options};
use apus_testchain::{Rng, rounds};
use apus_wire::Chain as Network;

use crate::support::outcome::Outcome;
use crate::support::swift::small_chain;
use crate::support::{Place, hash_of, with_genesis};

/// The blocks of a chain, genesis first, and stale ones.
pub struct Source {
    pub network: Network,
    pub blocks: Vec<Vec<u8>>,
    pub stale: Vec<Vec<u8>>,
    /// Blocks that can be added to the chain.
    pub next: Vec<Vec<u8>>,
}

/// The order and the number of blocks in the files that are synced from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Files {
    InOrder,
    Reversed,
    Shuffled,
    /// Every block twice, shuffled.
    Twice,
    /// Stale branches among the blocks.
    Stale,
    /// Another data directory.
    Directory,
}

pub const FILES: [Files; 6] = [
    Files::InOrder,
    Files::Reversed,
    Files::Shuffled,
    Files::Twice,
    Files::Stale,
    Files::Directory,
];

/// The block that is assumed valid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Assumed {
    Nothing,
    Tip,
    /// The block at height 180, as the one built into the network.
    Middle,
}

pub const ASSUMED: [Assumed; 3] = [Assumed::Nothing, Assumed::Tip, Assumed::Middle];

/// A join.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub files: Files,
    pub assumed: Assumed,
    pub threads: usize,
    pub dbcache_bytes: usize,
}

pub const THREADS: [usize; 4] = [1, 2, 3, 8];
pub const DBCACHES: [usize; 4] = [0, 1 << 20, 100 << 20, 4000 << 20];

impl Run {
    fn random(rng: &mut Rng, files: &[Files], assumed: &[Assumed]) -> Self {
        let mut below = |len: usize| rng.below(len as u64) as usize;
        Self {
            files: files[below(files.len())],
            assumed: assumed[below(assumed.len())],
            threads: THREADS[below(THREADS.len())],
            dbcache_bytes: DBCACHES[below(DBCACHES.len())],
        }
    }
}

impl Source {
    pub fn regtest(chain: &apus_testchain::Chain) -> Self {
        let blocks = with_genesis(chain);
        let branch = |height, count, seed| {
            let whole = with_genesis(&chain.fork(height, count, seed));
            whole[height as usize + 1..].to_vec()
        };
        let height = chain.height();
        let middle = chain.height() - 40;
        let stale = [branch(height - 2, 1, 5), branch(middle, 3, 6)].concat();
        let next = branch(height, 3, 7);
        Self { network: Network::Regtest, blocks, stale, next }
    }

    pub fn real(network: Network, blocks: Vec<Vec<u8>>) -> Self {
        Self { network, blocks, stale: Vec::new(), next: Vec::new() }
    }

    pub fn tip(&self) -> Hash {
        hash_of(self.blocks.last().unwrap())
    }

    pub fn write(&self, place: &Place, files: Files) -> PathBuf {
        let mut blocks: Vec<&Vec<u8>> = self.blocks.iter().collect();
        match files {
            Files::InOrder => {}
            Files::Reversed => blocks.reverse(),
            Files::Shuffled => shuffle(&mut blocks, 1),
            Files::Twice => {
                blocks.extend(&self.blocks);
                shuffle(&mut blocks, 2);
            }
            Files::Stale => {
                for (number, stale) in self.stale.iter().enumerate() {
                    blocks.insert(37 * number + 5, stale);
                }
            }
            Files::Directory => {
                let source = Place::new(self.network);
                source.sync(&[self.write(&source, Files::Shuffled)]);
                let copy = place.root().join("source");
                apus_testchain::copy_dir(&source.network_dir().join("blocks"), &copy).unwrap();
                return copy;
            }
        }
        place.write("blocks", blocks)
    }

    pub fn assume(&self, options: &mut Options, assumed: Assumed) {
        options.network.minimum_chain_work = Hash::ZERO;
        match assumed {
            Assumed::Nothing => {}
            Assumed::Tip => options.assumevalid = AssumeValid::Block(self.tip()),
            Assumed::Middle => {
                options.network.default_assume_valid = hash_of(&self.blocks[180]);
                options.assumevalid = AssumeValid::BuiltIn;
            }
        }
    }

    pub fn in_order(&self, files: Files, assumed: Assumed) -> Outcome {
        let place = Place::new(self.network);
        let mut options = place.in_order();
        self.assume(&mut options, assumed);
        let outcome = Outcome::of_sync(&place, &options, &[self.write(&place, files)]);
        assert_eq!(outcome.summary.best_block, self.tip());
        outcome
    }

    pub fn join(&self, run: Run) -> (Place, Outcome) {
        let place = Place::new(self.network);
        let Run { files, assumed, threads, dbcache_bytes } = run;
        let mut options = Options { threads, dbcache_bytes, ..place.join() };
        self.assume(&mut options, assumed);
        let outcome = Outcome::of_sync(&place, &options, &[self.write(&place, files)]);
        (place, outcome)
    }

    /// Compares each run with a sync in order.
    pub fn check(&self, runs: &[Run]) {
        let mut expected = BTreeMap::new();
        for run in runs {
            let files = if run.files == Files::Stale { Files::Stale } else { Files::InOrder };
            let due = expected
                .entry((files, run.assumed))
                .or_insert_with(|| self.in_order(files, run.assumed));
            let (place, outcome) = self.join(*run);
            outcome.assert_same(due, &format!("{run:?}"));
            assert!(!place.join().spill_path().exists(), "{run:?}: nothing is left behind");
        }
    }

    /// Runs with each number of workers, each memory and each kind of files at least once, and
    /// `count` times `APUS_TEST_ROUNDS` at random.
    pub fn check_all(&self, seed: u64, files: &[Files], assumed: &[Assumed], count: u64) {
        let mut rng = Rng::new(seed, 0);
        let mut runs: Vec<Run> =
            (0..rounds(count)).map(|_| Run::random(&mut rng, files, assumed)).collect();
        for number in 0..files.len().max(4) {
            let files = files[number % files.len()];
            let assumed = assumed[number % assumed.len()];
            let threads = THREADS[number % 4];
            let dbcache_bytes = DBCACHES[number / 2 % 4];
            runs.push(Run { files, assumed, threads, dbcache_bytes });
        }
        self.check(&runs);
    }
}

fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut rng = Rng::new(seed, 0);
    for i in (1..items.len()).rev() {
        items.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

/// Small blocks of every kind of script.
pub static VARIED: LazyLock<Source> =
    LazyLock::new(|| Source::regtest(&small_chain(205, 120, 6_000)));
