//! `apus snapshot …`: makes, describes and loads UTXO snapshots.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use apus_claims::{SnapshotLoaded, SnapshotSummary};
use apus_hash::hex;
use apus_node::SnapshotInfo;
use apus_node::{Options, SyncError};
use apus_progress::Watch;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::conf::CommandLine;
use super::directory::Directory;
use super::exit;
use super::failure::Failure;
use super::home::{expand_home, new_file};
use super::interrupt::{Interrupted, stop_on_signal};
use super::log_args::LogArgs;
use super::numbers::{precise, thousands};
use super::peers::{PeerArgs, Sources};
use super::prove;
use super::prove::ProveCommand;
use super::reporting::Reporting;

#[derive(Subcommand)]
pub enum SnapshotCommand {
    Create(Box<Create>),
    Info(Info),
    /// Same as `apus prove`.
    #[command(hide = true)]
    Verify(Box<ProveCommand>),
    Load(Box<Load>),
}

/// Write the UTXO set of a synced directory to a file, as Bitcoin Core's dumptxoutset does.
///
/// The file is the same as Core's, byte for byte, at the tip and at every height below it. Below
/// the tip, coins that later blocks have spent come from undo data, and nothing is rewound. Core
/// loads the file with loadtxoutset if its chain parameters list the height.
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
    /// Take the outputs that this hints file names as unspent, for its height. Only the blocks of
    /// the directory are used, and no undo data is needed. `apus prove` proves the result.
    #[arg(long, value_name = "FILE", conflicts_with = "height")]
    hints: Option<PathBuf>,
    /// The file to write, which must not exist. Until it is complete, its name ends in .incomplete.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// MiB of memory for coins from undo data, at least 16; what does not fit goes to a temporary
    /// file [default: a quarter of the free memory, from 16 to 450].
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

/// Show what a snapshot file holds: base block, coins, and its hash, which Core lists for some
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

/// Load a snapshot that Bitcoin Core's chain parameters list, as Core's loadtxoutset does.
///
/// bitcoind then starts on the directory at the snapshot's height, fetches the blocks after it, and
/// validates those up to it in the background. Nothing is proved here: the snapshot is trusted if
/// its hash is the one that Core's chain parameters list for its block. `apus sync --from` a node
/// that has the blocks continues the validation, in far less time than bitcoind.
///
/// The headers up to the snapshot's block are needed: those that bitcoind has left in the
/// directory, those of the blocks given with --from, or, if some are missing, those of peers.
#[derive(Args)]
#[command(after_help = LOAD_EXAMPLES)]
pub struct Load {
    #[command(flatten)]
    given: CommandLine,
    /// The snapshot file.
    file: PathBuf,
    #[command(flatten)]
    directory: Directory,
    /// Read headers from this file of blocks, or from this Bitcoin Core data or blocks directory.
    /// May be given many times.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    from: Vec<PathBuf>,
    #[command(flatten)]
    peers: PeerArgs,
    /// MiB of memory for sorting coins that are not in Core's order, at least 16; what does not fit
    /// goes to a temporary file [default: a quarter of the free memory, from 16 to 450].
    #[arg(long, value_name = "MIB")]
    dbcache: Option<usize>,
    #[command(flatten)]
    log: LogArgs,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

const LOAD_EXAMPLES: &str = "\
Examples:
  apus snapshot load utxo.dat                         with headers from peers, if some are missing
  apus snapshot load utxo.dat --from /old/node --datadir new";

/// Runs one of the commands.
pub fn run(command: &SnapshotCommand, quiet: bool) -> Result<ExitCode, Failure> {
    match command {
        SnapshotCommand::Create(create) => run_create(create, quiet),
        SnapshotCommand::Info(info) => run_info(info, quiet),
        SnapshotCommand::Verify(command) => prove::run(command, quiet),
        SnapshotCommand::Load(load) => run_load(load, quiet),
    }
}

fn run_create(create: &Create, quiet: bool) -> Result<ExitCode, Failure> {
    let path = new_file(&create.output, None)?;
    let chosen = create.directory.with_cache(create.dbcache)?;
    let reporting = Reporting { quiet, json: create.json };
    chosen.announce(&[], reporting);
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let result = create.create(&chosen.options, &path, Watch::new(&reporter, &stop));
    reporter.finish();
    let summary = result?;
    reporting.report(|| created_json(&summary, &path), || created_text(&summary, &path))?;
    Ok(exit::status(summary.interrupted))
}

impl Create {
    /// Makes the file in the process of another program. Returns the object of `--json`.
    pub fn run_in_process(&self, watch: Watch) -> Result<String, SyncError> {
        let path = new_file(&self.output, None)?;
        let chosen = self.directory.with_cache(self.dbcache)?;
        chosen.warn(watch.observer);
        Ok(created_json(&self.create(&chosen.options, &path, watch)?, &path))
    }

