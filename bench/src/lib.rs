//! Benchmarks of Apus, and the programs compared with. Nobody else builds those.
//!
//! `cargo run --release -p apus-bench` measures everything and writes `docs/bench/`; each benchmark
//! has a small size that the tests run. Whoever computes a result says its digest, and different
//! digests of the same work are an error: what is wrong is not fast.

/// Commands and options.
pub mod cli;

/// Single operations, before and after, and beside other crates.
pub mod kernels;
/// What a sync of the coins cache costs, and what a cached coin takes.
pub mod cache;
/// What SwiftSync leaves over, on its way to tables.
pub mod survivors;
/// A whole chain, beside Bitcoin Core's engine and the scripts alone.
pub mod chain;
/// How the cost grows with the chain.
pub mod growth;

/// Random trials: kills, full disks, damaged files.
pub mod trials;

/// The machine that is measured on.
pub mod machine;
/// Time of a function: warm-up, several runs, median.
pub mod measure;
/// Time, CPU time and memory of a process.
pub mod process;
/// Results: tables as text and JSON.
pub mod report;
/// Plots.
pub mod svg;

/// What goes wrong: told to the user, and the end of the benchmark.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// What a benchmark returns.
pub type Result<T> = std::result::Result<T, Error>;
