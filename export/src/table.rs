/// A table: its name, and its columns in order.
#[derive(Debug)]
pub struct Table {
    /// The name of the table in a database.
    pub name: &'static str,
    /// The meaning and order of rows, in full sentences.
    pub about: &'static str,
    /// The columns, from left to right.
    pub columns: &'static [Column],
}

/// A column of a table.
#[derive(Debug)]
pub struct Column {
    /// The name: lower-case letters, digits and underscores.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Whether a row may have no value here.
    pub is_nullable: bool,
    /// The meaning of the values, with their unit, in full sentences.
    pub about: &'static str,
}

/// The kind of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// 0 or 1, for no or yes.
    Bool,
    /// A whole number from -2^31 to 2^31 - 1.
    I32,
    /// A whole number from 0 to 2^32 - 1.
    U32,
    /// A whole number from -2^63 to 2^63 - 1.
    I64,
    /// 32 bytes that are shown last byte first.
    Hash,
    /// Any number of bytes.
    Bytes,
    /// A word of ASCII.
    Word,
}

impl Column {
    /// Creates a column that has a value in each row.
    pub const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, is_nullable: false, about }
    }

    /// Returns the column, but nullable.
    pub const fn nullable(self) -> Self {
        Self { is_nullable: true, ..self }
    }
}

impl Kind {
    /// Returns whether values are numbers: [`crate::Value::Number`] and not
    /// [`crate::Value::Bytes`].
    pub fn is_number(self) -> bool {
        match self {
            Self::Bool | Self::I32 | Self::U32 | Self::I64 => true,
            Self::Hash | Self::Bytes | Self::Word => false,
        }
    }
}
