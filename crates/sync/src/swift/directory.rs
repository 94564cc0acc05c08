//! The directory of a SwiftSync, and the work saved there.

use std::path::{Path, PathBuf};

use apus_disk::{Disk, StoreError};
use apus_store::DataDir;

use super::saved::Saved;
use crate::claim::Claim;

/// The directory, next to Core's `chainstate`, in which a SwiftSync works.
pub const DIRECTORY: &str = "swiftsync";

/// Removes the directory of an interrupted SwiftSync, and with it the saved work.
pub fn forget(dir: &DataDir) -> Result<(), StoreError> {
    remove_directory(dir.disk(), &dir.path().join(DIRECTORY))
}

/// Returns the number of blocks that an interrupted SwiftSync has saved; `None` if there is none.
pub fn unfinished(disk: &Disk, network_dir: &Path) -> Result<Option<u32>, StoreError> {
    let bytes = disk.read(saved_path(&network_dir.join(DIRECTORY)))?;
    Ok(bytes.and_then(|bytes| Some(Saved::parse(&bytes)?.blocks_done())))
}

/// Removes the directory of a SwiftSync and all files in it, if it exists.
pub fn remove_directory(disk: &Disk, directory: &Path) -> Result<(), StoreError> {
    if !directory.is_dir() {
        return Ok(());
    }
    for name in disk.list(directory)? {
        disk.remove(directory.join(name))?;
    }
    disk.remove_empty_dir(directory)
}

/// Returns the work that an interrupted SwiftSync with the same claim has saved. If the digest of a
/// snapshot is not known yet, any saved work is taken to be of that snapshot.
pub(super) fn saved(dir: &DataDir, claim: &Claim) -> Result<Option<Saved>, StoreError> {
    let saved = load(dir.disk(), &dir.path().join(DIRECTORY))?;
    let is_same = |saved: &Saved| claim.known_digest().is_none_or(|d| d == saved.key.hints);
    Ok(saved.filter(is_same))
}

pub(super) fn load(disk: &Disk, directory: &Path) -> Result<Option<Saved>, StoreError> {
    let bytes = disk.read(saved_path(directory))?;
    Ok(bytes.and_then(|bytes| Saved::parse(&bytes)))
}

/// Returns the path of the file that the work is saved in.
pub fn saved_path(directory: &Path) -> PathBuf {
    directory.join("progress")
}
