use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::chain::made::{self, Coins, Shape};
use crate::join::Wanted;
use crate::kernels::Sample;
use crate::process::Programs;
use crate::report::Report;
use crate::{Result, chain, inputs, join, kernels, parallel, trials, world};

/// Measure Apus and the programs that it is compared with; print tables in Markdown.
#[derive(Parser)]
#[command(name = "apus-bench", version)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Args, Clone)]
struct Common {
    /// Directory for chains, data directories and results as JSON; chains are kept for later runs
    #[arg(long, global = true, default_value = "target/bench", value_name = "DIR")]
    dir: PathBuf,
    /// Measure a tenth of everything, which takes minutes
    #[arg(long, global = true)]
    quick: bool,
    /// Use this `apus` instead of the one built into this program
    #[arg(long, global = true, value_name = "PATH")]
    apus: Option<PathBuf>,
    /// Runs of each reindex without scripts
    #[arg(long, global = true, default_value_t = 3, value_name = "N")]
    runs: usize,
    /// Runs of each reindex with every script; 0 for none
    #[arg(long, global = true, default_value_t = 1, value_name = "N")]
    full_runs: usize,
}

#[derive(Subcommand)]
enum Command {
    /// Everything below [default]
    All,
    /// Single operations: blocks, undo data, tables, hashes
    Kernels {
        /// Records in the tables, in thousands
        #[arg(long, value_name = "N")]
        records: Option<u64>,
    },
    /// Hints: encoding and decoding, and their sizes in all formats
    Hints {
        /// Hints files in the format bip456 whose sizes are reported too
        files: Vec<PathBuf>,
    },
    /// Bitcoin Core, validation in order, SwiftSync and the join, on chains with few and with many
    /// coins
    Join(JoinArgs),
    /// Chains with 11 to 175 million coins, in order and by SwiftSync, and by Bitcoin Core
    Coins {
        /// Bitcoin Core's program to compare with
        #[arg(long, value_name = "PATH")]
        bitcoind: Option<PathBuf>,
    },
    /// In order with smaller and smaller caches, on chains that spend new coins, old ones, or those
    /// of one block at a time
    Curve(CurveArgs),
    /// Every script of a chain: by Bitcoin Core, by each way and each script engine of Apus, and
    /// the cost of an input by the type of output that it spends
    Scripts {
        /// MB of blocks
        #[arg(long, value_name = "MB")]
        size: Option<u64>,
        /// Bitcoin Core's program to compare with
        #[arg(long, value_name = "PATH")]
        bitcoind: Option<PathBuf>,
    },
    /// A program, and for how long how many of its threads run, and which alone
    ///
    /// On one core, this also says how long the program would take on 2 to 16 if it has as many
    /// threads: `taskset -c 0 apus-bench parallel -- apus reindex --par 16 ...`.
    Parallel {
        /// The program and its arguments, after --
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Simulated peers in virtual time: the share of what they can send that arrives
    World {
        /// Number of random worlds
        #[arg(long, default_value_t = world::RANDOM, value_name = "N")]
        random: u64,
    },
    /// Random trials with kills, full disks, flipped bits or truncated files; exit status 1 if
    /// anything committed was lost or silently wrong
    Trials {
        #[arg(value_enum)]
        kind: trials::Kind,
        /// Minutes after which no new trial begins
        #[arg(long, default_value_t = 10.0, value_name = "N")]
        minutes: f64,
        /// Seed of the first trial; each later trial uses the next seed
        #[arg(long, default_value_t = 1, value_name = "N")]
        seed: u64,
        /// Seed of the chain that all trials use
        #[arg(long, default_value_t = 1, value_name = "N")]
        chain: u64,
        /// Maximum number of trials; --seed N --tries 1 repeats a trial
        #[arg(long, default_value_t = u64::MAX, hide_default_value = true, value_name = "N")]
        tries: u64,
    },
    /// Makes a chain
    #[command(hide = true)]
    MakeChain {
        #[arg(long)]
        file: PathBuf,
        #[arg(long)]
        facts: PathBuf,
        #[arg(long, value_enum)]
        coins: Coins,
        #[arg(long)]
        bytes: u64,
        #[arg(long)]
        busy: u32,
        #[arg(long)]
        top: u32,
        #[arg(long)]
        keys: u32,
        #[arg(long)]
        seed: u64,
    },
    /// Core's engine rebuilds the UTXO set of a regtest directory
    #[command(hide = true)]
    CoreReindex {
        #[arg(long)]
        datadir: PathBuf,
    },
}

#[derive(Args)]
struct CurveArgs {
    /// MB of blocks of each chain
    #[arg(long, value_name = "MB")]
    size: Option<u64>,
    /// The kinds of chains, as a list [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    coins: Option<Vec<Coins>>,
    /// MiB for cached coins, as a list
    #[arg(long, value_name = "MIB", value_delimiter = ',')]
    dbcache: Option<Vec<usize>>,
    /// Bitcoin Core's program to compare with
    #[arg(long, value_name = "PATH")]
    bitcoind: Option<PathBuf>,
    /// MiB for Core's coins, as a list
    #[arg(long, value_name = "MIB", value_delimiter = ',', default_value = "50,450")]
    core_dbcache: Vec<usize>,
}

#[derive(Args)]
struct JoinArgs {
    /// Kinds of chains, as a list [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    coins: Option<Vec<Coins>>,
    /// MB of blocks, as a list; one chain of each kind for each [default: 2100 with few coins, 2200
    /// with many]
    #[arg(long, value_name = "MB", value_delimiter = ',')]
    size: Option<Vec<u64>>,
    /// Busy blocks on top of the chain
    #[arg(long, value_name = "N", default_value_t = made::TOP_DEFAULT)]
    top: u32,
    /// MiB for Apus, as a list; one run of each way for each
    #[arg(long, value_name = "MIB", value_delimiter = ',', default_value = "450")]
    dbcache: Vec<usize>,
    /// Ways to build the UTXO set, as a list [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    method: Option<Vec<join::Way>>,
    /// Bitcoin Core's program to compare with
    #[arg(long, value_name = "PATH")]
    bitcoind: Option<PathBuf>,
    /// MiB for Core's coins
    #[arg(long, value_name = "MIB", default_value_t = 450)]
    core_dbcache: usize,
    /// Runs of Core
    #[arg(long, value_name = "N", default_value_t = 1)]
    core_runs: usize,
    /// Directory that the join spills into
    #[arg(long, value_name = "DIR")]
    spilldir: Option<PathBuf>,
    /// Further options for every `apus reindex`, after --
    #[arg(last = true)]
    options: Vec<OsString>,
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let common = cli.common;
    match cli.command.unwrap_or(Command::All) {
        Command::All => all(),
        Command::Kernels { records } => {
            let mut size = kernels::Size::FULL;
            size.records /= if common.quick { 10 } else { 1 };
            size.records = records.map_or(size.records, |thousands| thousands * 1_000).max(1);
            common.finish(kernels::run(size, &Sample::large()?, &common.dir)?)
        }
        Command::Hints { files } => common.finish(kernels::run_hints(kernels::Size::FULL, &files)?),
        Command::Join(args) => {
            let size = args.size(&common);
            common.finish(join::run(&size, &common.programs()?, &common.dir)?)
        }
        Command::Coins { bitcoind } => {
            let mut size = join::Size { bitcoind, ..join::Size::coins() };
            if common.quick {
                size.chains.iter_mut().for_each(|wanted| wanted.shape.bytes /= 10);
            }
            common.finish(join::run(&size, &common.programs()?, &common.dir)?)
        }
        Command::Curve(args) => common.curve(args),
        Command::Scripts { size, bitcoind } => common.scripts(size, bitcoind),
        Command::Parallel { command } => {
            let mut program = std::process::Command::new(&command[0]);
            program.args(&command[1..]);
            common.finish(parallel::run(program)?)
        }
        Command::World { random } => common.finish(world::run(random)?),
        Command::Trials { kind, minutes, seed, chain, tries } => {
            let time = Duration::try_from_secs_f64(minutes * 60.0)?;
            let world = trials::World::new(common.programs()?, &common.dir, chain)?;
            let tally = trials::run(kind, &trials::Size { time, tries, seed }, &world)?;
            println!("{}", tally.text());
            if tally.failed() {
                Err("committed coins were lost, or something was silently wrong".into())
            } else {
                Ok(())
            }
        }
        Command::MakeChain { file, facts, coins, bytes, busy, top, keys, seed } => {
            made::make(&Shape { coins, bytes, busy, top, keys, seed }, &file, &facts)
        }
        Command::CoreReindex { datadir } => {
            println!("{}", chain::engine::reindex(&datadir)?);
            Ok(())
        }
    }
}

/// Runs each benchmark in a process of its own, so that none inherits memory from another.
fn all() -> Result<()> {
    let args: Vec<_> = std::env::args_os().skip(1).filter(|arg| arg != "all").collect();
    for name in ["kernels", "join", "coins", "curve", "scripts"] {
        eprintln!("{name} …");
        let mut command = std::process::Command::new(std::env::current_exe()?);
        let status = command.arg(name).args(&args).status()?;
        if !status.success() {
            return Err(format!("{name}: {status}").into());
        }
    }
    Ok(())
}

impl JoinArgs {
    fn size(self, common: &Common) -> join::Size {
        let full = join::Size::full();
        let kinds = self.coins.unwrap_or(vec![Coins::Few, Coins::Many]);
        let shapes = kinds.into_iter().flat_map(|coins| {
            let default = if coins == Coins::Few { made::SIZE_DEFAULT } else { made::SIZE_MANY };
            let default = if common.quick { default / 10 } else { default };
            let sizes = match &self.size {
                Some(sizes) => sizes.iter().map(|mb| mb.saturating_mul(1_000_000)).collect(),
                None => vec![default],
            };
            let top = self.top;
            sizes.into_iter().map(move |bytes| Shape { top, ..Shape::with_top(coins, bytes) })
        });
        let core_dbcaches = vec![self.core_dbcache];
        let dbcaches = self.dbcache;
        let wanted = |shape| Wanted {
            shape,
            dbcaches: dbcaches.clone(),
            core_dbcaches: core_dbcaches.clone(),
        };
        join::Size {
            chains: shapes.map(wanted).collect(),
            ways: self.method.unwrap_or(full.ways),
            name: full.name,
            runs: common.runs,
            full_runs: common.full_runs,
            skipped: full.skipped,
            full_ways: full.full_ways,
            full_scripts: full.full_scripts,
            bitcoind: self.bitcoind,
            core_runs: self.core_runs,
            spilldir: self.spilldir,
            options: self.options,
        }
    }
}

impl Common {
    fn programs(&self) -> Result<Programs> {
        Programs::new(self.apus.clone())
    }

