//! Pruning while blocks are connected in order: before block files are deleted, the changed coins
//! are written. This measures the cost with the list of changed entries, and with a cache that is
//! emptied, as in Bitcoin Core before its pull request 28280.

use std::path::Path;

use crate::Result;
use crate::chain::made::{self, Coins, MadeChain, Shape};
use crate::chain::runs::{Run, apus, longest_stall, median, remove, run_json, utxo_set};
use crate::process::Programs;
use crate::report::{Cell, Report, Table};
use crate::svg::Bars;

/// The ways to sync the cache, as settings of `--testing`, and what they do.
const CACHE_SYNCS: [(Option<&str>, &str); 2] =
    [(None, "the list of changed entries"), (Some("cachesync=emptied"), "the cache emptied")];

/// The chain and the runs on it.
#[derive(Clone, Debug)]
pub struct Size {
    /// The chain.
    pub shape: Shape,
    /// The amounts of memory for cached coins, in MiB.
    pub dbcaches: Vec<usize>,
    /// The limits for block and undo files, in MiB; 0 for no limit.
    pub targets: Vec<u64>,
    /// Whether block files are small, so that even short chains are pruned.
    pub fast: bool,
    /// The number of runs of each, of which the median is reported.
    pub runs: usize,
}

impl Size {
    /// Returns the size for published figures.
    pub fn full() -> Self {
        let shape = Shape::with_top(Coins::Many, made::SIZE_MANY);
        let dbcaches = vec![50, 450, 4000];
        let targets = vec![0, 550];
        Self { shape, dbcaches, targets, fast: false, runs: 3 }
    }

    /// Returns the size for tests.
    pub fn small() -> Self {
        let dbcaches = vec![16];
        let targets = vec![0, 550];
        Self { shape: Shape::small(1_500_000), dbcaches, targets, fast: true, runs: 1 }
    }
}

/// One run and its options.
struct Row {
    target: u64,
    dbcache: usize,
    /// The index in [`CACHE_SYNCS`].
    cache_sync: usize,
    run: Run,
}

/// Generates the chain, or takes it from `dir`, and syncs it with each combination of options.
///
/// # Errors
/// A run fails, or ends with a different UTXO set.
pub fn run(size: &Size, programs: &Programs, dir: &Path) -> Result<Report> {
    let chain = MadeChain::make(&size.shape, programs, dir)?;
    let mut rows = Vec::new();
    let mut digest = None;
    for &target in &size.targets {
        for &dbcache in &size.dbcaches {
            // In turns, so that a slow change of the machine's speed affects all of them.
            let mut runs: [Vec<Run>; CACHE_SYNCS.len()] = Default::default();
            for _ in 0..size.runs.max(1) {
                for (runs, (cache_sync, _)) in runs.iter_mut().zip(CACHE_SYNCS) {
                    let run = one(size, &chain, target, dbcache, cache_sync, programs, dir)?;
                    let known = digest.get_or_insert_with(|| run.digest.clone());
                    if *known != run.digest {
                        return Err(format!("UTXO set {:?}, expected {known:?}", run.digest).into());
                    }
                    runs.push(run);
                }
            }
            for (cache_sync, runs) in runs.into_iter().enumerate() {
                rows.push(Row { target, dbcache, cache_sync, run: median(runs)? });
            }
        }
    }
    let mut report = Report::new("prune");
    report.notes.push(format!(
        "{}: apus sync --method order --from FILE into an empty directory, scripts skipped; \
         commits are written in parallel to validation in each way; {} coins are left; hits are \
         inputs whose coin was not read from the tables",
        chain.name,
        Cell::Count(chain.count("unspent")).text()
    ));
    report.tables.push(table(&rows));
    report.plots.push(("prune".to_string(), plot(&rows)));
    Ok(report)
}

/// Syncs the chain into an empty directory, which is removed afterwards.
fn one(
    size: &Size,
    chain: &MadeChain,
    target: u64,
    dbcache: usize,
    cache_sync: Option<&str>,
    programs: &Programs,
    dir: &Path,
) -> Result<Run> {
    let work = dir.join(format!("{}-prune", chain.name));
    remove(&work)?;
    let mut command = apus(programs, &["sync", "--json", "--method", "order"], &work);
    command.arg("--from").arg(&chain.path).arg("--assumevalid").arg(chain.tip());
    command.arg("--dbcache").arg(dbcache.to_string());
    command.args(cache_sync.map(|setting| format!("--testing={setting}")));
    command.arg("--prune").arg(target.to_string());
    if size.fast {
        command.arg("--fastprune");
    }
    let name = format!("prune {target}, dbcache {dbcache}, {cache_sync:?}");
    let mut run = run_json(&name, command)?;
    if run.json["coins"].as_u64() != Some(chain.count("unspent")) {
        return Err(format!("{name}: wrong number of coins: {}", run.json["coins"]).into());
    }
    run.digest = Some(utxo_set(apus(programs, &["txoutset", "info"], &work))?.1);
    remove(&work)?;
    Ok(run)
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        ("prune_mib", "prune"),
        ("dbcache_mib", "dbcache"),
        ("cachesync", "a sync of the cache"),
        ("seconds", "time"),
        ("times_the_first", "× the list"),
        ("cpu_seconds", "CPU time"),
        ("peak_memory_bytes", "peak memory"),
        ("peak_anonymous_bytes", "anonymous"),
        ("coins_looked_up", "looked up"),
        ("hits_percent", "hits %"),
        ("longest_stall", "longest stall"),
        ("written_bytes", "written"),
        ("others_cpu_seconds", "others' CPU"),
        ("runs", "runs"),
    ];
    let mut table = Table::new("runs", &columns);
    for row in rows {
        let usage = &row.run.usage;
        let same = |other: &&Row| {
            (other.target, other.dbcache, other.cache_sync) == (row.target, row.dbcache, 0)
        };
        let first = rows.iter().find(same).map_or(1.0, |first| first.run.seconds());
        let count = |key: &str| row.run.json[key].as_u64().unwrap_or(0);
        let looked_up = count("coins_looked_up");
        let inputs = count("inputs").max(1);
        table.push(vec![
            Cell::Count(row.target),
            Cell::Count(row.dbcache as u64),
            Cell::text_of(CACHE_SYNCS[row.cache_sync].1),
            Cell::Seconds(row.run.seconds()),
            Cell::Ratio(row.run.seconds() / first),
            Cell::Seconds(usage.cpu.as_secs_f64()),
            Cell::Bytes(usage.peak_bytes),
            Cell::Bytes(usage.peak_anonymous_bytes),
            Cell::Count(looked_up),
            Cell::Number(100.0 - 100.0 * looked_up as f64 / inputs as f64),
            longest_stall(&row.run),
            Cell::Bytes(usage.written_bytes),
            Cell::Seconds(usage.others_cpu.as_secs_f64()),
            Cell::Count(row.run.runs as u64),
        ]);
    }
    table
}

fn plot(rows: &[Row]) -> String {
    let bar = |row: &Row| {
        let name = CACHE_SYNCS[row.cache_sync].1;
        let label = format!("prune {}, dbcache {}: {name}", row.target, row.dbcache);
        (label, row.run.seconds(), row.cache_sync)
    };
    let title = "in order, with a sync of the coins cache at each pruning";
    Bars { title, x: "seconds, less is better", bars: rows.iter().map(bar).collect() }.svg()
}