    fn create(
        &self,
        options: &Options,
        path: &Path,
        watch: Watch,
    ) -> Result<SnapshotSummary, SyncError> {
        match self.hints.as_deref().map(expand_home) {
            None => apus_claims::create_snapshot(options, self.height, path, watch),
            Some(hints) => apus_claims::create_snapshot_of_hints(options, &hints, path, watch),
        }
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

/// Returns the object of Core's `dumptxoutset`, without what needs a pass over all coins, and with
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
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let result = apus_node::snapshot_info(&path, threads, Watch::new(&reporter, &stop));
    reporter.finish();
    let Some(found) = result? else { return Ok(exit::status(true)) };
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

fn run_load(load: &Load, quiet: bool) -> Result<ExitCode, Failure> {
    let path = expand_home(&load.file);
    let from: Vec<_> = load.from.iter().map(|path| expand_home(path)).collect();
    let mut chosen = load.directory.with_cache(load.dbcache)?;
    chosen.config.add_command_line(&load.given).map_err(Failure::usage)?;
    load.peers.choose(&mut chosen, Sources::of(&from, &from)).map_err(Failure::usage)?;
    if chosen.options.peers.as_ref().is_some_and(|peers| peers.follow) {
        return Err(Failure::usage(
            "--follow: loading a snapshot ends; bitcoind follows the chain",
        ));
    }
    load.log.begin(&mut chosen)?;
    let reporting = Reporting { quiet, json: load.json };
    chosen.announce(&from, reporting);
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let result =
        apus_claims::load_snapshot(&chosen.options, &path, &from, Watch::new(&reporter, &stop));
    reporter.finish();
    let loaded = result?;
    reporting.report(|| loaded_json(&loaded, &path), || loaded_text(&loaded, &path))?;
    Ok(exit::status(loaded.interrupted))
}

#[derive(Serialize)]
struct LoadedJson {
    coins_loaded: u64,
    tip_hash: String,
    base_height: u32,
    path: String,
    seconds: f64,
    interrupted: bool,
}

/// Returns the object of Core's `loadtxoutset`, with what Apus adds.
fn loaded_json(loaded: &SnapshotLoaded, path: &Path) -> String {
    let json = LoadedJson {
        coins_loaded: loaded.coins,
        tip_hash: loaded.base.to_string(),
        base_height: loaded.height,
        path: path.display().to_string(),
        seconds: loaded.elapsed.as_secs_f64(),
        interrupted: loaded.interrupted,
    };
    serde_json::to_string(&json).expect("plain data")
}

fn loaded_text(loaded: &SnapshotLoaded, path: &Path) -> String {
    if loaded.interrupted {
        return format!("Interrupted: {} was not loaded", path.display());
    }
    format!(
        "Loaded {} coins in {}: the UTXO set of height {}, block {}\n\
         Trusted, not proved: its hash is the one that Bitcoin Core's chain parameters list.\n\
         bitcoind starts at this height and validates the blocks up to it in the background; \
         `apus sync --from` a node that has them continues the validation",
        thousands(loaded.coins),
        precise(loaded.elapsed),
        thousands(loaded.height.into()),
        loaded.base,
    )
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
        total_amount: info.stats.total_amount_btc().parse().expect("digits"),
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
        Some(true) => "yes: Bitcoin Core's chain parameters list this hash for this block",
        Some(false) => {
            "WRONG: Bitcoin Core's chain parameters list another hash for this block, and Core \
             refuses this file"
        }
        None => {
            "no: Bitcoin Core's chain parameters list no hash for this block, and Core does not \
             load the file"
        }
    };
    let order = if info.is_sorted { "that of Bitcoin Core" } else { "not that of Bitcoin Core" };
    format!(
        "network            {chain}\n\
         base block         {}{height}\n\
         coins              {} of {} transactions\n\
         total amount       {} BTC\n\
         hash_serialized_3  {}\n\
         listed by Core     {listed}\n\
         order of coins     {order}\n\
         bytes              {}",
        info.base,
        thousands(info.stats.coins),
        thousands(info.stats.transactions),
        info.stats.total_amount_btc(),
        info.stats.hash_serialized,
        thousands(info.bytes),
    )
}
