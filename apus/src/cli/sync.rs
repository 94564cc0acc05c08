//! `apus sync` and `apus reindex`.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use apus_host::MemoryInUse;
use apus_node::directory::check_exists;
use apus_node::{Options, Run, SyncError};
use apus_progress::{Observer, Watch};
use apus_sync as sync;
use apus_sync::Summary;
use clap::Args;

use super::conf::CommandLine;
use super::connect_args::ConnectArgs;
use super::failure::Failure;
use super::home::expand_home;
use super::index_args::IndexArgs;
use super::interrupt::{Interrupted, stop_on_signal};
use super::next_step::next_step;
use super::peers::{PeerArgs, Sources};
use super::report_json::summary_json;
use super::reporting::Reporting;
use super::settings::Settings;
use super::table::stdout_columns;
use super::with_server::{CommandServer, with_server};
use super::{exit, log, output, report, then};

/// Check blocks from peers or from files, and connect them.
///
/// Continues from what the data directory holds. Without --from, blocks are downloaded from peers.
/// Files may hold blocks in any order and more than once; the best valid chain wins, as in Bitcoin
/// Core.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SyncCommand {
    #[command(flatten)]
    given: CommandLine,
    /// Read blocks from this file (bootstrap.dat, blk*.dat), or from this Bitcoin Core data or
    /// blocks directory, including a bootstrap.dat in it. May be given many times. With --connect,
    /// --addnode or --follow, blocks that are missing or damaged there are downloaded from peers.
    #[arg(long, alias = "loadblock", value_name = "PATH", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Delete old blocks, so that block and undo files take at most this many MiB, at least 550. 0:
    /// keep all blocks; 1: delete only with `apus prune` [default: 0].
    ///
    /// A file is deleted once all its blocks are at least 288 below the tip, but not before the tip
    /// is above height 100,000 on mainnet (1,000 on other networks), nor before every index of
    /// bitcoind has read its blocks. Blocks are then synced in order, or by SwiftSync, which does
    /// not store blocks that it would delete (with --assumevalid=0 it stores all, and deletes at
    /// the end). On a pruned directory, bitcoind needs -prune, and so does Apus.
    #[arg(long, value_name = "MIB", allow_negative_numbers = true)]
    pub prune: Option<i64>,
    /// Let --prune delete blocks of a directory that holds all of them, as that of a node which
    /// was never pruned does. Without it, a terminal asks.
    #[arg(long)]
    pub allow_delete_blocks: bool,
    /// First forget which blocks the directory calls invalid, and check them again (Core's
    /// reconsiderblock, for a directory at rest).
    ///
    /// For a directory whose marks were made by another program's rules (Bitcoin Knots), or by
    /// hand (bitcoind's invalidateblock). Entries of the block index that are not of Bitcoin's
    /// chain, such as those of a hard fork, are removed. A block that is invalid is refused again.
    #[arg(long, hide_short_help = true)]
    pub reconsider: bool,
    /// Small block files, for tests (Core's -fastprune).
    #[arg(long, hide = true)]
    pub fastprune: bool,
    /// Check this many blocks, from the tip down, against the UTXO set before connecting any block,
    /// as bitcoind does at startup; 0: all [default: 6].
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub checkblocks: Option<u32>,
    /// How thoroughly --checkblocks checks, from 0 to 4; `apus verify --help` describes the levels
    /// [default: 3].
    #[arg(long, value_name = "N", hide_short_help = true,
        value_parser = clap::value_parser!(u8).range(0..=4))]
    pub checklevel: Option<u8>,
    /// Run this command with /bin/sh once the sync is done and has left the data directory, in the
    /// place of this process: --then 'bitcoind -datadir=DIR'.
    ///
    /// It is not run after an error, an interrupt, or refused input. The exit status is that of the
    /// command.
    #[arg(long, value_name = "COMMAND")]
    pub then: Option<OsString>,
    #[command(flatten)]
    indexes: IndexArgs,
    #[command(flatten)]
    pub engine: ConnectArgs,
    #[command(flatten)]
    pub peers: PeerArgs,
}

