//! Commands, options, progress, exit codes. Knows what `sync` offers and nothing of its insides.

mod chosen;
mod conf;
mod demo;
mod failure;
mod hints;
mod options;
mod output;
mod progress;
mod report;
mod status;
mod txoutset;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;

use crate::sync::{self, Summary, SyncError};
use failure::Failure;
use options::{Cli, Command, TxOutSet};
use output::Reporting;
use progress::Reporter;

pub use progress::thousands;

/// Exit status when the work is done but some of the input was refused.
const EXIT_REFUSED: u8 = 3;
/// Exit status after an interruption, as shells have it for SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

/// What the first interrupt of a command says that saves its work.
const SAVING: &str = "saving what is done (once more ends at once, losing only that)";
/// What the first interrupt of a command says that has nothing to save.
const STOPPING: &str = "stopping, and nothing is written (once more ends at once)";

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let args = options::core_spelling(std::env::args_os());
    let json = wants_json(&args);
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return end_of_parsing(&error, json),
    };
    options::start_log(cli.debug);
    let random_init_replaced = crate::rules::random_init_was_replaced();
    tracing::debug!(random_init_replaced, "started");
    run(cli).unwrap_or_else(|failure| failure.end(json))
}

/// Whether errors are to be printed as JSON, wrong options among them.
fn wants_json(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json")
}

/// After help, the version, or a wrong option.
fn end_of_parsing(error: &clap::Error, json: bool) -> ExitCode {
    match output::clap(error) {
        Err(failure) => failure.end(json),
        Ok(()) if error.use_stderr() => {
            Failure::usage(error.render().to_string().trim_end()).end_told(json)
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let quiet = cli.quiet;
    match cli.command {
        Command::Sync { from, engine } => {
            let from: Vec<_> = from.iter().map(|path| options::expand_home(path)).collect();
            let mut chosen = engine.to_options().map_err(Failure::usage)?;
            let from = chosen.take_sources(from);
            chosen.take_stop_height(engine.stopatheight).map_err(Failure::usage)?;
            let reporting = Reporting { quiet, json: engine.json };
            chosen.announce(&from, reporting);
            with_engine(reporting, |reporter, stop| {
                sync::sync(&chosen.options, &from, reporter, stop)
            })
        }
        Command::Reindex { index, engine, allow_shrink } => {
            let mut chosen = engine.to_options().map_err(Failure::usage)?;
            chosen.options.allow_shrink = allow_shrink;
            let reporting = Reporting { quiet, json: engine.json };
            chosen.announce(&[], reporting);
            with_engine(reporting, |reporter, stop| match index {
                true => sync::reindex_files(&chosen.options, reporter, stop),
                false => sync::reindex(&chosen.options, reporter, stop),
            })
        }
        Command::Status(command) => status::run(&command, quiet),
        Command::Txoutset { command: TxOutSet::Info(info) } => txoutset_info(&info, quiet),
        Command::Hints { command } => hints::run(command, quiet),
        Command::Demo { keep } => demo::run(keep, quiet, &stop_on_signal(STOPPING)),
    }
}

fn with_engine(
    reporting: Reporting,
    work: impl FnOnce(&Reporter, &AtomicBool) -> Result<Summary, SyncError>,
) -> Result<ExitCode, Failure> {
    let reporter = reporting.reporter();
    let stop = stop_on_signal(SAVING);
    let result = work(&reporter, &stop);
    reporter.finish();
    let (summary, memory) = (result?, reporter.most_memory());
    let reported = reporting.report(
        || report::summary_json(&summary, memory),
        || report::summary_text(&summary, memory),
    );
    report::print_refusals(&summary);
    reported.map_err(|failure| failure.and("The work itself was done, and was saved"))?;
    Ok(exit_code(&summary))
}

fn exit_code(summary: &Summary) -> ExitCode {
    if summary.interrupted {
        ExitCode::from(EXIT_INTERRUPTED)
    } else if !summary.refusals.is_empty() {
        ExitCode::from(EXIT_REFUSED)
    } else {
        ExitCode::SUCCESS
    }
}

fn txoutset_info(info: &options::Info, quiet: bool) -> Result<ExitCode, Failure> {
    let chosen = info.directory.to_options().map_err(Failure::usage)?;
    let reporting = Reporting { quiet, json: info.json };
    chosen.announce(&[], reporting);
    let reporter = reporting.reporter();
    // Nothing is saved here, so that an interrupt may end the process as usual.
    let stop = AtomicBool::new(false);
    let stats = sync::txoutset_info(&chosen.options, info.hash.into(), &reporter, &stop);
    reporter.finish();
    let stats = stats?;
    output::line(txoutset::json(&stats))?;
    reporter.took(format_args!("{} coins read", thousands(stats.txouts)));
    Ok(ExitCode::SUCCESS)
}

/// A flag that the first SIGINT, SIGTERM or SIGHUP raises, saying `what` happens now; the second
/// one ends the process at once.
fn stop_on_signal(what: &'static str) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let handler = move || {
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
        // Below what the terminal shows of the keys pressed, and the line of progress.
        let below = if std::io::stderr().is_terminal() { "\n" } else { "" };
        output::note(format_args!("{below}Interrupted: {what}."));
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::warn!("cannot handle interrupts: {error}");
    }
    stop
}
