//! SHA-256 of many messages at once.
//!
//! Nearly all of a SwiftSync run is SHA-256, of messages that have nothing to do with each other:
//! transactions, pairs of hashes, outpoints. One stream uses a third of what the processor can do,
//! so they are hashed side by side, each in a lane; a lane whose message ends takes the next one.

mod engine;
mod lanes;
mod many;
mod one;
mod state;
#[cfg(test)]
mod tests;
#[cfg(not(target_arch = "x86_64"))]
#[path = "none.rs"]
mod x86;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use many::{sha256d_many, sha256d_pairs};
pub use one::{Sha256d, sha256, sha256d, sha256d_64};
pub use state::{Midstate, Pieces, State};
