//! Commands, options, progress, exit codes. Knows what `sync` offers and nothing of its insides.

mod exit;
mod numbers;
mod output;
mod failure;
mod interrupt;
mod progress;
mod reporting;
mod report;
mod conf;
mod home;
mod chosen;
mod directory;
mod engine;
mod peers;
mod prune;
mod sync;
mod rewind;
mod status;
mod txoutset;
mod hints;
mod demo;
mod arguments;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Cli, Command};
use failure::Failure;

pub use numbers::thousands;

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let args = arguments::core_spelling(std::env::args_os());
    let json = wants_json(&args);
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return end_of_parsing(&error, json),
    };
    start_log(cli.debug);
    let random_init_replaced = crate::rules::random_init_was_replaced();
    tracing::debug!(random_init_replaced, "started");
    run(cli).unwrap_or_else(|failure| failure.end(json))
}

/// Whether errors are to be printed as JSON, wrong options among them.
fn wants_json(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json")
}

/// Prints what clap has made of the arguments: help, the version, or a wrong option.
fn end_of_parsing(error: &clap::Error, json: bool) -> ExitCode {
    match output::clap(error) {
        Err(error) => Failure::from(error).end(json),
        Ok(()) if error.use_stderr() => {
            Failure::usage(error.render().to_string().trim_end()).end_printed(json)
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// The options that `apus sync` would work with, by these arguments and the files of settings that
/// they lead to; nothing is started or written. For the fuzz targets alone.
///
/// # Errors
/// What the user would be told of wrong arguments or settings.
#[doc(hidden)]
#[cfg(any(test, feature = "internals"))]
pub fn options_of_sync(args: Vec<OsString>) -> Result<crate::sync::Options, String> {
    let args = arguments::core_spelling(args.into_iter());
    let cli = Cli::try_parse_from(args).map_err(|error| error.to_string())?;
    let Command::Sync(command) = cli.command else {
        return Err("the command is not sync".to_string());
    };
    Ok(command.choose()?.0.options)
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let quiet = cli.quiet;
    match cli.command {
        Command::Sync(command) => sync::run_sync(&command, quiet),
        Command::Reindex(command) => sync::run_reindex(&command, quiet),
        Command::Prune(command) => prune::run(&command, quiet),
        Command::Rewind(command) => rewind::run(&command, quiet),
        Command::Status(command) => status::run(&command, quiet),
        Command::Txoutset { command } => txoutset::run(&command, quiet),
        Command::Hints { command } => hints::run(command, quiet),
        Command::Demo { keep } => demo::run(keep, quiet),
    }
}

/// Starts the log on standard error: warnings always, everything with `--debug`.
pub fn start_log(debug: bool) {
    let level = if debug { tracing::Level::DEBUG } else { tracing::Level::WARN };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        // Otherwise it uses eprintln!, and so panics, where standard error cannot be written.
        .log_internal_errors(false)
        .init();
}
