//! `apus export`: rows and bytes per second of each table in each format.

use std::path::Path;

use crate::Result;
use crate::chain::made::{self, Coins, MadeChain, Shape};
use crate::chain::runs::{Run, SYNC_DBCACHE, apus, median, remove, run_json};
use crate::process::Programs;
use crate::report::{Cell, Report, Table};
use crate::svg::Bars;

/// The tables, each with the chain's fact that is its number of rows, if there is one.
const TABLES: [(&str, Option<&str>); 5] = [
    ("coins", Some("unspent")),
    ("blocks", None),
    ("transactions", None),
    ("inputs", None),
    ("outputs", None),
];

/// The formats and forms: a name, the file extension, and further options.
const FORMATS: [(&str, &str, &[&str]); 4] = [
    ("Parquet", "parquet", &[]),
    ("Parquet, raw bytes", "parquet", &["--txid", "rawle", "--spk", "raw"]),
    ("SQLite", "sqlite", &[]),
    ("CSV", "csv", &[]),
];

/// The chains and the runs on them.
#[derive(Clone, Debug)]
pub struct Size {
    /// The chains.
    pub shapes: Vec<Shape>,
    /// The number of runs of each export, of which the median is reported.
    pub runs: usize,
}

impl Size {
    /// Returns the size for published figures, or one with `bytes` of blocks in each chain.
    pub fn full(bytes: Option<u64>) -> Self {
        let many = Shape { coins: Coins::Many, ..Shape::of_size(bytes.unwrap_or(made::SIZE_MANY)) };
        let few = Shape::of_size(bytes.unwrap_or(made::SIZE_DEFAULT));
        Self { shapes: vec![few, many], runs: 3 }
    }

    /// Returns the size for tests.
    pub fn small() -> Self {
        Self { shapes: vec![Shape::small(1_500_000)], runs: 1 }
    }
}

/// An export of a table.
struct Row {
    chain: String,
    table: &'static str,
    /// The index in [`FORMATS`].
    format: usize,
    run: Run,
}

/// Generates the chains, or takes them from `dir`, syncs each, and exports each table in each
/// format.
///
/// # Errors
/// A run fails, or two exports of a table differ in their number of rows.
pub fn run(size: &Size, programs: &Programs, dir: &Path) -> Result<Report> {
    let mut report = Report::new("export");
    let mut rows = Vec::new();
    for shape in &size.shapes {
        let chain = MadeChain::make(shape, programs, dir)?;
        let work = dir.join(format!("{}-export", chain.name));
        remove(&work)?;
        let mut sync = apus(programs, &["sync", "--json", "--method", "order"], &work);
        sync.arg("--from").arg(&chain.path).arg("--assumevalid").arg(chain.tip());
        sync.arg("--dbcache").arg(SYNC_DBCACHE.to_string());
        run_json("sync", sync)?;
        for (table, fact) in TABLES {
            let expected = fact.map(|fact| chain.count(fact));
            rows.extend(of_table(size, &chain, table, expected, programs, &work)?);
        }
        remove(&work)?;
        report.notes.push(format!(
            "{}: {} of blocks, synced in order, with the undo data of all of them",
            chain.name,
            Cell::Bytes(chain.bytes()).text()
        ));
    }
    report.notes.push(
        "time from start to end, with opening the directory and the sync of the file; MB/s of the \
         file; raw bytes: --txid rawle --spk raw"
            .to_string(),
    );
    report.tables.push(table(&rows));
    report.plots.push(("export".to_string(), plot(&rows)));
    Ok(report)
}

/// Exports one table in each format; all exports must have the same number of rows.
fn of_table(
    size: &Size,
    chain: &MadeChain,
    table: &'static str,
    mut expected: Option<u64>,
    programs: &Programs,
    work: &Path,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (format, (name, ending, options)) in FORMATS.into_iter().enumerate() {
        let mut runs = Vec::new();
        for _ in 0..size.runs.max(1) {
            let file = work.join("table").with_extension(ending);
            let mut command = apus(programs, &["export", table, "--json"], work);
            command.args(options).arg("--output").arg(&file);
            let run = run_json(&format!("{table}, {name}"), command)?;
            std::fs::remove_file(&file)?;
            let found = run.json["rows"].as_u64();
            if *expected.get_or_insert(found.unwrap_or(0)) != found.unwrap_or(0) {
                return Err(format!("{table}: expected {expected:?} rows, found {found:?}").into());
            }
            runs.push(run);
        }
        rows.push(Row { chain: chain.name.clone(), table, format, run: median(runs)? });
    }
    Ok(rows)
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        ("chain", "chain"),
        ("table", "table"),
        ("format", "format"),
        ("rows", "rows"),
        ("bytes", "file"),
        ("seconds", "time"),
        ("rows_per_second", "rows/s"),
        ("megabytes_per_second", "MB/s"),
        ("cpu_seconds", "CPU time"),
        ("peak_memory_bytes", "peak memory"),
        ("peak_anonymous_bytes", "anonymous"),
        ("others_cpu_seconds", "others' CPU"),
        ("runs", "runs"),
    ];
    let mut table = Table::new("exports", &columns);
    for row in rows {
        let usage = &row.run.usage;
        let seconds = row.run.seconds();
        let count = |key: &str| row.run.json[key].as_u64().unwrap_or(0);
        table.push(vec![
            Cell::text_of(&row.chain),
            Cell::text_of(row.table),
            Cell::text_of(FORMATS[row.format].0),
            Cell::Count(count("rows")),
            Cell::Bytes(count("bytes")),
            Cell::Seconds(seconds),
            Cell::Count((count("rows") as f64 / seconds) as u64),
            Cell::Number(count("bytes") as f64 / seconds / 1e6),
            Cell::Seconds(usage.cpu.as_secs_f64()),
            Cell::Bytes(usage.peak_bytes),
            Cell::Bytes(usage.peak_anonymous_bytes),
            Cell::Seconds(usage.others_cpu.as_secs_f64()),
            Cell::Count(row.run.runs as u64),
        ]);
    }
    table
}

fn plot(rows: &[Row]) -> String {
    let bar = |row: &Row| {
        let label = format!("{}: {}, {}", row.chain, row.table, FORMATS[row.format].0);
        let rows = row.run.json["rows"].as_f64().unwrap_or(0.0);
        (label, rows / row.run.seconds() / 1e6, row.format)
    };
    let is_large = |row: &&Row| row.table != "blocks";
    let bars = rows.iter().filter(is_large).map(bar).collect();
    Bars { title: "apus export", x: "million rows a second, more is better", bars }.svg()
}
