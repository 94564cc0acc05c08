//! `apus prove`: proves what a hints file or a snapshot claims, by the blocks.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use apus_host::MemoryInUse;
use apus_node::{AssumeValid, Options, SyncError};
use apus_progress::Watch;
use apus_sync::Summary;
use clap::Args;

use super::directory::Directory;
use super::exit;
use super::failure::Failure;
use super::home::expand_home;
use super::interrupt::{Interrupted, stop_on_signal};
use super::numbers::{precise, thousands};
use super::report_json::summary_json;
use super::reporting::Reporting;
use super::settings::Settings;

/// Prove that a hints file or a UTXO snapshot is right, by the blocks.
///
/// A hints file says which outputs are unspent at a height, a snapshot holds the coins themselves,
/// each with its height, amount, script and coinbase flag. The proof is that of a SwiftSync: the
/// blocks leave exactly these outputs unspent, none more and none less. It takes one pass over the
/// blocks in any order, on all cores, and keeps nothing on disk. If the file is wrong, the outputs
/// that differ are named.
///
/// Without --full the blocks are taken as valid, except for the rules that need no coins. With
/// --full every rule is checked, and an error names the first invalid block and Bitcoin Core's
/// reject reason.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ProveCommand {
    /// The hints file, in any format, or the snapshot.
    file: PathBuf,
    /// Read blocks from this file (bootstrap.dat, blk*.dat), or from this Bitcoin Core data or
    /// blocks directory, which is not changed. May be given many times [default: the blocks of the
    /// data directory].
    #[arg(long, value_name = "PATH", num_args = 1..)]
    from: Vec<PathBuf>,
    #[command(flatten)]
    directory: Directory,
    /// Check every script and rule, too. The spent coins come from the rev files next to the
    /// blocks; if some are missing, a join of the blocks finds them, with temporary files in TMPDIR
    /// that usually take 0.3 to 0.5 times as many bytes as the blocks.
    #[arg(long)]
    full: bool,
    /// Same as --full.
    #[arg(long, hide = true, value_parser = ["0"])]
    assumevalid: Option<String>,
    /// MiB of memory for a snapshot's coins, at least 16; they take about as much as the file. If a
    /// quarter of the free memory is more, that is used. What does not fit goes to temporary files
    /// [default: a quarter of the free memory].
    #[arg(long, value_name = "MIB")]
    dbcache: Option<usize>,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  apus prove mainnet.hints                     by the blocks of Bitcoin Core's own directory
  apus prove utxo.dat --from /old/node         by the block files of another node
  apus prove utxo.dat --from /old/node --full  and every script in these blocks is checked";

/// Runs `apus prove`.
pub fn run(command: &ProveCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let chosen = command.choose()?;
    let reporting = Reporting { quiet, json: command.json };
    if command.from.is_empty() {
        chosen.announce(&[], reporting);
    }
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let result = command.prove(&chosen.options, Watch::new(&reporter, &stop));
    reporter.finish();
    let summary = result?;
    let text = || proved_text(&summary, &expand_home(&command.file), command.is_full());
    reporting.report(|| summary_json(&summary, reporter.most_memory()), text)?;
    Ok(exit::status(summary.interrupted))
}

impl ProveCommand {
    /// Proves in the process of another program. Returns the object of `--json`.
    pub fn run_in_process(&self, watch: Watch) -> Result<String, SyncError> {
        let chosen = self.choose()?;
        if self.from.is_empty() {
            chosen.warn(watch.observer);
        }
        let summary = self.prove(&chosen.options, watch)?;
        Ok(summary_json(&summary, MemoryInUse::default()))
    }

    fn is_full(&self) -> bool {
        self.full || self.assumevalid.is_some()
    }

    fn choose(&self) -> Result<Settings, SyncError> {
        let mut chosen = self.directory.with_cache(self.dbcache)?;
        if self.is_full() {
            chosen.options.assumevalid = AssumeValid::Nothing;
        }
        Ok(chosen)
    }

    fn prove(&self, options: &Options, watch: Watch) -> Result<Summary, SyncError> {
        let from: Vec<PathBuf> = self.from.iter().map(|path| expand_home(path)).collect();
        apus_claims::prove(options, &expand_home(&self.file), &from, watch)
    }
}

fn proved_text(summary: &Summary, file: &Path, is_full: bool) -> String {
    if summary.interrupted {
        return format!("Interrupted: {} is neither proved nor refuted", file.display());
    }
    let blocks = if is_full {
        "Every rule and every script of these blocks was checked."
    } else {
        "The blocks were taken as valid, except for the rules that need no coins; --full \
         checks everything."
    };
    format!(
        "{} is what the blocks up to height {}, block {}, leave unspent: {} outputs, none more \
         and none less. Proved in {}\n{blocks}",
        file.display(),
        thousands(summary.height.into()),
        summary.best_block,
        thousands(summary.coins.unwrap_or_default()),
        precise(summary.elapsed)
    )
}
