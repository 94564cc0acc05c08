//! The directories of a join, and the saved work in them.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use apus_disk::{Disk, StoreError};
use apus_node::options::Options;

use super::saved::Saved;
use crate::saved_work::{JoinPass, SavedJoin};

/// Name of the spill file, which has the records and spent coins, in the directory for temporary
/// files.
const SPILL: &str = "spill.dat";
/// Name of the file of saved work in the join's directory.
const PROGRESS: &str = "progress";
/// Name of the file in the join's directory that says where the directory for temporary files is,
/// if that is another one. It is written before any work is saved.
const PLACE: &str = "spill.place";
/// How the names of all files begin that a join creates in its directories: the three above, and
/// temporary ones next to them.
const NAMES: [&str; 2] = ["spill.", PROGRESS];

pub(super) fn spill_file(spill: &Path) -> PathBuf {
    spill.join(SPILL)
}

/// Returns the path of the file of saved work.
pub(super) fn progress_path(options: &Options) -> PathBuf {
    options.join_path().join(PROGRESS)
}

/// Writes down where the directory for temporary files is, so that a later run finds it after a
/// crash.
pub(super) fn note(disk: &Disk, options: &Options) -> Result<(), StoreError> {
    let join = options.join_path();
    let spill = options.spill_path();
    if spill == join {
        return Ok(());
    }
    disk.create_dir_all(&join)?;
    disk.write_private(join.join(PLACE), spill.as_os_str().as_bytes())
}

/// Reads the directory that [`note`] wrote down.
fn noted(disk: &Disk, options: &Options) -> Result<Option<PathBuf>, StoreError> {
    let path = disk.read(options.join_path().join(PLACE))?;
    Ok(path.map(|path| PathBuf::from(OsString::from_vec(path))))
}

/// Returns whether the directory `spill`, which [`note`] wrote down, belongs to this data
/// directory. It does not if this one is a copy: the original may still need it.
fn is_own(spill: &Path, options: &Options) -> bool {
    spill.file_name().is_some_and(|name| name == options.spill_name().as_str())
}

/// Returns the directory for temporary files in which an interrupted join may carry on; `None` if
/// it belongs to another data directory, or the user names another one.
pub(super) fn may_carry_on_in(
    disk: &Disk,
    options: &Options,
) -> Result<Option<PathBuf>, StoreError> {
    let spill = match noted(disk, options)? {
        None => options.join_path(),
        Some(spill) if is_own(&spill, options) => spill,
        Some(_) => return Ok(None),
    };
    let is_wanted = options.join.spill_dir.is_none() || spill == options.spill_path();
    Ok(is_wanted.then_some(spill))
}

/// Fails if the directory for the temporary files of an interrupted join is gone. Apus cannot have
/// removed it, since it removes the saved work first.
pub(super) fn expect(spill: &Path, options: &Options) -> Result<(), StoreError> {
    if spill.is_dir() {
        return Ok(());
    }
    let what = format!(
        "an interrupted join has its temporary files in {}, which does not exist: if it is on a \
         disk that is not mounted, mount the disk",
        spill.display()
    );
    Err(StoreError::new(progress_path(options), what))
}

/// Reads the saved work of an interrupted join; returns `None` if there is none, or if it is
/// damaged or of another version.
pub(super) fn load(disk: &Disk, options: &Options) -> Result<Option<Saved>, StoreError> {
    let file = disk.read(progress_path(options))?;
    Ok(file.and_then(|file| Saved::parse(&file)))
}

/// Returns the numbers of the tables of an interrupted join that are not committed yet, which must
/// be kept when the chainstate is opened.
pub fn pending_tables(disk: &Disk, options: &Options) -> Result<Vec<u64>, StoreError> {
    let saved = load(disk, options)?;
    let tables = saved.map_or_else(Vec::new, |saved| saved.state.paired.tables);
    Ok(tables.iter().map(|table| table.number).collect())
}

/// Returns how far an interrupted join got; `None` if there is none.
pub fn unfinished(disk: &Disk, options: &Options) -> Result<Option<SavedJoin>, StoreError> {
    Ok(load(disk, options)?.map(|saved| {
        let state = &saved.state;
        let total = state.spans.last().map_or(0, |span| span.end);
        let pass = if state.blocks_read() < total {
            JoinPass::Reading
        } else if state.paired.done.iter().any(|done| !*done) {
            JoinPass::Matching
        } else {
            JoinPass::Checking
        };
        SavedJoin {
            pass,
            blocks_read: state.blocks_read() as u32,
            blocks_checked: state.checked as u32,
            total: total as u32,
        }
    }))
}

/// Returns the existing directories in which an interrupted join may have left something. Warns if
/// something may be left in one that belongs to another data directory.
pub(super) fn left(disk: &Disk, options: &Options) -> Result<Vec<PathBuf>, StoreError> {
    let mut all = vec![options.join_path()];
    let (own, other): (Vec<_>, Vec<_>) =
        noted(disk, options)?.into_iter().partition(|spill| is_own(spill, options));
    if let Some(other) = other.first().filter(|spill| spill.is_dir()) {
        tracing::warn!(
            "{} was left: it has the temporary files of an interrupted join of another data \
             directory, or of this one before it was moved; remove it if no other needs it",
            other.display()
        );
    }
    for spill in own.into_iter().chain([options.spill_path()]) {
        if !all.contains(&spill) {
            all.push(spill);
        }
    }
    all.retain(|directory| directory.is_dir());
    Ok(all)
}

/// Removes the file of saved work, if there is one.
pub(super) fn remove_progress(disk: &Disk, progress: &Path) -> Result<(), StoreError> {
    if !progress.exists() {
        return Ok(());
    }
    disk.remove(progress)?;
    disk.sync_dir(progress.parent().unwrap_or(Path::new(".")))
}

/// Removes the files of a join from these directories, the first directory last, and each directory
/// that is then empty.
pub(super) fn remove(disk: &Disk, directories: &[PathBuf]) -> Result<(), StoreError> {
    for directory in directories.iter().rev().filter(|directory| directory.is_dir()) {
        let names = disk.list(directory)?;
        let (ours, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| is_ours(name));
        for name in ours {
            disk.remove(directory.join(name))?;
        }
        if others.is_empty() {
            disk.remove_empty_dir(directory)?;
        }
    }
    Ok(())
}

fn is_ours(name: impl AsRef<Path>) -> bool {
    let name = name.as_ref().to_string_lossy();
    NAMES.iter().any(|start| name.starts_with(start))
}
