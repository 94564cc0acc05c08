//! Remedies for damage in the data directory, for wrong hints and for full disks. No other file
//! knows which command repairs which file.

use std::collections::BTreeSet;
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};

use apus_coins::Chainstate;
use apus_disk::{Disk, StoreError};
use apus_store::layout::PRUNED_FLAG;
use apus_store::{IndexDb, IndexKind, list_block_files};

use super::context::{Context, WrongClaim};
use super::error::SyncError;
use super::mend::{note_file, read_note};
use super::options::Options;
use super::rebuild::DIRECTORY as REBUILD_DIRECTORY;
use apus_host::temporary::is_temporary;

/// Does `work` in the directory of `options`. If it fails because a file is damaged, adds to the
/// error the command that repairs the file, unless the error names one already. An error of the
/// operating system gets no command, but if a disk is full, the error says how to continue.
pub fn naming<T>(
    options: &Options,
    work: impl FnOnce() -> Result<T, SyncError>,
) -> Result<T, SyncError> {
    work().map_err(|error| match error {
        SyncError::Store(error) => {
            let ours = [options.datadir.clone(), options.blocks_path(), options.spill_path()];
            let mut ours = ours.iter().filter(|path| !path.as_os_str().is_empty());
            let is_ours = ours.any(|path| error.path.starts_with(path));
            with_room(of_damage(options, || is_pruned(options), error).into(), is_ours)
        }
        other => other,
    })
}

/// Adds to the error of a full disk how to continue, unless it says so already. `is_ours` says
/// whether the file belongs to the data directory.
pub fn with_room(error: SyncError, is_ours: bool) -> SyncError {
    const REMEDY: &str = "free some space";
    match error {
        SyncError::Store(mut error) if error.is_full() && !error.what.contains(REMEDY) => {
            let below = error.path.strip_prefix(std::env::temp_dir());
            let then = if is_ours {
                ", and run the same command again"
            } else if below.is_ok_and(is_temporary) {
                " there, or name another directory with TMPDIR"
            } else {
                ", or name a file on another disk; the incomplete file was removed"
            };
            error.what += &format!(" (the disk is full: {REMEDY}{then})");
            error.into()
        }
        other => other,
    }
}

/// Adds to `error` the command that repairs the damage, as [`naming`] does, or that a pruned
/// directory cannot be repaired. A block file with damaged blocks is noted for the next sync.
pub fn of_damage(
    options: &Options,
    is_pruned: impl Fn() -> bool,
    mut error: StoreError,
) -> StoreError {
    let is_lock = error.path.ends_with("LOCK") || error.path.ends_with(".lock");
    // Neither an error of the system nor a file of another network is damage, but a missing file
    // is, unless a link leads to it.
    let names_one = ["--chain", "`apus "].iter().any(|words| error.what.contains(words));
    let is_missing = |why: &std::io::Error| why.kind() == NotFound && !error.path.is_symlink();
    let is_of_system = error.source.as_ref().is_some_and(|why| !is_missing(why));
    if is_of_system || is_lock || names_one {
        return error;
    }
    let Some(mut remedy) = Remedy::of(&error.path, options) else { return error };
    match remedy {
        Remedy::ReplaceBlocks(file) => {
            if let Err(why) = note_file(&Disk::new(), &options.network_dir(), file) {
                error.what += &format!("; it could not be noted for a repair: {why}");
            }
        }
        Remedy::RebuildIndex | Remedy::RebuildChainstate | Remedy::RewriteUndo if is_pruned() => {
            remedy = Remedy::SyncAnew;
        }
        Remedy::RebuildChainstate if !has_best_block(options) && lacks_blocks(options) => {
            remedy = Remedy::RebuildBelow;
        }
        Remedy::RewriteUndo if lacks_blocks(options) => remedy = Remedy::ReplaceBlocksFirst,
        _ => {}
    }
    let why = error.source.take().map_or_else(String::new, |why| format!(": {why}"));
    error.what += &format!("{why}; {remedy}");
    error
}

/// Returns whether blocks were pruned; `false` if the block index cannot be read.
fn is_pruned(options: &Options) -> bool {
    let flag = open_index(options).and_then(|index| index.read_flag(PRUNED_FLAG));
    flag.is_ok_and(|flag| flag == Some(true))
}

fn open_index(options: &Options) -> Result<IndexDb, StoreError> {
    IndexDb::open_read_only(&Disk::new(), &options.network_dir().join("blocks/index"))
}

/// Returns whether the UTXO set says which block is its best, so that a sync can open it and store
/// blocks again.
fn has_best_block(options: &Options) -> bool {
    let chainstate =
        Chainstate::open_read_only(&Disk::new(), &options.network_dir().join("chainstate"));
    chainstate.and_then(|chainstate| chainstate.best_block()).is_ok()
}

