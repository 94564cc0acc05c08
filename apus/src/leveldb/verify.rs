use rayon::prelude::*;

use super::bloom;
use super::db::{Db, Snapshot};
use super::format::{InternalKey, compare_internal, split_key, user_key};
use super::table::{Table, TableCursor};
use crate::disk::Result;

impl Db {
    /// Reads everything and checks every checksum, the order of keys, the index, the filters and
    /// the bounds that the manifest gives; the number of entries, deleted and outdated ones too.
    ///
    /// The error names the file and the offset of what is wrong first.
    pub fn verify(&self) -> Result<u64> {
        self.snapshot().verify()
    }
}

impl Snapshot {
    /// Like [`Db::verify`].
    pub fn verify(&self) -> Result<u64> {
        let tables: Vec<_> = self.version().tables().map(|table| table.table).collect();
        tables.par_iter().map(|table| verify_table(table)).try_reduce(|| 0, |a, b| Ok(a + b))
    }
}

fn verify_table(table: &Table) -> Result<u64> {
    let mut cursor = TableCursor::default();
    let mut found = cursor.seek_first(table)?;
    let (mut entries, mut last, mut last_index) = (0, Vec::new(), Vec::new());
    while found {
        let key = cursor.key();
        let wrong = |what: &str| Err(cursor.bad_entry(table, what));
        let Some(InternalKey { user, .. }) = split_key(key) else {
            return wrong("a key that is not an internal key");
        };
        if entries == 0 && key != &*table.keys.smallest {
            return wrong("the first key is not the one that the manifest names");
        }
        if entries > 0 && compare_internal(&last, key).is_ge() {
            return wrong("a key out of order");
        }
        // User keys only: rusty-leveldb gives its index keys a trailer that sorts too early.
        if user > user_key(cursor.index_key()) {
            return wrong("a key behind the end that the index gives its block");
        }
        if cursor.index_key() != last_index {
            if entries > 0 && user < user_key(&last_index) {
                return wrong("a key before the start that the index gives its block");
            }
            last_index.clear();
            last_index.extend_from_slice(cursor.index_key());
        }
        if !cursor.filter_holds(table, bloom::hash(user))? {
            return wrong("the bloom filter does not know a key of its block");
        }
        entries += 1;
        last.clear();
        last.extend_from_slice(key);
        found = cursor.advance(table)?;
    }
    if last != *table.keys.largest {
        return Err(cursor.bad_entry(table, "the last key is not the one that the manifest names"));
    }
    Ok(entries)
}
