//! `apus prune`.

use std::process::ExitCode;

use apus_tools as tools;
use clap::Args;

use super::directory::Directory;
use super::failure::Failure;
use super::log_args::LogArgs;
use super::report::pruned_text;
use super::report_json::PrunedJson;
use super::reporting::Reporting;
use super::{log, output};

/// Delete old block files by hand (Core's pruneblockchain).
///
/// A file is deleted if all its blocks are at the given height or below, and none of them is among
/// the last 288 blocks. After that, bitcoind needs -prune on this directory, and `apus sync` needs
/// --prune. The UTXO set, its statistics and the block index are kept; a rebuild of the UTXO set
/// needs all blocks again.
#[derive(Args)]
pub struct PruneCommand {
    #[command(flatten)]
    directory: Directory,
    /// Delete the files whose blocks are all at this height or below; a number above 1,000,000,000
    /// is a time, in seconds since 1970.
    #[arg(long, value_name = "N")]
    height: u64,
    /// As for `apus sync`.
    #[arg(long, hide = true)]
    fastprune: bool,
    #[command(flatten)]
    log: LogArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `apus prune`.
pub fn run(command: &PruneCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let mut chosen = command.directory.to_existing()?;
    chosen.options.fast_prune = command.fastprune;
    chosen.take_cache(None).map_err(Failure::usage)?;
    chosen.take_start_check(None, None).map_err(Failure::usage)?;
    command.log.begin(&mut chosen)?;
    let reporting = Reporting { quiet, json: command.json };
    chosen.announce(&[], reporting);
    let pruned = tools::prune(&chosen.options, command.height)?;
    log::line(pruned_text(&pruned).trim_end());
    log::last_line("Done");
    output::line(if command.json {
        serde_json::to_string(&PrunedJson::of(&pruned)).expect("plain data")
    } else {
        pruned_text(&pruned).trim_end().to_string()
    })?;
    Ok(ExitCode::SUCCESS)
}
