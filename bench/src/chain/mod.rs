//! A whole generated chain by `apus sync`, by `apus reindex` and by Bitcoin Core's own engine, and
//! the cost of its scripts alone. Each runs in a process of its own, all in one session.

pub mod engine;
pub mod made;
pub mod runs;
pub mod scripts;

use std::path::Path;

use serde_json::Value;

use crate::process::Programs;
use crate::report::{Cell, Report, Table};
use crate::{Result, machine};

use made::{MadeChain, Shape};
use runs::{How, Run, Runner};

/// The chain and the runs on it.
#[derive(Clone, Debug)]
pub struct Size {
    /// The chain.
    pub shape: Shape,
    /// The amounts of memory for cached coins, in MiB.
    pub dbcaches: Vec<usize>,
    /// The number of runs of each reindex without scripts, of which the median is reported.
    pub runs: usize,
    /// The number of runs of each reindex that checks every script. 0 leaves these out, and Core's
    /// engine and the scripts alone too.
    pub full_runs: usize,
}

impl Size {
    /// Returns the size for published figures: the chain of docs/design.md, section 7.
    pub fn full() -> Self {
        let dbcaches = vec![50, 450, 4000];
        Self { shape: Shape::of_size(made::SIZE_DEFAULT), dbcaches, runs: 3, full_runs: 1 }
    }

    /// Returns the size for tests.
    pub fn small() -> Self {
        Self { shape: Shape::small(1_500_000), dbcaches: vec![16, 450], runs: 1, full_runs: 1 }
    }
}

/// The memory that SwiftSync may use in MiB, Core's default.
const SWIFTSYNC_DBCACHE: usize = 450;

/// The results for one chain.
struct Measured {
    chain: MadeChain,
    sync: Run,
    hints: Run,
    /// SwiftSync with scripts skipped, and with every script checked.
    swift: Run,
    swift_full: Option<Run>,
    /// For each dbcache, a reindex with scripts skipped and one with every script checked.
    skipped: Vec<(usize, Run)>,
    full: Vec<(usize, Run)>,
    engine: Option<Run>,
    scripts: Option<Run>,
}

/// Generates the chain, or takes it from `dir`, and does all runs on it.
///
/// # Errors
/// A run fails, or two runs end with different UTXO sets.
pub fn run(size: &Size, programs: &Programs, dir: &Path) -> Result<Report> {
    let measured = measure(size, programs, dir)?;
    let mut report = Report::new("chain");
    let facts = &measured.chain.facts;
    let count = |key: &str| Cell::Count(facts[key].as_u64().unwrap_or(0)).text();
    report.notes.push(format!(
        "{}: {} blocks, {} bytes, {} inputs, {} outputs, {} left unspent",
        measured.chain.name,
        count("height"),
        count("bytes"),
        count("inputs"),
        count("outputs"),
        count("unspent"),
    ));
    report.notes.push(
        "every run in a process of its own, from its start to its end; blocks in the page cache; \
         tables merged and best block written at the end; × is how many times as fast as Core; \
         others' CPU is what the rest of the machine used meanwhile"
            .to_string(),
    );
    report.notes.push(format!(
        "Core with every script: its engine (libbitcoinkernel 31.99), dbcache 450 MiB, {} worker \
         threads next to the main one; it has no assumevalid, so that Core without scripts is the \
         figure of docs/design.md, 7, on the same chain's shape",
        engine::worker_threads()
    ));
    report.notes.push(
        "scripts' share × is the time as a multiple of the scripts' own CPU time divided by the \
         cores, scripts' CPU × the CPU time as a multiple of it: 1.00 is the floor"
            .to_string(),
    );
    report.notes.push(format!(
        "the UTXO set after each run: {}",
        measured.sync.digest.as_deref().unwrap_or("none")
    ));
    report.tables.push(measured.runs_table());
    report.tables.push(measured.stages_table());
    Ok(report)
}

fn measure(size: &Size, programs: &Programs, dir: &Path) -> Result<Measured> {
    let chain = MadeChain::make(&size.shape, programs, dir)?;
    let mut runner = Runner::new(programs, &chain, dir)?;
    let sync = runner.sync()?;
    let tip = chain.tip().to_string();
    let all = |runner: &mut Runner, assumevalid: &str, runs: usize| -> Result<Vec<_>> {
        let mut found = Vec::new();
        for dbcache in size.dbcaches.iter().filter(|_| runs > 0) {
            let how = How { assumevalid, dbcache: *dbcache, ..How::default() };
            found.push((*dbcache, runner.reindex(how, runs)?));
        }
        Ok(found)
    };
    let skipped = all(&mut runner, &tip, size.runs)?;
    let hints = runner.hints()?;
    let swift = How { assumevalid: &tip, dbcache: SWIFTSYNC_DBCACHE, hints: true, stop: None };
    let every_script = How { assumevalid: "0", ..swift };
    let swift = runner.reindex(swift, size.runs)?;
    let full = all(&mut runner, "0", size.full_runs)?;
    let mut engine = None;
    let mut scripts = None;
    let mut swift_full = None;
    if size.full_runs > 0 {
        swift_full = Some(runner.reindex(every_script, size.full_runs)?);
        scripts = Some(runner.scripts_alone(size.full_runs)?);
        engine = Some(runner.engine(size.full_runs)?);
    }
    runner.remove()?;
    Ok(Measured { chain, sync, hints, swift, swift_full, skipped, full, engine, scripts })
}

