//! Tables for analysis: the UTXO set, and the chain's blocks, transactions, inputs and outputs with
//! the coins that inputs spend, as files. The directory is locked and read, and never changed.
//! *Knows no file format's bytes*, which are `apus-export`'s.
//!
//! All threads read ([`source`]), encode and write by turns, so that rows come out in order
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
