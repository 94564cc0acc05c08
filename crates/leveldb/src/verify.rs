use apus_disk::Result;
use rayon::prelude::*;

use super::bloom;
use super::db::Db;
use super::format::{InternalKey, compare_internal, split_key, user_key};
use super::table::{Table, TableCursor};

impl Db {
    /// Reads the whole database, and checks every checksum, the order of keys, the index, the
    /// filters and the key ranges in the manifest. Returns the number of entries, including deleted
    /// and outdated ones.
    ///
    /// # Errors
    /// The database is damaged; the error names the file and the offset.
    pub fn verify(&self) -> Result<u64> {
        self.verify_while(|| true)
    }

    /// Does the same as [`Db::verify`], but begins with no further table once `goes_on` is false.
    ///
    /// # Errors
    /// As for [`Db::verify`].
    pub fn verify_while(&self, goes_on: impl Fn() -> bool + Sync) -> Result<u64> {
        let snapshot = self.snapshot();
        let tables: Vec<_> = snapshot.version().tables().map(|table| table.table).collect();
        let entries =
            tables.par_iter().map(|table| if goes_on() { verify_table(table) } else { Ok(0) });
        entries.try_reduce(|| 0, |a, b| Ok(a + b))
    }
}

fn verify_table(table: &Table) -> Result<u64> {
    let mut cursor = TableCursor::default();
    let mut found = cursor.seek_first(table)?;
    let mut entries = 0;
    let mut last = Vec::new();
    let mut last_index = Vec::new();
    while found {
        let key = cursor.key();
        let wrong = |what: &str| Err(cursor.bad_entry(table, what));
        let Some(InternalKey { user, .. }) = split_key(key) else {
            return wrong("the key is too short or of an unknown kind");
        };
        if entries == 0 && key != &*table.keys.smallest {
            return wrong("the first key of the table is not the one in the manifest");
        }
        if entries > 0 && compare_internal(&last, key).is_ge() {
            return wrong("the key is not greater than the previous one");
        }
        // User keys only: rusty-leveldb gives its index keys a trailer that sorts too early.
        if user > user_key(cursor.index_key()) {
            return wrong("the key is greater than the end of its block in the index");
        }
        if cursor.index_key() != last_index {
            if entries > 0 && user < user_key(&last_index) {
                return wrong("the key is smaller than the start of its block in the index");
            }
            last_index.clear();
            last_index.extend_from_slice(cursor.index_key());
        }
        if !cursor.filter_holds(table, bloom::hash(user))? {
            return wrong("the bloom filter rules out this key, although its block holds it");
        }
        entries += 1;
        last.clear();
        last.extend_from_slice(key);
        found = cursor.advance(table)?;
    }
    if last != *table.keys.largest {
        return Err(
            cursor.bad_entry(table, "the last key of the table is not the one in the manifest")
        );
    }
    Ok(entries)
}
