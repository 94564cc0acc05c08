//! CSV (RFC 4180): a line of column names, and a line for each row. Nothing needs quotes, since all
//! values are digits, hex digits or words.

use std::io::Write;

use crate::batch::{Batch, Value};
use crate::table::Table;

/// Returns the line of column names.
pub fn head(table: &Table) -> Vec<u8> {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    (names.join(",") + "\n").into_bytes()
}

/// Returns the lines of a batch whose values are all numbers or text.
pub fn lines(batch: &Batch) -> Vec<u8> {
    let mut out = Vec::with_capacity(batch.bytes() + batch.rows() * 2 * batch.columns.len());
    for row in 0..batch.rows() {
        for (index, values) in batch.columns.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match values.get(row) {
                Value::Null => {}
                Value::Number(number) => {
                    write!(out, "{number}").expect("memory can be written");
                }
                Value::Bytes(text) => out.extend_from_slice(text),
            }
        }
        out.push(b'\n');
    }
    out
}
