//! Commands in the process of another program, such as Python: they take the arguments of the
//! command line and return the object of `--json`. Nothing is printed, no signal is caught, and no
//! log file is written.

use std::ffi::OsString;

use apus_node::{Options, SyncError};
use apus_progress::{Observer, Watch};
use clap::Parser;

use super::arguments::{Cli, Command};
use super::hints::HintsCommand;
use super::snapshot::SnapshotCommand;

/// Runs `apus` with these arguments, without the program's name before them. Returns the object of
/// `--json`. Warnings go to the observer, as notes that begin with "Warning: ".
///
/// # Errors
/// Those of the command. One that other programs have no use for is a wrong option.
#[doc(hidden)]
pub fn run_in_process(args: Vec<OsString>, watch: Watch) -> Result<String, SyncError> {
    match parse(args)? {
        Command::Sync(command) => command.run_in_process(watch),
        Command::Reindex(command) => command.run_in_process(watch),
        Command::Status(command) => command.run_in_process(watch),
        Command::Prove(command) => command.run_in_process(watch),
        Command::Snapshot { command: SnapshotCommand::Create(command) } => {
            command.run_in_process(watch)
        }
        Command::Hints { command: HintsCommand::Create(command) } => command.run_in_process(watch),
        _ => Err(SyncError::WrongOptions("the program apus has this command".to_string())),
    }
}

/// Returns the options of a directory that is read, from the arguments of `apus status`.
///
/// # Errors
/// An option or a setting is wrong.
#[doc(hidden)]
pub fn options_in_process(
    args: Vec<OsString>,
    observer: &dyn Observer,
) -> Result<Options, SyncError> {
    match parse(args)? {
        Command::Status(command) => command.options(observer),
        _ => Err(SyncError::WrongOptions("the command is not status".to_string())),
    }
}

fn parse(args: Vec<OsString>) -> Result<Command, SyncError> {
    let all = std::iter::once(OsString::from("apus")).chain(args);
    let parsed = Cli::try_parse_from(all).map_err(|error| {
        // What follows the first paragraph is advice about the command line.
        let text = error.render().to_string();
        let first = text.split("\n\n").next().unwrap_or_default();
        SyncError::WrongOptions(first.strip_prefix("error: ").unwrap_or(first).to_string())
    })?;
    Ok(parsed.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str]) -> Result<String, SyncError> {
        run_in_process(args.iter().map(OsString::from).collect(), Watch::default())
    }

    #[test]
    fn a_command_returns_the_object_of_json() {
        let dir = tempfile::tempdir().unwrap();
        let datadir = format!("--datadir={}", dir.path().display());
        let blocks = concat!(env!("CARGO_MANIFEST_DIR"), "/data/regtest-1-206.dat");
        let synced = run(&["sync", &datadir, "--chain=regtest", "--from", blocks]).unwrap();
        let status = run(&["status", &datadir, "--chain=regtest"]).unwrap();
        for text in [synced, status] {
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(json["height"], 206);
        }
        assert!(!dir.path().join("regtest/debug.log").exists());
    }

    #[test]
    fn wrong_options_are_errors_of_one_paragraph() {
        for args in [&["sync", "--dbcache=much"][..], &["sync", "--nothing"], &["demo"], &["no"]] {
            let error = run(args).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, SyncError::WrongOptions(_)), "{text}");
            assert!(!text.starts_with("error") && !text.contains("--help"), "{text}");
        }
    }
}
