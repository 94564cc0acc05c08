//! Unspent outputs as short keys that are sorted by their blocks, and numbered there.

mod number;
mod sorted;

pub use number::number;
pub use sorted::{Collector, OutputKey, SortedKeys, block_of, output_key, txid_of, vout_of};
