//! Hints: for each block, which of its outputs are unspent at a later height.
//!
//! Hints refer to an output by its index in the block; see [`Numbering`]. Each format has a file or
//! a directory of its own in this module.
//!
//! # Adding a format
//!
//! 1. A file here, whose first lines describe each byte of the format, or name docs/format.md,
//!    which does. It has a type that implements [`Hints`] (`BitmapFile` for a format with a bitmap
//!    for each block), whose `open` refuses invalid files; and an `Encoder`, which implements
//!    [`HintsEncoder`].
//! 2. `format.rs`: a variant of [`Format`], its name, its numbering, whether it holds counts, and a
//!    place in [`Format::WRITTEN`]. Which conversions need blocks (`claims/hints/convert.rs`)
//!    follows from these.
//! 3. `open.rs`: [`recognise`], [`open()`] and [`encoder`].
//! 4. The command line: `FileFormat` in `cli/hints.rs`, and the help of `Convert` and `Compress`
//!    there, which name the formats.
//! 5. Tests: loops over [`Format::WRITTEN`] include the format automatically. Add
//!    bytes to `the_bytes_of_each_format` and its limits there too (`tests/mod.rs`), a
//!    head to `noise_after_a_good_head_never_panics` (`tests/damage.rs`), a sync with it
//!    (`apus/tests/it/swiftsync/hints_files.rs`), and wrong hints in it (`wrong_hints.rs` there).
//! 6. Fuzzing, if neither `bip456` nor `bitmap` in `fuzz/src/targets/hints.rs` covers it: a
//!    function there, its name in `targets/mod.rs`, `fuzz/fuzz_targets/`, `fuzz/Cargo.toml` and
//!    `fuzz/README.md`, and a few inputs in `fuzz/corpus/`.
//! 7. Documents: the tables in docs/guide/hints-and-swiftsync.md and docs/glossary.md,
//!    CHANGELOG.md, and docs/format.md if the format is our own.

pub mod elias_fano;
mod bip456;
mod bitmap;
mod bitset;
mod blocks;
mod booster;
mod btcd;
pub mod compressed;
mod error;
mod format;
mod gzip;
mod numbering;
mod offsets;
mod open;
mod statistics;

#[cfg(test)]
mod tests;

pub use bip456::Bip456;
pub use bitset::Bitset;
pub use blocks::OUTPUTS_MAX;
pub use booster::Booster;
pub use compressed::Compressed;
pub use error::HintsError;
pub use format::{Format, Hints, HintsEncoder};
pub use numbering::{
    NumberedOutput, Numbering, OutputCounter, OutputFate, OutputNumber, numbered_outputs,
};
pub use open::{encoder, open, open_with, recognise};
pub use statistics::statistics;
pub use statistics::{Statistics, block_bound_bits, log2_choose, statistics_watched};
