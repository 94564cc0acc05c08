use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::batch::Batch;
use crate::csv;
use crate::error::Error;
use crate::forms::Forms;
use crate::parquet::{ParquetFile, RowGroup, Schema};
use crate::sqlite::Database;
use crate::table::Table;

/// A file format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Apache Parquet, compressed with Snappy; a row group for each batch.
    Parquet,
    /// A database of SQLite 3 with one table, without an index.
    Sqlite,
    /// Comma-separated values (RFC 4180) with a line of column names; no value is an empty field.
    Csv,
}

/// Where a file is written.
pub enum Target<'a> {
    /// A stream of bytes: for Parquet and CSV, which are written from start to end.
    Stream(Box<dyn Write + Send + 'a>),
    /// A path, where an SQLite database must be empty or missing, and any other file is
    /// overwritten.
    Path(&'a Path),
}

/// An encoder that turns batches of one table into pieces of one file, on any thread.
pub struct Encoder {
    table: &'static Table,
    forms: Forms,
    format: Format,
    /// The schema of a Parquet file.
    schema: Option<Schema>,
}

/// An encoded batch.
pub struct Piece(Encoded);

enum Encoded {
    RowGroup(RowGroup),
    Text(Vec<u8>),
    Rows(Batch),
}

/// A writer that puts the pieces of a file one after the other.
pub struct Writer<'a>(Output<'a>);

enum Output<'a> {
    Parquet(ParquetFile<'a>),
    Text(Box<dyn Write + Send + 'a>),
    Database(Database),
}

impl Encoder {
    /// Creates an encoder for a table. Each of `facts` is a name and a value for a Parquet file's
    /// footer, in addition to the columns' descriptions; other formats have no place for them.
    ///
    /// # Errors
    /// The format can only hold text, but the forms are not all text.
    pub fn new(
        table: &'static Table,
        format: Format,
        forms: Forms,
        facts: &[(&str, String)],
    ) -> Result<Self, Error> {
        if format == Format::Csv && !forms.are_text() {
            let what = "CSV is text and cannot hold raw bytes: write them as hex digits";
            return Err(Error::Usage(what.to_string()));
        }
        let schema = match format {
            Format::Parquet => Some(Schema::new(table, forms, facts)?),
            Format::Sqlite | Format::Csv => None,
        };
        Ok(Self { table, forms, format, schema })
    }

    /// Encodes a batch. It takes about as much memory again.
    ///
    /// # Errors
    /// The batch belongs to another table.
    pub fn encode(&self, mut batch: Batch) -> Result<Piece, Error> {
        self.forms.apply(self.table, &mut batch);
        Ok(Piece(match (&self.schema, self.format) {
            (Some(schema), _) => Encoded::RowGroup(schema.encode(&batch)?),
            (None, Format::Csv) => Encoded::Text(csv::lines(&batch)),
            (None, _) => Encoded::Rows(batch),
        }))
    }

    /// Begins a file.
    ///
    /// # Errors
    /// The file cannot be created, or the target of a database is a stream.
    pub fn writer<'a>(&self, target: Target<'a>) -> Result<Writer<'a>, Error> {
        let stream = match (self.format, target) {
            (Format::Sqlite, Target::Path(path)) => {
                let database = Database::create(path, self.table, self.forms)?;
                return Ok(Writer(Output::Database(database)));
            }
            (Format::Sqlite, Target::Stream(_)) => {
                let what = "an SQLite database cannot be a stream: give a path";
                return Err(Error::Usage(what.to_string()));
            }
            (_, Target::Stream(stream)) => stream,
            (_, Target::Path(path)) => Box::new(File::create(path)?),
        };
        Ok(Writer(match &self.schema {
            Some(schema) => Output::Parquet(ParquetFile::new(schema, stream)?),
            None => {
                let mut stream = stream;
                stream.write_all(&csv::head(self.table))?;
                Output::Text(stream)
            }
        }))
    }
}

