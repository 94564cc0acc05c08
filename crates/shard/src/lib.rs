//! A join as tasks, for many machines: each reads objects, and leaves one.
//!
//! This crate is responsible for a job's manifest, for the tasks and their results, and for putting
//! the results together. It does not know who runs a task, when, or where (any scheduler does:
//! `apus shard`, Ray, Slurm), nor how blocks are read, matched and checked (`apus_sync::join`).
//!
//! | stage | a task | its result, beside the note |
//! |---|---|---|
//! | `plan` | all blocks | the manifest: headers, places of blocks, cuts |
//! | `read` | a span of heights | outputs and spends by partition; notes on blocks by bucket |
//! | `matching` | a partition of txids | unspent coins, sorted; spent coins by bucket |
//! | `check` | a bucket of blocks | undo data |
//! | `finish` | all results | a data directory, a snapshot, or the verdict |
//!
//! # Rules
//!
//! - A task is a function of the manifest and of results of the stage before. Its result is the
//!   same in every run, byte by byte: tasks have one thread, and what is random is in the manifest.
//! - A result is a pack (`objects`), which exists when it is complete. So a task may be killed
//!   at any moment, run twice, or run on two machines at once.
//! - What is left to do follows from the results that are there, and from nothing else
//!   ([`Results::find`]).
//! - If a result refuses a block, the job ends below it: names of results have the height that they
//!   end at, so those that looked at later blocks no longer count, and their tasks are run again.
//! - Where the fast engine and Core's engine disagree about a script, Core's verdict counts, the
//!   input is kept beside the results, and Core's engine alone checks from then on.
//! - Nothing is committed before the balance holds, as in a join on one machine.

mod ahead;
mod blocks;
mod building;
mod check;
mod finish;
mod finished;
mod errors;
mod job;
mod matching;
mod objects;
mod plan;
mod read;
mod results;
mod stage;
mod task;

pub use finish::{Destination, finish};
pub use finished::Finished;
pub use job::{Counts, Job};
pub use plan::{BlocksAt, Cuts, Planned, plan};
pub use results::Results;
pub use stage::Stage;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use apus_host::threads;
use apus_host::threads::Crew;
use apus_node::error::SyncError;
use apus_progress::{Phase, Progress, Watch};

/// How to treat a task whose result is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Nothing.
    Once,
    /// Run it, and replace its result.
    Again,
    /// Run it, and compare what it would write with its result, byte by byte.
    Compare,
}

/// The outcome of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// Its result is there now.
    Done,
    /// Its result was there before.
    Before,
    /// Its result is what another run has written.
    Same,
    /// Its result was there before, but since then the job ends below a block that it has looked
    /// at: after others, it is to be run again.
    Outdated,
    /// The job has ended below the blocks that it would look at.
    Needless,
}

/// Runs a task of a job.
///
/// # Errors
/// The results that it needs, or the one to compare with, are not there; a block or a result cannot
/// be read; its own result cannot be written, or differs; or `stop` was raised.
pub fn run(
    mut job: Job,
    stage: Stage,
    number: usize,
    how: How,
    stop: &AtomicBool,
) -> Result<Ran, SyncError> {
    let count = job.count(stage);
    if number >= count {
        return Err(SyncError::WrongOptions(format!(
            "{} {number}: the job has {count}, numbered from 0",
            stage.option()
        )));
    }
    let results = Arc::new(Results::find(&job)?);
    if !job.has_blocks(stage, number, results.end) {
        return Ok(Ran::Needless);
    }
    if results.stage < stage {
        // A second run of a task that has refused a block itself may come here.
        return if results::has_result(&job, stage, number)? {
            Ok(Ran::Outdated)
        } else {
            Err(errors::missing(&job, &results))
        };
    }
    let is_missing = stage == results.stage && results.missing.contains(&number);
    let ran = match (how, is_missing) {
        (How::Once, false) => return Ok(Ran::Before),
        (How::Compare, true) if results::has_result(&job, stage, number)? => {
            return Ok(Ran::Outdated);
        }
        (How::Compare, true) => return Err(errors::nothing_to_compare(stage, number)),
        (How::Compare, false) => {
            job.objects = Arc::new(job.objects.compared());
            Ran::Same
        }
        (How::Once, true) | (How::Again, _) => Ran::Done,
    };
    run_with(&job, &results, stage, number, stop).map(|()| ran)
}

/// Runs all tasks of a job that have no result, on as many threads as asked for.
pub fn run_all(job: &Job, threads: usize, watch: Watch) -> Result<(), SyncError> {
    loop {
        let results = Arc::new(Results::find(job)?);
        let stage = results.stage;
        let missing = &results.missing;
        let phase = match stage {
            Stage::Read => Phase::JoinReading,
            Stage::Match => Phase::JoinMatching,
            Stage::Check => Phase::JoinChecking,
            Stage::Finish => return Ok(()),
        };
        let next = AtomicUsize::new(0);
        let count = job.count(stage);
        let mut left = missing.len();
        let share = Progress { height: results.end - 1, ..Progress::of(phase) };
        let share = share.share_to(watch.observer);
        let work = |crew: &Crew<()>| -> Result<(), SyncError> {
            while let Some(number) = missing.get(next.fetch_add(1, Relaxed)) {
                run_with(job, &results, stage, *number, crew.halt())?;
                crew.report(());
            }
            Ok(())
        };
        let ran = threads::work_until_halt("shard", threads.max(1), work, |done| {
            left -= usize::from(done.is_some());
            share(1.0 - left as f64 / count as f64);
            watch.is_stopped()
        });
        let is_stopped = |error: &SyncError| matches!(error, SyncError::Stopped);
        let mut errors: Vec<SyncError> = ran.into_iter().filter_map(Result::err).collect();
        // A thread that was stopped because another failed says less.
        errors.sort_by_key(is_stopped);
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
    }
}

fn run_with(
    job: &Job,
    results: &Arc<Results>,
    stage: Stage,
    number: usize,
    stop: &AtomicBool,
) -> Result<(), SyncError> {
    let ran = match stage {
        Stage::Read => read::read_span(job, number, results.end, stop),
        Stage::Match => matching::match_partition(job, number, results, stop),
        Stage::Check | Stage::Finish => check::check_bucket(job, number, results, stop),
    };
    ran.map_err(|error| errors::with_again(job, error))
}
