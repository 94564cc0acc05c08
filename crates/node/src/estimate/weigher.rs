//! What each phase of a run costs: the time that a machine like the one of docs/budget.md takes.

use std::thread::available_parallelism;

use apus_store::IndexKind;
use apus_wire::Chain;
use secp_lanes::Kernel;

use super::amounts::{Amounts, Profile};
use crate::options::{Options, ScriptEngine};
use crate::phase::Phase;

/// Nanoseconds of one core for a part of the work.
#[derive(Clone, Copy, Default)]
struct Cost {
    block: f64,
    byte: f64,
    input: f64,
    output: f64,
    /// Nanoseconds of the one thread that no other can help, for each input and output.
    alone: f64,
    /// Whether scripts are checked in this phase.
    has_scripts: bool,
}

const NOTHING: Cost =
    Cost { block: 0.0, byte: 0.0, input: 0.0, output: 0.0, alone: 0.0, has_scripts: false };

/// Returns what a phase that works on blocks costs, in nanoseconds of one core of the processor of
/// docs/budget.md. The figures are fitted to runs of generated chains with few and with many coins
/// (`bench/eta.py` shows them), where everything is read from the page cache.
fn cost(phase: Phase) -> Cost {
    match phase {
        Phase::Headers => Cost { byte: 0.15, block: 1_500.0, ..NOTHING },
        Phase::Indexing => Cost { byte: 1.0, block: 2_000.0, ..NOTHING },
        Phase::Connecting => Cost {
            block: 20_000.0,
            byte: 0.6,
            input: 500.0,
            output: 350.0,
            alone: 250.0,
            has_scripts: true,
        },
        Phase::SwiftSync => Cost {
            block: 10_000.0,
            byte: 0.5,
            input: 60.0,
            output: 90.0,
            has_scripts: true,
            ..NOTHING
        },
        Phase::JoinReading => {
            Cost { block: 10_000.0, byte: 0.9, input: 120.0, output: 120.0, ..NOTHING }
        }
        Phase::JoinMatching => Cost { input: 60.0, output: 110.0, ..NOTHING },
        Phase::JoinChecking => {
            Cost { block: 5_000.0, byte: 0.1, input: 120.0, has_scripts: true, ..NOTHING }
        }
        _ => NOTHING,
    }
}

/// Nanoseconds of one core to check a script again: its block is read and parsed once more.
const READ_AGAIN_BYTE: f64 = 0.5;
/// Nanoseconds of one core to write a coin to the tables, and to merge it into one level.
const WRITE_COIN: f64 = 350.0;
const MERGE_COIN: f64 = 250.0;

/// Nanoseconds of one core to hash a transaction for an index, and to write its entry, for each
/// output.
const INDEX_TX: f64 = 40.0;
const WRITE_TX: f64 = 40.0;
/// The same for each input, for an index of spends.
const INDEX_SPEND: f64 = 20.0;
const WRITE_SPEND: f64 = 60.0;
/// Nanoseconds of one core for a script in a filter, and for a coin in the hash of a UTXO set.
const FILTER_SCRIPT: f64 = 45.0;
const HASH_COIN: f64 = 230.0;

/// By how much a sync in order is slower, at most, with far more coins than the cache holds: they
/// are looked up, and written to tables again and again.
const CROWDED: f64 = 1.2;

/// Returns how many times as long it takes to connect a block in order, with this many coins in the
/// UTXO set and room for `cached` in the cache.
pub fn crowding(coins: f64, cached: f64) -> f64 {
    1.0 + CROWDED * (1.0 - cached / coins.max(1.0)).max(0.0)
}

/// Nanoseconds of one core to verify a signature, and all else that its input costs.
fn signature(options: &Options) -> f64 {
    const CORE: f64 = 30_000.0;
    let fast = match options.scripts.kernel.unwrap_or_else(Kernel::best) {
        Kernel::Avx512 => 3_000.0,
        Kernel::Avx2 => 10_000.0,
        // By the cycles of its products on a Cortex-A76, next to those of libsecp256k1.
        Kernel::Neon => 15_000.0,
        Kernel::Library | Kernel::Portable => CORE,
    };
    match options.scripts.engine {
        ScriptEngine::Core => CORE,
        ScriptEngine::Fast => fast,
        ScriptEngine::Both => CORE + fast,
    }
}

