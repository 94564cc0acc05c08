//! Remedies for damage in the data directory, for wrong hints and for full disks. No other file
//! knows which command repairs which file.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use apus_disk::StoreError;
use apus_store::IndexKind;

use super::error::SyncError;
use super::options::Options;
use super::rebuild::DIRECTORY as REBUILD_DIRECTORY;
use super::temporary::is_temporary;

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
            let is_in = |directory: &PathBuf| error.path.starts_with(directory);
            let is_ours = ours.iter().filter(|path| !path.as_os_str().is_empty()).any(is_in);
            SyncError::Store(with_room(named(options, error), is_ours))
        }
        other => other,
    })
}

/// Adds to an error of work without a data directory what to do if the output disk is full.
pub fn of_output(error: SyncError) -> SyncError {
    match error {
        SyncError::Store(error) => SyncError::Store(with_room(error, false)),
        other => other,
    }
}

/// Adds to the error of a full disk how to continue, unless it says so already. `is_ours` says
/// whether the file belongs to the data directory.
fn with_room(mut error: StoreError, is_ours: bool) -> StoreError {
    const REMEDY: &str = "free some space";
    if !error.is_full() || error.what.contains(REMEDY) {
        return error;
    }
    let then = match error.path.strip_prefix(std::env::temp_dir()) {
        _ if is_ours => ", and run the same command again",
        Ok(path) if is_temporary(path) => " there, or name another directory with TMPDIR",
        _ => ", or name a file on another disk; the incomplete file was removed",
    };
    error.what += &format!(" (the disk is full: {REMEDY}{then})");
    error
}

/// Adds to `error` the command that repairs the damage, as [`naming`] does.
fn named(options: &Options, mut error: StoreError) -> StoreError {
    // A file of another network is not damaged.
    if is_damage(&error)
        && !error.what.contains("--chain")
        && let Some(remedy) = Remedy::of(&error.path, options)
    {
        error.what += &format!("; {remedy}");
    }
    error
}

/// Adds to `error` the command that repairs the damage, as [`naming`] does, or that a pruned
/// directory cannot be repaired.
pub fn of_damage(options: &Options, is_pruned: bool, mut error: StoreError) -> StoreError {
    if is_pruned && is_damage(&error) {
        error.what +=
            "; blocks that a repair needs are pruned: `apus sync` into an empty directory";
        return error;
    }
    named(options, error)
}

/// Does the same as [`naming`], for work that builds a UTXO set: also adds, if a SwiftSync has
/// failed, that nothing was committed, and what to do without the hints or the snapshot.
pub fn naming_uncommitted<T>(
    options: &Options,
    work: impl FnOnce() -> Result<T, SyncError>,
) -> Result<T, SyncError> {
    naming(options, work).map_err(|error| {
        let Some(option) = options.swiftsync.claim_option() else { return error };
        let next = match error {
            SyncError::Hints { .. } | SyncError::Differs { .. } => "get correct hints, or ",
            SyncError::Snapshot { .. } => {
                "`apus prove` names the coins that differ; get a correct snapshot, or "
            }
            SyncError::Refused(_) | SyncError::Unproved(_) => "",
            _ => return error,
        };
        error.with_note(&format!(". Nothing was committed: {next}sync without {option}"))
    })
}

/// Does the same as [`naming`], for a proof of hints, which commits nothing: also adds what to do
/// if the hints are wrong.
pub fn naming_wrong_hints<T>(
    options: &Options,
    work: impl FnOnce() -> Result<T, SyncError>,
) -> Result<T, SyncError> {
    naming(options, work).map_err(|error| match error {
        SyncError::Hints { .. } | SyncError::Differs { .. } => {
            error.with_note(". Get correct hints, or sync without --hints")
        }
        other => other,
    })
}

/// Returns whether the bytes of a file are to blame, and not the system, another program or the
/// options.
fn is_damage(error: &StoreError) -> bool {
    let name = error.path.file_name().unwrap_or_default();
    let is_lock = name == "LOCK" || name == ".lock";
    error.source.is_none() && !is_lock && !error.what.contains("`apus ")
}

/// What repairs damage, with what its sentence needs. A test follows each from the state in which
/// it is printed (`apus/tests/it/unchanged/remedies.rs`).
enum Remedy {
    /// The temporary files of a join, in this directory.
    StartJoinOver(PathBuf),
    /// The UTXO set of an interrupted rebuild, in this directory.
    StartRebuildOver(PathBuf),
    /// The block index.
    RebuildIndex,
    /// The UTXO set.
    RebuildChainstate,
    /// Undo data.
    RewriteUndo,
    /// A block file that is missing.
    StoreFileAgain,
    /// Blocks in a block file.
    ReplaceBlocks,
    /// One of Core's optional indexes: its directory, and its name.
    BuildOptionalIndex(PathBuf, &'static str),
}

impl Remedy {
    /// Returns what repairs the file or directory at `path`; `None` if it is not known.
    fn of(path: &Path, options: &Options) -> Option<Self> {
        let network_dir = options.network_dir();
        if path.starts_with(options.join_path()) || path.starts_with(options.spill_path()) {
            return Some(Self::StartJoinOver(options.join_path()));
        }
        if path.starts_with(network_dir.join("blocks/index")) {
            return Some(Self::RebuildIndex);
        }
        let unfinished = network_dir.join(REBUILD_DIRECTORY);
        if path.starts_with(&unfinished) {
            return Some(Self::StartRebuildOver(unfinished));
        }
        if path.starts_with(network_dir.join("chainstate")) {
            return Some(Self::RebuildChainstate);
        }
        for kind in IndexKind::ALL {
            let database = kind.database(&network_dir);
            // Filters are in files beside their database.
            let directory = match kind {
                IndexKind::BlockFilterIndex => database.parent()?.to_path_buf(),
                _ => database,
            };
            if path.starts_with(&directory) {
                return Some(Self::BuildOptionalIndex(directory, kind.name()));
            }
        }
        let first = path.strip_prefix(options.blocks_path()).ok()?.components().next();
        let Some(Component::Normal(name)) = first else { return None };
        match name.to_string_lossy().get(..3) {
            Some("rev") => Some(Self::RewriteUndo),
            Some("blk") if !path.exists() => Some(Self::StoreFileAgain),
            Some("blk") => Some(Self::ReplaceBlocks),
            _ => None,
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartJoinOver(directory) => write!(
                f,
                "remove {} and run the same command, which starts the join over (on another disk \
                 with --spilldir); or sync with --method=order, which makes no such files",
                directory.display()
            ),
            Self::StartRebuildOver(directory) => write!(
                f,
                "remove {} and run `apus reindex`, which starts from the beginning",
                directory.display()
            ),
            Self::RebuildIndex => {
                f.write_str("`apus reindex --index` rebuilds the block index from the block files")
            }
            Self::RebuildChainstate => {
                f.write_str("`apus reindex` rebuilds the chainstate from the blocks")
            }
            Self::RewriteUndo => f.write_str("`apus reindex --index` writes the undo data again"),
            Self::StoreFileAgain => f.write_str(
                "put the file back; or run `apus sync --from` a node or a file that has its \
                 blocks, which stores them again",
            ),
            Self::ReplaceBlocks => f.write_str(
                "run `apus reindex`, which notes the file, and then `apus sync --from` a node or \
                 a file that has its blocks, which replaces the damaged ones",
            ),
            Self::BuildOptionalIndex(directory, name) => write!(
                f,
                "remove {} and run `apus index {name}`, which builds the index again; all else \
                 works without it",
                directory.display()
            ),
        }
    }
}
