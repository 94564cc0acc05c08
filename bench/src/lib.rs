//! Benchmarks of Apus against other programs and libraries, which only this crate depends on.
//!
//! `cargo run --release -p apus-bench` measures everything and writes `docs/bench/`; each benchmark
//! has a small size that the tests run. Every measured way to compute a result reports a digest of
//! it, and two digests for the same work are an error, so that nothing is fast by being wrong.

/// The command line.
pub mod cli;

/// Single operations: done in the way Bitcoin Core left behind, as Apus does them, and by other
/// crates.
pub mod kernels;
/// The time of a sync of the coins cache, and the memory of a cached coin.
pub mod cache;
/// The coins that SwiftSync finds unspent, from the workers to the tables.
pub mod survivors;
/// A whole chain by Apus and by Bitcoin Core's engine, and its scripts alone.
pub mod chain;
/// The cost of longer and longer chains.
pub mod growth;
/// Validation in order with smaller and smaller caches, and Bitcoin Core beside.
pub mod curve;
/// Bitcoin Core, validation in order, SwiftSync and the join on the same chains.
pub mod join;
/// Every script: whole runs, and the cost of an input.
pub mod inputs;
/// Pruning, with each way to sync the coins cache.
pub mod prune;
/// UTXO snapshots: made, proved, and synced from.
pub mod snapshot;
/// Tables for analysis, in each format.
pub mod export;

/// Random trials: kills, full disks and damaged files.
pub mod trials;

/// The machine that the figures are from.
pub mod machine;
/// The time of a function: warm-up, several runs, median.
pub mod measure;
/// The time, CPU time and memory of a process.
pub mod process;
/// Results as tables, in text and JSON.
pub mod report;
/// Plots of the results.
pub mod svg;

/// An error, which ends the benchmark and is shown to the user.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// The result of whatever may fail in a benchmark.
pub type Result<T> = std::result::Result<T, Error>;
