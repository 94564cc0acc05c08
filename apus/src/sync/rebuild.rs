//! A UTXO set that is built inside the present one's directory and takes its place in one step, so
//! that whatever happens meanwhile, bitcoind and Apus find the one or the other, whole.
//!
//! Inside, because `chainstate` may be a symlink, a mount point or a directory of an overlay, none
//! of which can be renamed; LevelDB passes over names that it does not know.

use std::path::{Path, PathBuf};

use super::error::SyncError;
use super::options::{AssumeValid, Options};
use crate::coins::Chainstate;
use crate::disk::{Disk, StoreError};
use crate::hash::Hash;
use crate::leveldb;
use crate::sync::coin_count;

/// The directory in Core's `chainstate` that holds the new set while it grows.
pub const DIRECTORY: &str = "chainstate/reindex";

/// The file in [`DIRECTORY`] which says that what is there is unfinished and worth carrying on
/// from, and below which block its scripts were taken as valid.
pub const MARK: &str = "chainstate/reindex/unfinished";

/// A rebuild that has begun.
pub(super) struct Rebuild {
    disk: Disk,
    network_dir: PathBuf,
    /// What of the result is taken as valid.
    trust: String,
}

impl Rebuild {
    /// A rebuild in the data directory of `options`.
    ///
    /// # Errors
    /// There are no blocks to build from.
    pub fn begin(disk: &Disk, options: &Options) -> Result<Self, SyncError> {
        let network_dir = options.network_dir();
        let is_dir = |name: &str| network_dir.join(name).is_dir();
        // With a chainstate, blocks are missing: opening the directory says more about that.
        if !is_dir("blocks/index") && !is_dir("chainstate") {
            return Err(SyncError::Usage(format!(
                "{} holds no blocks to reindex; `apus sync --from` brings some",
                network_dir.display()
            )));
        }
        let mut trust = format!("{:?}", options.assumevalid);
        if options.hints.is_some() && options.assumevalid != AssumeValid::Nothing {
            trust += ", with hints";
        }
        Ok(Self { disk: disk.clone(), network_dir, trust })
    }

    /// The directory to build in: as an interrupted rebuild left it if that took no more scripts
    /// as valid than this one may, or empty. Call it with the data directory locked.
    pub fn prepare(&self, disk: &Disk) -> Result<PathBuf, StoreError> {
        let directory = self.network_dir.join(DIRECTORY);
        let mark = self.network_dir.join(MARK);
        let wanted = self.trust.clone().into_bytes();
        let every_script = format!("{:?}", AssumeValid::Nothing).into_bytes();
        let goes_on = |begun: &Vec<u8>| *begun == wanted || *begun == every_script;
        if !disk.read(&mark)?.as_ref().is_some_and(goes_on) {
            self.remove()?;
            disk.create_dir_all(&directory)?;
            disk.write_atomically(&mark, &wanted)?;
        }
        Ok(directory)
    }

    /// Puts the new set in the place of the old one. Nobody may have either open.
    pub fn take_place(&self) -> Result<(), StoreError> {
        let directory = self.network_dir.join(DIRECTORY);
        // From here on a crash may cost the work, but not leave a set that looks unfinished.
        give_up(&self.disk, &self.network_dir)?;
        let chainstate = self.network_dir.join("chainstate");
        Chainstate::adopt(&self.disk, &chainstate, &directory)?;
        let count = directory.join(coin_count::FILE);
        if count.is_file() {
            self.disk.rename(count, chainstate.join(coin_count::FILE))?;
            self.disk.sync_dir(&chainstate)?;
        }
        self.disk.remove_empty_dir(&directory)
    }

    /// Where the set is that is being built, if an interrupted rebuild has left one that may be
    /// carried on from: its best block, `None` before the first commit.
    pub fn unfinished(disk: &Disk, network_dir: &Path) -> Result<Option<Option<Hash>>, StoreError> {
        if !network_dir.join(MARK).is_file() {
            return Ok(None);
        }
        let tables = leveldb::Options { read_only: true, ..leveldb::Options::default() };
        let chainstate = Chainstate::open(disk.clone(), &network_dir.join(DIRECTORY), tables)?;
        chainstate.best_block().map(Some)
    }

    /// Removes what an earlier rebuild has left. Nobody may have it open.
    pub fn remove(&self) -> Result<(), StoreError> {
        let directory = self.network_dir.join(DIRECTORY);
        if !directory.is_dir() {
            return Ok(());
        }
        // The mark goes first: it must never be there with half of what it vouches for.
        give_up(&self.disk, &self.network_dir)?;
        let count = directory.join(coin_count::FILE);
        self.disk.remove_temporary(&count)?;
        self.disk.remove(&count)?;
        Chainstate::destroy(&self.disk, &directory)?;
        self.disk.remove_empty_dir(&directory)
    }
}

/// Sees to it that what an interrupted rebuild has left is not carried on from.
pub(super) fn give_up(disk: &Disk, network_dir: &Path) -> Result<(), StoreError> {
    let directory = network_dir.join(DIRECTORY);
    if !directory.is_dir() {
        return Ok(());
    }
    let mark = network_dir.join(MARK);
    disk.remove(&mark)?;
    disk.remove_temporary(&mark)?;
    disk.sync_dir(&directory)
}
