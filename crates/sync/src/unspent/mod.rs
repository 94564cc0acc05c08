//! Unspent outputs, sorted by the blocks that created them, as short keys or as coins of a
//! snapshot, and numbered in their block as hints do.

mod by_height;
mod matched;
mod number;
mod sorted;

pub use by_height::{BlockCoins, CoinsByHeight, HeightCollector};
pub use matched::{Matching, Mismatch};
pub use number::number;
pub use sorted::{Collector, OutputKey, SortedKeys, block_of, output_key, txid_of, vout_of};
