//! The cost of a small cache for validation in order: the same chains with less and less memory for
//! cached coins, compared with Bitcoin Core. The chains differ in which coins blocks spend.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::chain::made::{self, Coins, Shape};
use crate::chain::runs::{self, Run, apus, longest_stall, median, run_json};
use crate::join::{Base, Undo, core_command, core_note};
use crate::process::Programs;
use crate::report::{Cell, Report, Table};

/// The chains and the runs on them.
#[derive(Clone, Debug)]
pub struct Size {
    /// The chains.
    pub shapes: Vec<Shape>,
    /// The amounts of memory for cached coins, in MiB. Times are compared with that of the last.
    pub dbcaches: Vec<usize>,
    /// The number of runs of each, of which the median is reported.
    pub runs: usize,
    /// Bitcoin Core's program to compare with.
    pub bitcoind: Option<PathBuf>,
    /// The amounts of memory for Core's coins, in MiB.
    pub core_dbcaches: Vec<usize>,
}

impl Size {
    /// Returns the size for published figures: chains of 2.2 GB, or of `bytes` each.
    pub fn full(bytes: Option<u64>) -> Self {
        let shape = |coins| Shape { coins, ..Shape::of_size(bytes.unwrap_or(made::SIZE_MANY)) };
        Self {
            shapes: [Coins::Few, Coins::Many, Coins::Old, Coins::Bursts].map(shape).into(),
            dbcaches: vec![16, 50, 100, 450, 4000],
            runs: 1,
            bitcoind: None,
            core_dbcaches: vec![50, 450],
        }
    }

    /// Returns the size for tests.
    pub fn small() -> Self {
        Self { dbcaches: vec![4, 100], ..Self::full(Some(8_000_000)) }
    }
}

/// One run.
struct Row {
    shape: Shape,
    is_core: bool,
    dbcache: usize,
    run: Run,
}

/// Generates the chains, or takes them from `dir`, and rebuilds the UTXO set of each.
///
/// # Errors
/// A run fails, or ends with a different UTXO set.
pub fn run(size: &Size, programs: &Programs, dir: &Path) -> Result<Report> {
    let mut report = Report::new("curve");
    report.notes.push(
        "apus reindex --method order, scripts skipped, of blocks in the page cache with only the \
         newest undo data; × is the time divided by that with the largest cache; looked up are \
         coins read from the tables; connecting is the time in which the thread that connects \
         blocks takes and adds coins; a stall is a time without a block after coins were written"
            .to_string(),
    );
    if let (Some(path), Some(dbcache)) = (&size.bitcoind, size.core_dbcaches.first()) {
        report.notes.push(core_note(path, *dbcache)?);
    }
    let mut rows = Vec::new();
    for shape in &size.shapes {
        let base = Base::make(shape, false, programs, dir)?;
        let count = |key: &str| Cell::Count(base.count(key)).text();
        let bytes = count("bytes");
        let inputs = count("inputs");
        let unspent = count("unspent");
        report.notes.push(format!(
            "{}: {bytes} bytes, {inputs} inputs, {unspent} coins left",
            shape.name()
        ));
        for &dbcache in &size.dbcaches {
            let one = || in_order(&base, dbcache, programs);
            let run = median((0..size.runs.max(1)).map(|_| one()).collect::<Result<_>>()?)?;
            rows.push(Row { shape: *shape, is_core: false, dbcache, run });
        }
        for &dbcache in size.core_dbcaches.iter().filter(|_| size.bitcoind.is_some()) {
            let run = core(&base, dbcache, size.bitcoind.as_deref(), programs)?;
            rows.push(Row { shape: *shape, is_core: true, dbcache, run });
        }
        base.remove_work()?;
    }
    report.tables.push(table(&rows));
    Ok(report)
}

fn in_order(base: &Base, dbcache: usize, programs: &Programs) -> Result<Run> {
    let datadir = base.fresh(Undo::Newest)?;
    let mut command = apus(programs, &["reindex", "--json", "--method", "order"], datadir);
    command.arg("--assumevalid").arg(base.text("below_top"));
    command.arg("--dbcache").arg(dbcache.to_string());
    let run = run_json(&format!("in order, dbcache {dbcache}"), command)?;
    base.check(programs)?;
    Ok(run)
}

fn core(base: &Base, dbcache: usize, bitcoind: Option<&Path>, programs: &Programs) -> Result<Run> {
    let bitcoind = bitcoind.ok_or("no bitcoind to compare with")?;
    let datadir = base.fresh(Undo::Newest)?;
    let command = core_command(bitcoind, datadir, dbcache, base.text("below_top"));
    let (_, usage) = runs::run(&format!("Bitcoin Core, dbcache {dbcache}"), command)?;
    base.check(programs)?;
    Ok(Run { usage, json: serde_json::Value::Null, runs: 1 })
}

fn program(row: &Row) -> &'static str {
    if row.is_core { "Bitcoin Core" } else { "apus, in order" }
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        ("chain", "chain"),
        ("program", "program"),
        ("dbcache_mib", "dbcache"),
        ("seconds", "time"),
        ("times_the_largest", "×"),
        ("cpu_seconds", "CPU time"),
        ("inputs", "inputs"),
        ("coins_looked_up", "looked up"),
        ("connecting_seconds", "connecting"),
        ("longest_stall", "longest stall"),
        ("peak_anonymous_bytes", "anonymous"),
        ("written_bytes", "written"),
        ("others_cpu_seconds", "others' CPU"),
        ("runs", "runs"),
    ];
    let mut table = Table::new("runs", &columns);
    for row in rows {
        let usage = &row.run.usage;
        let json = &row.run.json;
        let same = |other: &&Row| (other.shape, other.is_core) == (row.shape, row.is_core);
        let largest = rows.iter().filter(same).max_by_key(|other| other.dbcache);
        let times = largest.map_or(1.0, |largest| row.run.seconds() / largest.run.seconds());
        let count = |key: &str| json[key].as_u64().map_or(Cell::Empty, Cell::Count);
        let connecting = json["stages"]["connect"].as_f64();
        table.push(vec![
            Cell::text_of(row.shape.name()),
            Cell::text_of(program(row)),
            Cell::Count(row.dbcache as u64),
            Cell::Seconds(row.run.seconds()),
            Cell::Ratio(times),
            Cell::Seconds(usage.cpu.as_secs_f64()),
            count("inputs"),
            count("coins_looked_up"),
            connecting.map_or(Cell::Empty, Cell::Seconds),
            if row.is_core { Cell::Empty } else { longest_stall(&row.run) },
            Cell::Bytes(usage.peak_anonymous_bytes),
            Cell::Bytes(usage.written_bytes),
            Cell::Seconds(usage.others_cpu.as_secs_f64()),
            Cell::Count(row.run.runs as u64),
        ]);
    }
    table
}