/// Returns the time of Core v31.99 for this chain's shape without scripts, by dbcache
/// (docs/design.md, 7).
fn core_without_scripts(chain: &MadeChain, dbcache: usize) -> Option<f64> {
    match (chain.bytes() / 100_000_000, dbcache) {
        (20..=21, 450) => Some(51.0),
        (20..=21, 4000) => Some(43.0),
        _ => None,
    }
}

impl Measured {
    /// Returns all runs: name, dbcache, run, and Core's time for the same.
    fn runs(&self) -> Vec<(&'static str, Option<usize>, &Run, Option<f64>)> {
        let engine = self.engine.as_ref().map(Run::seconds);
        let mut all =
            vec![("apus sync, scripts skipped", Some(runs::SYNC_DBCACHE), &self.sync, None)];
        for (dbcache, run) in &self.skipped {
            let core = core_without_scripts(&self.chain, *dbcache);
            all.push(("apus reindex, scripts skipped", Some(*dbcache), run, core));
        }
        let dbcache = SWIFTSYNC_DBCACHE;
        let core = core_without_scripts(&self.chain, 4000);
        all.push(("apus hints create", Some(dbcache), &self.hints, None));
        all.push(("SwiftSync, assumed valid", Some(dbcache), &self.swift, core));
        for (dbcache, run) in &self.full {
            all.push(("apus reindex, every script", Some(*dbcache), run, engine));
        }
        if let Some(run) = &self.swift_full {
            all.push(("SwiftSync, every script", Some(dbcache), run, engine));
        }
        if let Some(run) = &self.engine {
            all.push(("Core's reindex, every script", Some(450), run, engine));
        }
        if let Some(run) = &self.scripts {
            all.push(("the scripts alone", None, run, None));
        }
        all
    }

    /// Returns the time of the scripts alone if no core ever waited, in seconds.
    fn floor_s(&self) -> Option<f64> {
        let scripts = self.scripts.as_ref()?;
        Some(scripts.json["script_cpu_seconds"].as_f64()? / machine::cores() as f64)
    }

    fn runs_table(&self) -> Table {
        let columns = [
            ("run", "run"),
            ("dbcache_mib", "dbcache"),
            ("seconds", "time"),
            ("cpu_seconds", "CPU time"),
            ("mb_per_s", "MB/s"),
            ("inputs_per_s", "inputs/s"),
            ("peak_memory_bytes", "peak memory"),
            ("others_cpu_seconds", "others' CPU"),
            ("runs", "runs"),
            ("core_seconds", "Core"),
            ("times_as_fast_as_core", "×"),
            ("times_scripts_floor", "scripts' share ×"),
            ("cpu_times_scripts", "scripts' CPU ×"),
        ];
        let mut table = Table::new("runs", &columns);
        for (name, dbcache, run, core) in self.runs() {
            let full = name.ends_with("every script");
            let floor = self.floor_s().filter(|_| full);
            let times = |part: f64, whole: Option<f64>| {
                whole.map_or(Cell::Empty, |whole| Cell::Ratio(part / whole))
            };
            let cpu = run.usage.cpu.as_secs_f64();
            let cores = machine::cores() as f64;
            let seconds = run.seconds();
            table.push(vec![
                Cell::text_of(name),
                dbcache.map_or(Cell::Empty, |mib| Cell::Count(mib as u64)),
                Cell::Seconds(seconds),
                Cell::Seconds(cpu),
                Cell::Number(self.chain.bytes() as f64 / 1e6 / seconds),
                Cell::Count((self.chain.count("inputs") as f64 / seconds) as u64),
                Cell::Bytes(run.usage.peak_bytes),
                Cell::Seconds(run.usage.others_cpu.as_secs_f64()),
                Cell::Count(run.runs as u64),
                core.map_or(Cell::Empty, Cell::Seconds),
                core.map_or(Cell::Empty, |core| Cell::Ratio(core / seconds)),
                times(seconds, floor),
                times(cpu, floor.map(|floor| floor * cores)),
            ]);
        }
        if let Some(floor) = self.floor_s() {
            let name = Cell::text_of("the scripts' CPU time / cores");
            table.push(vec![name, Cell::Empty, Cell::Seconds(floor)]);
        }
        table
    }

    fn stages_table(&self) -> Table {
        let names: Vec<String> = match &self.sync.json["stages"] {
            Value::Object(stages) => stages.keys().cloned().collect(),
            _ => Vec::new(),
        };
        let mut columns =
            vec![("run", "share of the threads' time, %"), ("dbcache_mib", "dbcache")];
        columns.extend(names.iter().map(|name| (name.as_str(), name.as_str())));
        let mut table = Table::new("stages", &columns);
        for (name, dbcache, run, _) in self.runs() {
            let seconds: Option<Vec<f64>> =
                names.iter().map(|name| run.json["stages"][name].as_f64()).collect();
            let Some(seconds) = seconds else { continue };
            let sum: f64 = seconds.iter().sum::<f64>().max(1e-9);
            let dbcache = dbcache.map_or(Cell::Empty, |mib| Cell::Count(mib as u64));
            let mut row = vec![Cell::text_of(name), dbcache];
            row.extend(seconds.iter().map(|seconds| Cell::Number(100.0 * seconds / sum)));
            table.push(row);
        }
        table
    }
}
