use crate::table::Table;

/// A value of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// No value, in a nullable column.
    Null,
    /// A number, in the range of its column's kind.
    Number(i64),
    /// Bytes: 32 of a hash, in the order in which they are hashed; or those of a word.
    Bytes(&'a [u8]),
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Number(value.into())
    }
}

impl From<i32> for Value<'_> {
    fn from(value: i32) -> Self {
        Self::Number(value.into())
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Self::Number(value.into())
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Number(value)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(value)
    }
}

impl<'a> From<&'a [u8; 32]> for Value<'a> {
    fn from(value: &'a [u8; 32]) -> Self {
        Self::Bytes(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Bytes(value.as_bytes())
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Rows of a table, held column by column.
#[derive(Clone, Debug)]
pub struct Batch {
    rows: usize,
    bytes: usize,
    pub(crate) columns: Vec<Values>,
}

/// The values of a column.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub data: Data,
    /// Whether each row has a value; `None` in a column that is not nullable.
    pub has_value: Option<Vec<bool>>,
}

/// The values of a column; a missing value is stored as zero or as no bytes.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Numbers(Vec<i64>),
    Bytes {
        /// The bytes of all rows.
        bytes: Vec<u8>,
        /// The end of each row's bytes.
        ends: Vec<usize>,
    },
}

impl Batch {
    /// Creates an empty batch for a table.
    pub fn new(table: &Table) -> Self {
        let values = |column: &crate::Column| Values {
            data: if column.kind.is_number() {
                Data::Numbers(Vec::new())
            } else {
                Data::Bytes { bytes: Vec::new(), ends: Vec::new() }
            },
            has_value: column.is_nullable.then(Vec::new),
        };
        Self { rows: 0, bytes: 0, columns: table.columns.iter().map(values).collect() }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the size of all values in bytes; a number counts as eight.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a row.
    ///
    /// # Panics
    /// The values do not match the table's columns.
    #[inline]
    pub fn push<const N: usize>(&mut self, row: &[Value; N]) {
        assert_eq!(N, self.columns.len(), "a row has a value for each column");
        for (values, value) in self.columns.iter_mut().zip(row) {
            self.bytes += values.push(*value);
        }
        self.rows += 1;
    }

    /// Removes all rows from this batch and returns them.
    pub fn take(&mut self) -> Self {
        let columns = self.columns.iter().map(Values::emptied).collect();
        std::mem::replace(self, Self { rows: 0, bytes: 0, columns })
    }

    /// Adds the rows of another batch of the same table.
    pub fn append(&mut self, mut other: Self) {
        if self.rows == 0 {
            *self = other;
            return;
        }
        for (values, more) in self.columns.iter_mut().zip(&mut other.columns) {
            values.append(more);
        }
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

impl Values {
    /// Returns a list without values for the same column.
    fn emptied(&self) -> Self {
        let data = match &self.data {
            Data::Numbers(_) => Data::Numbers(Vec::new()),
            Data::Bytes { .. } => Data::Bytes { bytes: Vec::new(), ends: Vec::new() },
        };
        Self { data, has_value: self.has_value.as_ref().map(|_| Vec::new()) }
    }

    /// Removes all values from this column and returns them.
    #[cfg(feature = "arrow")]
    pub fn take(&mut self) -> Self {
        let emptied = self.emptied();
        std::mem::replace(self, emptied)
    }

    /// Adds a value, and returns the number of bytes that it takes.
    #[inline]
    fn push(&mut self, value: Value) -> usize {
        match &mut self.has_value {
            Some(has_value) => has_value.push(value != Value::Null),
            None => assert!(value != Value::Null, "the column is not nullable"),
        }
        match (&mut self.data, value) {
            (Data::Numbers(numbers), Value::Number(number)) => {
                numbers.push(number);
                8
            }
            (Data::Bytes { bytes, ends }, Value::Bytes(value)) => {
                bytes.extend_from_slice(value);
                ends.push(bytes.len());
                value.len()
            }
            (Data::Numbers(numbers), Value::Null) => {
                numbers.push(0);
                8
            }
            (Data::Bytes { bytes, ends }, Value::Null) => {
                ends.push(bytes.len());
                0
            }
            (Data::Numbers(_), Value::Bytes(_)) => panic!("the column holds numbers"),
            (Data::Bytes { .. }, Value::Number(_)) => panic!("the column holds bytes"),
        }
    }

    fn append(&mut self, other: &mut Self) {
        match (&mut self.data, &mut other.data) {
            (Data::Numbers(numbers), Data::Numbers(more)) => numbers.append(more),
            (Data::Bytes { bytes, ends }, Data::Bytes { bytes: more, ends: more_ends }) => {
                let start = bytes.len();
                bytes.append(more);
                ends.extend(more_ends.iter().map(|end| start + end));
            }
            _ => panic!("the batches belong to different tables"),
        }
        if let (Some(has_value), Some(more)) = (&mut self.has_value, &mut other.has_value) {
            has_value.append(more);
        }
    }

    /// Returns the value of a row.
    #[inline]
    pub fn get(&self, row: usize) -> Value<'_> {
        if self.has_value.as_ref().is_some_and(|has_value| !has_value[row]) {
            return Value::Null;
        }
        match &self.data {
            Data::Numbers(numbers) => Value::Number(numbers[row]),
            Data::Bytes { bytes, ends } => {
                let start = row.checked_sub(1).map_or(0, |before| ends[before]);
                Value::Bytes(&bytes[start..ends[row]])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Column, Kind};

    const COLUMNS: &[Column] = &[
        Column::new("n", Kind::I64, "A number."),
        Column::new("b", Kind::Bytes, "Bytes.").nullable(),
        Column::new("m", Kind::U32, "A number or none.").nullable(),
    ];
    const TABLE: Table = Table { name: "t", about: "Rows.", columns: COLUMNS };

    #[test]
    fn batches_one_after_the_other_are_the_batch_of_all_rows() {
        let rows = [
            [Value::Number(1), Value::Bytes(b"one"), Value::Null],
            [Value::Number(-2), Value::Null, Value::Number(9)],
            [Value::Number(3), Value::Bytes(b""), Value::Number(0)],
            [Value::Number(i64::MIN), Value::Bytes(b"four"), Value::Null],
        ];
        let mut all = Batch::new(&TABLE);
        for cut in 0..=rows.len() {
            let mut first = Batch::new(&TABLE);
            let mut second = Batch::new(&TABLE);
            rows[..cut].iter().for_each(|row| first.push(row));
            rows[cut..].iter().for_each(|row| second.push(row));
            first.append(second);
            all = first.take();
            assert_eq!((first.rows(), first.bytes()), (0, 0));
            assert_eq!((all.rows(), all.bytes()), (4, 8 * 8 + 7));
            for (index, row) in rows.iter().enumerate() {
                for (values, value) in all.columns.iter().zip(row) {
                    assert_eq!(values.get(index), *value);
                }
            }
        }
        assert_eq!(all.rows(), 4);
    }

    #[test]
    #[should_panic(expected = "not nullable")]
    fn a_value_that_must_be_there_is_missed() {
        Batch::new(&TABLE).push(&[Value::Null, Value::Null, Value::Null]);
    }
}
