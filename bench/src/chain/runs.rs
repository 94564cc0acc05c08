//! Runs, each in a process of its own; each must end with the same UTXO set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use apus_testchain::copy_dir;
use serde_json::Value;

use super::made::MadeChain;
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
    /// The hash of the resulting UTXO set (`hash_serialized_3`).
    pub digest: Option<String>,
    /// The number of runs that this is the median of.
    pub runs: usize,
}

impl Run {
    /// Returns the seconds from start to end.
    pub fn seconds(&self) -> f64 {
        self.usage.elapsed.as_secs_f64()
    }
}

/// The options of a rebuild of the UTXO set.
#[derive(Clone, Copy, Default)]
pub struct How<'a> {
    /// The block up to which scripts are skipped, or `0`.
    pub assumevalid: &'a str,
    /// The memory for cached coins in MiB.
    pub dbcache: usize,
    /// The height to stop at, or `None` for the tip.
    pub stop: Option<u32>,
    /// Whether to use the hints that [`Runner::hints`] created.
    pub hints: bool,
}

/// Runs of programs on one data directory.
pub struct Runner<'a> {
    programs: &'a Programs,
    chain: &'a MadeChain,
    datadir: PathBuf,
    copy: PathBuf,
    hints: PathBuf,
    /// The hash of the UTXO set at each height that a run ended at.
    digests: BTreeMap<u64, String>,
}

impl<'a> Runner<'a> {
    /// Creates a runner on a new data directory in `dir`.
    pub fn new(programs: &'a Programs, chain: &'a MadeChain, dir: &Path) -> Result<Self> {
        let datadir = dir.join(format!("{}-datadir", chain.name));
        let copy = dir.join(format!("{}-datadir-core", chain.name));
        let hints = dir.join(format!("{}.hints", chain.name));
        let runner = Self { programs, chain, datadir, copy, hints, digests: BTreeMap::new() };
        runner.remove()?;
        Ok(runner)
    }

    /// Removes the data directory, its copy and its hints.
    pub fn remove(&self) -> Result<()> {
        remove(&self.datadir)?;
        remove(&self.copy)?;
        if self.hints.exists() {
            std::fs::remove_file(&self.hints)?;
        }
        Ok(())
    }

    /// Syncs the data directory from the chain's file, with scripts skipped.
    pub fn sync(&mut self) -> Result<Run> {
        let mut command = self.apus(&["sync", "--json"]);
        command.arg("--from").arg(&self.chain.path);
        command.arg("--dbcache").arg(SYNC_DBCACHE.to_string());
        command.arg("--assumevalid").arg(self.chain.tip());
        let mut run = self.run("apus sync", command)?;
        self.check(&mut run)?;
        let tip = run.json["bestblock"].as_str();
        let coins = run.json["coins"].as_u64();
        if tip != Some(self.chain.tip()) || coins != Some(self.chain.count("unspent")) {
            let what = format!("expected the chain's tip and coins, found {tip:?} and {coins:?}");
            return Err(what.into());
        }
        Ok(run)
    }

    /// Creates hints for the tip of the data directory.
    pub fn hints(&mut self) -> Result<Run> {
        let mut command = self.apus(&["hints", "create", "--json", "--force"]);
        command.arg("-o").arg(&self.hints);
        self.run("apus hints create", command)
    }

    /// Rebuilds the UTXO set `runs` times.
    pub fn reindex(&mut self, how: How, runs: usize) -> Result<Run> {
        let mut all = Vec::new();
        let How { assumevalid, dbcache, stop, hints } = how;
        let full = assumevalid == "0";
        let scripts = if full { "every script" } else { "scripts skipped" };
        let way = if hints { "SwiftSync" } else { "in order" };
        let name = format!("apus reindex, {way}, {scripts}, dbcache {dbcache}");
        for _ in 0..runs.max(1) {
            let mut command = self.apus(&["reindex", "--json", "--assumevalid", assumevalid]);
            command.arg("--dbcache").arg(dbcache.to_string());
            if hints {
                command.arg("--hints").arg(&self.hints);
            }
            if let Some(height) = stop {
                command.arg("--stopatheight").arg(height.to_string());
            }
            let mut run = self.run(&name, command)?;
            let inputs = if full { run.json["inputs"].as_u64() } else { Some(0) };
            if run.json["scripts_checked"].as_u64() != inputs {
                return Err(format!("{name}: {} were checked", run.json["scripts_checked"]).into());
            }
            self.check(&mut run)?;
            all.push(run);
        }
        median(all)
    }

    /// Runs a check of all scripts, and nothing else, `runs` times.
    pub fn scripts_alone(&self, runs: usize) -> Result<Run> {
        let mut all = Vec::new();
        for _ in 0..runs.max(1) {
            let mut command = self.programs.own();
            command.arg("scripts-alone").arg("--datadir").arg(&self.datadir);
            let run = self.run("the scripts alone", command)?;
            if run.json["inputs"].as_u64() != Some(self.chain.count("inputs")) {
                return Err("the scripts alone: not every input was checked".into());
            }
            all.push(run);
        }
        median(all)
    }

    /// Rebuilds the UTXO set with Core's engine `runs` times. This uses a copy, because the engine
    /// writes to its directory.
    pub fn engine(&mut self, runs: usize) -> Result<Run> {
        copy_dir(&self.datadir, &self.copy)?;
        let mut all = Vec::new();
        for _ in 0..runs.max(1) {
            let mut command = self.programs.own();
            command.arg("core-reindex").arg("--datadir").arg(&self.copy);
            let mut run = self.run("Core's engine", command)?;
            let datadir = std::mem::replace(&mut self.datadir, self.copy.clone());
            let checked = self.check(&mut run);
            self.datadir = datadir;
            checked?;
            all.push(run);
        }
        std::fs::remove_dir_all(&self.copy)?;
        median(all)
    }

    fn apus(&self, args: &[&str]) -> Command {
        apus(self.programs, args, &self.datadir)
    }

    fn run(&self, name: &str, command: Command) -> Result<Run> {
        run_json(name, command)
    }

    /// Records the hash of the UTXO set of a run.
    ///
    /// # Errors
    /// An earlier run left another set at the same height.
    fn check(&mut self, run: &mut Run) -> Result<()> {
        let (height, hash) = utxo_set(self.apus(&["txoutset", "info"]))?;
        let known = self.digests.entry(height).or_insert_with(|| hash.clone());
        if *known != hash {
            return Err(format!("UTXO set {hash} at height {height}, expected {known}").into());
        }
        run.digest = Some(hash);
        Ok(())
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
    Ok(Run { usage, json, digest: None, runs: 1 })
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
