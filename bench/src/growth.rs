//! The cost of longer and longer parts of one chain from its start, with a cache that holds every
//! coin and with one that holds a tenth of them.

use std::path::Path;

use crate::Result;
use crate::chain::made::{MadeChain, Shape};
use crate::chain::runs::{How, Run, Runner};
use crate::process::Programs;
use crate::report::{Cell, Report, Table, three_digits};
use crate::svg::{Lines, Series};

/// The largest size of a cached coin in bytes (`apus_coins`).
const COIN_BYTES: u64 = 104;
/// The smallest memory for cached coins that is measured, in MiB.
const DBCACHE_MIN: usize = 8;
/// The ends of the measured parts of the chain, as shares of its busy blocks.
const SHARES: [f64; 4] = [0.125, 0.25, 0.5, 1.0];

/// The chain and the runs on it.
#[derive(Clone, Debug)]
pub struct Size {
    /// The chain whose parts are measured.
    pub shape: Shape,
    /// The number of runs of each part without scripts, of which the median is reported.
    pub runs: usize,
    /// The number of runs of each part with every script. 0 leaves them out.
    pub full_runs: usize,
}

impl Size {
    /// Returns the size for published figures: 0.5, 1, 2 and 4 GB.
    pub fn full() -> Self {
        Self { shape: Shape::of_size(4_000_000_000), runs: 3, full_runs: 1 }
    }

    /// Returns the size for tests.
    pub fn small() -> Self {
        Self { shape: Shape::small(1_500_000), runs: 1, full_runs: 1 }
    }
}

/// One run and its options.
struct Point {
    scripts: &'static str,
    cache: &'static str,
    dbcache: usize,
    run: Run,
}

/// Generates the chain, or takes it from `dir`, and rebuilds the UTXO set up to each height.
///
/// # Errors
/// A run fails, or two runs end with different UTXO sets at the same height.
pub fn run(size: &Size, programs: &Programs, dir: &Path) -> Result<Report> {
    let chain = MadeChain::make(&size.shape, programs, dir)?;
    let mut runner = Runner::new(programs, &chain, dir)?;
    runner.sync()?;
    let mut points = Vec::new();
    for share in SHARES {
        let stop = Some(size.shape.height_at(share));
        for (scripts, assumevalid, runs) in
            [("skipped", chain.tip(), size.runs), ("checked", "0", size.full_runs)]
        {
            if runs == 0 {
                continue;
            }
            let dbcache = mib(2 * COIN_BYTES * chain.count("unspent")) + 64;
            let how = How { assumevalid, stop, dbcache, hints: false };
            let run = runner.reindex(how, runs)?;
            let coins = run.json["coins"].as_u64().unwrap_or(0);
            points.push(Point { scripts, cache: "everything", dbcache, run });
            let dbcache = mib(COIN_BYTES * coins / 10);
            let run = runner.reindex(How { dbcache, ..how }, runs)?;
            points.push(Point { scripts, cache: "a tenth", dbcache, run });
        }
    }
    runner.remove()?;
    let mut report = Report::new("growth");
    report.notes.push(format!(
        "apus reindex of beginnings of {}, by --stopatheight; a cache that holds a tenth has room \
         for a tenth of the coins that are left at the end, {COIN_BYTES} bytes each",
        chain.name
    ));
    report.tables.push(table(&points));
    report.plots.push(("growth".to_string(), plot(&points)));
    Ok(report)
}

/// Converts bytes to MiB, at least [`DBCACHE_MIN`].
fn mib(bytes: u64) -> usize {
    usize::try_from(bytes.div_ceil(1 << 20)).unwrap_or(usize::MAX).max(DBCACHE_MIN)
}

impl Point {
    fn gigabytes(&self) -> f64 {
        self.run.json["bytes"].as_f64().unwrap_or(0.0).max(1.0) / 1e9
    }

    fn seconds_per_gb(&self) -> f64 {
        self.run.seconds() / self.gigabytes()
    }
}

fn table(points: &[Point]) -> Table {
    let columns = [
        ("scripts", "scripts"),
        ("cache_holds", "cache holds"),
        ("dbcache_mib", "dbcache"),
        ("height", "height"),
        ("gigabytes", "GB"),
        ("coins", "coins left"),
        ("seconds", "time"),
        ("seconds_per_gb", "seconds per GB"),
        ("cpu_seconds", "CPU time"),
        ("peak_memory_bytes", "peak memory"),
        ("others_cpu_seconds", "others' CPU"),
        ("runs", "runs"),
        ("digest", "hash of the UTXO set"),
    ];
    let mut table = Table::new("growth", &columns);
    for point in points {
        let run = &point.run;
        let count = |key: &str| Cell::Count(run.json[key].as_u64().unwrap_or(0));
        table.push(vec![
            Cell::text_of(point.scripts),
            Cell::text_of(point.cache),
            Cell::Count(point.dbcache as u64),
            count("height"),
            Cell::Number(point.gigabytes()),
            count("coins"),
            Cell::Seconds(run.seconds()),
            Cell::Number(point.seconds_per_gb()),
            Cell::Seconds(run.usage.cpu.as_secs_f64()),
            Cell::Bytes(run.usage.peak_bytes),
            Cell::Seconds(run.usage.others_cpu.as_secs_f64()),
            Cell::Count(run.runs as u64),
            Cell::text_of(run.digest.clone().unwrap_or_default()),
        ]);
    }
    table
}

fn plot(points: &[Point]) -> String {
    let mut series: Vec<Series> = Vec::new();
    for point in points {
        let name = format!("scripts {}, cache holds {}", point.scripts, point.cache);
        let at = (point.gigabytes(), point.seconds_per_gb());
        Series::add_to(&mut series, name, at);
    }
    Lines {
        title: "apus reindex: seconds per GB of blocks",
        x: "GB of blocks",
        y: "seconds per GB",
        log_y: false,
        x_label: three_digits,
        y_label: three_digits,
        series,
    }
    .svg()
}
