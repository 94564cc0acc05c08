//! The bodies of the fuzz targets: one function each, which panics if Apus breaks a promise.
//!
//! They are plain functions of a byte string, so that the same code runs under cargo-fuzz
//! (`fuzz_targets/`) and, over the stored corpus, in the tests (`apus/tests/it/fuzz.rs`).

mod block_view;
mod database;
mod framed_files;
mod hints;
mod index_records;
mod input;
mod join;
mod options;
mod peers;
mod requests;
mod script;
mod signatures;
mod snapshot;
mod spent_coins;
mod undo;

/// A target's name, which its corpus and its program in `fuzz_targets/` share, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 21] = [
    ("block_view", block_view::run),
    ("undo", undo::run),
    ("spent_coins", spent_coins::run),
    ("index_records", index_records::run),
    ("snapshot", snapshot::run),
    ("hints_bip456", hints::bip456),
    ("hints_bitmap", hints::bitmap),
    ("hints_compressed", hints::compressed),
    ("table", database::table),
    ("manifest", database::manifest),
    ("log", database::log),
    ("framed_files", framed_files::run),
    ("join_records", join::records),
    ("join_progress", join::progress),
    ("options", options::run),
    ("messages", peers::messages),
    ("peers", peers::peers),
    ("requests", requests::run),
    ("script", script::run),
    ("der", signatures::der),
    ("batch", signatures::batch),
];
