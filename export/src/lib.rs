//! Tables of numbers and bytes, batch by batch, as Parquet, SQLite or CSV files.
//!
//! The columns of a [`Table`] have names, kinds and descriptions. Rows are collected in a
//! [`Batch`]; an [`Encoder`] turns a batch into a [`Piece`] of the file, on any thread and
//! independently of other batches; one [`Writer`] writes the pieces one after the other. This crate
//! starts no threads, and does not know what the rows mean. With the feature `arrow`, an
//! `ArrowEncoder` turns a batch into a record batch of Arrow, for other libraries in the same
//! process.
//!
//! ```
//! use apus_export::{Batch, Column, Encoder, Format, Forms, Kind, Table, Target, Value};
//!
//! const COLUMNS: &[Column] = &[
//!     Column::new("height", Kind::U32, "The height of the block."),
//!     Column::new("hash", Kind::Hash, "The hash of the block."),
//! ];
//! const TABLE: Table = Table { name: "blocks", about: "Blocks.", columns: COLUMNS };
//!
//! # fn main() -> Result<(), apus_export::Error> {
//! let encoder = Encoder::new(&TABLE, Format::Csv, Forms::default(), &[])?;
//! let mut batch = Batch::new(&TABLE);
//! batch.push(&[Value::Number(7), Value::Bytes(&[0xab; 32])]);
//! let mut file = Vec::new();
//! let mut writer = encoder.writer(Target::Stream(Box::new(&mut file)))?;
//! writer.append(encoder.encode(batch)?)?;
//! writer.finish()?;
//! assert_eq!(file, format!("height,hash\n7,{}\n", "ab".repeat(32)).as_bytes());
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

#[cfg(feature = "arrow")]
mod arrow;
mod batch;
mod csv;
mod encoder;
mod error;
mod forms;
mod parquet;
mod sqlite;
mod table;

#[cfg(feature = "arrow")]
pub use arrow::ArrowEncoder;
pub use batch::{Batch, Value};
pub use encoder::{Encoder, Format, Piece, Target, Writer};
pub use error::Error;
pub use forms::{BytesForm, Forms, HashForm};
pub use table::{Column, Kind, Table};
