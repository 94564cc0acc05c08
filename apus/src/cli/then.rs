//! `--then` of `apus sync`: the command that takes the data directory over once the sync is done.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use super::failure::Failure;
use super::{exit, log, output, service};

/// Checks `--then`.
///
/// # Errors
/// The command is empty, or the sync does not end.
pub fn check(command: Option<&OsString>, follows: bool) -> Result<(), Failure> {
    match command {
        Some(command) if command.as_encoded_bytes().trim_ascii().is_empty() => {
            Err(Failure::usage("--then: the command is empty"))
        }
        Some(_) if follows => Err(Failure::usage(
            "--then contradicts --follow, with which a sync does not end: remove one of them",
        )),
        _ => Ok(()),
    }
}

/// Replaces this process with a shell that runs `command`, if the work ended with success. Returns
/// the exit status of the work if it did not.
///
/// The system closes the files of this process, and with them every lock, before the shell runs,
/// so that the data directory never has two owners.
///
/// # Errors
/// The shell cannot be run.
pub fn hand_over(command: &OsString, ended: ExitCode, quiet: bool) -> Result<ExitCode, Failure> {
    let shown = command.display();
    if ended != ExitCode::SUCCESS {
        let why = if ended == exit::status(true) {
            "the sync was interrupted"
        } else {
            "some input was refused"
        };
        output::note(format_args!("Not started, since {why}: {shown}"));
        return Ok(ended);
    }
    log::last_line(format_args!("Starting: {shown}"));
    if !quiet {
        output::note(format_args!("Starting: {shown}"));
    }
    service::handing_over();
    let error = Command::new("/bin/sh").arg("-c").arg(command).exec();
    Err(Failure::input(format!("cannot run /bin/sh for --then: {error}")))
}
