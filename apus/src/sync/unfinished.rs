//! Work that was interrupted, and that other work must not disturb.

use super::error::SyncError;
use super::options::Options;
use super::{join, rebuild, swift};
use crate::disk::Disk;

/// An error if work was interrupted that builds on the blocks and the UTXO set as they are.
///
/// # Errors
/// There is such work; or what it has saved cannot be read.
pub(super) fn refuse_unfinished(disk: &Disk, options: &Options) -> Result<(), SyncError> {
    let directory = options.network_dir();
    let what = match () {
        () if rebuild::unfinished(disk, &directory)?.is_some() => "a rebuild of the UTXO set",
        () if swift::directory::unfinished(disk, &directory)?.is_some() => "a SwiftSync",
        () if join::directory::unfinished(disk, options)?.is_some() => "a join",
        () => return Ok(()),
    };
    Err(SyncError::Input(format!(
        "{} holds {what} that was interrupted and that builds on what is there: finish it first \
         (`apus status` says how)",
        directory.display()
    )))
}
