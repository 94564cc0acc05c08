//! UTXO snapshots: created, described, verified by the blocks, and synced from, compared with
//! hints, with a sync in order, and with Bitcoin Core's own validation of the same blocks, which is
//! what it does in the background after loading a snapshot.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::chain::made::{self, Coins, Shape};
use crate::chain::runs::{self, Run, apus, median, run_json};
use crate::join::{Base, Undo, core_command};
use crate::process::Programs;
use crate::report::{Cell, Report, Table};
use crate::svg::Bars;

/// The chains and the runs on them.
#[derive(Clone, Debug)]
pub struct Size {
    /// The chains.
    pub shapes: Vec<Shape>,
    /// The memory for cached coins, in MiB.
    pub dbcache: usize,
    /// How many blocks below the tip another snapshot is created.
    pub below: u64,
    /// The number of runs of each, of which the median is reported.
    pub runs: usize,
    /// Bitcoin Core's program; `None` leaves it out.
    pub bitcoind: Option<PathBuf>,
}

impl Size {
    /// Returns the size for published figures.
    pub fn full() -> Self {
        let many = Shape { coins: Coins::Many, ..Shape::of_size(made::SIZE_MANY) };
        let shapes = vec![Shape::of_size(made::SIZE_DEFAULT), many];
        Self { shapes, dbcache: 450, below: 1000, runs: 3, bitcoind: None }
    }

    /// Returns the size for tests.
    pub fn small() -> Self {
        let shapes = vec![Shape::small(1_000_000)];
        Self { shapes, dbcache: 16, below: 1000, runs: 1, bitcoind: None }
    }
}

/// One kind of work on a chain.
struct Row {
    chain: usize,
    work: &'static str,
    run: Run,
}

/// Generates the chains, or takes them from `dir`, and does all work on each of them.
///
/// # Errors
/// A run fails, or ends with a different UTXO set.
pub fn run(size: &Size, programs: &Programs, dir: &Path) -> Result<Report> {
    let mut rows = Vec::new();
    let mut report = Report::new("snapshot");
    for (chain, shape) in size.shapes.iter().enumerate() {
        let base = Base::make(shape, true, programs, dir)?;
        let snapshot = dir.join(format!("{}-utxo.dat", shape.name()));
        Chain { size, programs, base: &base, snapshot, chain }.run(&mut rows)?;
        base.remove_work()?;
        report.notes.push(format!(
            "chain {}: {}, {} coins at height {}",
            chain + 1,
            shape.name(),
            Cell::Count(base.count("unspent")).text(),
            Cell::Count(base.count("height")).text()
        ));
    }
    report.notes.push(
        "every run in a process of its own, on blocks in the page cache; scripts are assumed \
         valid, but where all are said to be checked; every proof ended with the chain's number of \
         coins, and every UTXO set is the chain's"
            .to_string(),
    );
    report.tables.push(table(&rows));
    report.plots.push(("snapshot".to_string(), plot(&rows)));
    Ok(report)
}

/// The work on one chain.
struct Chain<'a> {
    size: &'a Size,
    programs: &'a Programs,
    base: &'a Base,
    snapshot: PathBuf,
    chain: usize,
}

