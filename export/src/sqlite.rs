//! A table in an SQLite database.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef};

use crate::batch::{Batch, Value};
use crate::error::Error;
use crate::forms::{Forms, Shape};
use crate::table::Table;

/// The size of the cache for database pages, in KiB.
const CACHE_KIB: i32 = 16 << 10;

/// A database to which a table is written. Until it is finished, nothing is synced and no journal
/// is kept: the file is useless if writing is interrupted.
pub struct Database {
    connection: Connection,
    /// The statement that adds a row.
    insert: String,
    /// Whether each column is text.
    is_text: Vec<bool>,
}

impl Database {
    /// Opens or creates the database at `path`, and creates an empty table in it.
    pub fn create(path: &Path, table: &Table, forms: Forms) -> Result<Self, Error> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        let shapes = || table.columns.iter().map(|column| forms.shape(column.kind));
        let named = table.columns.iter().zip(shapes()).map(|(column, shape)| {
            let kind = match shape {
                Shape::Number => "INT",
                Shape::Text => "TEXT",
                Shape::Blob(_) => "BLOB",
            };
            format!("{} {kind}", column.name)
        });
        let columns: Vec<String> = named.collect();
        let name = table.name;
        connection.execute(&format!("CREATE TABLE {name}({})", columns.join(", ")), [])?;
        let insert = format!("INSERT INTO {name} VALUES({})", vec!["?"; columns.len()].join(", "));
        let is_text = shapes().map(|shape| shape == Shape::Text).collect();
        Ok(Self { connection, insert, is_text })
    }

    /// Adds the rows of a batch, in one transaction.
    pub fn insert(&mut self, batch: &Batch) -> Result<(), Error> {
        let transaction = self.connection.transaction()?;
        {
            let mut statement = transaction.prepare(&self.insert)?;
            for row in 0..batch.rows() {
                for (index, values) in batch.columns.iter().enumerate() {
                    let value = match values.get(row) {
                        Value::Null => ToSqlOutput::Owned(Owned::Null),
                        Value::Number(number) => ToSqlOutput::Owned(Owned::Integer(number)),
                        Value::Bytes(bytes) if self.is_text[index] => {
                            ToSqlOutput::Borrowed(ValueRef::Text(bytes))
                        }
                        Value::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
                    };
                    statement.raw_bind_parameter(index + 1, value)?;
                }
                statement.raw_execute()?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Closes the database.
    pub fn finish(self) -> Result<(), Error> {
        self.connection.close().map_err(|(_, error)| error.into())
    }
}
