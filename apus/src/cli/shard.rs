//! `apus shard …`: a join as tasks for many machines.

use std::path::PathBuf;
use std::process::ExitCode;

use apus_disk::Disk;
use apus_node::Options;
use apus_progress::Watch;
use apus_progress::words::shell_word;
use apus_shard as shard;
use apus_shard::{
    BlocksAt, Counts, Cuts, Destination, Finished, How, Job, Planned, Ran, Results, Stage,
};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::connect_args::{Scripts, take_assumevalid, take_minimumchainwork};
use super::directory::Directory;
use super::exit;
#[cfg(not(feature = "export"))]
use super::export::{ExportCommand, left_out};
use super::failure::Failure;
use super::home::{expand_home, new_file};
use super::interrupt::{Interrupted, stop_on_signal};
use super::numbers::thousands;
use super::output;
use super::reporting::Reporting;
#[cfg(feature = "export")]
use super::shard_export::{self, ShardExport, ShardVerifyExport};

#[derive(Subcommand)]
pub enum ShardCommand {
    Plan(Box<Plan>),
    /// Read a span of heights: the first stage.
    Read(Read),
    /// Match a partition of txids: the second stage, when all spans are read.
    Match(Match),
    /// Check a bucket of blocks: the third stage, when all partitions are matched.
    Check(Check),
    Finish(Finish),
    Run(Run),
    Todo(Todo),
    #[cfg(feature = "export")]
    Export(Box<ShardExport>),
    #[cfg(feature = "export")]
    VerifyExport(Box<ShardVerifyExport>),
    /// Write a table as one Parquet file for each range of heights (not in this build).
    #[cfg(not(feature = "export"))]
    Export(ExportCommand),
    /// Prove that files of `apus shard export` hold what the blocks yield (not in this build).
    #[cfg(not(feature = "export"))]
    VerifyExport(ExportCommand),
}

/// Plan a job: find the blocks, cut the work, and print how many tasks each stage has.
///
/// The job's directory, on a disk that all machines share, then holds all that tasks need besides
/// the blocks themselves. Tasks of a stage are numbered from 0 and run in any order, anywhere.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Plan {
    #[command(flatten)]
    directory: Directory,
    #[command(flatten)]
    job: JobAt,
    /// Read blocks from this file, or from this Bitcoin Core data or blocks directory, which is not
    /// changed. May be given many times [default: the blocks of the data directory].
    #[arg(long, value_name = "PATH", num_args = 1..)]
    from: Vec<PathBuf>,
    /// The directory in which the tasks find the same block files, if their machines have it
    /// elsewhere.
    #[arg(long, value_name = "URL")]
    blocks: Option<String>,
    /// The number of spans of heights to read [default: one for each 768 MiB of blocks; of a short
    /// chain 64, or one for each 64 MiB].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    spans: Option<u32>,
    /// The number of partitions of txids to match [default: as many as spans].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    partitions: Option<u32>,
    /// The number of buckets of blocks to check [default: one for each 512 MiB of blocks; of a
    /// short chain 64, or one for each 64 MiB].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    buckets: Option<u32>,
    /// Plan the blocks up to this height [default: all].
    #[arg(long, value_name = "N")]
    stopatheight: Option<u32>,
    /// Take the scripts of this block and its ancestors as valid; 0: check every script [default:
    /// the block built into Bitcoin Core v31].
    #[arg(long, value_name = "HASH")]
    assumevalid: Option<String>,
    /// The least work that the best chain of headers must have before anything is assumed valid, in
    /// hex [default: the value built into Bitcoin Core v31].
    #[arg(long, value_name = "HEX", hide_short_help = true)]
    minimumchainwork: Option<String>,
    /// The engine that checks the scripts that are not assumed valid.
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t = Scripts::of_default())]
    script_engine: Scripts,
    /// MiB of memory for the records of each task, at least 16; a task takes about twice as much
    /// [default: a quarter of the free memory, from 16 to 450].
    #[arg(long, value_name = "MIB")]
    dbcache: Option<usize>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  apus shard plan --datadir /blocks --job /shared/job --assumevalid 0
  apus shard read --job /shared/job --span 17          on any machine, in any order
  apus shard match --job /shared/job --partition 203   when all spans are read
  apus shard check --job /shared/job --bucket 88       when all partitions are matched
  apus shard finish --job /shared/job --datadir new    a data directory for bitcoind";

/// The place of a job.
#[derive(Args)]
pub struct JobAt {
    /// The directory of the job, which all machines see.
    #[arg(long, value_name = "URL")]
    job: String,
}

impl JobAt {
    fn open(&self) -> Result<Job, Failure> {
        Ok(Job::open(&self.job, &Disk::new())?)
    }
}

/// How a task runs.
#[derive(Args)]
pub struct TaskArgs {
    #[command(flatten)]
    job: JobAt,
    /// Run even if the result is there, and replace it.
    #[arg(long)]
    again: bool,
    /// Run again, and compare what this run would write with the result, byte by byte. Nothing is
    /// written; an error names the object that differs.
    #[arg(long, conflicts_with = "again")]
    compare: bool,
}

