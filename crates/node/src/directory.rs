//! The data directory that the options name: what it must be, and its opening.

use std::path::Path;
use std::{fs, io};

use apus_disk::{Disk, StoreError};
use apus_store::{BlockFilesOptions, DataDir, DataDirOptions, check_root};
use apus_wire::{Chain, Network};

use super::error::SyncError;
use super::options::Options;
use super::unindexed::refuse_unindexed;

/// Opens the directory that `options` name.
///
/// # Errors
/// Those of [`DataDir::open`]; and `read_only` is set, but the directory holds no UTXO set.
pub fn open_directory(
    options: &Options,
    disk: &Disk,
    read_only: bool,
) -> Result<DataDir, SyncError> {
    if read_only {
        check_synced(options)?;
    }
    let how = DataDirOptions {
        blocks_dir: options.blocks_dir.clone(),
        // Readers report missing blocks themselves, and what each is needed for.
        prune: read_only || options.prune.is_some(),
        files: BlockFilesOptions {
            fast_prune: options.fast_prune,
            small_steps: options.small_steps,
        },
        may_lack_files: options.may_lack_files,
        read_only,
        ..DataDirOptions::default()
    };
    Ok(DataDir::open(disk, &options.datadir, &options.network, how)?)
}

/// Checks that the directory that `options` name is there, for commands that make none.
///
/// # Errors
/// It is not, or it is none for this network.
pub fn check_exists(options: &Options) -> Result<(), SyncError> {
    let datadir = &options.datadir;
    check_root(datadir, &options.network, options.blocks_dir.as_deref())?;
    if !is_directory(datadir)? {
        return Err(SyncError::Input(format!("{}: there is no such directory", datadir.display())));
    }
    Ok(())
}

/// Checks that the directory that `options` name holds a UTXO set.
///
/// # Errors
/// It does not; the error says what to do.
pub fn check_synced(options: &Options) -> Result<(), SyncError> {
    check_exists(options)?;
    let directory = options.network_dir();
    if is_directory(&directory.join("chainstate"))? {
        return Ok(());
    }
    refuse_unindexed(options)?;
    let mut others = Vec::new();
    for other in Chain::ALL.map(Network::new) {
        let chainstate = options.datadir.join(other.subdirectory).join("chainstate");
        if other.chain != options.network.chain && is_directory(&chainstate)? {
            others.push(format!("--chain={}", other.chain.name()));
        }
    }
    let another = if others.is_empty() {
        String::new()
    } else {
        format!(" (there is one of another network: {})", others.join(" or "))
    };
    Err(SyncError::Input(format!(
        "{} holds no UTXO set of {}{another}; `apus sync` builds one from peers, or from files \
         with --from",
        directory.display(),
        options.network.chain.name()
    )))
}

/// Returns whether there is a directory at `path`.
///
/// # Errors
/// The system does not say, for example because this user may not look there.
fn is_directory(path: &Path) -> Result<bool, StoreError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
            _ => Err(StoreError::io(path, "look at this directory", error)),
        },
    }
}
