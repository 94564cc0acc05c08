//! Commands, options, progress, exit codes. Knows what `sync` offers and nothing of its insides.

mod demo;
mod hints;
mod options;
mod progress;
mod report;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;

use crate::sync::{self, Summary, SyncError};
use options::{Cli, Command, Engine, TxOutSet};
use progress::Reporter;

pub use progress::thousands;

/// Exit status when the work is done but some of the input was refused.
const EXIT_REFUSED: u8 = 3;
/// Exit status after an interruption, as shells have it for SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let cli = Cli::parse_from(options::core_spelling(std::env::args_os()));
    options::start_log(cli.debug);
    match run(cli.command) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("Error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode, String> {
    match command {
        Command::Sync { from, engine } => {
            let from: Vec<_> = from.iter().map(|path| options::expand_home(path)).collect();
            with_engine(&engine, |options, reporter, stop| {
                sync::sync(options, &from, reporter, stop)
            })
        }
        Command::Reindex { index, engine } => {
            with_engine(&engine, |options, reporter, stop| match index {
                true => sync::reindex_files(options, reporter, stop),
                false => sync::reindex(options, reporter, stop),
            })
        }
        Command::Txoutset { command: TxOutSet::Info(info) } => txoutset_info(&info),
        Command::Hints { command } => hints::run(command),
        Command::Demo { keep } => demo::run(keep, &stop_on_signal()),
    }
}

fn with_engine(
    engine: &Engine,
    work: impl FnOnce(&sync::Options, &Reporter, &AtomicBool) -> Result<Summary, SyncError>,
) -> Result<ExitCode, String> {
    let options = engine.to_options()?;
    let reporter = Reporter::new(engine.json);
    let stop = stop_on_signal();
    let result = work(&options, &reporter, &stop);
    reporter.finish();
    let summary = result.map_err(|error| error.to_string())?;
    if engine.json {
        println!("{}", report::summary_json(&summary));
    } else {
        print!("{}", report::summary_text(&summary));
    }
    report::print_refusals(&summary);
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

fn txoutset_info(info: &options::Info) -> Result<ExitCode, String> {
    let options = info.directory.to_options()?;
    let reporter = Reporter::new(true);
    // Nothing is saved here, so that an interrupt may end the process as usual.
    let stop = AtomicBool::new(false);
    let stats = sync::txoutset_info(&options, info.hash.into(), &reporter, &stop);
    reporter.finish();
    println!("{}", stats.map_err(|error| error.to_string())?.to_json());
    Ok(ExitCode::SUCCESS)
}

/// A flag that the first SIGINT or SIGTERM raises; the second one ends the process at once.
fn stop_on_signal() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let handler = move || {
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
        eprintln!("\nInterrupted: saving what is done (once more ends at once, losing only that).");
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::warn!("cannot handle interrupts: {error}");
    }
    stop
}
