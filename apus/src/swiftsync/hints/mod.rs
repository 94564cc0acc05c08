//! Hints: for each block, which of its outputs are unspent at a later height.
//!
//! An output is named by its index in the block, see [`Numbering`]. Each format has a file of its
//! own in this module, and a place in [`Format`], [`recognise`], [`open()`] and [`encoder`].

pub mod elias_fano;
mod bip456;
mod bitmap;
mod bitset;
mod blocks;
mod booster;
pub mod compressed;
mod error;
mod format;
mod numbering;
mod offsets;
mod open;
mod statistics;

#[cfg(test)]
mod tests;

pub use bip456::Bip456;
pub use bitset::Bitset;
#[cfg(any(test, feature = "internals"))]
pub use blocks::OUTPUTS_MAX;
pub use booster::Booster;
pub use compressed::Compressed;
pub use error::HintsError;
pub use format::{Format, Hints, HintsEncoder};
pub use numbering::{
    NumberedOutput, Numbering, OutputCounter, OutputFate, OutputNumber, numbered_outputs,
};
pub use open::{encoder, open, recognise};
#[cfg(any(test, feature = "internals"))]
pub use statistics::statistics;
pub use statistics::{Statistics, block_bound_bits, log2_choose, statistics_reporting};
