//! `apus rewind`.

use std::process::ExitCode;

use apus_progress::Watch;
use apus_tools as tools;
use clap::Args;

use super::directory::Directory;
use super::failure::Failure;
use super::log_args::LogArgs;
use super::reporting::Reporting;
use super::sync::run_and_report;

/// Take the UTXO set back to a lower height.
///
/// The blocks above that height are disconnected with their undo data, and stay stored: the next
/// `apus sync` connects them again, and so does bitcoind when it starts. If one of them is pruned,
/// or its undo data is missing, the command refuses and changes nothing.
#[derive(Args)]
pub struct RewindCommand {
    #[command(flatten)]
    directory: Directory,
    /// The height of the new tip.
    #[arg(long, value_name = "N")]
    height: u32,
    #[command(flatten)]
    log: LogArgs,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

/// Runs `apus rewind`.
pub fn run(command: &RewindCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let mut chosen = command.directory.to_existing()?;
    chosen.take_cache(None).map_err(Failure::usage)?;
    chosen.take_start_check(None, None).map_err(Failure::usage)?;
    command.log.begin(&mut chosen)?;
    let reporting = Reporting { quiet, json: command.json };
    chosen.announce(&[], reporting);
    let height = command.height;
    run_and_report(&chosen.options, reporting, None, |reporter, stop| {
        tools::rewind(&chosen.options, height, Watch::new(reporter, stop))
    })
}
