//! Replacing a database with another one without renaming a directory: the tables are moved and get
//! new numbers, and then the file CURRENT is made to name a manifest that lists them.

use std::collections::BTreeMap;
use std::path::Path;

use apus_disk::{Disk, Result, StoreError};

use super::format::table_path;
use super::open::destroy;
use super::options::Options;
use super::recover::recover_logs;
use super::state::{
    DbState, current_manifest, new_manifest, number_after, open_tables, read_manifest,
    remove_obsolete,
};
use super::version::Version;

/// Implements [`super::Db::adopt`].
pub(super) fn adopt(disk: &Disk, dir: &Path, from: &Path) -> Result<()> {
    disk.create_dir_all(dir)?;
    let lock = disk.lock(dir.join("LOCK"))?;
    let lock_from = disk.lock(from.join("LOCK"))?;
    let old_names = disk.list(dir)?;
    let mut state = take_state(disk, from)?;
    // The tables get new numbers that no file in `dir` has, in their old order, since in level 0
    // the table with the higher number is the newer one.
    state.next_file = number_after(&old_names);
    let mut files = BTreeMap::new();
    for (number, mut file) in std::mem::take(&mut state.files) {
        file.number = state.next_file;
        state.next_file += 1;
        disk.rename(existing_table(disk, from, number)?, table_path(dir, file.number))?;
        files.insert(file.number, file);
    }
    state.files = files;
    disk.sync_dir(dir)?;
    let tables = open_tables(disk, dir, &disk.list(dir)?, &state)?;
    let version = Version::new(dir, tables)?;
    let manifest = new_manifest(disk, dir, &mut state, &version)?;
    remove_obsolete(disk, dir, &version, &manifest, &[])?;
    disk.sync_dir(dir)?;
    drop((lock, lock_from));
    destroy(disk, from)
}

/// Reads the state of the database in `from`.
///
/// # Errors
/// There is no database, it is damaged, or a log holds changes that no table holds.
fn take_state(disk: &Disk, from: &Path) -> Result<DbState> {
    let manifest = current_manifest(disk, from)?;
    let manifest =
        manifest.ok_or_else(|| StoreError::new(from, "there is no database in this directory"))?;
    let mut state = read_manifest(disk, &manifest)?;
    let names = disk.list(from)?;
    // Checks that every table exists before any is moved.
    open_tables(disk, from, &names, &state)?;
    let in_memory = Options { read_only: true, ..Options::default() };
    if !recover_logs(disk, from, &names, &in_memory, &mut state)?.is_empty() {
        let what = "a log file holds changes that no table holds yet, so moving the tables \
            would lose them";
        return Err(StoreError::new(from, what));
    }
    Ok(state)
}

/// Returns the path of the table with this number. Its name may end in `.sst`, as before LevelDB
/// 1.14.
fn existing_table(disk: &Disk, dir: &Path, number: u64) -> Result<std::path::PathBuf> {
    let path = table_path(dir, number);
    let old = path.with_extension("sst");
    let is_old = !path.exists() && disk.len(&old).is_ok();
    Ok(if is_old { old } else { path })
}
