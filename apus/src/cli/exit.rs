//! The program's exit statuses, other than 0 for success and 1 for an error.

use std::process::ExitCode;

/// Exit status after a wrong option, the same as clap's.
pub const USAGE: u8 = 2;
/// Exit status when the work is done but some of the input was refused.
pub const REFUSED: u8 = 3;
/// Exit status after an interruption, the same as the shell's for SIGINT.
pub const INTERRUPTED: u8 = 130;

/// Returns the exit status of work without an error: success, or interrupted.
pub fn status(interrupted: bool) -> ExitCode {
    if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS }
}
