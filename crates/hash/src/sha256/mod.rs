//! SHA-256 of many messages at once.
//!
//! Nearly all the work of SwiftSync is SHA-256 of independent messages: transactions, pairs of
//! hashes, outpoints. One message keeps only a third of the processor busy, so several are hashed
//! in parallel, each in a lane; a lane whose message ends takes the next one.

#[cfg(target_arch = "aarch64")]
mod arm;
mod engine;
mod lanes;
mod many;
#[cfg(not(target_arch = "x86_64"))]
mod none;
mod one;
mod state;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use many::{sha256d_many, sha256d_pairs};
pub use one::{Sha256Pieces, Sha256d, sha256, sha256d, sha256d_64};
pub use state::{Midstate, Pieces, Sha256State};
