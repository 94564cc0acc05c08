//! Arrow: each batch becomes a record batch, whose bytes are those of the batch.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{Int32Type, Int64Type, UInt32Type};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::batch::{Batch, Data, Values};
use crate::error::Error;
use crate::forms::{Forms, Shape};
use crate::table::{Column, Kind, Table};

/// An encoder that turns batches of one table into record batches of Arrow, on any thread. Numbers
/// have the types of their columns; text and bytes of any length have offsets of 64 bits.
pub struct ArrowEncoder {
    table: &'static Table,
    forms: Forms,
    /// The indices of the columns that record batches have, in their order.
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl ArrowEncoder {
    /// Creates an encoder for the named columns of a table, or for all without `names`. Each of
    /// `facts` is a name and a value for the schema's metadata, in addition to the table's
    /// description as `table`; those of columns are in the fields' metadata, as `about`.
    ///
    /// # Errors
    /// The table has no column of such a name.
    pub fn new(
        table: &'static Table,
        forms: Forms,
        names: Option<&[String]>,
        facts: &[(&str, String)],
    ) -> Result<Self, Error> {
        let columns = match names {
            Some(names) => indices(table, names)?,
            None => (0..table.columns.len()).collect(),
        };
        let facts = facts.iter().map(|(name, value)| ((*name).to_string(), value.clone()));
        let about = [("table".to_string(), table.about.to_string())];
        let fields = columns.iter().map(|index| field(&table.columns[*index], forms));
        let schema = Schema::new_with_metadata(
            fields.collect::<Vec<_>>(),
            about.into_iter().chain(facts).collect::<HashMap<_, _>>(),
        );
        Ok(Self { table, forms, columns, schema: Arc::new(schema) })
    }

    /// Returns the schema of all record batches.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Encodes a batch.
    ///
    /// # Errors
    /// The batch belongs to another table.
    pub fn encode(&self, mut batch: Batch) -> Result<RecordBatch, Error> {
        let rows = batch.rows();
        let arrays = self.columns.iter().map(|index| {
            let mut values = batch.columns[*index].take();
            let kind = self.table.columns[*index].kind;
            self.forms.apply_to(kind, &mut values);
            array(kind, self.forms.shape(kind), values)
        });
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema(), arrays, &options)?)
    }
}

/// Returns the indices of the named columns.
fn indices(table: &Table, names: &[String]) -> Result<Vec<usize>, Error> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let index = table.columns.iter().position(|column| column.name == name);
        let index = index.ok_or_else(|| {
            let all: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            let table = table.name;
            let all = all.join(", ");
            Error::Usage(format!("{table} has no column '{name}'; its columns are {all}"))
        })?;
        if found.contains(&index) {
            return Err(Error::Usage(format!("the column '{name}' is named twice")));
        }
        found.push(index);
    }
    Ok(found)
}

/// Returns the name, type and description of a column.
fn field(column: &Column, forms: Forms) -> Field {
    let data_type = match (forms.shape(column.kind), column.kind) {
        (Shape::Text, _) => DataType::LargeUtf8,
        (Shape::Blob(None), _) => DataType::LargeBinary,
        (Shape::Blob(Some(len)), _) => DataType::FixedSizeBinary(len as i32),
        (Shape::Number, Kind::Bool) => DataType::Boolean,
        (Shape::Number, Kind::I32) => DataType::Int32,
        (Shape::Number, Kind::U32) => DataType::UInt32,
        (Shape::Number, _) => DataType::Int64,
    };
    let about = HashMap::from([("about".to_string(), column.about.to_string())]);
    Field::new(column.name, data_type, column.is_nullable).with_metadata(about)
}

/// Returns the array of a column whose values have their form already.
fn array(kind: Kind, shape: Shape, values: Values) -> Result<ArrayRef, ArrowError> {
    let nulls = values.has_value.map(NullBuffer::from);
    Ok(match (values.data, shape) {
        (Data::Numbers(numbers), _) => match kind {
            Kind::Bool => {
                let bits = BooleanBuffer::collect_bool(numbers.len(), |row| numbers[row] != 0);
                Arc::new(BooleanArray::new(bits, nulls))
            }
            Kind::I32 => primitive::<Int32Type>(numbers, nulls, |number| number as i32)?,
            Kind::U32 => primitive::<UInt32Type>(numbers, nulls, |number| number as u32)?,
            _ => primitive::<Int64Type>(numbers, nulls, |number| number)?,
        },
        (Data::Bytes { bytes, ends }, Shape::Text) => {
            let offsets = offsets(&ends);
            let bytes = Buffer::from_vec(bytes);
            Arc::new(LargeStringArray::try_new(offsets, bytes, nulls)?)
        }
        (Data::Bytes { bytes, ends }, Shape::Blob(Some(len))) => {
            let rows = ends.len();
            let bytes = padded(bytes, &ends, len);
            let bytes = Buffer::from_vec(bytes);
            Arc::new(FixedSizeBinaryArray::try_new_with_len(len as i32, bytes, nulls, rows)?)
        }
        (Data::Bytes { bytes, ends }, _) => {
            let offsets = offsets(&ends);
            let bytes = Buffer::from_vec(bytes);
            Arc::new(LargeBinaryArray::try_new(offsets, bytes, nulls)?)
        }
    })
}