/// Returns whether block files are noted as damaged or are missing, so that a rebuild from all
/// blocks would fail.
fn lacks_blocks(options: &Options) -> bool {
    let noted = read_note(&Disk::new(), &options.network_dir());
    if noted.is_ok_and(|noted| !noted.is_empty()) {
        return true;
    }
    let index = open_index(options).and_then(|index| index.load(&options.network));
    let Ok(index) = index else { return false };
    let Ok(files) = list_block_files(&options.blocks_path()) else { return false };
    let there: BTreeSet<u32> = files.into_iter().map(|(number, _)| number).collect();
    index.entries.iter().any(|e| e.block_pos().is_some_and(|pos| !there.contains(&pos.file)))
}

/// Does the same as [`naming`], for work that builds a UTXO set: if a SwiftSync has failed, also
/// adds that nothing was committed, and what to do without the hints or the snapshot.
pub fn naming_uncommitted<T>(
    options: &Options,
    work: impl FnOnce() -> Result<T, SyncError>,
) -> Result<T, SyncError> {
    naming(options, work).map_err(|error| {
        let Some(option) = options.swiftsync.claim_option() else { return error };
        let claim = match error {
            SyncError::Hints { .. } | SyncError::Differs { .. } => Some(WrongClaim::Hints),
            SyncError::Snapshot { .. } => Some(WrongClaim::Snapshot),
            SyncError::Refused(_) | SyncError::Unproved(_) => None,
            _ => return error,
        };
        error.with(&Context::NothingCommitted { claim, option })
    })
}

/// What repairs damage, with what its sentence needs. A test follows each from the state in which
/// it is printed (`apus/tests/it/unchanged/remedies.rs`).
#[derive(Debug, thiserror::Error)]
enum Remedy {
    #[error(
        "remove {} and run the same command, which starts the join over (on another disk with \
         --spilldir); or sync with --method=order, which makes no such files", .0.display()
    )]
    StartJoinOver(PathBuf),
    #[error("remove {} and run `apus reindex`, which starts from the beginning", .0.display())]
    StartRebuildOver(PathBuf),
    #[error("`apus reindex --index` rebuilds the block index from the block files")]
    RebuildIndex,
    #[error("`apus reindex` rebuilds the chainstate from the blocks")]
    RebuildChainstate,
    #[error(
        "blocks are damaged or missing, too: `apus reindex --index` rebuilds the chainstate as far \
         as there are blocks, and then `apus sync --from` a node or a file that has the others"
    )]
    RebuildBelow,
    #[error("`apus reindex --index` writes the undo data again")]
    RewriteUndo,
    #[error(
        "blocks are damaged or missing, too: `apus sync --checklevel=1 --from` a node or a file \
         that has them stores them again, and then `apus reindex --index` writes the undo data \
         again"
    )]
    ReplaceBlocksFirst,
    #[error(
        "restore the file from a copy; or run `apus sync --from` a node or a file that has its \
         blocks, which stores them again (without --from: from peers)"
    )]
    ReplaceBlocks(u32),
    #[error("blocks that a repair needs are pruned: `apus sync` into an empty directory")]
    SyncAnew,
    #[error("move this file away, and run the same command again")]
    MoveAway,
    #[error(
        "remove {} and run `apus index {name}`, which builds the index again; all else works \
         without it", .directory.display()
    )]
    BuildOptionalIndex { directory: PathBuf, name: &'static str },
}

impl Remedy {
    /// Returns what repairs the file or directory at `path`; `None` if it is not known.
    fn of(path: &Path, options: &Options) -> Option<Self> {
        let network_dir = options.network_dir();
        let unfinished = network_dir.join(REBUILD_DIRECTORY);
        let mut known = vec![
            (options.join_path(), Self::StartJoinOver(options.join_path())),
            (options.spill_path(), Self::StartJoinOver(options.join_path())),
            (network_dir.join("blocks/index"), Self::RebuildIndex),
            (unfinished.clone(), Self::StartRebuildOver(unfinished)),
            (network_dir.join("chainstate"), Self::RebuildChainstate),
        ];
        for kind in IndexKind::ALL {
            let mut directory = kind.database(&network_dir);
            if kind == IndexKind::BlockFilterIndex {
                // Filters are in files beside their database.
                directory.pop();
            }
            let name = kind.name();
            known.push((directory.clone(), Self::BuildOptionalIndex { directory, name }));
        }
        if let Some((above, remedy)) = known.into_iter().find(|(above, _)| path.starts_with(above))
        {
            // A file in the place of a directory.
            return Some(if above.is_file() { Self::MoveAway } else { remedy });
        }
        let name = path.strip_prefix(options.blocks_path()).ok()?.to_str()?;
        match name.get(..3)? {
            "rev" => Some(Self::RewriteUndo),
            "blk" => Some(Self::ReplaceBlocks(name.get(3..8)?.parse().ok()?)),
            _ => None,
        }
    }
}
