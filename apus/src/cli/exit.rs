//! The program's exit statuses, other than 0 for success and 1 for an error.

use std::process::ExitCode;

/// Exit status after a wrong option, as clap has it.
pub const USAGE: u8 = 2;
/// Exit status when the work is done but some of the input was refused.
pub const REFUSED: u8 = 3;
/// Exit status after an interruption, as shells have it for SIGINT.
pub const INTERRUPTED: u8 = 130;

/// The exit status of work that went well as far as it went.
pub fn status(interrupted: bool) -> ExitCode {
    match interrupted {
        true => ExitCode::from(INTERRUPTED),
        false => ExitCode::SUCCESS,
    }
}