/// Weighs the work on blocks, by what they hold and what each phase does with it.
#[derive(Clone, Debug)]
pub struct Weigher {
    /// What blocks hold.
    pub profile: Profile,
    signature: f64,
    cores: f64,
}

impl Weigher {
    /// Creates a weigher for a run with these options.
    pub fn new(options: &Options) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            profile: Profile::of_eras(options.network.chain),
            signature: signature(options),
            cores: options.threads.clamp(1, cores) as f64,
        }
    }

    /// Returns the time that `phase` takes for a block of this size at `height`, in nanoseconds of
    /// the machine of docs/budget.md with as many cores as this one.
    pub fn block(&self, phase: Phase, height: u32, bytes: u64, has_scripts: bool) -> u64 {
        let amounts = self.profile.amounts(height, bytes, has_scripts);
        // Every block counts, so that a pass over empty ones gets on, too.
        (self.seconds(phase, &amounts) * 1e9) as u64 + 1
    }

    /// Returns the seconds that `phase` takes for blocks that hold this, as [`Weigher::block`]
    /// does.
    pub fn seconds(&self, phase: Phase, amounts: &Amounts) -> f64 {
        let cost = cost(phase);
        let Amounts { blocks, bytes, inputs, outputs, signatures, script_bytes } = *amounts;
        let mut all =
            cost.block * blocks + cost.byte * bytes + cost.input * inputs + cost.output * outputs;
        if cost.has_scripts {
            all += signatures * self.signature;
        }
        if phase == Phase::JoinChecking {
            all += script_bytes * READ_AGAIN_BYTE;
        }
        (all / self.cores).max(cost.alone * (inputs + outputs)) / 1e9
    }

    /// Returns the seconds that it takes to read blocks that hold this for an index of Core, and to
    /// write its sorted entries, as [`Weigher::block`] does. The blocks are read once for all
    /// indexes: [`Weigher::reading`].
    pub fn index(&self, kind: IndexKind, amounts: &Amounts) -> (f64, f64) {
        let Amounts { inputs, outputs, .. } = *amounts;
        let (reading, writing) = match kind {
            IndexKind::TxIndex => (INDEX_TX * outputs, WRITE_TX * outputs),
            IndexKind::TxoSpenderIndex => (INDEX_SPEND * inputs, WRITE_SPEND * inputs),
            IndexKind::BlockFilterIndex => (FILTER_SCRIPT * (inputs + outputs), 0.0),
            IndexKind::CoinStatsIndex => (HASH_COIN * (inputs + outputs), 0.0),
        };
        (reading / 1e9 / self.cores, writing / 1e9 / self.cores)
    }

    /// Returns the seconds that it takes to read blocks that hold this, and to parse them, as
    /// [`Weigher::block`] does.
    pub fn reading(&self, amounts: &Amounts) -> f64 {
        amounts.bytes * READ_AGAIN_BYTE / 1e9 / self.cores
    }

    /// Returns the seconds that it takes to write this many coins to tables, as
    /// [`Weigher::block`] does.
    pub fn writing(&self, coins: f64) -> f64 {
        coins * WRITE_COIN / 1e9 / self.cores
    }

    /// Returns the seconds that it takes to merge this many coins into one level of tables, as
    /// [`Weigher::block`] does.
    pub fn merging(&self, coins: f64) -> f64 {
        coins * MERGE_COIN / 1e9 / self.cores
    }
}

impl Default for Weigher {
    /// Returns a weigher for blocks like mainnet's of today, with every script checked by vector
    /// lanes on one core.
    fn default() -> Self {
        Self { profile: Profile::of_eras(Chain::Regtest), signature: 3_000.0, cores: 1.0 }
    }
}
