//! `apus snapshot …`: makes, describes and proves UTXO snapshots.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::directory::Directory;
use super::exit;
use super::failure::Failure;
use super::home::expand_home;
use super::interrupt::{Interrupted, stop_on_signal};
use super::numbers::{precise, thousands};
use super::reporting::Reporting;
use crate::sync::{self, SnapshotInfo, SnapshotSummary};

#[derive(Subcommand)]
pub enum SnapshotCommand {
    Create(Create),
    Info(Info),
}

/// Write the UTXO set of a synced directory to a file, as Bitcoin Core's dumptxoutset does.
///
/// The file is the same as Core's, byte for byte, at the tip and at every height below it: there,
/// the coins that later blocks have spent come from their undo data, and nothing is rewound. Core
/// loads it with loadtxoutset if its chain parameters list the height.
///
/// The directory, made by Bitcoin Core or by `apus sync`, is read and not changed; bitcoind must
/// not be running on it.
#[derive(Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub struct Create {
    #[command(flatten)]
    directory: Directory,
    /// The height whose UTXO set is written [default: the directory's tip].
    #[arg(long, value_name = "N")]
    height: Option<u32>,
    /// The file to write, which must not exist. Until it is whole its name ends in .incomplete.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// MiB of memory for coins that undo data has, at least 16; what does not fit goes to a
    /// temporary file [default: 450].
    #[arg(long, value_name = "MIB")]
    dbcache: Option<usize>,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

const CREATE_EXAMPLES: &str = "\
Examples:
  apus snapshot create -o utxo.dat                     at the tip of Bitcoin Core's own directory
  apus snapshot create --height 935000 -o utxo.dat     at a height that Core 31 loads";

