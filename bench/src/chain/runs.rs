//! Runs, each in a process of its own.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Result;
use crate::process::{self, Programs, Usage};
use crate::report::Cell;

/// The memory for cached coins while the data directory is created, in MiB.
pub const SYNC_DBCACHE: usize = 450;

/// A run, or the median one of several.
pub struct Run {
    /// The cost of the run.
    pub usage: Usage,
    /// The summary that the program printed at its end.
    pub json: Value,
    /// The number of runs that this is the median of.
    pub runs: usize,
}

impl Run {
    /// Returns the seconds from start to end.
    pub fn seconds(&self) -> f64 {
        self.usage.elapsed.as_secs_f64()
    }
}

/// Returns a command that runs `apus` with its first arguments and its data directory.
pub(crate) fn apus(programs: &Programs, args: &[&str], datadir: &Path) -> Command {
    let mut command = programs.apus();
    command.args(args).arg("--regtest").arg("--datadir").arg(datadir);
    command
}

/// Removes a directory, if there is one.
pub(crate) fn remove(dir: &Path) -> Result<()> {
    if dir.exists() { Ok(std::fs::remove_dir_all(dir)?) } else { Ok(()) }
}

/// Runs an `apus` that prints a summary as JSON.
pub(crate) fn run_json(name: &str, command: Command) -> Result<Run> {
    let (output, usage) = run(name, command)?;
    let json = serde_json::from_str(output.lines().last().unwrap_or_default())
        .map_err(|error| format!("{name} printed something other than JSON: {error}"))?;
    Ok(Run { usage, json, runs: 1 })
}

/// Returns the longest time without a connected block since the first write of coins, as `apus`
/// reports it.
pub(crate) fn longest_stall(run: &Run) -> Cell {
    run.json["waits"]["longest_stall"].as_f64().map_or(Cell::text_of("-"), Cell::Seconds)
}

/// Runs a program, and prints its cost to standard error.
pub(crate) fn run(name: &str, command: Command) -> Result<(String, Usage)> {
    // Sync the writes of earlier runs now, so that this run does not pay for them.
    rustix::fs::sync();
    let (output, usage) = process::run(command)?;
    eprintln!(
        "{name}: {:.2} s, {:.2} s of CPU (others: {:.2} s)",
        usage.elapsed.as_secs_f64(),
        usage.cpu.as_secs_f64(),
        usage.others_cpu.as_secs_f64(),
    );
    Ok((output, usage))
}

/// Returns the height and the hash of a UTXO set from `command`, an `apus txoutset info`.
pub(crate) fn utxo_set(command: Command) -> Result<(u64, String)> {
    let (output, _) = process::run(command)?;
    let info: Value = serde_json::from_str(&output)?;
    let height = info["height"].as_u64().ok_or("no height")?;
    let hash = info["hash_serialized_3"].as_str().ok_or("no hash of the UTXO set")?;
    Ok((height, hash.to_string()))
}

pub(crate) fn median(mut all: Vec<Run>) -> Result<Run> {
    all.sort_by_key(|run| run.usage.elapsed);
    let runs = all.len();
    let median = all.into_iter().nth(runs / 2).ok_or("no runs")?;
    Ok(Run { runs, ..median })
}
