//! What SwiftSync leaves over: coins that come in any order, by many threads, to be written once,
//! in the order of their keys.
//!
//! Mainnet has 175 million of 66 bytes here, 11 GB. They are cut by the first bits of their txids,
//! which are evenly distributed:
//! - 1024 *slots*, each sorted by itself: 11 MB on mainnet, so that one sorted by each of 16 cores
//!   is 270 MB with its order. In a small chain of 2 GB it is 0.3 MB, which fits a core's second
//!   level cache.
//! - A writer keeps 4 KiB for each slot, 4 MiB in all: a push touches one cache line, and one push
//!   in 62 takes a lock.
//! - Full buffers are copied to the slot's share of the memory. A full share goes to the file with
//!   one write past the page cache: 384 KiB of 384 MiB, so that 11 GB come back in 30,000 reads of
//!   a size that suits a spinning disk too.
//! - 64 *partitions* of 16 slots have a lock and a piece of memory each; they are what threads
//!   share out in the end.

mod bits;
mod partition;
mod record;
mod saved;
mod set;
mod sort;
mod spill;
mod writer;

#[cfg(test)]
pub(super) use bits::SlotBits;
pub use saved::SavedSurvivors;
pub use set::{Survivors, WriteError};
pub use writer::SurvivorWriter;