const EXAMPLES: &str = "\
Examples:
  apus sync                                    from peers, into Bitcoin Core's own data directory
  apus sync --from bootstrap.dat               from a file
  apus sync --from /old/node --datadir new     from the block files of another node
  apus sync --prune=550                        keeping only the newest blocks
  apus sync --follow --listen                  to the tip, and then on as a node
  apus sync --datadir new --then 'bitcoind -datadir=new'";

/// Rebuild the UTXO set from the stored blocks (Core's -reindex-chainstate).
#[derive(Args)]
pub struct ReindexCommand {
    #[command(flatten)]
    given: CommandLine,
    /// First rebuild the block index from the block files, if it is damaged or lost (Core's
    /// -reindex). Needs all block files; undo data is written again.
    #[arg(long)]
    index: bool,
    /// Replace the UTXO set even if the rebuilt one ends at a lower height; --stopatheight allows
    /// that, too.
    #[arg(long)]
    allow_shrink: bool,
    #[command(flatten)]
    engine: ConnectArgs,
}

/// Runs `apus sync`.
pub fn run_sync(command: &SyncCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let engine = &command.engine;
    let (mut chosen, from) = command.choose()?;
    let follows = chosen.options.peers.as_ref().is_some_and(|peers| peers.follow);
    then::check(command.then.as_ref(), follows)?;
    let server = engine.server.choose(&mut chosen, false).map_err(Failure::usage)?;
    engine.log.begin(&mut chosen)?;
    let reporting = Reporting { quiet, json: engine.json };
    chosen.announce(&from, reporting);
    ask_before_first_pruning(&mut chosen.options, reporting)?;
    let beside = server.map(|config| {
        CommandServer::new(config, &chosen.options, false).hands_over(command.then.is_some())
    });
    let run = Run::new(&chosen.options).shown_in(beside.as_ref().map(CommandServer::view));
    let ended = run_and_report(&chosen.options, reporting, beside, |observer, stop| {
        sync::sync_on(&run, &from, Watch::new(observer, stop))
    })?;
    match &command.then {
        Some(next) => then::hand_over(next, ended, quiet || engine.json),
        // An interrupt is how a sync ends that follows the chain.
        None if follows && ended == exit::status(true) => Ok(ExitCode::SUCCESS),
        None => Ok(ended),
    }
}

/// Asks whether blocks may be deleted that --prune would delete from a directory which holds all of
/// them. Where nobody can answer, the sync itself refuses.
fn ask_before_first_pruning(options: &mut Options, reporting: Reporting) -> Result<(), Failure> {
    let can_answer = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !can_answer || reporting.quiet || reporting.json || options.reconsider {
        return Ok(());
    }
    if let Some(first) = sync::first_pruning(options)? {
        output::note(format_args!("{first}. Delete them? [y/N]"));
        let mut answer = String::new();
        // Without an answer, blocks are kept.
        let _ = std::io::stdin().read_line(&mut answer);
        options.allow_delete_blocks = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    }
    Ok(())
}

impl SyncCommand {
    /// Syncs in the process of another program. Returns the object of `--json`.
    pub fn run_in_process(&self, watch: Watch) -> Result<String, SyncError> {
        let (chosen, from) = self.choose()?;
        chosen.warn(watch.observer);
        let summary = sync::sync(&chosen.options, &from, watch)?;
        Ok(summary_json(&summary, MemoryInUse::default()))
    }

    /// Returns the options and the sources of blocks.
    ///
    /// # Errors
    /// An option or a setting is wrong, or contradicts another one; or the system refuses to read a
    /// file.
    pub fn choose(&self) -> Result<(Settings, Vec<PathBuf>), SyncError> {
        let mut chosen = self.engine.to_options()?;
        let from = self.complete(&mut chosen).map_err(SyncError::WrongOptions)?;
        Ok((chosen, from))
    }

