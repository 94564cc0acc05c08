//! The ways to a UTXO set on chains with few and with many coins, compared: Bitcoin Core's own
//! program, validation in order, SwiftSync, and the join. Each rebuilds the UTXO set of the same
//! blocks, in a process of its own, and writes undo data again.

mod base;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::chain::made::{self, Coins, Shape};
use crate::chain::runs::{self, Run, apus, median, run_json};
use crate::process::{self, Programs};
use crate::report::{Cell, Report, Table};

pub use base::dir_with_undo;
use base::{Base, Undo};

/// A way to the UTXO set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// `bitcoind -reindex-chainstate`.
    Core,
    /// `apus reindex --method order`.
    Order,
    /// `apus reindex --method swiftsync --hints FILE`.
    Swiftsync,
    /// `apus reindex --method join`.
    Join,
}

/// Every way, in the order of the table.
pub const WAYS: [Way; 4] = [Way::Core, Way::Order, Way::Swiftsync, Way::Join];

/// Which scripts are checked, and by which code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripts {
    /// No script: all are assumed valid.
    Skipped,
    /// Every script, as `apus` checks it by default.
    Every,
    /// Every script, with signatures verified in AVX2 lanes, as on machines without AVX-512.
    ByAvx2,
    /// Every script, with signatures verified by libsecp256k1, as on machines without lanes.
    ByLibrary,
    /// Every script, by Bitcoin Core's engine.
    ByCore,
}

impl Scripts {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Skipped | Self::Every => &[],
            Self::ByAvx2 => &["--script-engine", "fast", "--testing", "kernel=avx2-doubles"],
            Self::ByLibrary => &["--script-engine", "fast", "--testing", "kernel=library"],
            Self::ByCore => &["--script-engine", "core"],
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Skipped => "",
            Self::Every => ", every script",
            Self::ByAvx2 => ", every script with AVX2",
            Self::ByLibrary => ", every script with libsecp256k1",
            Self::ByCore => ", every script in Core's engine",
        }
    }
}

/// A chain and the runs on it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The chain.
    pub shape: Shape,
    /// The amounts of memory for each way of Apus, in MiB.
    pub dbcaches: Vec<usize>,
    /// The amounts of memory for Core's coins, in MiB. Core does not run without any.
    pub core_dbcaches: Vec<usize>,
}

/// The chains and the runs on them.
#[derive(Clone, Debug)]
pub struct Size {
    /// The name of the report.
    pub name: &'static str,
    pub chains: Vec<Wanted>,
    /// The ways to run.
    pub ways: Vec<Way>,
    /// The number of runs of each way of Apus with scripts skipped, of which the median is
    /// reported.
    pub runs: usize,
    /// Whether there are runs with scripts skipped for each amount of memory; otherwise all runs
    /// check every script.
    pub skipped: bool,
    /// The number of runs of each way with every script, on the chains with few coins and with the
    /// first amount of memory. 0 leaves them out.
    pub full_runs: usize,
    /// The ways that run with every script, including Core's.
    pub full_ways: Vec<Way>,
    /// How every script is checked, for each way of Apus.
    pub full_scripts: Vec<Scripts>,
    /// Bitcoin Core's program. Without it, the other ways are not compared with Core.
    pub bitcoind: Option<PathBuf>,
    /// The number of Core's runs.
    pub core_runs: usize,
    /// The directory that the join spills into; `None` for its default.
    pub spilldir: Option<PathBuf>,
    /// Further options for every `apus reindex`.
    pub options: Vec<OsString>,
}

impl Wanted {
    /// Returns a chain on which Core runs too, with Core's default memory.
    pub fn usual(shape: Shape) -> Self {
        Self { shape, dbcaches: vec![450], core_dbcaches: vec![450] }
    }
}

