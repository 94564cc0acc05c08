//! The directories that a join works in, and the progress saved there.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use apus_disk::{Disk, StoreError};
use apus_node::options::Options;

use super::saved::Saved;
use crate::saved_work::{JoinPass, SavedJoin};

/// The file of records and spent coins in the directory for temporary files.
const SPILL: &str = "spill.dat";
/// The file of saved progress in the join's directory.
const PROGRESS: &str = "progress";
/// The file in the join's directory that says where the directory for temporary files is, if that
/// is another one: it is there before progress is saved.
const PLACE: &str = "spill.place";
/// How the names of all files begin that a join makes in its directories: those of the three above,
/// and of temporary ones next to them.
const NAMES: [&str; 2] = ["spill.", PROGRESS];

/// The file of records and spent coins in the directory `spill`.
pub(super) fn spill_file(spill: &Path) -> PathBuf {
    spill.join(SPILL)
}

/// The file that progress is saved in.
pub(super) fn progress_path(options: &Options) -> PathBuf {
    options.join_path().join(PROGRESS)
}

/// Notes where the directory for temporary files is, for whoever finds them after a crash.
pub(super) fn note(disk: &Disk, options: &Options) -> Result<(), StoreError> {
    let (join, spill) = (options.join_path(), options.spill_path());
    if spill == join {
        return Ok(());
    }
    disk.create_dir_all(&join)?;
    disk.write_private(join.join(PLACE), spill.as_os_str().as_bytes())
}

/// The directory that [`note`] has noted.
fn noted(disk: &Disk, options: &Options) -> Result<Option<PathBuf>, StoreError> {
    let path = disk.read(options.join_path().join(PLACE))?;
    Ok(path.map(|path| PathBuf::from(OsString::from_vec(path))))
}

/// Fails if the directory of the temporary files of an interrupted join is gone: it was not removed
/// by this program, which removes the progress first.
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

/// The progress that an interrupted join has saved; `None` if there is none that can be read.
pub(super) fn load(disk: &Disk, options: &Options) -> Result<Option<Saved>, StoreError> {
    let file = disk.read(progress_path(options))?;
    Ok(file.and_then(|file| Saved::parse(&file)))
}

/// The tables of an interrupted join that are not committed yet, which opening the chainstate must
/// not remove.
pub fn pending_tables(disk: &Disk, options: &Options) -> Result<Vec<u64>, StoreError> {
    let saved = load(disk, options)?;
    let tables = saved.map_or_else(Vec::new, |saved| saved.state.paired.tables);
    Ok(tables.iter().map(|table| table.number).collect())
}

/// How far an interrupted join is; `None` if there is none.
pub fn unfinished(disk: &Disk, options: &Options) -> Result<Option<SavedJoin>, StoreError> {
    Ok(load(disk, options)?.map(|saved| {
        let state = &saved.state;
        let total = state.spans.last().map_or(0, |span| span.end);
        let pass = match state.blocks_read() < total {
            true => JoinPass::Reading,
            false if state.paired.done.iter().any(|done| !*done) => JoinPass::Matching,
            false => JoinPass::Checking,
        };
        SavedJoin {
            pass,
            blocks_read: state.blocks_read() as u32,
            blocks_checked: state.checked as u32,
            total: total as u32,
        }
    }))
}

/// The directories in which an interrupted join may have left something, and that exist.
pub(super) fn left(disk: &Disk, options: &Options) -> Result<Vec<PathBuf>, StoreError> {
    let saved = load(disk, options)?.map(|saved| saved.spill);
    let mut all = vec![options.join_path()];
    for spill in saved.into_iter().chain(noted(disk, options)?).chain([options.spill_path()]) {
        if !all.contains(&spill) {
            all.push(spill);
        }
    }
    all.retain(|directory| directory.is_dir());
    Ok(all)
}

/// Removes the saved progress, if there is any.
pub(super) fn remove_progress(disk: &Disk, progress: &Path) -> Result<(), StoreError> {
    if !progress.exists() {
        return Ok(());
    }
    disk.remove(progress)?;
    disk.sync_dir(progress.parent().unwrap_or(Path::new(".")))
}

/// Removes what a join has left in these directories, of the first one last, and those that are
/// empty then.
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
