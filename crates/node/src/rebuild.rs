//! A UTXO set that is built in a directory inside that of the present one and replaces it in one
//! step, so that bitcoind and Apus always find one complete set, the old or the new.
//!
//! The new set is built inside `chainstate`, since that may be a symlink, a mount point or a
//! directory of an overlay, none of which can be renamed; LevelDB ignores names that it does not
//! know.

use std::path::{Path, PathBuf};

use apus_coins::Chainstate;
use apus_disk::{Disk, StoreError};
use apus_hash::Hash;

use super::block::script_difference::ScriptDifference;
use super::coin_count;
use super::error::SyncError;
use super::options::{AssumeValid, Options, ScriptEngine};
use super::unindexed::refuse_unindexed;

/// The directory in Core's `chainstate` that holds the new set while it is built.
pub const DIRECTORY: &str = "chainstate/reindex";

/// The file in [`DIRECTORY`] that marks the set there as unfinished but usable for a later rebuild.
/// It says which `assumevalid` the set was built with, whether amounts were left unchecked, and
/// whether Bitcoin Core's engine checked each script.
pub const MARK: &str = "chainstate/reindex/unfinished";

/// A rebuild of the UTXO set.
pub struct Rebuild {
    disk: Disk,
    network_dir: PathBuf,
    /// The content of [`MARK`]: what is assumed valid without being checked.
    trust: String,
    /// The contents of [`MARK`] with which this rebuild may continue an interrupted one.
    accepted: Vec<String>,
}

impl Rebuild {
    /// Begins a rebuild in the data directory of `options`.
    ///
    /// # Errors
    /// There are no blocks to build from.
    pub fn begin(disk: &Disk, options: &Options) -> Result<Self, SyncError> {
        let network_dir = options.network_dir();
        let is_dir = |name: &str| network_dir.join(name).is_dir();
        // With a chainstate but no index, the error of opening the directory says more.
        if !is_dir("blocks/index") && !is_dir("chainstate") {
            refuse_unindexed(options)?;
            return Err(SyncError::Input(format!(
                "{} holds no blocks to reindex; `apus sync` downloads blocks, or reads them from \
                 files with --from",
                network_dir.display()
            )));
        }
        // Without undo data, a SwiftSync checks no amounts and no heights of coins.
        let looks_at_coins = !options.leaves_out_undo();
        // Checks by the fast engine do not count once it is known to be wrong.
        let is_core = options.scripts.engine != ScriptEngine::Fast
            || ScriptDifference::find(disk, &network_dir)?.is_some();
        let accepted = [(options.assumevalid, looks_at_coins), (AssumeValid::Nothing, true)]
            .into_iter()
            .flat_map(|(assumed, coins)| [is_core, true].map(|core| trust(assumed, coins, core)))
            .collect();
        let trust = trust(options.assumevalid, looks_at_coins, is_core);
        Ok(Self { disk: disk.clone(), network_dir, trust, accepted })
    }

    /// Prepares the directory to build in, and returns its path. It keeps the set of an interrupted
    /// rebuild if that assumed no more to be valid than this one may; otherwise it is emptied.
    ///
    /// The data directory must be locked.
    pub fn prepare(&self, disk: &Disk) -> Result<PathBuf, StoreError> {
        let directory = self.network_dir.join(DIRECTORY);
        let mark = self.network_dir.join(MARK);
        let goes_on = |begun: &Vec<u8>| self.accepted.iter().any(|trust| trust.as_bytes() == begun);
        if !disk.read(&mark)?.as_ref().is_some_and(goes_on) {
            self.remove()?;
            disk.create_dir_all(&directory)?;
            disk.write_atomically(&mark, self.trust.as_bytes())?;
        }
        Ok(directory)
    }