impl Size {
    /// Returns the size for published figures.
    pub fn full() -> Self {
        let few = Shape::with_top(Coins::Few, made::SIZE_DEFAULT);
        let many = Shape::with_top(Coins::Many, made::SIZE_MANY);
        Self {
            name: "join",
            chains: [few, many].map(Wanted::usual).into(),
            ways: WAYS.to_vec(),
            runs: 3,
            skipped: true,
            full_runs: 1,
            full_ways: vec![Way::Swiftsync, Way::Join],
            full_scripts: vec![Scripts::Every],
            bitcoind: None,
            core_runs: 1,
            spilldir: None,
            options: Vec::new(),
        }
    }

    /// Returns the size for tests.
    pub fn small() -> Self {
        let few = Shape { top: 3, ..Shape::small(1_500_000) };
        let many = Shape { top: 2, ..Shape::with_top(Coins::Many, 2_000_000) };
        let wanted = |shape| Wanted { dbcaches: vec![100], ..Wanted::usual(shape) };
        Self { chains: [few, many].map(wanted).into(), runs: 1, ..Self::full() }
    }

    /// Returns a small [`Size::scripts`] for tests.
    pub fn scripts_small() -> Self {
        let shape = Shape { top: 0, ..Shape::small(1_500_000) };
        let chains = vec![Wanted { shape, dbcaches: vec![100], core_dbcaches: vec![] }];
        Self { chains, ..Self::scripts() }
    }

    /// Returns the size with every script of a chain like mainnet's, by Core and by each way of
    /// Apus, for published figures.
    pub fn scripts() -> Self {
        let shape = Shape { top: 0, ..Shape::with_top(Coins::Few, made::SIZE_DEFAULT) };
        Self {
            name: "scripts",
            chains: vec![Wanted::usual(shape)],
            skipped: false,
            full_ways: WAYS.to_vec(),
            full_scripts: vec![
                Scripts::Every,
                Scripts::ByAvx2,
                Scripts::ByLibrary,
                Scripts::ByCore,
            ],
            ..Self::full()
        }
    }

    /// Returns the size with chains of more and more coins, in order and by SwiftSync, for
    /// published figures. Core takes long, so it runs only on the chain that the others are
    /// compared with.
    pub fn coins() -> Self {
        let wanted = |tenths| {
            let shape = Shape::with_top(Coins::Many, made::SIZE_MANY / 4 * tenths);
            match shape.bytes {
                made::SIZE_MANY => Wanted { dbcaches: vec![50, 450, 4000], ..Wanted::usual(shape) },
                _ => Wanted { core_dbcaches: vec![], ..Wanted::usual(shape) },
            }
        };
        let chains = [1, 2, 4, 8, 16].map(wanted).into();
        let ways = vec![Way::Core, Way::Order, Way::Swiftsync];
        Self { name: "coins", chains, ways, runs: 1, ..Self::full() }
    }

    /// Returns the size with less and less memory for cached coins, in order, on chains of `bytes`
    /// that differ in which coins blocks spend.
    pub fn curve(bytes: u64) -> Self {
        let wanted = |coins| Wanted {
            shape: Shape { coins, ..Shape::of_size(bytes) },
            dbcaches: vec![16, 50, 100, 450, 4000],
            core_dbcaches: vec![50, 450],
        };
        Self {
            name: "curve",
            chains: [Coins::Few, Coins::Many, Coins::Old, Coins::Bursts].map(wanted).into(),
            ways: vec![Way::Core, Way::Order],
            full_runs: 0,
            ..Self::full()
        }
    }
}

/// One row of the table.
struct Row {
    /// The index of the chain.
    chain: usize,
    way: Way,
    scripts: Scripts,
    dbcache: usize,
    run: Run,
}

/// The runs on one chain.
struct Contest<'a> {
    size: &'a Size,
    wanted: &'a Wanted,
    programs: &'a Programs,
    base: &'a Base,
}

/// Generates the chains, or takes them from `dir`, and runs every way on each.
///
/// # Errors
/// A run fails, or ends with a different UTXO set.
pub fn run(size: &Size, programs: &Programs, dir: &Path) -> Result<Report> {
    let mut report = Report::new(size.name);
    report.notes.extend(notes(size)?);
    let mut bases = Vec::new();
    let mut rows = Vec::new();
    for wanted in &size.chains {
        let shape = &wanted.shape;
        let full_runs = if shape.coins == Coins::Few { size.full_runs } else { 0 };
        let base = Base::make(shape, full_runs > 0, programs, dir)?;
        let contest = Contest { size, wanted, programs, base: &base };
        contest.run(bases.len(), full_runs, &mut rows)?;
        base.remove_work()?;
        report.notes.push(chain_note(shape, &base));
        bases.push(base);
    }
    report.tables.push(table(size, &bases, &rows));
    Ok(report)
}