impl TaskArgs {
    fn how(&self) -> How {
        match (self.again, self.compare) {
            (true, _) => How::Again,
            (false, true) => How::Compare,
            (false, false) => How::Once,
        }
    }
}

#[derive(Args)]
pub struct Read {
    #[command(flatten)]
    task: TaskArgs,
    /// The number of the span, from 0.
    #[arg(long, value_name = "N")]
    span: usize,
}

#[derive(Args)]
pub struct Match {
    #[command(flatten)]
    task: TaskArgs,
    /// The number of the partition, from 0.
    #[arg(long, value_name = "N")]
    partition: usize,
}

#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    task: TaskArgs,
    /// The number of the bucket, from 0.
    #[arg(long, value_name = "N")]
    bucket: usize,
}

/// Put the results of all tasks together: a data directory, a snapshot, or the verdict alone.
///
/// Nothing is written before the numbers of outputs and inputs of all tasks fit each other.
#[derive(Args)]
pub struct Finish {
    #[command(flatten)]
    job: JobAt,
    /// Make a Bitcoin Core data directory here. Blocks that it does not hold are copied there; it
    /// must not hold coins.
    #[arg(long, value_name = "DIR")]
    datadir: Option<PathBuf>,
    /// Write the UTXO set to this file, as Bitcoin Core's dumptxoutset does.
    #[arg(long, value_name = "FILE", conflicts_with = "datadir")]
    snapshot: Option<PathBuf>,
    /// Number of threads [default: one for each core].
    #[arg(long, value_name = "N")]
    par: Option<usize>,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

/// Run all tasks that have no result yet, on this machine.
#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    job: JobAt,
    /// Number of tasks at a time [default: one for each core].
    #[arg(long, value_name = "N")]
    par: Option<usize>,
}

