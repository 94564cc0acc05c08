//! A UTXO set that is built inside the present one's directory and takes its place in one step, so
//! that whatever happens meanwhile, bitcoind and Apus find the one or the other, whole.
//!
//! Inside, because `chainstate` may be a symlink, a mount point or a directory of an overlay, none
//! of which can be renamed; LevelDB passes over names that it does not know.

use std::path::{Path, PathBuf};

use super::coin_count;
use super::node::Node;
use super::options::{AssumeValid, Options, Refusal, SyncError};
use crate::coins::Chainstate;
use crate::disk::{Disk, StoreError};
use crate::hash::Hash;
use crate::leveldb;

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
    /// Whether the new set may be lower than the one that it replaces.
    may_shrink: bool,
}

/// Where the UTXO set is that a rebuild is to replace.
enum Present {
    /// There is none, or none that can be read.
    Nowhere,
    /// At a height of a known chain.
    At(u32),
    /// At a block that is not in the block index.
    Elsewhere(Hash),
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
        // Whoever names a height to stop at wants no more.
        let may_shrink = options.allow_shrink || options.stop_at_height.is_some();
        Ok(Self { disk: disk.clone(), network_dir, trust, may_shrink })
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

    /// An error if the set that is being built in `node` cannot reach the height of the present
    /// one, which then stays: blocks are missing, and a lower set would hide that. Not where the
    /// user wants a lower one.
    pub fn check_reach(&self, node: &Node) -> Result<(), SyncError> {
        let reach = node.tree.best_candidate().map_or(0, |id| node.tree.node(id).height);
        let what = match self.present(node) {
            Present::At(height) if reach < height => format!(
                "the blocks here reach height {reach}, and the UTXO set is at height {height}: \
                 blocks {} to {height} are missing from {}.",
                reach + 1,
                node.dir.blocks_path().display()
            ),
            Present::Elsewhere(block) => format!(
                "the UTXO set is at block {block}, which is not among the blocks in {} (they \
                 reach height {reach}): is the right disk mounted there?",
                node.dir.blocks_path().display()
            ),
            _ => return Ok(()),
        };
        if self.may_shrink {
            return Ok(());
        }
        Err(SyncError::WouldShrink(format!(
            "{what} Nothing was changed. Bring missing blocks back, or `apus sync --from` a node \
             that has them; to replace the UTXO set by a lower one all the same, say --allow-shrink"
        )))
    }

    /// An error if the finished set of `node` is lower than the present one: then it is not put in
    /// its place unasked.
    pub fn check_height(&self, node: &Node, refusals: &[Refusal]) -> Result<(), SyncError> {
        let built = node.tree.node(node.tip()).height;
        match self.present(node) {
            Present::At(height) if built < height && !self.may_shrink => {
                let why = refusals.first().map_or(String::new(), |first| format!(" ({first})"));
                Err(SyncError::WouldShrink(format!(
                    "the new UTXO set ends at height {built}{why}, and the present one is at \
                     height {height}: the present one was kept. Mend the cause and run the same \
                     command again, which carries on; to take the lower one, add --allow-shrink"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Where the set is that this one is to replace.
    fn present(&self, node: &Node) -> Present {
        let tables = leveldb::Options { read_only: true, ..leveldb::Options::default() };
        let chainstate = Chainstate::open(self.disk.clone(), &node.dir.chainstate_path(), tables);
        let best = match chainstate.and_then(|chainstate| chainstate.best_block()) {
            Ok(best) => best,
            Err(error) => {
                tracing::debug!("the present UTXO set cannot be read: {error}");
                None
            }
        };
        let Some(block) = best else { return Present::Nowhere };
        let height = node.tree.find(&block).map(|id| node.tree.node(id).height);
        height.map_or(Present::Elsewhere(block), Present::At)
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