fn notes(size: &Size) -> Result<Vec<String>> {
    let mut notes = vec![
        "every run in a process of its own, from its start to its end, on blocks in the page cache \
         and without a UTXO set, on disk when it ends; undo data of all but some newest blocks is \
         missing before and written, but by SwiftSync assumed valid; the UTXO sets are the same; \
         blocks on top are done in order, whatever made the rest, and take no signatures; below \
         them scripts are skipped"
            .to_string(),
        "× is how many times as fast as Core with the most memory; anonymous memory is what the \
         system cannot drop; spilled is what Apus says that it wrote to files of its own \
         meanwhile; written is everything written to files, as the system counts it; others' CPU \
         is what the rest of the machine used meanwhile"
            .to_string(),
    ];
    if size.ways.contains(&Way::Core) {
        let dbcache = size.chains.iter().find_map(|wanted| wanted.core_dbcaches.first());
        notes.push(match (&size.bitcoind, dbcache) {
            (Some(path), Some(dbcache)) => core_note(path, *dbcache)?,
            _ => "Bitcoin Core left out: no --bitcoind PATH".to_string(),
        });
    }
    if !size.options.is_empty() {
        let options: Vec<_> = size.options.iter().map(|option| option.to_string_lossy()).collect();
        notes.push(format!("further options of apus reindex: {}", options.join(" ")));
    }
    Ok(notes)
}

fn chain_note(shape: &Shape, base: &Base) -> String {
    let count = |key: &str| Cell::Count(base.count(key)).text();
    format!(
        "{}: {} blocks, {} bytes, {} inputs, {} outputs, {} left unspent; {} busy blocks on top; \
         UTXO set {}",
        shape.name(),
        count("height"),
        count("bytes"),
        count("inputs"),
        count("outputs"),
        count("unspent"),
        shape.top,
        base.text("hash_serialized_3"),
    )
}

/// Names a bitcoind, by the commit that it was built of if it knows it, and its command.
fn core_note(bitcoind: &Path, dbcache: usize) -> Result<String> {
    let mut command = Command::new(bitcoind);
    command.arg("-version");
    let (version, _) = process::run(command)?;
    let command = core_command(bitcoind, Path::new("DIR"), dbcache, "HASH");
    let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
    let version = version.lines().next().unwrap_or_default();
    Ok(format!("Core is {version}: bitcoind {}", args.join(" ")))
}

/// Returns the command of a Bitcoin Core that rebuilds the UTXO set and ends with everything on
/// disk.
fn core_command(bitcoind: &Path, datadir: &Path, dbcache: usize, assumevalid: &str) -> Command {
    let mut command = Command::new(bitcoind);
    command.arg("-regtest").arg(format!("-datadir={}", datadir.display()));
    command.args(["-reindex-chainstate", "-stopafterblockimport", "-checkblockindex=0"]);
    command.arg(format!("-dbcache={dbcache}")).arg(format!("-assumevalid={assumevalid}"));
    command.args(["-connect=0", "-listen=0", "-dnsseed=0", "-server=0", "-printtoconsole=0"]);
    command
}

