//! The saved work of an index whose entries are sorted: where its entries are in the temporary
//! file, and up to which block they were collected.

use std::path::{Path, PathBuf};

use apus_chain::Tree;
use apus_disk::{Disk, SavedParts, StoreError};
use apus_hash::Hash;
use apus_node::commit::Ledger;
use apus_node::sealed::{seal, unseal};
use apus_store::{DataDir, IndexKind};
use apus_wire::{Cursor, ParseError};

use super::plan::IndexPlan;
use super::positions::SipKeys;

/// First bytes of the file; the last byte is the version.
const MAGIC: &[u8; 8] = b"apusix\x00\x01";

/// The two files of unfinished work on an index.
pub struct WorkFiles<'a> {
    disk: &'a Disk,
    pub entries: PathBuf,
    /// Which entries they are.
    record: PathBuf,
}

/// Entries that were collected and not yet written to the index.
#[derive(Debug, PartialEq, Eq)]
pub struct SavedSort {
    /// Hash of the block that the index ends with; zero for an index without blocks.
    pub last: Hash,
    /// Hash of the last block whose entries were collected.
    pub reached: Hash,
    /// The keys of the hashes in the entries; zero for entries without hashes.
    pub keys: SipKeys,
    /// Where the entries are.
    pub parts: SavedParts,
}

impl SavedSort {
    pub fn to_bytes(&self) -> Vec<u8> {
        seal(MAGIC, |out| {
            out.extend_from_slice(&self.last.0);
            out.extend_from_slice(&self.reached.0);
            out.extend_from_slice(&self.keys.to_bytes());
            self.parts.put(out);
        })
    }

    /// Parses what [`SavedSort::to_bytes`] returned; `None` for anything else.
    pub fn parse(file: &[u8]) -> Option<Self> {
        let content = unseal(MAGIC, file)?;
        let mut cursor = Cursor::new(content);
        let mut fixed = || -> Result<_, ParseError> {
            Ok((Hash(cursor.array()?), Hash(cursor.array()?), cursor.array::<16>()?))
        };
        let (last, reached, keys) = fixed().ok()?;
        let mut rest = &content[cursor.position()..];
        let parts = SavedParts::read(&mut rest).filter(|_| rest.is_empty())?;
        Some(Self { last, reached, keys: SipKeys::from_bytes(&keys)?, parts })
    }
}

impl<'a> WorkFiles<'a> {
    /// Returns the files of an index of this directory.
    pub fn new(dir: &'a DataDir, kind: IndexKind) -> Self {
        let path = |suffix: &str| {
            dir.path().join("indexes").join(format!("apus-{}.{suffix}", kind.name()))
        };
        Self { disk: dir.disk(), entries: path("sort"), record: path("saved") }
    }

    /// Returns the work that an earlier run has saved, with the height that it reached, if the
    /// index and the active chain still fit it. `keys` are those of the index's hashes, if it has
    /// any yet.
    pub fn saved(
        &self,
        tree: &Tree,
        ledger: &Ledger,
        plan: &IndexPlan,
        keys: Option<SipKeys>,
    ) -> Result<Option<(u32, SavedSort)>, StoreError> {
        let Some(record) = self.disk.read(&self.record)? else { return Ok(None) };
        let saved = SavedSort::parse(&record);
        let is_of_index = |saved: &SavedSort| {
            let has_keys = match keys {
                Some(keys) => saved.keys == keys,
                // Entries of txindex in the other form have none.
                None => saved.keys != SipKeys::NONE,
            };
            has_keys && saved.last == last_of(plan)
        };
        let fitting = saved.filter(is_of_index).and_then(|saved| {
            let reached = tree.find(&saved.reached)?;
            let height = tree.node(reached).height;
            let is_active = ledger.active.contains(tree, reached);
            (is_active && height >= plan.from).then_some((height, saved))
        });
        if fitting.is_none() {
            let path = self.record.display();
            tracing::info!(
                target: "blockstorage",
                "{path}: the work saved for {} does not fit, which starts over", plan.kind.name()
            );
        }
        Ok(fitting)
    }

    /// Replaces the saved work. Its entries are durable.
    pub fn save(&self, saved: &SavedSort) -> Result<(), StoreError> {
        self.disk.write_atomically(&self.record, &saved.to_bytes())
    }

    /// Forgets the saved work, before its entries are changed.
    pub fn forget(&self) -> Result<(), StoreError> {
        self.disk.remove_temporary(&self.record)?;
        if self.record.exists() {
            self.disk.remove(&self.record)?;
            self.disk.sync_dir(self.record.parent().unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }
}

/// Returns the hash of the block that an index ends with, without disconnected ones; zero if it has
/// no blocks.
pub fn last_of(plan: &IndexPlan) -> Hash {
    plan.last.as_ref().map_or(Hash::ZERO, |last| last.hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_work_is_read_as_it_was_written() {
        // An empty file, and two parts without extents.
        let mut parts = 0_u64.to_le_bytes().to_vec();
        parts.extend_from_slice(&2_u32.to_le_bytes());
        parts.extend_from_slice(&[0; 8]);
        let parts = SavedParts::read(&mut &parts[..]).unwrap();
        let last = Hash([1; 32]);
        let reached = Hash([2; 32]);
        let saved = SavedSort { last, reached, keys: SipKeys(3, 4), parts };
        let bytes = saved.to_bytes();
        assert_eq!(SavedSort::parse(&bytes), Some(saved));
        for end in 0..bytes.len() {
            assert_eq!(SavedSort::parse(&bytes[..end]), None, "{end} bytes");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert_eq!(SavedSort::parse(&bytes), None, "byte {at}");
        }
    }
}