/// Show what a snapshot file holds: base block, coins, and the hash that Core knows for some
/// heights.
#[derive(Args)]
pub struct Info {
    /// The snapshot file.
    file: PathBuf,
    /// Number of threads [default: one for each core].
    #[arg(long, value_name = "N")]
    par: Option<usize>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs one of the commands.
pub fn run(command: &SnapshotCommand, quiet: bool) -> Result<ExitCode, Failure> {
    match command {
        SnapshotCommand::Create(create) => run_create(create, quiet),
        SnapshotCommand::Info(info) => run_info(info, quiet),
    }
}

fn run_create(create: &Create, quiet: bool) -> Result<ExitCode, Failure> {
    let path = new_file(&create.output)?;
    let mut chosen = create.directory.to_options().map_err(Failure::usage)?;
    chosen.take_cache(create.dbcache).map_err(Failure::usage)?;
    let reporting = Reporting { quiet, json: create.json };
    chosen.announce(&[], reporting);
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let result = sync::create_snapshot(&chosen.options, create.height, &path, &reporter, &stop);
    reporter.finish();
    let summary = result?;
    reporting.report(|| created_json(&summary, &path), || created_text(&summary, &path))?;
    Ok(exit::status(summary.interrupted))
}

/// The path of a file that is to be made.
///
/// # Errors
/// There is something already, or it is standard output.
fn new_file(path: &Path) -> Result<PathBuf, Failure> {
    if path == Path::new("-") {
        return Err(Failure::usage(
            "--output -: the file is renamed once it is whole, which standard output does not \
             allow: name a file",
        ));
    }
    let path = expand_home(path);
    match path.symlink_metadata() {
        Ok(_) => {
            Err(Failure::input(format!("{} exists already: name another file", path.display())))
        }
        Err(_) => Ok(path),
    }
}

#[derive(Serialize)]
struct CreatedJson {
    coins_written: u64,
    base_hash: String,
    base_height: u32,
    path: String,
    bytes: u64,
    seconds: f64,
    interrupted: bool,
}

/// The object of Core's `dumptxoutset`, as far as it is known without a pass over all coins, and
/// what Apus adds.
fn created_json(summary: &SnapshotSummary, path: &Path) -> String {
    let json = CreatedJson {
        coins_written: summary.coins,
        base_hash: summary.base.to_string(),
        base_height: summary.height,
        path: path.display().to_string(),
        bytes: summary.bytes,
        seconds: summary.elapsed.as_secs_f64(),
        interrupted: summary.interrupted,
    };
    serde_json::to_string(&json).expect("plain data")
}

fn created_text(summary: &SnapshotSummary, path: &Path) -> String {
    if summary.interrupted {
        return format!("Interrupted: {} was not written", path.display());
    }
    format!(
        "UTXO set of height {}, block {}\n{} coins, {} bytes in {}, made in {}",
        thousands(summary.height.into()),
        summary.base,
        thousands(summary.coins),
        thousands(summary.bytes),
        path.display(),
        precise(summary.elapsed),
    )
}

fn run_info(info: &Info, quiet: bool) -> Result<ExitCode, Failure> {
    let path = expand_home(&info.file);
    let reporter = Reporting { quiet, json: info.json }.reporter();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = info.par.filter(|threads| *threads > 0).unwrap_or(cores);
    let result = sync::snapshot_info(&path, threads, &reporter);
    reporter.finish();
    let found = result?;
    // --quiet does not suppress what was asked for.
    let reporting = Reporting { quiet: false, json: info.json };
    reporting.report(|| info_json(&found, &path), || info_text(&found))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct InfoJson {
    file: String,
    base_hash: String,
    base_height: Option<u32>,
    chain: Option<&'static str>,
    magic: String,
    coins: u64,
    transactions: u64,
    total_amount: serde_json::Number,
    hash_serialized_3: String,
    listed: Option<bool>,
    sorted: bool,
    bytes: u64,
}

fn info_json(info: &SnapshotInfo, path: &Path) -> String {
    let json = InfoJson {
        file: path.display().to_string(),
        base_hash: info.base.to_string(),
        base_height: info.listed.map(|listed| listed.height),
        chain: info.chain.map(|chain| chain.name()),
        magic: hex(&info.magic),
        coins: info.stats.coins,
        transactions: info.stats.transactions,
        total_amount: bitcoins(info.stats.total_amount).parse().expect("digits"),
        hash_serialized_3: info.stats.hash_serialized.to_string(),
        listed: info.is_as_listed(),
        sorted: info.is_sorted,
        bytes: info.bytes,
    };
    serde_json::to_string(&json).expect("plain data")
}

fn info_text(info: &SnapshotInfo) -> String {
    let height = match info.listed {
        Some(listed) => format!(" at height {}", thousands(listed.height.into())),
        None => String::new(),
    };
    let chain = match info.chain {
        Some(chain) => chain.name().to_string(),
        None => format!("unknown, with the magic bytes {}", hex(&info.magic)),
    };
    let listed = match info.is_as_listed() {
        Some(true) => "the one that Bitcoin Core's chain parameters list for this block",
        Some(false) => {
            "WRONG: Bitcoin Core's chain parameters list another hash for this block, and Core \
             refuses this file"
        }
        None => {
            "Bitcoin Core's chain parameters list none for this block, and Core loads no such file"
        }
    };
    let order = match info.is_sorted {
        true => "that of Bitcoin Core",
        false => "another one than Bitcoin Core's",
    };
    format!(
        "network            {chain}\n\
         base block         {}{height}\n\
         coins              {} of {} transactions\n\
         total amount       {} BTC\n\
         hash_serialized_3  {}\n\
         that hash          {listed}\n\
         order of coins     {order}\n\
         bytes              {}",
        info.base,
        thousands(info.stats.coins),
        thousands(info.stats.transactions),
        bitcoins(info.stats.total_amount),
        info.stats.hash_serialized,
        thousands(info.bytes),
    )
}

/// An amount in bitcoins with eight decimals, as Core prints it.
fn bitcoins(satoshi: u128) -> String {
    format!("{}.{:08}", satoshi / 100_000_000, satoshi % 100_000_000)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
