//! A join as tasks, run in random order, killed at any write, and twice at the same time.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use apus_disk::{Call, Disk};
use apus_node::{Options, SyncError};
use apus_progress::{Refusal, Watch};
use apus_shard as shard;
use apus_shard::{BlocksAt, Cuts, Destination, Finished, How, Job, Ran, Results, Stage};
use apus_testchain::Rng;

use super::Place;

/// How a job is cut, and the seed of what happens to its tasks.
#[derive(Clone, Copy, Debug)]
pub struct Sharding {
    pub spans: usize,
    pub partitions: usize,
    pub buckets: usize,
    pub seed: u64,
}

impl Sharding {
    /// The same number of tasks in each stage.
    pub fn of(count: usize, seed: u64) -> Self {
        Self { spans: count, partitions: count, buckets: count, seed }
    }
}

/// A disk on which everything fails from the call with this number on, as after a kill: what is
/// under way is left as it is.
fn killed_at(call: u64) -> Disk {
    let count = AtomicU64::new(0);
    Disk::new().with_hook(Arc::new(move |kind, _: &std::path::Path| {
        let is_change = matches!(kind, Call::Write | Call::Sync | Call::Rename | Call::Remove);
        let number = if is_change { count.fetch_add(1, Relaxed) } else { count.load(Relaxed) };
        if is_change && number >= call {
            Err(io::Error::other("the process was killed"))
        } else {
            Ok(())
        }
    }))
}

/// A job of a test.
pub struct Sharded {
    pub url: String,
    pub options: Options,
}

impl Sharded {
    /// Plans a job in `place` with these options for blocks in `sources`.
    pub fn plan(place: &Place, options: &Options, sources: &[PathBuf], cut: Sharding) -> Self {
        let url = place.root().join("job").to_str().unwrap().to_string();
        let Sharding { spans, partitions, buckets, .. } = cut;
        let [spans, partitions, buckets] = [spans, partitions, buckets].map(Some);
        let cuts = Cuts { spans, partitions, buckets };
        let blocks = BlocksAt { sources, url: None };
        shard::plan(options, &blocks, &url, cuts, Watch::default()).unwrap();
        Self { url, options: options.clone() }
    }

    pub fn open(&self, disk: &Disk) -> Job {
        Job::find(&self.url, disk, Some(&self.options.network)).unwrap().unwrap()
    }

    pub fn run(&self, disk: &Disk, stage: Stage, number: usize) -> Result<Ran, SyncError> {
        shard::run(self.open(disk), stage, number, How::Once, &AtomicBool::new(false))
    }

    /// Runs all tasks, those of a stage in random order. Each is killed once, then run once, or
    /// twice at the same time.
    pub fn run_all(&self, seed: u64) {
        let mut rng = Rng::new(seed, 0);
        loop {
            let Results { stage, mut missing, .. } =
                Results::find(&self.open(&Disk::new())).unwrap();
            if stage == Stage::Finish {
                return;
            }
            while !missing.is_empty() {
                let number = missing.swap_remove(rng.below(missing.len() as u64) as usize);
                // A task makes ten such calls.
                let killed = self.run(&killed_at(rng.below(8)), stage, number);
                if rng.below(3) > 0 {
                    self.run(&Disk::new(), stage, number).unwrap();
                } else if killed.is_err() {
                    std::thread::scope(|scope| {
                        let twice = [(); 2].map(|()| {
                            scope.spawn(|| self.run(&Disk::new(), stage, number).unwrap())
                        });
                        for thread in twice {
                            thread.join().unwrap();
                        }
                    });
                }
            }
        }
    }

    pub fn finish(&self, destination: &Destination) -> Finished {
        let job = self.open(&Disk::new());
        let results = Results::find(&job).unwrap();
        shard::finish(&job, results, destination, Watch::default()).unwrap()
    }

    /// Runs all tasks, and makes the data directory. Returns the reason for which the block after
    /// the last one is refused.
    pub fn run_to_end(&self, seed: u64) -> Option<Refusal> {
        self.run_all(seed);
        self.finish(&Destination::DataDir(&self.options)).refusal
    }
}
