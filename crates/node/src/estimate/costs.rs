//! What each phase costs for a byte of blocks or tables, on the machine of docs/budget.md.
//!
//! Mainnet's blocks hold about 4.2 inputs, 4.4 outputs and 4.7 signatures a kilobyte since height
//! 200,000, so bytes measure the work well. Each run measures how long its machine takes.

use std::thread::available_parallelism;

use secp_lanes::Kernel;

use crate::options::{Options, ScriptEngine};
use crate::phase::Phase;

/// Nanoseconds of one core for any block.
const BLOCK: f64 = 10_000.0;
/// Nanoseconds of the one thread that takes and adds coins in order, for a byte of blocks.
const ALONE: f64 = 2.1;
/// Nanoseconds of one core to verify a signature with Core's engine; signatures of a byte.
const CORE: f64 = 30_000.0;
const SIGNATURES: f64 = 0.0047;
/// By how much a sync in order is slower, at most, with far more coins than the cache holds: they
/// are looked up, and written to tables again and again.
const CROWDED: f64 = 1.2;

/// Returns nanoseconds of one core for a byte of blocks without their scripts, or of tables.
fn byte(phase: Phase) -> f64 {
    match phase {
        Phase::Connecting => 4.2,
        Phase::SwiftSync => 1.15,
        Phase::JoinReading => 1.9,
        Phase::JoinMatching => 0.75,
        Phase::JoinChecking => 0.6,
        Phase::ReadingForIndexes => 2.0,
        Phase::WritingIndexes => 0.3,
        Phase::WritingCoins => 5.0,
        Phase::Merging => 3.6,
        _ => 0.0,
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
    /// Returns the costs of a run with these options.
    pub fn new(options: &Options) -> Self {
        let fast = match options.scripts.kernel.unwrap_or_else(Kernel::best) {
            Kernel::Avx512 => 3_000.0,
            Kernel::Avx2 => 10_000.0,
            Kernel::Neon => 15_000.0,
            Kernel::Library | Kernel::Portable => CORE,
        };
        let signature = match options.scripts.engine {
            ScriptEngine::Core => CORE,
            ScriptEngine::Fast => fast,
            ScriptEngine::Both => CORE + fast,
        };
        let cores = available_parallelism().map_or(1, usize::from);
        let cores = options.threads.clamp(1, cores) as f64;
        Self { script_byte: signature * SIGNATURES, cores }
    }

    /// Returns the seconds that `phase` takes for this many blocks and bytes, of which scripts are
    /// checked in `script_bytes`.
    pub fn seconds(&self, phase: Phase, blocks: f64, bytes: f64, script_bytes: f64) -> f64 {
        let mut all = BLOCK * blocks + byte(phase) * bytes;
        if matches!(phase, Phase::Connecting | Phase::SwiftSync | Phase::JoinChecking) {
            all += self.script_byte * script_bytes;
        }
        let alone = if phase == Phase::Connecting { ALONE * bytes } else { 0.0 };
        (all / self.cores).max(alone) / 1e9
    }

    /// Returns the nanoseconds that `phase` takes for a block.
    pub fn block(&self, phase: Phase, bytes: u64, has_scripts: bool) -> u64 {
        let script_bytes = if has_scripts { bytes as f64 } else { 0.0 };
        (self.seconds(phase, 1.0, bytes as f64, script_bytes) * 1e9) as u64
    }
}

/// Returns how many times as long it takes to connect a block in order, with tables of this many
/// bytes and a cache that holds the coins of `cached` bytes of tables.
pub fn crowding(tables: f64, cached: f64) -> f64 {
    1.0 + CROWDED * (1.0 - cached / tables.max(1.0)).max(0.0)
}