    /// Sets the options that `apus reindex` does not have, and returns the sources of blocks.
    fn complete(&self, chosen: &mut Settings) -> Result<Vec<PathBuf>, String> {
        let Self { from, peers, prune, fastprune, checkblocks, checklevel, .. } = self;
        let engine = &self.engine;
        let given = from;
        chosen.config.add_command_line(&self.given)?;
        let from = chosen.take_sources(given.iter().map(|path| expand_home(path)).collect())?;
        chosen.take_stop_height(engine.stopatheight)?;
        chosen.take_prune(*prune)?;
        chosen.take_start_check(*checkblocks, *checklevel)?;
        chosen.options.fast_prune = *fastprune;
        chosen.options.allow_delete_blocks = self.allow_delete_blocks;
        chosen.options.reconsider = self.reconsider;
        chosen.options.check_method()?;
        IndexArgs::choose(chosen)?;
        peers.choose(chosen, Sources::of(given, &from))?;
        chosen.options.check_witness()?;
        Ok(from)
    }
}

/// Runs `apus reindex`.
pub fn run_reindex(command: &ReindexCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let mut chosen = command.choose()?;
    check_exists(&chosen.options)?;
    let server = command.engine.server.choose(&mut chosen, false).map_err(Failure::usage)?;
    command.engine.log.begin(&mut chosen)?;
    let reporting = Reporting { quiet, json: command.engine.json };
    chosen.announce(&[], reporting);
    let beside = server.map(|config| CommandServer::new(config, &chosen.options, false));
    let run = Run::new(&chosen.options).shown_in(beside.as_ref().map(CommandServer::view));
    run_and_report(&chosen.options, reporting, beside, |observer, stop| {
        command.reindex(&run, Watch::new(observer, stop))
    })
}

impl ReindexCommand {
    /// Rebuilds in the process of another program. Returns the object of `--json`.
    pub fn run_in_process(&self, watch: Watch) -> Result<String, SyncError> {
        let chosen = self.choose()?;
        chosen.warn(watch.observer);
        let options = &chosen.options;
        let summary = if self.index {
            sync::reindex_files(options, watch)?
        } else {
            sync::reindex(options, watch)?
        };
        Ok(summary_json(&summary, MemoryInUse::default()))
    }

    fn choose(&self) -> Result<Settings, SyncError> {
        let mut chosen = self.engine.to_options()?;
        chosen.config.add_command_line(&self.given).map_err(SyncError::WrongOptions)?;
        if chosen.options.swiftsync.hints_of_peers.is_some() {
            let what = "--hints=peer: `apus reindex` asks no peers; give a file";
            return Err(SyncError::WrongOptions(what.to_string()));
        }
        chosen.options.allow_shrink = self.allow_shrink;
        chosen.ignore_prune();
        Ok(chosen)
    }

    fn reindex(&self, run: &Run, watch: Watch) -> Result<Summary, SyncError> {
        if self.index { sync::reindex_files_on(run, watch) } else { sync::reindex_on(run, watch) }
    }
}

/// Runs `work` beside a server, if there is one, shows progress, handles interrupts, and reports at
/// the end.
pub fn run_and_report(
    options: &Options,
    reporting: Reporting,
    server: Option<CommandServer>,
    work: impl FnOnce(&dyn Observer, &AtomicBool) -> Result<Summary, SyncError>,
) -> Result<ExitCode, Failure> {
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::Saves);
    let result = with_server(server, &reporter, &stop, |observer| work(observer, &stop));
    reporter.finish();
    let summary = result?;
    let memory = reporter.most_memory();
    log::last_line(report::outcome(&summary));
    let next = || next_step(options, &summary);
    let text = || report::summary_text(&summary, stdout_columns(), &next());
    let reported = reporting.report(|| summary_json(&summary, memory), text);
    report::print_refusals(&summary);
    reported.map_err(|error| Failure::from(error).and("The work itself is done, and was saved"))?;
    Ok(exit_code(&summary))
}

fn exit_code(summary: &Summary) -> ExitCode {
    match summary.interrupted {
        false if !summary.refusals.is_empty() => ExitCode::from(exit::REFUSED),
        interrupted => exit::status(interrupted),
    }
}
