//! Exports tables for analysis: the UTXO set, and the chain's blocks, transactions, outputs, and
//! inputs with the coins that they spend. The directory is locked and read, and never changed. This
//! module does not know the bytes of a file format; `apus-export` does.
//!
//! Each thread reads ([`source`]), encodes and writes in turn, and rows come out in order
//! ([`line`]).

mod blocks;
mod coins;
mod line;
mod output;
mod rows;
mod run;
mod script_type;
mod source;
mod columns;

pub use columns::ExportTable;
pub use output::Destination;
pub use run::{Export, Exported, export};
