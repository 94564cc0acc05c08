//! The second UTXO set next to `chainstate`: the one that bitcoind has loaded from a snapshot, and
//! uses until it has validated the snapshot's base block in `chainstate` (assumeutxo).
//!
//! bitcoind refuses to start if the best block of `chainstate` is neither the base block nor below
//! it. Apus works on `chainstate` alone, and gives up the second set right before the first commit
//! with such a best block: docs/decisions/0018-assumeutxo-state.md.

use std::path::{Path, PathBuf};

use apus_chain::{BlockId, Tree};
use apus_coins::Chainstate;
use apus_disk::{Disk, StoreError};
use apus_hash::Hash;

use apus_progress::Observer;

/// The directory of the second UTXO set.
pub const DIRECTORY: &str = "chainstate_snapshot";
/// The file by which bitcoind recognises the set: the hash of the snapshot's base block, 32 bytes.
pub const BASE_FILE: &str = "chainstate_snapshot/base_blockhash";
/// The name that [`BASE_FILE`] gets when the set is given up and its tables are to be removed.
pub const GIVEN_UP_FILE: &str = "chainstate_snapshot/given_up";
/// Directories that bitcoind may leave, and never reads: an invalid snapshot, and the UTXO set that
/// a validated one has replaced.
const LEFT_BY_CORE: [&str; 2] = ["chainstate_snapshot_INVALID", "chainstate_todelete"];

/// The second UTXO set in a network's directory.
pub struct SnapshotChainstate {
    disk: Disk,
    network_dir: PathBuf,
    /// The hash of the snapshot's base block.
    pub base: Hash,
}

impl SnapshotChainstate {
    /// Finds the second UTXO set in a network's directory, if there is one.
    ///
    /// # Errors
    /// The file with the hash of the base block is too short: bitcoind refuses it, too.
    pub fn find(disk: &Disk, network_dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = network_dir.join(BASE_FILE);
        let Some(bytes) = disk.read(&path)? else { return Ok(None) };
        // bitcoind warns about extra bytes, and takes the first 32.
        let Some(base) = bytes.first_chunk() else {
            let what = format!(
                "it holds {} bytes, but the hash of a snapshot's base block has 32: remove the \
                 directory of this file, and load the snapshot again",
                bytes.len()
            );
            return Err(StoreError::new(path, what));
        };
        let disk = disk.clone();
        let network_dir = network_dir.to_path_buf();
        Ok(Some(Self { disk, network_dir, base: Hash(*base) }))
    }

    /// Does the same as [`SnapshotChainstate::find`], for a caller that may write: first removes
    /// what a crash has left of a set that was given up.
    pub fn find_or_clear(disk: &Disk, network_dir: &Path) -> Result<Option<Self>, StoreError> {
        let directory = network_dir.join(DIRECTORY);
        if network_dir.join(GIVEN_UP_FILE).is_file() {
            remove_tables(disk, network_dir)?;
        } else if directory.is_dir() {
            // The mark may be gone already.
            disk.remove_empty_dir(&directory)?;
        }
        Self::find(disk, network_dir)
    }

    /// Returns whether bitcoind starts when `tip` is the best block of `chainstate`: it must be the
    /// base block or an ancestor of it, and neither may be known to be invalid.
    pub fn allows(&self, tree: &Tree, tip: BlockId) -> bool {
        let height = tree.node(tip).height;
        tree.find(&self.base)
            .is_some_and(|base| !tree.node(base).failed && tree.ancestor(base, height) == Some(tip))
    }

    /// Gives up the set: it ends with one rename, and its tables are then removed.
    pub fn give_up(self) -> Result<(), StoreError> {
        tracing::debug!(
            target: "coindb",
            base = %self.base, "giving up {}", self.network_dir.join(DIRECTORY).display()
        );
        self.disk.rename(self.network_dir.join(BASE_FILE), self.network_dir.join(GIVEN_UP_FILE))?;
        self.disk.sync_dir(self.network_dir.join(DIRECTORY))?;
        remove_tables(&self.disk, &self.network_dir)
    }

    /// Returns the best block of the set; `None` if it cannot be read now, as after an interrupted
    /// flush of bitcoind.
    pub fn best_block(&self) -> Option<Hash> {
        let opened = Chainstate::open_read_only(&self.disk, &self.network_dir.join(DIRECTORY));
        opened.and_then(|chainstate| chainstate.best_block()).ok().flatten()
    }
}

/// Makes the tables in [`DIRECTORY`], which are complete and durable, the second UTXO set, whose
/// best block is `base`.
pub fn mark_whole(disk: &Disk, network_dir: &Path, base: &Hash) -> Result<(), StoreError> {
    disk.sync_dir(network_dir)?;
    disk.write_atomically(network_dir.join(BASE_FILE), &base.0)
}

/// Removes the tables of a set that was given up, and finally the mark that says so.
fn remove_tables(disk: &Disk, network_dir: &Path) -> Result<(), StoreError> {
    let directory = network_dir.join(DIRECTORY);
    Chainstate::destroy(disk, &directory)?;
    disk.remove(network_dir.join(GIVEN_UP_FILE))?;
    disk.sync_dir(&directory)?;
    disk.remove_empty_dir(&directory)?;
    disk.sync_dir(network_dir)
}

/// Tells the user that there is a second UTXO set, and which one the command uses.
///
/// # Errors
/// Those of [`SnapshotChainstate::find`].
pub fn announce(
    disk: &Disk,
    network_dir: &Path,
    observer: &dyn Observer,
) -> Result<(), StoreError> {
    if let Some(snapshot) = SnapshotChainstate::find(disk, network_dir)? {
        observer.note(&format!(
            "{} holds the UTXO set that bitcoind works with, from a snapshot of block {}: this \
             command uses the other one, in chainstate, which is validated from the first block on",
            network_dir.join(DIRECTORY).display(),
            snapshot.base
        ));
    }
    Ok(())
}

/// Returns directories of UTXO sets that neither bitcoind nor Apus uses: those that bitcoind has
/// left, and a second set without the hash of its base block.
pub fn unused(network_dir: &Path) -> Vec<PathBuf> {
    let is_base = network_dir.join(BASE_FILE).exists();
    let unfinished = (!is_base).then_some(DIRECTORY);
    let names = LEFT_BY_CORE.into_iter().chain(unfinished);
    names.map(|name| network_dir.join(name)).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_directory_of_a_set_that_was_given_up_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join(DIRECTORY);
        std::fs::create_dir(&directory).unwrap();
        let disk = Disk::new();
        assert!(SnapshotChainstate::find_or_clear(&disk, place.path()).unwrap().is_none());
        assert!(!directory.exists());
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("CURRENT"), "MANIFEST-000001").unwrap();
        assert!(SnapshotChainstate::find_or_clear(&disk, place.path()).unwrap().is_none());
        assert!(directory.exists(), "tables without a base block are named, not removed");
    }
}