fn primitive<T: ArrowPrimitiveType>(
    numbers: Vec<i64>,
    nulls: Option<NullBuffer>,
    convert: impl Fn(i64) -> T::Native,
) -> Result<ArrayRef, ArrowError> {
    let numbers: ScalarBuffer<T::Native> = numbers.into_iter().map(convert).collect();
    Ok(Arc::new(PrimitiveArray::<T>::try_new(numbers, nulls)?))
}

/// Returns the offsets of values that end at `ends`.
fn offsets(ends: &[usize]) -> OffsetBuffer<i64> {
    let offsets = std::iter::once(0).chain(ends.iter().map(|end| *end as i64));
    OffsetBuffer::new(offsets.collect())
}

/// Returns the bytes of values of `len` bytes, with zeros for each value that is missing.
fn padded(bytes: Vec<u8>, ends: &[usize], len: usize) -> Vec<u8> {
    if bytes.len() == len * ends.len() {
        return bytes;
    }
    let mut padded = Vec::with_capacity(len * ends.len());
    let starts = std::iter::once(&0).chain(ends);
    for ((row, start), end) in starts.enumerate().zip(ends) {
        padded.extend_from_slice(&bytes[*start..*end]);
        padded.resize(len * (row + 1), 0);
    }
    padded
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    use super::*;
    use crate::batch::Value;
    use crate::forms::{BytesForm, HashForm};

    static TABLE: Table = Table {
        name: "t",
        about: "Rows.",
        columns: &[
            Column::new("hash", Kind::Hash, "A hash, or none.").nullable(),
            Column::new("bytes", Kind::Bytes, "Bytes."),
            Column::new("word", Kind::Word, "A word."),
            Column::new("yes", Kind::Bool, "Yes or no."),
            Column::new("number", Kind::U32, "A number, or none.").nullable(),
        ],
    };

    fn batch() -> Batch {
        let mut batch = Batch::new(&TABLE);
        let word = Value::from("word");
        batch.push(&[Value::Null, Value::Bytes(b""), word, true.into(), u32::MAX.into()]);
        let hash = [7; 32];
        batch.push(&[(&hash).into(), Value::Bytes(&[0, 255]), word, false.into(), Value::Null]);
        batch
    }

    #[test]
    fn a_record_batch_holds_the_rows_of_a_batch() {
        let facts = [("chain", "main".to_string())];
        let encoder = ArrowEncoder::new(&TABLE, Forms::default(), None, &facts).unwrap();
        let rows = encoder.encode(batch()).unwrap();
        assert_eq!((rows.num_rows(), rows.schema()), (2, encoder.schema()));
        assert_eq!(rows.schema().metadata()["chain"], "main");
        assert_eq!(rows.schema().field(2).metadata()["about"], "A word.");
        let hashes = rows.column(0).as_string::<i64>();
        assert!(hashes.is_null(0) && hashes.value(1) == "07".repeat(32));
        assert_eq!(rows.column(1).as_string::<i64>().value(1), "00ff");
        assert_eq!(rows.column(2).as_string::<i64>().value(0), "word");
        assert!(rows.column(3).as_boolean().value(0) && !rows.column(3).as_boolean().value(1));
        let numbers = rows.column(4).as_primitive::<UInt32Type>();
        assert!(numbers.value(0) == u32::MAX && numbers.is_null(1));
    }

    #[test]
    fn bytes_stay_bytes_and_columns_may_be_chosen() {
        let forms = Forms { hash: HashForm::RawReversed, bytes: BytesForm::Raw };
        let names = ["bytes", "hash"].map(String::from);
        let encoder = ArrowEncoder::new(&TABLE, forms, Some(&names), &[]).unwrap();
        let rows = encoder.encode(batch()).unwrap();
        assert_eq!(rows.num_columns(), 2);
        assert_eq!(rows.column(0).as_binary::<i64>().value(1), [0, 255]);
        let hashes = rows.column(1).as_fixed_size_binary();
        assert!(hashes.is_null(0) && hashes.value(1) == [7; 32]);
        let none = ArrowEncoder::new(&TABLE, forms, Some(&[]), &[]).unwrap();
        assert_eq!(none.encode(batch()).unwrap().num_rows(), 2);
        for wrong in [["bytes", "bytes"], ["bytes", "nothing"]] {
            let wrong = wrong.map(String::from);
            assert!(ArrowEncoder::new(&TABLE, forms, Some(&wrong), &[]).is_err());
        }
    }
}
