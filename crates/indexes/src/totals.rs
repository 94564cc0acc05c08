//! The index of statistics (Core's `coinstatsindex`): the hash of the UTXO set and totals after
//! each block.

use std::path::Path;

use apus_disk::{Result, StoreError};
use apus_hash::{Hash, MuHash};
use apus_leveldb::{Db, RunWriter};

use super::block::StoredBlock;
use super::heights::{height_key, look_up, no_entry};
use super::sorting::Other;
use super::statistics::{Change, Totals};

/// The key of the state of the MuHash (Core's `DB_MUHASH`).
pub const DB_MUHASH: u8 = b'M';

/// The index of statistics, while blocks are appended.
pub struct Statistics<'a> {
    muhash: MuHash,
    totals: Totals,
    /// Path of the database, for errors.
    path: &'a Path,
    writer: RunWriter<'a>,
}

impl<'a> Statistics<'a> {
    /// Continues the index whose database at `path` is `db` after block `last`; `None` for an index
    /// without blocks. `stale` are the sets of coins that the blocks above `last` have changed,
    /// which are taken back. Entries go to `writer`.
    ///
    /// # Errors
    /// The database cannot be read, or its state does not fit the entry of the block.
    pub fn after(
        last: Option<&StoredBlock>,
        (db, path): (&Db, &'a Path),
        stale: &MuHash,
        writer: RunWriter<'a>,
    ) -> Result<Self> {
        let mut muhash = MuHash::new();
        let mut totals = Totals::default();
        if let Some(last) = last {
            let value = look_up(db, last.height, &last.hash)?;
            let value = value.ok_or_else(|| no_entry(path, last))?;
            let (expected, found) = Totals::read(&value).map_err(|error| {
                let at = last.height;
                StoreError::new(path, format!("the entry of block {at} cannot be read: {error}"))
            })?;
            let state = db.get(&[DB_MUHASH])?.unwrap_or_default();
            let state = state.as_slice().try_into().ok().map(MuHash::from_bytes);
            let state = state.map(|mut state| {
                state.divide(stale);
                state
            });
            muhash = state.filter(|state| state.finalize() == expected).ok_or_else(|| {
                let what = format!(
                    "the state of the index does not have the hash that block {} has: remove the \
                     index, and build it again",
                    last.height
                );
                StoreError::new(path, what)
            })?;
            totals = found;
        }
        Ok(Self { muhash, totals, path, writer })
    }

    /// Appends the next blocks, in order, with what each changes.
    pub fn append(&mut self, blocks: &[(&StoredBlock, Change)]) -> Result<()> {
        let coins: Vec<&MuHash> = blocks.iter().map(|(_, change)| &change.coins).collect();
        let hashes = self.muhash.finalize_each(&coins);
        for ((block, change), hash) in blocks.iter().zip(&hashes) {
            self.totals.add(change).map_err(|what| {
                StoreError::new(self.path, format!("block {}: {what}", block.height))
            })?;
            self.writer.put(&height_key(block.height), &value(&block.hash, self.totals, hash))?;
        }
        Ok(())
    }

    /// Ends the entries by height, and returns the other entries that have to be committed with
    /// them.
    pub fn finish(mut self) -> Result<Vec<Other>> {
        self.writer.finish()?;
        // Core keeps the quotient, too.
        self.muhash.finalize_each(&[]);
        Ok(vec![(vec![DB_MUHASH], Some(self.muhash.to_bytes().to_vec()))])
    }
}

fn value(block: &Hash, totals: Totals, muhash: &Hash) -> Vec<u8> {
    [&block.0[..], &totals.to_bytes(muhash)].concat()
}