impl Chain<'_> {
    fn run(&self, rows: &mut Vec<Row>) -> Result<()> {
        let mut add = |work, run| rows.push(Row { chain: self.chain, work, run });
        if let Some(bitcoind) = &self.size.bitcoind {
            let datadir = self.base.fresh(Undo::All)?;
            let tip = self.base.text("tip");
            let command = core_command(bitcoind, datadir, self.size.dbcache, tip);
            let (_, usage) = runs::run("Bitcoin Core", command)?;
            self.base.check(self.programs)?;
            add(
                "Bitcoin Core, in order",
                Run { usage, json: serde_json::Value::Null, digest: None, runs: 1 },
            );
        }
        // The last of them leaves the directory for all that follows.
        add("sync by hints", self.rebuild(&["--hints"], Some(&self.base.hints))?);
        add("sync in order", self.rebuild(&["--method", "order"], None)?);
        add("snapshot create", self.create(0)?);
        add("sync by the snapshot", self.rebuild(&["--snapshot"], Some(&self.snapshot))?);
        self.rebuild(&["--method", "order"], None)?;
        add("snapshot create, below the tip", self.create(self.size.below)?);
        self.create(0)?;
        let hints = &self.base.hints;
        let snapshot = &self.snapshot;
        add("snapshot info", self.ask(&["snapshot", "info"], snapshot)?);
        add("prove hints", self.ask(&["prove"], hints)?);
        add("prove snapshot", self.ask(&["prove"], snapshot)?);
        add("prove hints, all scripts", self.ask(&["prove", "--full"], hints)?);
        add("prove snapshot, all scripts", self.ask(&["prove", "--full"], snapshot)?);
        add("prove snapshot, all scripts, by a join", self.verify_without_undo()?);
        std::fs::remove_file(&self.snapshot)?;
        Ok(())
    }

    /// Returns the median of several runs, each of a new command.
    fn times(&self, name: &str, command: impl Fn() -> Result<Command>) -> Result<Run> {
        let mut all = Vec::new();
        for _ in 0..self.size.runs.max(1) {
            all.push(run_json(name, command()?)?);
        }
        median(all)
    }

    /// Rebuilds the UTXO set.
    fn rebuild(&self, options: &[&str], file: Option<&Path>) -> Result<Run> {
        let name = format!("reindex {}", options.join(" "));
        let mut all = Vec::new();
        for _ in 0..self.size.runs.max(1) {
            let datadir = self.base.fresh(Undo::All)?;
            let mut command = apus(self.programs, &["reindex", "--json"], datadir);
            command.arg("--assumevalid").arg(self.base.text("tip"));
            command.arg("--dbcache").arg(self.size.dbcache.to_string()).args(options);
            command.args(file);
            all.push(run_json(&name, command)?);
            self.base.check(self.programs)?;
        }
        median(all)
    }

    /// Creates the snapshot at this many blocks below the tip.
    fn create(&self, below: u64) -> Result<Run> {
        let height = self.base.count("height").saturating_sub(below);
        self.times("snapshot create", || {
            if self.snapshot.exists() {
                std::fs::remove_file(&self.snapshot)?;
            }
            let mut command = self.on_work(&["snapshot", "create", "--json"]);
            command.arg("--height").arg(height.to_string()).arg("-o").arg(&self.snapshot);
            Ok(command)
        })
    }

    /// Runs a command on a file, and checks the number of coins in its answer.
    fn ask(&self, args: &[&str], file: &Path) -> Result<Run> {
        let name = args.join(" ");
        let run = self.times(&name, || {
            let mut command = match args {
                [_, "info"] => {
                    let mut command = self.programs.apus();
                    command.args(args);
                    command
                }
                _ => self.on_work(args),
            };
            command.arg("--json").arg(file);
            Ok(command)
        })?;
        self.with_all_coins(&name, run)
    }

    /// Verifies the snapshot and every script with blocks that lack their undo data.
    fn verify_without_undo(&self) -> Result<Run> {
        let name = "prove snapshot --full --from";
        let run = self.times(name, || {
            let from = self.base.fresh(Undo::Newest)?;
            let mut command = self.programs.apus();
            command.args(["prove", "--full", "--regtest", "--json"]);
            command.arg(&self.snapshot).arg("--from").arg(from);
            Ok(command)
        })?;
        self.with_all_coins(name, run)
    }

    /// Returns the run if it has found all coins of the chain.
    fn with_all_coins(&self, name: &str, run: Run) -> Result<Run> {
        let found = run.json["coins"].as_u64();
        if found == Some(self.base.count("unspent")) {
            Ok(run)
        } else {
            Err(format!("{name}: wrong number of coins: {found:?}").into())
        }
    }

    fn on_work(&self, args: &[&str]) -> Command {
        apus(self.programs, args, self.base.work())
    }
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        ("chain", "chain"),
        ("work", "work"),
        ("seconds", "time"),
        ("times_hints_verify", "× prove hints"),
        ("cpu_seconds", "CPU time"),
        ("peak_memory_bytes", "peak memory"),
        ("peak_anonymous_bytes", "anonymous"),
        ("written_bytes", "written"),
        ("others_cpu_seconds", "others' CPU"),
        ("runs", "runs"),
    ];
    let mut table = Table::new("runs", &columns);
    for row in rows {
        let usage = &row.run.usage;
        let is_hints = |other: &&Row| other.chain == row.chain && other.work == "prove hints";
        let hints = rows.iter().find(is_hints).map_or(1.0, |hints| hints.run.seconds());
        table.push(vec![
            Cell::Count(row.chain as u64 + 1),
            Cell::text_of(row.work),
            Cell::Seconds(row.run.seconds()),
            Cell::Ratio(row.run.seconds() / hints),
            Cell::Seconds(usage.cpu.as_secs_f64()),
            Cell::Bytes(usage.peak_bytes),
            Cell::Bytes(usage.peak_anonymous_bytes),
            Cell::Bytes(usage.written_bytes),
            Cell::Seconds(usage.others_cpu.as_secs_f64()),
            Cell::Count(row.run.runs as u64),
        ]);
    }
    table
}

fn plot(rows: &[Row]) -> String {
    let bar = |row: &Row| {
        (format!("chain {}: {}", row.chain + 1, row.work), row.run.seconds(), row.chain)
    };
    let title = "UTXO snapshots, and what they are compared with";
    Bars { title, x: "seconds, less is better", bars: rows.iter().map(bar).collect() }.svg()
}