impl Contest<'_> {
    fn run(&self, chain: usize, full_runs: usize, rows: &mut Vec<Row>) -> Result<()> {
        let with_core = self.size.ways.contains(&Way::Core);
        let bitcoind = self.size.bitcoind.as_deref().filter(|_| with_core);
        let core = |dbcache, scripts| -> Result<Option<Row>> {
            let Some(bitcoind) = bitcoind else { return Ok(None) };
            let run = self.core(bitcoind, dbcache, scripts)?;
            Ok(Some(Row { chain, way: Way::Core, scripts, dbcache, run }))
        };
        let ways: Vec<Way> =
            WAYS[1..].iter().copied().filter(|way| self.size.ways.contains(way)).collect();
        if self.size.skipped {
            for &dbcache in &self.wanted.core_dbcaches {
                rows.extend(core(dbcache, Scripts::Skipped)?);
            }
            for &dbcache in &self.wanted.dbcaches {
                for &way in &ways {
                    let scripts = Scripts::Skipped;
                    let run = self.apus(way, dbcache, scripts, self.size.runs)?;
                    rows.push(Row { chain, way, scripts, dbcache, run });
                }
            }
        }
        let Some(&dbcache) = self.wanted.dbcaches.first().filter(|_| full_runs > 0) else {
            return Ok(());
        };
        let full_core = self.size.full_ways.contains(&Way::Core);
        if let Some(&dbcache) = self.wanted.core_dbcaches.first().filter(|_| full_core) {
            rows.extend(core(dbcache, Scripts::Every)?);
        }
        for &scripts in &self.size.full_scripts {
            for &way in ways.iter().filter(|way| self.size.full_ways.contains(way)) {
                let run = self.apus(way, dbcache, scripts, full_runs)?;
                rows.push(Row { chain, way, scripts, dbcache, run });
            }
        }
        Ok(())
    }

    fn core(&self, bitcoind: &Path, dbcache: usize, scripts: Scripts) -> Result<Run> {
        let mut all = Vec::new();
        for _ in 0..self.size.core_runs.max(1) {
            let datadir = self.base.fresh(Undo::Newest)?;
            let assumevalid = self.assumevalid(scripts);
            let command = core_command(bitcoind, datadir, dbcache, assumevalid);
            let (_, usage) = runs::run("Bitcoin Core", command)?;
            self.base.check(self.programs)?;
            all.push(Run { usage, json: serde_json::Value::Null, runs: 1 });
        }
        median(all)
    }

    /// Returns the block up to which scripts are skipped.
    fn assumevalid(&self, scripts: Scripts) -> &str {
        if scripts == Scripts::Skipped { self.base.text("below_top") } else { "0" }
    }

    fn apus(&self, way: Way, dbcache: usize, scripts: Scripts, runs: usize) -> Result<Run> {
        // SwiftSync checks everything only if it finds the spent coins.
        let needs_undo = scripts != Scripts::Skipped && way == Way::Swiftsync;
        let undo = if needs_undo { Undo::All } else { Undo::Newest };
        let name = format!("{}, dbcache {dbcache}", title(way, scripts));
        let mut all = Vec::new();
        for _ in 0..runs.max(1) {
            let datadir = self.base.fresh(undo)?;
            let run = run_json(&name, self.reindex(datadir, way, dbcache, scripts))?;
            self.check_summary(&name, &run, way, scripts)?;
            self.base.check(self.programs)?;
            all.push(run);
        }
        median(all)
    }

    fn reindex(&self, datadir: &Path, way: Way, dbcache: usize, scripts: Scripts) -> Command {
        let mut command = apus(self.programs, &["reindex", "--json"], datadir);
        command.args(scripts.options());
        let assumevalid = self.assumevalid(scripts);
        command.arg("--assumevalid").arg(assumevalid).arg("--dbcache").arg(dbcache.to_string());
        command.arg("--method").arg(method(way));
        if way == Way::Swiftsync {
            command.arg("--hints").arg(&self.base.hints);
        }
        if let Some(spilldir) = self.size.spilldir.as_ref().filter(|_| way == Way::Join) {
            command.arg("--spilldir").arg(spilldir);
        }
        command.args(&self.size.options);
        command
    }

    /// Checks that a run has done what its row says.
    fn check_summary(&self, name: &str, run: &Run, way: Way, scripts: Scripts) -> Result<()> {
        let checked = run.json["scripts_checked"].as_u64();
        if scripts != Scripts::Skipped && checked != Some(self.base.count("inputs")) {
            return Err(format!("{name}: wrong number of checked scripts: {checked:?}").into());
        }
        if let Some(other) = run.json["method"].as_str().filter(|chosen| *chosen != method(way)) {
            return Err(format!("{name}: it used the method '{other}' instead").into());
        }
        let undo_from = run.json["undo_from"].as_u64();
        if way != Way::Swiftsync && undo_from != Some(1) {
            return Err(format!("{name}: undo data begins at {undo_from:?}, not at 1").into());
        }
        Ok(())
    }
}