impl Writer<'_> {
    /// Writes a piece.
    ///
    /// # Errors
    /// The file cannot be written, or the piece comes from another encoder.
    pub fn append(&mut self, piece: Piece) -> Result<(), Error> {
        match (&mut self.0, piece.0) {
            (Output::Parquet(file), Encoded::RowGroup(group)) => file.append(group),
            (Output::Text(stream), Encoded::Text(text)) => Ok(stream.write_all(&text)?),
            (Output::Database(database), Encoded::Rows(rows)) => database.insert(&rows),
            _ => Err(Error::Usage("the piece has another format".to_string())),
        }
    }

    /// Finishes the file, without a sync to disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        match self.0 {
            Output::Parquet(file) => file.finish(),
            Output::Text(mut stream) => Ok(stream.flush()?),
            Output::Database(database) => database.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Value;
    use crate::forms::{BytesForm, HashForm};
    use crate::table::{Column, Kind};

    static TABLE: Table = Table {
        name: "things",
        about: "Things.",
        columns: &[
            Column::new("n", Kind::U32, "A number, or none.").nullable(),
            Column::new("bytes", Kind::Bytes, "Bytes."),
        ],
    };

    fn batch() -> Batch {
        let mut batch = Batch::new(&TABLE);
        batch.push(&[Value::Null, Value::Bytes(&[])]);
        batch.push(&[Value::from(u32::MAX), Value::Bytes(&[1, 0xf0])]);
        batch
    }

    fn write(format: Format, forms: Forms, target: Target) -> Result<(), Error> {
        let encoder = Encoder::new(&TABLE, format, forms, &[("fact", "so".to_string())])?;
        let mut writer = encoder.writer(target)?;
        writer.append(encoder.encode(batch())?)?;
        writer.append(encoder.encode(batch())?)?;
        writer.finish()
    }

    #[test]
    fn a_path_and_a_stream_get_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        for format in [Format::Parquet, Format::Csv] {
            let path = dir.path().join("file");
            let mut stream = Vec::new();
            write(format, Forms::default(), Target::Path(&path)).unwrap();
            write(format, Forms::default(), Target::Stream(Box::new(&mut stream))).unwrap();
            assert!(std::fs::read(&path).unwrap() == stream, "{format:?}");
            let text = "n,bytes\n,\n4294967295,01f0\n,\n4294967295,01f0\n";
            assert_eq!(format == Format::Csv, stream == text.as_bytes());
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let error = write(Format::Sqlite, Forms::default(), Target::Stream(Box::new(Vec::new())));
        assert!(error.unwrap_err().to_string().contains("cannot be a stream"));
        for forms in [
            Forms { hash: HashForm::Raw, ..Forms::default() },
            Forms { bytes: BytesForm::Raw, ..Forms::default() },
        ] {
            let error = write(Format::Csv, forms, Target::Stream(Box::new(Vec::new())));
            assert!(error.unwrap_err().to_string().contains("CSV is text"));
        }
        let csv = Encoder::new(&TABLE, Format::Csv, Forms::default(), &[]).unwrap();
        let parquet = Encoder::new(&TABLE, Format::Parquet, Forms::default(), &[]).unwrap();
        let mut writer = csv.writer(Target::Stream(Box::new(Vec::new()))).unwrap();
        let error = writer.append(parquet.encode(batch()).unwrap()).unwrap_err();
        assert!(error.to_string().contains("another format"));
    }

    #[test]
    fn a_file_that_cannot_be_made_or_is_full_is_told_apart() {
        let nowhere = std::path::Path::new("/no/such/directory/file");
        for format in [Format::Parquet, Format::Csv, Format::Sqlite] {
            let error = write(format, Forms::default(), Target::Path(nowhere)).unwrap_err();
            assert!(!error.is_full(), "{error}");
        }
        let full =
            || Target::Stream(Box::new(File::options().write(true).open("/dev/full").unwrap()));
        let error = write(Format::Csv, Forms::default(), full()).unwrap_err();
        assert!(error.is_full(), "{error}");
        let error = write(Format::Parquet, Forms::default(), full()).unwrap_err();
        assert!(error.is_full(), "{error}");
    }
}
