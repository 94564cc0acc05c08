use apus_disk::{Result, StoreError};

use super::format::{
    KeyRange, TRAILER_BYTES, compare_internal, get_slice, get_varint, put_slice, put_varint,
    split_key, table_path,
};
use super::inner::Inner;
use super::state::NUMBER_MAX;
use super::table::{Table, TableCursor};

/// A finished, durable table of an uncommitted run. The caller stores it, so that another process
/// can resume the run ([`super::Db::resume_run`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingTable {
    /// The number of the file.
    pub number: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The first internal key.
    pub smallest: Box<[u8]>,
    /// The last internal key.
    pub largest: Box<[u8]>,
}

impl PendingTable {
    pub(super) fn of(table: &Table) -> Self {
        let KeyRange { smallest, largest } = table.keys.clone();
        Self { number: table.number, bytes: table.bytes, smallest, largest }
    }

    /// Appends the serialised form: number and length as LevelDB varints, and both keys, each
    /// preceded by its length as such a varint.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        put_varint(out, self.bytes);
        put_slice(out, &self.smallest);
        put_slice(out, &self.largest);
    }

    /// Reads a table written by [`PendingTable::put`] at `*at`, and moves `*at` past it; `None` if
    /// it is damaged.
    pub fn read(bytes: &[u8], at: &mut usize) -> Option<Self> {
        let number = get_varint(bytes, at).filter(|number| *number < NUMBER_MAX)?;
        let len = get_varint(bytes, at)?;
        let mut key = || get_slice(bytes, at).filter(|key| key.len() >= TRAILER_BYTES);
        let smallest = key()?;
        let largest = key()?;
        let ascends = compare_internal(smallest, largest).is_le();
        let smallest = smallest.into();
        let largest = largest.into();
        ascends.then_some(Self { number, bytes: len, smallest, largest })
    }

    /// Opens the table as part of a run whose entries have this sequence number.
    ///
    /// # Errors
    /// The file is missing, has another length, or is not the one that was written for this run;
    /// the database has changed since.
    pub(super) fn open(&self, inner: &Inner, sequence: u64) -> Result<Table> {
        let path = table_path(&inner.dir, self.number);
        let error = |what: String| {
            let what = format!(
                "{what}, so the unfinished run of tables that it belongs to cannot be resumed: \
                 write it again"
            );
            StoreError::new(&path, what)
        };
        for key in [&self.smallest, &self.largest] {
            let own = split_key(key).map(|key| key.trailer >> 8);
            if own != Some(sequence) {
                let own = own.map_or("none".to_string(), |own| own.to_string());
                return Err(error(format!(
                    "the table has the sequence number {own}, but the database has changed since \
                     and is at {sequence}"
                )));
            }
        }
        if !path.is_file() {
            return Err(error("the table is missing".to_string()));
        }
        let bytes = inner.disk.len(&path)?;
        if bytes != self.bytes {
            let what = format!("the table has {bytes} bytes, but {} were written", self.bytes);
            return Err(error(what));
        }
        let keys = KeyRange { smallest: self.smallest.clone(), largest: self.largest.clone() };
        let open =
            || Table::new(inner.disk.clone(), path.clone(), self.number, bytes, keys.clone());
        // LevelDB may have opened the database meanwhile: it removes the file and may reuse its
        // number.
        let checked = open();
        let mut cursor = TableCursor::default();
        if !cursor.seek_first(&checked)? || *cursor.key() != *self.smallest {
            return Err(error(
                "the first key of the table is not the one that was written".to_string(),
            ));
        }
        // Returns an unused handle, which holds no memory.
        Ok(open())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_table_comes_back_and_damage_is_none() {
        let table = |number, smallest: &[u8], largest: &[u8]| PendingTable {
            number,
            bytes: 32 << 20,
            smallest: smallest.into(),
            largest: largest.into(),
        };
        let tables =
            [table(300, b"a12345678", b"zz12345678"), table(1, b"-12345678", b"-12345678")];
        let mut bytes = Vec::new();
        tables.iter().for_each(|table| table.put(&mut bytes));
        let mut at = 0;
        for table in &tables {
            assert_eq!(PendingTable::read(&bytes, &mut at).as_ref(), Some(table));
        }
        assert_eq!(at, bytes.len());
        let mut first = Vec::new();
        tables[0].put(&mut first);
        for cut in 0..first.len() {
            assert_eq!(PendingTable::read(&first[..cut], &mut 0), None);
        }
        let refused = [
            table(NUMBER_MAX, b"a12345678", b"b12345678"),
            table(1, b"b12345678", b"a12345678"),
            table(1, b"1234567", b"a12345678"),
        ];
        for table in refused {
            let mut bytes = Vec::new();
            table.put(&mut bytes);
            assert_eq!(PendingTable::read(&bytes, &mut 0), None);
        }
    }
}
