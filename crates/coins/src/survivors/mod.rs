//! Survivors: the coins that are unspent at the end of a SwiftSync. Many threads gather them in any
//! order, and at the end they are written once, in key order.
//!
//! Mainnet has 175 million survivors of 66 bytes, 11 GB. They are divided by the first bits of
//! their txids, which are evenly distributed:
//! - There are 1024 *slots*, which are sorted independently. On mainnet a slot has 11 MB, so that
//!   16 cores, each of which sorts one, need 270 MB with their indices. In a small chain of 2 GB a
//!   slot has 0.3 MB, which fits into a core's second-level cache.
//! - A writer has a buffer of 4 KiB for each slot, 4 MiB in all. A push touches one cache line, and
//!   one push in 62 takes a lock.
//! - A full buffer is appended to the slot's [part](apus_disk::Parts), which has a share of the
//!   memory. A full share is written to a file at once: through the page cache where the system has
//!   memory for the whole file, which is deleted soon, and past it otherwise. With 200 MiB of
//!   memory a share is 200 KiB, so that 11 GB take 55,000 reads, of a size that suits a hard disk
//!   too.
//! - At the end, threads write ranges of slots.
//!
//! A miner can choose txids that all go to one slot. A slot that exceeds both twice the average and
//! a share of the memory is sorted in runs that fit, which are then merged.

mod record;
mod saved;
mod set;
mod sort;
mod writer;

pub use saved::SavedSurvivors;
pub use set::{Survivors, WriteError};
pub use writer::SurvivorWriter;