    /// Replaces the old set by the new one. Neither may be open.
    pub fn take_place(&self) -> Result<(), StoreError> {
        let directory = self.network_dir.join(DIRECTORY);
        // The mark is removed first: a crash may then lose the new set, but a set in use must never
        // look unfinished.
        remove_mark(&self.disk, &self.network_dir)?;
        let chainstate = self.network_dir.join("chainstate");
        Chainstate::adopt(&self.disk, &chainstate, &directory)?;
        let count = directory.join(coin_count::FILE);
        if count.is_file() {
            self.disk.rename(count, chainstate.join(coin_count::FILE))?;
            self.disk.sync_dir(&chainstate)?;
        }
        self.disk.remove_empty_dir(&directory)
    }

    /// Removes the set of this or an earlier rebuild. It must not be open.
    pub fn remove(&self) -> Result<(), StoreError> {
        remove(&self.disk, &self.network_dir)
    }
}

/// Returns the content of [`MARK`].
fn trust(assumevalid: AssumeValid, looks_at_coins: bool, is_core: bool) -> String {
    let coins = if looks_at_coins { "coins checked" } else { "outpoints alone" };
    let engine = if is_core { ", Bitcoin Core's engine" } else { "" };
    format!("{assumevalid:?}, {coins}{engine}")
}

/// Returns the best block of the set that an interrupted rebuild has left; `None` if there is no
/// such set, or if nothing was committed to it.
pub fn unfinished(disk: &Disk, network_dir: &Path) -> Result<Option<Hash>, StoreError> {
    if !network_dir.join(MARK).is_file() {
        return Ok(None);
    }
    Chainstate::open_read_only(disk, &network_dir.join(DIRECTORY))?.best_block()
}

/// Removes the set that a rebuild has left in a network's directory. It must not be open.
pub fn remove(disk: &Disk, network_dir: &Path) -> Result<(), StoreError> {
    let directory = network_dir.join(DIRECTORY);
    if !directory.is_dir() {
        return Ok(());
    }
    // The mark is removed first: it must never vouch for half a set.
    remove_mark(disk, network_dir)?;
    let count = directory.join(coin_count::FILE);
    disk.remove_temporary(&count)?;
    disk.remove(&count)?;
    Chainstate::destroy(disk, &directory)?;
    disk.remove_empty_dir(&directory)
}

/// Removes the mark of a rebuild, so that no later one continues it.
fn remove_mark(disk: &Disk, network_dir: &Path) -> Result<(), StoreError> {
    let directory = network_dir.join(DIRECTORY);
    if !directory.is_dir() {
        return Ok(());
    }
    let mark = network_dir.join(MARK);
    disk.remove(&mark)?;
    disk.remove_temporary(&mark)?;
    disk.sync_dir(&directory)
}

#[cfg(test)]
mod tests {
    use crate::options::ScriptOptions;
    use apus_wire::{Chain, Network};

    use super::*;

    #[test]
    fn a_rebuild_by_the_fast_way_does_not_go_on_after_a_difference() {
        let place = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        let datadir = place.path().to_path_buf();
        let fast = Options::new(datadir, Network::new(Chain::Regtest));
        let fast = Options {
            scripts: ScriptOptions { engine: ScriptEngine::Fast, ..fast.scripts.clone() },
            ..fast
        };
        let core = Options {
            scripts: ScriptOptions { engine: ScriptEngine::Core, ..fast.scripts.clone() },
            ..fast.clone()
        };
        let network_dir = fast.network_dir();
        std::fs::create_dir_all(network_dir.join("blocks/index")).unwrap();
        let is_continued = |options: &Options| {
            let rebuild = Rebuild::begin(&disk, options).unwrap();
            let before = std::fs::read(network_dir.join(MARK)).ok();
            rebuild.prepare(&disk).unwrap();
            before == std::fs::read(network_dir.join(MARK)).ok()
        };
        assert_eq!([&fast, &fast].map(is_continued), [false, true]);
        let difference = network_dir.join("script-difference-0.json");
        std::fs::write(&difference, "{}").unwrap();
        assert_eq!([&fast, &fast, &core].map(is_continued), [false, true, true]);
        std::fs::remove_file(&difference).unwrap();
        assert!(is_continued(&fast), "Core's engine has checked more than is asked for");
        Rebuild::begin(&disk, &fast).unwrap().remove().unwrap();
        assert_eq!([&fast, &core].map(is_continued), [false, false]);
    }
}