    fn shape(&self, default: Shape, megabytes: Option<u64>) -> Shape {
        match megabytes {
            Some(megabytes) => Shape::of_size(megabytes.saturating_mul(1_000_000)),
            None if self.quick => Shape::of_size(default.bytes / 10),
            None => default,
        }
    }

    fn scripts(&self, megabytes: Option<u64>, bitcoind: Option<PathBuf>) -> Result<()> {
        let mut wanted = join::Size { bitcoind, ..join::Size::scripts() };
        for chain in &mut wanted.chains {
            chain.shape = Shape { top: 0, ..self.shape(chain.shape, megabytes) };
        }
        (wanted.runs, wanted.full_runs) = (self.runs, self.full_runs.max(1));
        self.finish(inputs::run(&wanted, &self.programs()?, &self.dir)?)
    }

    fn curve(&self, args: CurveArgs) -> Result<()> {
        let quick = self.quick.then_some(made::SIZE_MANY / 10);
        let bytes = args.size.map(|megabytes| megabytes.saturating_mul(1_000_000)).or(quick);
        let mut wanted = join::Size::curve(bytes.unwrap_or(made::SIZE_MANY));
        if let Some(coins) = args.coins {
            wanted.chains.retain(|chain| coins.contains(&chain.shape.coins));
        }
        for chain in &mut wanted.chains {
            chain.core_dbcaches.clone_from(&args.core_dbcache);
            if let Some(dbcaches) = &args.dbcache {
                chain.dbcaches.clone_from(dbcaches);
            }
        }
        (wanted.bitcoind, wanted.runs) = (args.bitcoind, self.runs);
        self.finish(join::run(&wanted, &self.programs()?, &self.dir)?)
    }

    fn finish(&self, report: Report) -> Result<()> {
        println!("{}", report.text());
        report.write(&self.dir)
    }
}
