//! Commands, options, progress, exit codes. Uses only the public functions of the crates below,
//! such as `sync`.

mod exit;
mod numbers;
mod output;
mod version;
mod with_server;
mod bind_address;
mod categories;
mod log_limit;
mod log;
mod differences_json;
mod system;
mod failure;
mod service;
mod interrupt;
mod progress;
mod reporting;
mod report_peers;
mod table;
mod trace;
mod report;
mod report_json;
mod conf;
mod home;
mod settings;
mod log_args;
mod directory;
mod connect_args;
mod lan;
mod upload_target;
mod peers;
mod prune;
mod next_step;
mod index_args;
mod index_words;
mod then;
mod sync;
mod prove;
mod rewind;
mod index;
mod server_args;
mod serve;
mod init;
mod doctor;
mod status;
mod verify;
mod txoutset;
mod hints;
mod snapshot;
#[cfg(feature = "export")]
mod shard_export;
mod shard;
#[cfg(feature = "export")]
mod export_match;
#[cfg(feature = "export")]
mod export;
#[cfg(not(feature = "export"))]
#[path = "export_left_out.rs"]
mod export;
mod demo;
mod manual;
mod arguments;
mod in_process;
#[cfg(test)]
mod python_options;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use tracing::Level;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::prelude::*;

use arguments::{Cli, Command};
use categories::Categories;
use failure::Failure;

pub use in_process::{options_in_process, run_in_process};
pub use numbers::thousands;

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    apus_host::memory::allocator::return_freed_memory();
    system::with_stack(parse_and_run).unwrap_or_else(|error| Failure::from(error).end(false))
}

fn parse_and_run() -> ExitCode {
    let mut args = arguments::core_spelling(std::env::args_os());
    let is_alone = args.len() == 1;
    if is_alone {
        args.push(OsString::from("init"));
    }
    let json = wants_json(&args);
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return end_of_parsing(&error, json),
    };
    if let Err(text) = start_log(&cli.debug) {
        return Failure::usage(text).end(json);
    }
    let random_init_replaced = apus_scripts::random_init_was_replaced();
    tracing::debug!(random_init_replaced, "started");
    let prepared = system::prepare().map_err(Failure::from);
    let ended = prepared.and_then(|()| run(cli)).unwrap_or_else(|failure| failure.end(json));
    trace::end();
    if is_alone {
        output::note("All commands: apus --help");
    }
    ended
}

/// Returns whether errors are printed as JSON, including errors about options.
fn wants_json(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json")
}

/// Prints clap's answer to the arguments: help, the version, or an error about options.
fn end_of_parsing(error: &clap::Error, json: bool) -> ExitCode {
    let printed = match error.kind() {
        ErrorKind::DisplayVersion => output::line(format_args!("apus {}", version::version())),
        _ => output::clap(error),
    };
    if is_file_for_sync(error) {
        output::note("  tip: `apus sync --from FILE` reads the blocks of a file");
    }
    match printed {
        Err(error) => Failure::from(error).end(json),
        Ok(()) if error.use_stderr() => {
            Failure::usage(error.render().to_string().trim_end()).end_printed(json)
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// Returns whether the error is about a word after `apus sync` that is no option.
fn is_file_for_sync(error: &clap::Error) -> bool {
    let word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => word,
        _ => return false,
    };
    let is_of_sync = std::env::args().nth(1).is_some_and(|command| command == "sync");
    error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-') && is_of_sync
}

/// Returns the options that `apus sync` would use, from these arguments and the settings files that
/// they name, and the warnings about these; nothing is started or written. For tests alone.
///
/// # Errors
/// The message that the user would get about wrong arguments or settings.
#[doc(hidden)]
pub fn options_of_sync(args: Vec<OsString>) -> Result<(apus_node::Options, Vec<String>), String> {
    let args = arguments::core_spelling(args.into_iter());
    let cli = Cli::try_parse_from(args).map_err(|error| error.to_string())?;
    let Command::Sync(command) = cli.command else {
        return Err("the command is not sync".to_string());
    };
    let (chosen, _) = command.choose().map_err(|error| error.to_string())?;
    Ok((chosen.options, chosen.config.loaded.warnings))
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let quiet = cli.quiet;
    match cli.command {
        Command::Sync(command) => sync::run_sync(&command, quiet),
        Command::Reindex(command) => sync::run_reindex(&command, quiet),
        Command::Prune(command) => prune::run(&command, quiet),
        Command::Rewind(command) => rewind::run(&command, quiet),
        Command::Index(command) => index::run(&command, quiet),
        Command::Serve(command) => serve::run(&command, quiet),
        Command::Init(command) => init::run(&command, quiet),
        Command::Doctor(command) => doctor::run(&command, quiet),
        Command::Status(command) => status::run(&command, quiet),
        Command::Verify(command) => verify::run(&command, quiet),
        Command::Prove(command) => prove::run(&command, quiet),
        Command::Txoutset { command } => txoutset::run(&command, quiet),
        Command::Hints { command } => hints::run(command, quiet),
        Command::Snapshot { command } => snapshot::run(&command, quiet),
        Command::Shard { command } => shard::run(command, quiet),
        Command::Export(command) => export::run(&command, quiet),
        Command::Demo { keep } => demo::run(keep, quiet),
        Command::Completions(command) => manual::complete(&command, Cli::command()),
        Command::Man(command) => manual::man(&command, Cli::command()),
    }
}

/// Starts the log on standard error and in the log file: warnings always, and events of the
/// categories of `--debug`.
///
/// # Errors
/// A category does not exist.
pub fn start_log(debug: &[String]) -> Result<(), String> {
    let categories = Categories::of(debug)?;
    for name in categories.names() {
        log::categories().switch(name, true);
    }
    if categories.trace() {
        trace::want();
    }
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // By default, internal errors are printed with eprintln!, which panics if standard error
        // cannot be written.
        .log_internal_errors(false)
        .with_filter(filter_fn(|event| *event.level() > Level::WARN && log::is_wanted(event)));
    let others = log::Lines.with_filter(filter_fn(log::is_wanted));
    tracing_subscriber::registry().with(stderr).with(others).init();
    Ok(())
}
