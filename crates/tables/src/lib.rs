//! Exports tables for analysis: the UTXO set, and the chain's blocks, transactions, outputs, and
//! inputs with the coins that they spend, and the history of descriptors. The directory is locked
//! and read, and never changed. This crate does not know the bytes of a file format;
//! `apus-export` does.
//!
//! Each thread reads (`source`), encodes and writes in turn, and rows come out in order
//! (`line`).

mod blocks;
mod coins;
mod history;
mod history_blocks;
mod history_rows;
mod line;
mod output;
mod part;
mod ranges;
mod run;
mod reader;
mod script_type;
mod sink;
mod source;
#[cfg(feature = "arrow")]
mod arrow;
mod columns;

#[cfg(feature = "arrow")]
pub use arrow::{ArrowRows, RecordBatches};
pub use columns::{ExportTable, HISTORY};
pub use history::{HistoryAsked, HistoryExported, ScriptAtEnd, export_history};
pub use output::Destination;
pub use ranges::{Ranges, RangesDone, export_ranges, ranges_to_write, verify_ranges};
pub use reader::ChainReader;
pub use run::{Export, Exported, export};
pub use script_type::script_type;
