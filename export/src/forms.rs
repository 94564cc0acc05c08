use crate::batch::{Batch, Data, Values};
use crate::table::{Kind, Table};

/// The forms that hashes and bytes are written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Forms {
    /// The form of [`Kind::Hash`].
    pub hash: HashForm,
    /// The form of [`Kind::Bytes`].
    pub bytes: BytesForm,
}

/// The form of hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HashForm {
    /// 64 hex digits as text, the last byte first.
    #[default]
    Hex,
    /// 32 bytes in the order in which they are hashed.
    Raw,
    /// 32 bytes in the order in which hex digits show them, the last one first.
    RawReversed,
}

/// The form of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BytesForm {
    /// Two hex digits for each byte, as text.
    #[default]
    Hex,
    /// The bytes.
    Raw,
}

/// The form of a column's values in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// A number of the column's kind.
    Number,
    /// ASCII text.
    Text,
    /// Bytes, with their number if it is the same in every row.
    Blob(Option<usize>),
}

/// The size of a hash in bytes.
const HASH_BYTES: usize = 32;

impl Forms {
    /// Returns whether everything is text.
    pub fn are_text(self) -> bool {
        self == Self::default()
    }

    /// Returns what is written for a column of this kind.
    pub(crate) fn shape(self, kind: Kind) -> Shape {
        match kind {
            Kind::Bool | Kind::I32 | Kind::U32 | Kind::I64 => Shape::Number,
            Kind::Word => Shape::Text,
            Kind::Hash if self.hash == HashForm::Hex => Shape::Text,
            Kind::Hash => Shape::Blob(Some(HASH_BYTES)),
            Kind::Bytes if self.bytes == BytesForm::Hex => Shape::Text,
            Kind::Bytes => Shape::Blob(None),
        }
    }

    /// Converts all values of a batch to their forms.
    pub(crate) fn apply(self, table: &Table, batch: &mut Batch) {
        for (column, values) in table.columns.iter().zip(&mut batch.columns) {
            self.apply_to(column.kind, values);
        }
    }

    /// Converts the values of a column of this kind to their form.
    pub(crate) fn apply_to(self, kind: Kind, values: &mut Values) {
        let Data::Bytes { bytes, ends } = &mut values.data else { return };
        if kind == Kind::Hash && self.hash != HashForm::Raw {
            bytes.as_chunks_mut::<HASH_BYTES>().0.iter_mut().for_each(|hash| hash.reverse());
        }
        if kind != Kind::Word && self.shape(kind) == Shape::Text {
            *bytes = hex(bytes);
            ends.iter_mut().for_each(|end| *end *= 2);
        }
    }
}

/// Returns the hex digits of bytes.
fn hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = vec![0; 2 * bytes.len()];
    for (two, byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *two = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Value;
    use crate::table::Column;

    #[test]
    fn hashes_turn_around_but_for_their_raw_form() {
        const COLUMNS: &[Column] = &[
            Column::new("hash", Kind::Hash, "A hash, or none.").nullable(),
            Column::new("bytes", Kind::Bytes, "Bytes."),
            Column::new("word", Kind::Word, "A word."),
        ];
        const TABLE: Table = Table { name: "t", about: "Rows.", columns: COLUMNS };
        let mut hash = [0; 32];
        hash[0] = 0xab;
        let mut reversed = hash;
        reversed.reverse();
        let digits = "00".repeat(31) + "ab";
        let cases: [(HashForm, BytesForm, &[u8], &[u8]); 3] = [
            (HashForm::Hex, BytesForm::Raw, digits.as_bytes(), &[0x0f, 0xe1]),
            (HashForm::Raw, BytesForm::Hex, &hash, b"0fe1"),
            (HashForm::RawReversed, BytesForm::Hex, &reversed, b"0fe1"),
        ];
        for (hash_form, bytes_form, as_hash, as_bytes) in cases {
            let mut batch = Batch::new(&TABLE);
            let bytes = Value::Bytes(&[0x0f, 0xe1]);
            batch.push(&[Value::Null, Value::Bytes(b""), Value::from("no")]);
            batch.push(&[Value::from(&hash), bytes, Value::from("yes")]);
            Forms { hash: hash_form, bytes: bytes_form }.apply(&TABLE, &mut batch);
            let row = |row| batch.columns.iter().map(|values| values.get(row)).collect::<Vec<_>>();
            assert_eq!(row(0), [Value::Null, Value::Bytes(b""), Value::Bytes(b"no")]);
            let expected = [Value::Bytes(as_hash), Value::Bytes(as_bytes), Value::from("yes")];
            assert_eq!(row(1), expected);
        }
    }
}