/// Print the stage that comes next, and the numbers of its tasks that have no result yet.
#[derive(Args)]
pub struct Todo {
    #[command(flatten)]
    job: JobAt,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CountsJson {
    spans: usize,
    partitions: usize,
    buckets: usize,
}

#[derive(Serialize)]
struct TodoJson {
    stage: &'static str,
    numbers: Vec<usize>,
    end_height: u32,
    dbcache: usize,
}

#[derive(Serialize)]
struct FinishedJson {
    height: u32,
    bestblock: String,
    txouts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_amount_satoshi: Option<u64>,
    blocks: u64,
    transactions: u64,
    inputs: u64,
    scripts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<RefusedJson>,
}

#[derive(Serialize)]
struct RefusedJson {
    block: Option<String>,
    reason: String,
}

/// Runs a command of `apus shard`.
pub fn run(command: ShardCommand, quiet: bool) -> Result<ExitCode, Failure> {
    match command {
        ShardCommand::Plan(command) => plan(&command, quiet),
        ShardCommand::Read(Read { task, span }) => run_task(&task, Stage::Read, span, quiet),
        ShardCommand::Match(Match { task, partition }) => {
            run_task(&task, Stage::Match, partition, quiet)
        }
        ShardCommand::Check(Check { task, bucket }) => run_task(&task, Stage::Check, bucket, quiet),
        ShardCommand::Finish(command) => finish(&command, quiet),
        ShardCommand::Run(command) => run_all(&command, quiet),
        ShardCommand::Todo(command) => todo(&command),
        #[cfg(feature = "export")]
        ShardCommand::Export(command) => shard_export::export(&command, quiet),
        #[cfg(feature = "export")]
        ShardCommand::VerifyExport(command) => shard_export::verify(&command, quiet),
        #[cfg(not(feature = "export"))]
        ShardCommand::Export(_) => left_out("apus shard export"),
        #[cfg(not(feature = "export"))]
        ShardCommand::VerifyExport(_) => left_out("apus shard verify-export"),
    }
}

fn plan(command: &Plan, quiet: bool) -> Result<ExitCode, Failure> {
    let mut chosen = command.directory.with_cache(command.dbcache)?;
    take_assumevalid(&mut chosen, command.assumevalid.as_deref()).map_err(Failure::usage)?;
    let work = command.minimumchainwork.as_deref();
    take_minimumchainwork(&mut chosen, work).map_err(Failure::usage)?;
    let mut options = chosen.options;
    options.stop_at_height = command.stopatheight.filter(|height| *height > 0);
    options.scripts.engine = command.script_engine.into();
    let mut sources: Vec<PathBuf> = command.from.iter().map(|path| expand_home(path)).collect();
    if sources.is_empty() {
        let blocks = options.blocks_dir.clone().map(|dir| dir.join("blocks"));
        sources.push(blocks.unwrap_or_else(|| options.network_dir().join("blocks")));
    }
    let number = |number: Option<u32>| number.map(|number| number as usize);
    let cuts = Cuts {
        spans: number(command.spans),
        partitions: number(command.partitions),
        buckets: number(command.buckets),
    };
    let blocks = BlocksAt { sources: &sources, url: command.blocks.as_deref() };
    let reporting = Reporting { quiet, json: command.json };
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let planned =
        shard::plan(&options, &blocks, &command.job.job, cuts, Watch::new(&reporter, &stop));
    reporter.finish();
    let Planned { counts: Counts { spans, partitions, buckets }, refusals } = planned?;
    for refusal in &refusals {
        output::note(format_args!("not planned: {refusal}"));
    }
    let json = || to_json(&CountsJson { spans, partitions, buckets });
    let text = || {
        let count = |number, one: &str| match number {
            1 => format!("1 {one}"),
            number => format!("{} {one}s", thousands(number as u64)),
        };
        format!(
            "{} to read, {} to match, {} to check; those of a stage are numbered from 0",
            count(spans, "span"),
            count(partitions, "partition"),
            count(buckets, "bucket")
        )
    };
    reporting.report(json, text)?;
    Ok(ExitCode::SUCCESS)
}

fn run_task(
    task: &TaskArgs,
    stage: Stage,
    number: usize,
    quiet: bool,
) -> Result<ExitCode, Failure> {
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let job = task.job.open()?;
    let ran = shard::run(job, stage, number, task.how(), &stop)?;
    let what = match ran {
        Ran::Done => "done",
        Ran::Before => "done before",
        Ran::Same => "the same in another run",
        Ran::Outdated => {
            "done before, and to be done again: `apus shard todo` says what comes first"
        }
        Ran::Needless => "not needed: the job ends below its blocks",
    };
    let reporting = Reporting { quiet, json: false };
    reporting.say(format_args!("{} {number}: {what}", stage.name()))?;
    Ok(ExitCode::SUCCESS)
}

fn run_all(command: &Run, quiet: bool) -> Result<ExitCode, Failure> {
    let reporter = Reporting { quiet, json: false }.reporter();
    let stop = stop_on_signal(Interrupted::Saves);
    let job = command.job.open()?;
    let ran = shard::run_all(&job, threads(command.par), Watch::new(&reporter, &stop));
    reporter.finish();
    ran?;
    let reporting = Reporting { quiet, json: false };
    let url = shell_word(&command.job.job);
    reporting.say(format_args!("All tasks are done; next: apus shard finish --job {url}"))?;
    Ok(ExitCode::SUCCESS)
}

fn todo(command: &Todo) -> Result<ExitCode, Failure> {
    let job = command.job.open()?;
    let Results { stage, missing, end, .. } = Results::find(&job)?;
    if command.json {
        let stage = stage.name();
        let end_height = end - 1;
        let dbcache = job.manifest.memory.bytes >> 20;
        output::line(to_json(&TodoJson { stage, numbers: missing, end_height, dbcache }))?;
    } else {
        let numbers: Vec<String> = missing.iter().map(usize::to_string).collect();
        output::line(format_args!("{} {}", stage.name(), numbers.join(" ")))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn finish(command: &Finish, quiet: bool) -> Result<ExitCode, Failure> {
    let job = command.job.open()?;
    let results = Results::find(&job)?;
    let network = job.manifest.network.clone();
    let datadir = command.datadir.as_deref().map(expand_home);
    let options = datadir
        .map(|datadir| Options { threads: threads(command.par), ..Options::new(datadir, network) });
    let snapshot = command.snapshot.as_deref();
    let snapshot = snapshot.map(|path| new_file(path, None)).transpose()?;
    let destination = match (&options, &snapshot) {
        (Some(options), _) => Destination::DataDir(options),
        (None, Some(path)) => Destination::Snapshot(path),
        (None, None) => Destination::Verdict,
    };
    let reporting = Reporting { quiet, json: command.json };
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let finished = shard::finish(&job, results, &destination, Watch::new(&reporter, &stop));
    reporter.finish();
    let finished = finished?;
    reporting.report(|| finished_json(&finished), || finished_text(&finished))?;
    Ok(match finished.refusal {
        Some(_) => ExitCode::from(exit::REFUSED),
        None => ExitCode::SUCCESS,
    })
}

fn threads(given: Option<usize>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    given.filter(|threads| *threads > 0).unwrap_or_else(cores)
}

fn finished_json(finished: &Finished) -> String {
    let counts = &finished.counts;
    to_json(&FinishedJson {
        height: finished.height,
        bestblock: finished.best_block.to_string(),
        txouts: finished.coins,
        total_amount_satoshi: finished.amount,
        blocks: counts.blocks,
        transactions: counts.transactions,
        inputs: counts.inputs,
        scripts: counts.scripts,
        refused: finished.refusal.as_ref().map(|refusal| RefusedJson {
            block: refusal.block.map(|hash| hash.to_string()),
            reason: refusal.reason.clone(),
        }),
    })
}

fn finished_text(finished: &Finished) -> String {
    let counts = &finished.counts;
    let refused = match &finished.refusal {
        Some(refusal) => format!("\nRefused: {refusal}"),
        None => String::new(),
    };
    format!(
        "The blocks up to height {}, block {}, are valid and leave {} coins: {} transactions, {} \
         inputs, {} scripts checked{refused}",
        thousands(finished.height.into()),
        finished.best_block,
        thousands(finished.coins),
        thousands(counts.transactions),
        thousands(counts.inputs),
        thousands(counts.scripts),
    )
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data")
}
