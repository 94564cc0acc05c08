//! Benchmarks of Apus against other programs and libraries, on which only this crate depends.
//!
//! `cargo run --release -p apus-bench` measures everything and prints tables; each benchmark has a
//! small size that the tests run. Every measured way to compute a result reports a digest of it,
//! and two different digests for the same work are an error, so that nothing is fast by being
//! wrong.

/// The command line.
pub mod cli;

/// Single operations, by Apus and by other crates.
pub mod kernels;
/// Generated chains, and runs on them.
pub mod chain;
/// Bitcoin Core, validation in order, SwiftSync and the join on the same chains.
pub mod join;
/// Every script: whole runs, and the cost of an input.
pub mod inputs;

/// How many threads of a program run at a time.
pub mod parallel;
mod replay;

/// Simulated peers, and the share of what they can send that arrives.
pub mod world;

/// Random trials: kills, full disks and damaged files.
pub mod trials;

/// A file of blocks that a peer serves.
pub mod block_file;
/// The machine that the figures are from.
pub mod machine;
/// The time of a function: warm-up, several runs, median.
pub mod measure;
/// The time, CPU time and memory of a process.
pub mod process;
/// Results as tables, in Markdown and JSON.
pub mod report;

/// An error, which ends the benchmark and is shown to the user.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// The result of an operation that may fail in a benchmark.
pub type Result<T> = std::result::Result<T, Error>;
