//! The work of a run, stage by stage, and what it costs on the machine of docs/budget.md. Bytes
//! measure it well: mainnet's blocks hold about 4.2 inputs, 4.4 outputs and 4.7 signatures a
//! kilobyte since height 200,000.

use std::thread::available_parallelism;

use crate::method::Method;
use crate::phase::Phase;

/// Nanoseconds of one core for any block.
const BLOCK: f64 = 10_000.0;
/// Signatures of a byte.
const SIGNATURES: f64 = 0.0047;
/// Bytes a second of a usual download.
const DOWNLOAD_SPEED: f64 = 25e6;
/// Bytes of the tables of a coin that takes a byte of the cache (docs/budget.md).
pub const CACHED_TABLES: f64 = 70.0 / 106.0;
/// A run of new tables with at most this share (one in ...) of all is left as it is.
const MERGED_ALONE_SHARE: f64 = 8.0;

/// Returns nanoseconds for a byte of blocks without their scripts, or of tables: those of one core,
/// and those of a thread or a disk that all cores wait for.
fn byte(phase: Phase) -> (f64, f64) {
    match phase {
        Phase::Connecting => (4.2, 2.1),
        Phase::SwiftSync => (1.15, 0.9),
        Phase::JoinReading => (1.9, 1.0),
        Phase::JoinMatching => (0.75, 0.25),
        Phase::JoinChecking => (0.6, 0.25),
        Phase::ReadingForIndexes => (2.0, 0.9),
        Phase::WritingIndexes => (0.3, 0.15),
        Phase::WritingCoins => (5.0, 1.5),
        Phase::Merging => (3.6, 1.5),
        _ => (0.0, 0.0),
    }
}

/// The costs of a run with some options, with as many cores as this machine has.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Nanoseconds of one core for a byte of a block whose scripts are checked.
    script_byte: f64,
    cores: f64,
}

impl Costs {
    /// Returns the costs of a run with this many threads, in which a signature takes `signature`
    /// nanoseconds of one core.
    pub fn new(signature: f64, threads: usize) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        let cores = threads.clamp(1, cores) as f64;
        Self { script_byte: signature * SIGNATURES, cores }
    }

    /// Returns the seconds that `phase` takes for this many blocks and bytes, of which scripts are
    /// checked in `script_bytes`.
    pub fn seconds(&self, phase: Phase, blocks: f64, bytes: f64, script_bytes: f64) -> f64 {
        let (core, alone) = byte(phase);
        let mut all = BLOCK * blocks + core * bytes;
        if matches!(phase, Phase::Connecting | Phase::SwiftSync | Phase::JoinChecking) {
            all += self.script_byte * script_bytes;
        }
        (all / self.cores).max(alone * bytes) / 1e9
    }
}

/// A stage of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stage {
    /// The phase that is reported meanwhile.
    pub phase: Phase,
    /// The work, in seconds of the machine of docs/budget.md with as many cores as this one.
    pub work: f64,
    /// The part of the work that is not a download, so that its pace measures the machine.
    pub own: f64,
}

impl Stage {
    /// Creates a stage that takes this many seconds.
    pub fn new(phase: Phase, seconds: f64) -> Self {
        Self { phase, work: seconds, own: seconds }
    }

    fn downloading(self, bytes: f64) -> Self {
        Self { work: self.work.max(bytes / DOWNLOAD_SPEED), ..self }
    }
}

/// The stages of a run in their order, from now on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunPlan {
    /// The stages. A phase may occur more than once.
    pub stages: Vec<Stage>,
}

impl RunPlan {
    /// Returns the work of all stages, in seconds of the machine of docs/budget.md.
    pub fn work(&self) -> f64 {
        self.stages.iter().map(|stage| stage.work).sum()
    }
}

/// Blocks that are to become part of the UTXO set. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Task {
    /// The number of blocks.
    pub blocks: f64,
    /// All of them.
    pub bytes: f64,
    /// Those whose scripts are checked.
    pub script_bytes: f64,
    /// Those that peers send.
    pub from_peers: f64,
    /// The tables of the coins before.
    pub tables: f64,
    /// The tables of the coins that these blocks add.
    pub new_tables: f64,
    /// The tables of as many coins as the cache holds.
    pub cached: f64,
}

impl Task {
    /// Returns the stages of a run that does this by `method`.
    pub fn stages(&self, method: Method, costs: &Costs) -> Vec<Stage> {
        let Self { blocks, bytes, script_bytes, from_peers, tables, new_tables, cached } = *self;
        let stage = |phase| Stage::new(phase, costs.seconds(phase, blocks, bytes, script_bytes));
        let of_tables = |phase, bytes| Stage::new(phase, costs.seconds(phase, 0.0, bytes, 0.0));
        match method {
            Method::InOrder => {
                let merged = if tables > 0.0 && new_tables > tables / MERGED_ALONE_SHARE {
                    tables + new_tables
                } else if new_tables > cached {
                    new_tables
                } else {
                    0.0
                };
                vec![
                    stage(Phase::Connecting).downloading(from_peers),
                    of_tables(Phase::WritingCoins, new_tables.min(cached)),
                    of_tables(Phase::Merging, merged),
                ]
            }
            Method::Join => vec![
                stage(Phase::JoinReading).downloading(from_peers),
                stage(Phase::JoinMatching),
                stage(Phase::JoinChecking),
            ],
            Method::SwiftSync => vec![
                stage(Phase::SwiftSync).downloading(from_peers),
                of_tables(Phase::WritingCoins, new_tables),
            ],
        }
    }
}
