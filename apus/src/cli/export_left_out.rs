//! `apus export`, `apus shard export` and `verify-export` in a build without the feature `export`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use super::failure::Failure;

/// Write the UTXO set, or the chain's blocks, transactions, inputs or outputs, to a file (not in
/// this build).
///
/// It needs the cargo feature `export`, with which SQLite and a library for Parquet are built:
/// `cargo build --release --locked --features export`.
#[derive(Args)]
pub struct ExportCommand {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _anything: Vec<OsString>,
}

/// Returns an error that says how to build `apus export`.
pub fn run(_: &ExportCommand, _: bool) -> Result<ExitCode, Failure> {
    left_out("apus export")
}

/// Returns an error that says how to build a command.
pub fn left_out(command: &str) -> Result<ExitCode, Failure> {
    Err(Failure::usage(format!(
        "this apus was built without `{command}`: build it with --features export (cargo build \
         --release --locked --features export)"
    )))
}