/// Returns the name of a way in options and summaries of `apus`.
fn method(way: Way) -> String {
    let value = clap::ValueEnum::to_possible_value(&way);
    value.map_or_else(String::new, |value| value.get_name().to_string())
}

fn title(way: Way, scripts: Scripts) -> String {
    let name = match way {
        Way::Core => "Bitcoin Core",
        Way::Order => "apus, in order",
        Way::Swiftsync => "apus, SwiftSync",
        Way::Join => "apus, join",
    };
    format!("{name}{}", scripts.words())
}

fn chain_title(base: &Base) -> String {
    let millions = base.count("unspent") as f64 / 1e6;
    format!("{}, {millions:.1} million coins", Cell::Bytes(base.count("bytes")).text())
}

/// Returns the time that Core with the most memory took for the same, if it ran.
fn core_seconds(rows: &[Row], row: &Row) -> Option<f64> {
    let same = |other: &&Row| {
        let is_skipped = |row: &Row| row.scripts == Scripts::Skipped;
        (other.chain, other.way, is_skipped(other)) == (row.chain, Way::Core, is_skipped(row))
    };
    rows.iter().filter(same).max_by_key(|core| core.dbcache).map(|core| core.run.seconds())
}

fn table(size: &Size, bases: &[Base], rows: &[Row]) -> Table {
    let columns = [
        ("chain", "chain"),
        ("coins", "its coins"),
        ("run", "run"),
        ("dbcache_mib", "dbcache"),
        ("seconds", "time"),
        ("cpu_seconds", "CPU time"),
        ("times_as_fast_as_core", "×"),
        ("seconds_per_gb", "s per GB"),
        ("peak_memory_bytes", "peak memory"),
        ("peak_anonymous_bytes", "anonymous"),
        ("inputs", "inputs"),
        ("coins_looked_up", "looked up"),
        ("longest_stall", "longest stall"),
        ("spilled_bytes", "spilled"),
        ("written_bytes", "written"),
        ("scripts_checked", "scripts"),
        ("scripts_core", "of them in Core's engine"),
        ("others_cpu_seconds", "others' CPU"),
        ("runs", "runs"),
    ];
    let mut table = Table::new("runs", &columns);
    for row in rows {
        let base = &bases[row.chain];
        let usage = &row.run.usage;
        let told = |key: &str, cell: fn(u64) -> Cell| {
            row.run.json[key].as_u64().map_or(Cell::text_of("-"), cell)
        };
        table.push(vec![
            Cell::text_of(chain_title(base)),
            Cell::text_of(size.chains[row.chain].shape.coins.name()),
            Cell::text_of(title(row.way, row.scripts)),
            Cell::Count(row.dbcache as u64),
            Cell::Seconds(row.run.seconds()),
            Cell::Seconds(usage.cpu.as_secs_f64()),
            core_seconds(rows, row)
                .map_or(Cell::Empty, |core| Cell::Ratio(core / row.run.seconds())),
            Cell::Number(row.run.seconds() / (base.count("bytes").max(1) as f64 / 1e9)),
            Cell::Bytes(usage.peak_bytes),
            Cell::Bytes(usage.peak_anonymous_bytes),
            Cell::Count(base.count("inputs")),
            told("coins_looked_up", Cell::Count),
            runs::longest_stall(&row.run),
            told("spilled_bytes", Cell::Bytes),
            Cell::Bytes(usage.written_bytes),
            told("scripts_checked", Cell::Count),
            row.run.json["script_checks"]["core"].as_u64().map_or(Cell::text_of("-"), Cell::Count),
            Cell::Seconds(usage.others_cpu.as_secs_f64()),
            Cell::Count(row.run.runs as u64),
        ]);
    }
    table
}
