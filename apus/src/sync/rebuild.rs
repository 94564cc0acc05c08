//! A UTXO set that is built beside the present one and takes its place in one step, so that
//! whatever happens meanwhile, bitcoind and Apus find the one or the other, whole.

use std::path::PathBuf;

use super::options::{AssumeValid, Options, SyncError};
use crate::coins::Chainstate;
use crate::disk::{Disk, StoreError};

/// The directory, beside Core's `chainstate`, that holds the new set while it grows.
pub const DIRECTORY: &str = "chainstate-reindex";
/// The file that says that what is in [`DIRECTORY`] is unfinished and worth carrying on from, and
/// below which block its scripts were taken as valid.
pub const MARK: &str = "chainstate-reindex.unfinished";

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
        let network_dir = options.datadir.join(options.network.subdirectory);
        if !network_dir.join("blocks").join("index").is_dir() {
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
            // The mark goes first: it must never stand beside half of what it vouches for.
            disk.remove(&mark)?;
            disk.sync_dir(&self.network_dir)?;
            Chainstate::destroy(disk, &directory)?;
            disk.write_atomically(&mark, &wanted)?;
        }
        Ok(directory)
    }

    /// Puts the new set in the place of the old one, and removes that. Nothing may have either
    /// open.
    pub fn take_place(&self) -> Result<(), StoreError> {
        let (new, old) = (self.network_dir.join(DIRECTORY), self.network_dir.join("chainstate"));
        // From here on a crash may cost the work, but not leave a set that looks unfinished.
        self.disk.remove(self.network_dir.join(MARK))?;
        self.disk.sync_dir(&self.network_dir)?;
        if old.exists() && !self.disk.exchange(&new, &old)? {
            // A file system without an exchange: a crash between these two lines leaves no
            // chainstate, and bitcoind or `apus reindex` builds it from the blocks.
            Chainstate::destroy(&self.disk, &old)?;
            self.disk.remove_empty_dir(&old)?;
        }
        if new.exists() && !old.exists() {
            self.disk.rename(&new, &old)?;
        }
        self.disk.sync_dir(&self.network_dir)?;
        Chainstate::destroy(&self.disk, &new)?;
        self.disk.remove_empty_dir(&new)
    }
}
