//! Parquet: each batch becomes a row group of its own, and row groups are joined into a file.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnPath, SchemaDescPtr, SchemaDescriptor, Type, TypePtr};

use crate::batch::{Batch, Data, Values};
use crate::error::Error;
use crate::forms::{Forms, Shape};
use crate::table::{Column, Kind, Table};

/// The properties that all row groups of a file share.
pub struct Schema {
    columns: SchemaDescPtr,
    properties: WriterPropertiesPtr,
}

/// An encoded batch: the bytes of each column, and its metadata for the file's footer.
pub struct RowGroup(Vec<(Bytes, ColumnCloseResult)>);

impl Schema {
    /// Creates the schema of a table. Each of `facts` is a name and a value for the footer, which
    /// also contains the columns' descriptions, as `column.NAME`.
    pub fn new(table: &Table, forms: Forms, facts: &[(&str, String)]) -> Result<Self, Error> {
        let fields = table.columns.iter().map(|column| field(column, forms));
        let fields: Vec<TypePtr> = fields.collect::<Result<_, _>>()?;
        let root = Type::group_type_builder(table.name).with_fields(fields).build()?;
        let abouts = table.columns.iter();
        let abouts = abouts.map(|column| (format!("column.{}", column.name), column.about.into()));
        let facts = facts.iter().map(|(name, value)| ((*name).to_string(), value.clone()));
        let pairs = [("table".to_string(), table.about.to_string())].into_iter();
        let pairs =
            pairs.chain(facts).chain(abouts).map(|(name, value)| KeyValue::new(name, value));
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("apus-export ", env!("CARGO_PKG_VERSION")).to_string())
            .set_compression(Compression::SNAPPY)
            // With the minimum and maximum of a row group, readers can skip it; those of pages
            // would make the footer large.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_key_value_metadata(Some(pairs.collect()));
        for column in table.columns {
            // Hashes and scripts seldom repeat, so a dictionary would contain nearly all of them.
            if matches!(column.kind, Kind::Hash | Kind::Bytes) {
                let path = ColumnPath::from(column.name);
                properties = properties.set_column_dictionary_enabled(path, false);
            }
        }
        let columns = Arc::new(SchemaDescriptor::new(Arc::new(root)));
        Ok(Self { columns, properties: Arc::new(properties.build()) })
    }

    /// Encodes a batch whose values have their forms already.
    pub fn encode(&self, batch: &Batch) -> Result<RowGroup, Error> {
        let columns = self.columns.columns().iter().zip(&batch.columns);
        let encoded = columns.map(|(column, values)| {
            let mut out = TrackedWrite::new(Vec::new());
            let pages = Box::new(SerializedPageWriter::new(&mut out));
            let mut writer =
                get_column_writer(Arc::clone(column), Arc::clone(&self.properties), pages);
            write(&mut writer, values)?;
            let closed = writer.close()?;
            Ok((Bytes::from(out.into_inner()?), closed))
        });
        Ok(RowGroup(encoded.collect::<Result<_, Error>>()?))
    }
}

/// A Parquet file that is being written.
pub struct ParquetFile<'a>(SerializedFileWriter<Box<dyn Write + Send + 'a>>);

impl<'a> ParquetFile<'a> {
    /// Begins a file.
    pub fn new(schema: &Schema, out: Box<dyn Write + Send + 'a>) -> Result<Self, Error> {
        let root = schema.columns.root_schema_ptr();
        let properties = &schema.properties;
        Ok(Self(SerializedFileWriter::new(out, root, Arc::clone(properties))?))
    }

    /// Adds a row group.
    pub fn append(&mut self, group: RowGroup) -> Result<(), Error> {
        let mut writer = self.0.next_row_group()?;
        for (bytes, closed) in group.0 {
            writer.append_column(&bytes, closed)?;
        }
        writer.close()?;
        Ok(())
    }

    /// Writes the footer.
    pub fn finish(self) -> Result<(), Error> {
        self.0.close()?;
        Ok(())
    }
}

fn field(column: &Column, forms: Forms) -> Result<TypePtr, Error> {
    let shape = forms.shape(column.kind);
    let physical = match (shape, column.kind) {
        (Shape::Text | Shape::Blob(None), _) => Physical::BYTE_ARRAY,
        (Shape::Blob(Some(_)), _) => Physical::FIXED_LEN_BYTE_ARRAY,
        (Shape::Number, Kind::Bool) => Physical::BOOLEAN,
        (Shape::Number, Kind::I64) => Physical::INT64,
        (Shape::Number, _) => Physical::INT32,
    };
    let logical = match (shape, column.kind) {
        (Shape::Text, _) => Some(LogicalType::String),
        (_, Kind::U32) => Some(LogicalType::integer(32, false)),
        _ => None,
    };
    let repetition = if column.is_nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let len = if let Shape::Blob(Some(len)) = shape { len as i32 } else { -1 };
    let builder = Type::primitive_type_builder(column.name, physical).with_length(len);
    Ok(Arc::new(builder.with_logical_type(logical).with_repetition(repetition).build()?))
}

/// Writes all values of a column.
fn write(writer: &mut ColumnWriter, values: &Values) -> Result<(), Error> {
    let levels = values.has_value.as_ref();
    let levels: Option<Vec<i16>> =
        levels.map(|has_value| has_value.iter().map(|has| i16::from(*has)).collect());
    let levels = levels.as_deref();
    match (writer, &values.data) {
        (ColumnWriter::BoolColumnWriter(writer), Data::Numbers(numbers)) => {
            writer.write_batch(&present(values, numbers, |number| number != 0), levels, None)?
        }
        // An unsigned number has the same bits.
        (ColumnWriter::Int32ColumnWriter(writer), Data::Numbers(numbers)) => {
            writer.write_batch(&present(values, numbers, |number| number as i32), levels, None)?
        }
        (ColumnWriter::Int64ColumnWriter(writer), Data::Numbers(numbers)) => {
            writer.write_batch(&present(values, numbers, |number| number), levels, None)?
        }
        (ColumnWriter::ByteArrayColumnWriter(writer), Data::Bytes { bytes, ends }) => {
            writer.write_batch(&slices(values, bytes, ends), levels, None)?
        }
        (ColumnWriter::FixedLenByteArrayColumnWriter(writer), Data::Bytes { bytes, ends }) => {
            let slices = slices(values, bytes, ends).into_iter();
            let slices: Vec<FixedLenByteArray> = slices.map(FixedLenByteArray::from).collect();
            writer.write_batch(&slices, levels, None)?
        }
        _ => return Err(Error::Usage("the batch belongs to another table".to_string())),
    };
    Ok(())
}

/// Returns the numbers of the rows that have one.
fn present<T>(values: &Values, numbers: &[i64], convert: impl Fn(i64) -> T) -> Vec<T> {
    let row_has = |row: usize| values.has_value.as_ref().is_none_or(|has_value| has_value[row]);
    let numbers = numbers.iter().enumerate().filter(|(row, _)| row_has(*row));
    numbers.map(|(_, number)| convert(*number)).collect()
}

/// Returns the bytes of the rows that have some.
fn slices(values: &Values, bytes: &[u8], ends: &[usize]) -> Vec<ByteArray> {
    let row_has = |row: usize| values.has_value.as_ref().is_none_or(|has_value| has_value[row]);
    let all = Bytes::copy_from_slice(bytes);
    let starts = std::iter::once(&0).chain(ends);
    let ranges = starts.zip(ends).enumerate().filter(|(row, _)| row_has(*row));
    ranges.map(|(_, (start, end))| ByteArray::from(all.slice(*start..*end))).collect()
}
